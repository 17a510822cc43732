package main

import "slices"

// fairOrder: the waiters of an engine stand in the order of a fair lock's queue.
func fairOrder() []mutant { return slices.Concat(fairOrderHere(), fairOrderThere(), fairOrderKept()) }

// fairOrderHere: in the engine.
func fairOrderHere() []mutant {
	return []mutant{
		{
			"who-comes-again-is-first-here", "a free fair lock waits a second for the poll of the next in its queue",
			one("engine/children.go", "if ent.inLine() != front {", "if false {"),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
		{
			"who-has-a-place-is-not-moved", "the same, where the answer that a waiter has come last is lost",
			one("engine/children.go", "if since == s.since {", "if s.since != 0 {"),
			"engine", "TestWhoComesLastToAFairLockStandsLastHereThoughTheAnswerIsLost", false,
		},
		{
			"who-comes-last-is-before-the-last", "the same, as who comes last here is not who has come last there",
			one("engine/children.go", "all.tail == nil || all.tail.children().since <= since", "all.tail == nil"),
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
			"who-waits-for-replicas-hides-the-next", "who is next to a fair lock hears nothing while one that was granted it waits for replicas",
			one("engine/wait.go", "child.InFlight(); !mayHaveIt {", "child.InFlight(); mayHaveIt || !mayHaveIt {"),
			"engine", "TestTheNextHearsThatTheLockWasTakenFromOneThatWaitsForReplicas", false,
		},
		{
			"who-waits-for-replicas-tells-nobody", "the same, for nobody listens when that one asks",
			one("engine/acquire.go", "ent.children().since != 0 && ent.acks() {", "false {"),
			"engine", "TestTheNextHearsThatTheLockWasTakenFromOneThatWaitsForReplicas", false,
		},
		{
			"who-is-not-known-stays-in-line", "of many waiters of a fair lock whose times Redis has evicted, none hears of a release",
			one("engine/children.go", "		all.forget(ent)\n		return true\n", "		return true\n"),
			"engine", "TestWhoIsToldSinceWhenStandsInThatOrder", false,
		},
		{
			"named-to-a-release-though-not-known", "who stands first here and is not known to stand anywhere is named to a release, instead of who is next",
			[]edit{
				{"engine/release.go", "child := all.head; child != nil && len(heirs)", "child := all.first; child != nil && len(heirs)"},
				{"engine/release.go", "child.children().since != 0 && child.Attempt() != nil", "child.Attempt() != nil"},
			},
			"engine", "TestTheFirstOfManyIsFirstHereThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"who-is-first-here-now-hears-nothing", "a free fair lock waits a second for the poll of the next in its queue",
			one("engine/attempt.go", "			defer sc.fairListen(ent.root())\n", ""),
			"engine", "TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext", false,
		},
	}
}

// fairOrderThere: on the server.
func fairOrderThere() []mutant {
	return []mutant{
		{
			"all-adopted-came-at-once", "where Redis has evicted when they came, waiters of a fair lock overtake each other",
			one("internal/twin/fairqueue.go", "till-fairAge-float64(len(before))+float64(i+1)", "till-fairAge+float64(0*i)"),
			"engine", "TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"nobody-asks-when-one-came", "where Redis has evicted when they came, a free fair lock waits for polls",
			one("internal/twin/fair.go", "f.since.Kind == Nil && at.Int < fairPage", "false"),
			"engine", "TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame", false,
		},
		{
			"adopted-behind-who-is-known", "where Redis has evicted when they came, who comes next comes back before them",
			one("resp/scripts/fragments/fairqueue.lua", "math.min(micros, tonumber(first[2]) or micros) - AGE", "micros - AGE"),
			"resp", "TestOfManyWhoWaitForAFairLockTheFirstThousandAreToldSinceWhen", false,
		},
		{
			"adopted-before-who-is-known", "of many waiters of a fair lock whose times Redis has evicted, those who stood last come first",
			one("resp/scripts/fragments/fairqueue.lua", "elseif front then", "elseif false then"),
			"resp", "TestOfManyWhoWaitForAFairLockTheFirstThousandAreToldSinceWhen", false,
		},
		{
			"first-of-those-ahead-is-the-last", "where many wait, and the clock is set back, who comes last to a fair lock is taken for one in the middle",
			one("resp/scripts/fair.lua", "must('ZCARD', asked) - 1, 1)", "0, 1)"),
			"resp", "TestOfManyWhoWaitForAFairLockTheFirstThousandAreToldSinceWhen", false,
		},
		{
			"nobody-keeps-those-behind-the-page", "behind a thousand of Redisson's nobody knows after a minute when ours have come",
			one("resp/scripts/fragments/fairqueue.lua", "    keep(heard, KEPT)\n    keep(asked, KEPT)\n    return\n", "    return\n"),
			"resp", "TestOursBehindAThousandOfRedissonsKeepTheirOrder", false,
		},
	}
}

// fairOrderKept: who stands in the queue keeps its place there, and is told.
func fairOrderKept() []mutant {
	return []mutant{
		{
			"who-comes-at-the-same-time-is-before-the-last", "the first on the server hears nothing, where two were told the same time",
			one("engine/children.go", "all.tail == nil || all.tail.children().since <= since", "all.tail == nil || all.tail.children().since < since"),
			"engine", "TestTwoWhoCameAtTheSameTimeStandAsTheServerHasThem", false,
		},
		{
			"one-wait-for-all-its-time", "who waits for replicas of another name costs a fair lock's waiter its place, and leaves the lock idle",
			one("resp/confirm.go", "min(left, l.acks.slice))", "left)"),
			"engine", "TestAWaiterKeepsItsPlaceBesideALongWaitForReplicas|TestAFairLockIsServedBesideALongWaitForReplicas", false,
		},
		{
			"slices-go-on", "the same: what has come waits behind one slice after another",
			one("resp/confirm.go", "\t\tif others {\n", "\t\tif others && answered {\n"),
			"engine", "TestAWaiterKeepsItsPlaceBesideALongWaitForReplicas", false,
		},
		{
			"dead-behind-the-page", "of many who wait most lose their places because the server stood still",
			one("resp/scripts/fragments/fairqueue.lua", "spared = ago >= 0 and ago <= grace or stood(alive, asks)", "spared = stood(alive, asks)"),
			"resp", "TestNobodyOfManyIsDeadBecauseTheServerStoodStill", false,
		},
		{
			"head-was-told-before", "nobody tells who is next of a lock whose lease has expired before its release came",
			one("resp/scripts/fairrelease.lua", "(head ~= first or stood == 0)", "head ~= first"),
			"resp", "TestAReleaseThatComesTooLateTellsWhoIsNext", false,
		},
	}
}
