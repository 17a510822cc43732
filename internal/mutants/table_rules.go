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
		{
			"who-comes-again-is-first-here", "a free fair lock waits a second for the poll of the next in its queue",
			one("engine/children.go", "case !last:", "case true:"),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
		{
			"who-comes-back-comes-last", "waiters that come back to their places of a fair lock are served late, each after a second's poll",
			one("internal/twin/fair.go", "f.cameLast = !had", `f.cameLast = before == ""`),
			"engine", "TestWhoComesBackToItsPlaceOfAFairLockStandsWhereItStood", false,
		},
		{
			"who-was-not-told-stands-nowhere", "who comes again to a fair lock is put before one whose place its engine was not told of",
			one("engine/children.go", "case tail == nil, tail == ent, s.order", "case tail == nil, tail == ent, last && s.order"),
			"engine", "TestWhoWasNotToldOfItsPlaceOfAFairLockStandsBeforeWhoComesAgain", false,
		},
		{
			"who-comes-last-is-not-told", "after an outage a free fair lock waits a second for the poll of the next in its queue, again and again",
			one("resp/answers.go", "r.CameLast {\n\t\treturn -11 - v", "r.CameLast {\n\t\tr.CameLast = false\n\t\treturn -11 - v"),
			"engine", "TestWhoHasLostItsPlaceOfAFairLockStandsBehindTheOthersHereToo", false,
		},
		{
			"who-is-first-here-now-hears-nothing", "a free fair lock waits a second for the poll of the next in its queue",
			one("engine/attempt.go", "			defer sc.fairListen(ent.root())\n", ""),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
	}
}
