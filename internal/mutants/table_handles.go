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
			one("engine/acquire.go", "h != nil && !h.reentry().awaited {", "false {"), "engine",
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
			one("engine/acquire.go", "return ent.Live() != nil\n", "return false\n"), "engine",
			"TestATryBehindAHoldThatStaysIsRefused", false,
		},
		{
			"entry-does-not-keep-the-hold", "a Try waits for the owner that has entered again",
			one("engine/internal/lockstate/changes.go", "if c.Enter != nil && c.Enter.Pending() {\n\t\treturn 1", "if c.Enter != nil && c.Enter.Pending() {\n\t\treturn 0"),
			"engine/internal/lockstate", "TestMachineAHoldLeavesWhenItsLastHandleIsOnItsWay", false,
		},
		{
			"try-rests-behind-trouble", "a Try rests for as long as a hold lasts whose changes fail",
			one("engine/reentry.go", "\tsc.refuseBehind(n.hold)\n", ""), "engine",
			"TestATryBehindHandlesThatAreHeldUpIsRefused", false,
		},
		{
			"next-try-rests-behind-trouble", "the same, of who tries when that has begun",
			one("engine/acquire.go", "n.Tries() > 0 || n.LowersUntil() != 0 {", "n.Tries() < 0 {"), "engine",
			"TestATryBehindHandlesThatAreHeldUpIsRefused", false,
		},
		{
			"owners-try-waits-for-who-is-next", "an owner's Try is told when somebody else gives back whom it never asked to wait for",
			one("engine/reentry.go", "if op.Try && at.Live() != nil {", "if false {"), "engine",
			"TestAnOwnersTryBehindSomebodyWhoIsHandedTheLockIsRefused", false,
		},
		{
			"fair-waiter-rests-behind-a-try", "who waits for a fair lock has no place in the queue, for a Try rests here",
			one("engine/acquire.go", "\t\t\t\tsc.refuseResting(ent)\n", ""), "engine",
			"TestWhoAsksForAFairLockBehindATryThatRestsIsSentAtOnce", false,
		},
		{
			"try-waits-for-a-readings-replicas", "a Try to write waits for the replicas that its owner waits for who goes on reading",
			one("engine/acquire.go", "!h.Leaving() || h.downgradeAsked() {", "!h.Leaving() {"), "engine",
			"TestATryDoesNotWaitForAnOwnerThatGoesOnReading", false,
		},
		{
			"resting-try-waits-for-a-readings-replicas", "the same, of a Try that came before",
			one("engine/readwrite.go", "\t\tsc.refuseBehind(h)\n", ""), "engine",
			"TestATryDoesNotWaitForAnOwnerThatGoesOnReading", false,
		},
	}
}
