package main

// rules: what the rules of waiting in the simulation have found (P5).
func rules() []mutant {
	return []mutant{
		{
			"late-reentry-goes-first", "whoever has asked for a fair lock before hears of no release",
			one("engine/reentry.go", "child = at.newChild()", "child = h.ent"),
			"engine", "TestWhoComesTooLateToEnterAFairLockAgainIsBehindWhoAskedBefore", false,
		},
		{
			"courtesy-is-for-ever", "a Try is told of a holder for ever, where nobody has the lock",
			one("engine/internal/lockstate/tenure.go", "waitYield, 0\n\tq.tookUntil(0)", "waitYield, 0\n\tq.tookUntil(clock.Instant(1 << 62))"),
			"engine", "TestATryBehindWhoLeavesTheLockToOthersIsToldOfNoHolderForEver", false,
		},
		{
			"late-fair-grant-loses-the-place", "whose grant of a fair lock came too late stands behind all who came later",
			one("engine/attempt.go", "if op != nil || !sc.keepPlace(a) {", "if true {"),
			"engine", "TestAFairLockGrantedTooLateIsGrantedToTheSame", false,
		},
	}
}
