package main

// lastHandles: who tries behind a hold whose owner gives back one handle after the other.
func lastHandles() []mutant {
	return []mutant{
		{
			"try-is-refused-by-the-last-handle", "a Try behind the last of several handles is refused",
			one("engine/internal/lockstate/grant.go", "return handles <= 0\n", "return false\n"), "engine",
			"TestATryBehindTheLastOfSeveralHandlesIsNotRefused", false,
		},
		{
			"fair-try-finds-the-last-handle", "a Try of a fair lock is sent before the last handle is given back, and refused",
			one("engine/children.go", "h != nil && !h.reentry().awaited {", "false {"), "engine",
			"TestATryBehindTheLastOfSeveralHandlesIsNotRefused", false,
		},
		{
			"fair-try-waits-for-ever", "a Try of a fair lock is never sent, though the last handle is given back",
			one("engine/reentry.go", "\tsc.hasGone(n.hold)\n", ""), "engine",
			"TestATryBehindTheLastOfSeveralHandlesIsNotRefused", false,
		},
		{
			"fair-try-outlives-nothing", "a Try of a fair lock is never sent where the hold before it is lost",
			one("engine/reentry.go", "\tsc.hasGone(h)\n", ""), "engine",
			"TestATryBehindTheLastOfSeveralHandlesOutlivesTheHold", false,
		},
		{
			"try-waits-behind-who-waits", "a Try stands in a queue of those who wait",
			one("engine/children.go", "return ent.First() != nil\n", "return false\n"), "engine",
			"TestATryBehindAHoldThatStaysIsRefused", false,
		},
		{
			"entry-does-not-keep-the-hold", "a Try waits for the owner that has entered again",
			one("engine/internal/lockstate/changes.go", "if c.Enter != nil && c.Enter.Pending() {\n\t\treturn 1", "if c.Enter != nil && c.Enter.Pending() {\n\t\treturn 0"),
			"engine/internal/lockstate", "TestMachineAHoldLeavesWhenItsLastHandleIsOnItsWay", false,
		},
	}
}
