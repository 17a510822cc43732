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
			one("engine/children.go", "if ent.inLine() != front {", "if false {"),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
		{
			"who-has-a-place-is-not-moved", "the same, where the answer that a waiter has come last is lost",
			one("engine/children.go", "since == 0 || since == s.since {", "since == 0 || s.since != 0 {"),
			"engine", "TestWhoComesLastToAFairLockStandsLastHereThoughTheAnswerIsLost", false,
		},
		{
			"who-comes-last-is-before-the-last", "the same, as who comes last here is not who has come last there",
			one("engine/children.go", "all.tail == nil || all.tail.children().since < since", "all.tail == nil"),
			"engine", "TestWhoComesLastToAFairLockStandsLastHereThoughTheAnswerIsLost", false,
		},
		{
			"who-is-not-told-is-in-line", "the same, where an answer is lost",
			one("engine/children.go", "at != nil && at.children().since == 0 {", "false {"),
			"engine", "TestWhoIsToldSinceWhenStandsInThatOrder", false,
		},
		{
			"since-when-is-not-told", "after an outage a free fair lock waits a second for the poll of the next in its queue, again and again",
			one("resp/answers.go", "			r.Since = sparse.v\n", "			_ = r\n"),
			"engine", "TestWhoHasLostItsPlaceOfAFairLockStandsBehindTheOthersHereToo", false,
		},
		{
			"all-adopted-came-at-once", "where Redis has evicted when they came, waiters of a fair lock overtake each other",
			one("internal/twin/fairqueue.go", "came-float64(len(members)-i)", "came-float64(0*i)"),
			"engine", "TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"nobody-asks-when-one-came", "where Redis has evicted when they came, a free fair lock waits for polls",
			one("internal/twin/fair.go", "f.since.Kind == Nil && at.Int < fairPage", "false"),
			"engine", "TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"adopted-behind-who-is-known", "where Redis has evicted when they came, who comes next comes back before them",
			one("internal/twin/fairqueue.go", "came = min(came, want(first[1].Text))", ""),
			"engine", "TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"who-is-first-here-now-hears-nothing", "a free fair lock waits a second for the poll of the next in its queue",
			one("engine/attempt.go", "			defer sc.fairListen(ent.root())\n", ""),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
	}
}
