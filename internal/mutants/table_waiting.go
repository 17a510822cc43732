package main

// waiting: who is asked for, in which order, and what those are told who leave (P5).
func waiting() []mutant {
	return []mutant{
		{
			"centuries-overflow", "a foreign lock of centuries is asked for in a hot loop",
			one("engine/core.go", "min(ms, longestTold.Milliseconds())", "ms"),
			redissonSuite, "TestAForeignExpiryOfCenturiesIsNeitherOverNorPolledFor", false,
		},
		{
			"fair-try-refused-by-a-release", "a Try of a fair lock is refused although nobody has it or wants it",
			one("engine/acquire.go", "if child.standing() != nil && child.leavingHold() == nil || child.First() != nil {\n\t\t\treturn child\n", "if true {\n\t\t\treturn child\n"),
			waitSuite, "TestATryBehindAnOwnReleaseIsNotRefused", false,
		},
		{
			"children-release-overtaken", "an acquire for replicas finds its own engine's hold in the way",
			one("engine/internal/lockstate/giveback.go", "q.terms().Ack != nil && q.whole().UnderWay()", "q.terms().Ack != nil && q.UnderWay()"),
			"engine", "TestWhoAsksForReplicasWaitsForAReleaseThatIsSentAgain", false,
		},
		{
			"give-back-overtaken", "the same, where a grant is given back",
			one("engine/cleanup.go", "root != nil && c.root == nil {", "root != nil && false {"),
			waitSuite, "TestATryForReplicasBehindAGrantThatIsGivenBackIsNotRefused", false,
		},
		{
			"children-rest-for-ever", "an acquire for replicas of a fair lock is forgotten",
			one("engine/release.go", "\tif rested {\n", "\tif rested && false {\n"),
			waitSuite, "TestATryBehindAnOwnReleaseIsNotRefused", true,
		},
		{
			"passed-on-under-anothers-lease", "what a crashed holder leaves is free after somebody else's lease",
			one("engine/release.go", "LeaseMs: child.Attempt().op.LeaseMs})\n\t\t}", "LeaseMs: h.ent.root().firstChild().nextChild().Attempt().op.LeaseMs})\n\t\t}"),
			familySuite, "TestAFairLockIsPassedOnUnderTheLeaseOfItsNextHolder", true,
		},
		{
			"passed-on-to-anybody", "a lock is passed on to a waiter that is not named, with no lease of its own",
			one("resp/scripts/fairrelease.lua", "local lease = heirs[i .. ' ' .. first]", "local _, lease = next(heirs)"),
			"resp", "TestAFairReleasePassesEachKeyOnUnderItsWaitersOwnLease", false,
		},
		{
			"silence-is-a-holder", "MaxWait says that a lock is held which nobody holds",
			one("engine/wait.go", "if at.keepsOut(op, now) {", "if true {"),
			faultSuite, "TestMaxWaitWithoutAnAnswerClaimsNoHolder", false,
		},
		{
			"holder-forgotten-in-silence", "MaxWait says that nobody knows, though the server has said who holds it",
			one("engine/wait.go", "return ent.ToldBusy(now)", "return false"),
			faultSuite, "TestMaxWaitTellsOfAHolderThatIsKnown", false,
		},
		{
			"held-by-another-which-is-me", "MaxWait tells an owner that enters again that somebody else has its lock",
			one("engine/wait.go", "if op.Queued() && ent.besideHold() == nil {", "if true {"),
			familySuite, "TestMaxWaitBoundsAnOwnerThatEntersAgain", false,
		},
	}
}

// company: what those who wait for one name do to each other.
func company() []mutant {
	return []mutant{
		{
			"fair-by-lease", "fair waiters of one batch are served in the order of their leases",
			one("resp/lane.go", "case places || a.LeaseMs == b.LeaseMs:", "case a.LeaseMs == b.LeaseMs:"),
			familySuite, "TestFairWaitersOfOneBatchAreServedInTheOrderOfAsking", true,
		},
		{
			"courtesy-to-itself", "a writer waits for others that are not there",
			one("engine/release.go", "ent.listens(f)", "ent.listens(0)"),
			"engine", "TestAnEngineThatIsAlonePaysNoCourtesyToItself", false,
		},
		{
			"head-start-for-nobody", "a writer waits for others that are not there",
			one("engine/release.go", "ent.EndTenure(us == 1)", "ent.EndTenure(false)"),
			"engine", "TestAnEngineThatIsAlonePaysNoCourtesyToItself", false,
		},
		{
			"pace-of-one-who-left", "waiters behind a spin lock that has left sleep as long as it would have",
			one("engine/internal/lockstate/queue.go", "!q.terms().waitsAs(w.Of.Terms()):\n\t\treturn StepPark", "!q.terms().waitsAs(w.Of.Terms()):\n\t\treturn StepRest"),
			waitSuite, "TestAWaiterBehindASpinLockThatLeavesListensAndPolls|TestASpinLockBehindAWaiterThatLeavesSpins", true,
		},
		{
			"channel-of-one-who-left", "a waiter listens where nobody tells its kind",
			one("engine/wait.go", "p.asked && otherKind(p.family, ent.head().set.family)", "false"),
			waitSuite, "TestAWaiterListensToItsOwnKindsChannel", false,
		},
		{
			"answer-to-another-kind", "a reader sleeps because a Try to write was refused",
			one("engine/internal/lockstate/queue.go", "case !q.Meant(asked):", "case false:"),
			"engine/internal/lockstate", "TestQueueAsksForANewHeadOfAnotherKindInsteadOfBelievingTheAnswer", false,
		},
		{
			"try-to-read-refused-by-readers", "a Try to read is refused although only readers have the lock",
			one("engine/internal/lockstate/queue.go", "if w.Try && (!reads || !readers) {", "if w.Try {"),
			waitSuite, "TestATryToReadBehindAnotherReadersAcquireIsAskedFor", false,
		},
		{
			"wrong-kind-for-everybody", "one caller of the wrong kind fails everybody queued",
			one("engine/attempt.go", "if otherKind(op.set.family, a.op.Family) {", "if false {"),
			waitSuite, "TestACallerOfTheWrongKindFailsNobodyElse", false,
		},
		{
			"refusal-for-everybody", "a poisoned key of one kind fails who never touches it",
			one("engine/attempt.go", "case v == lockstate.FailServer && !entersAs(a.op.Family, op.set.family):", "case false:"),
			waitSuite, "TestARefusalOfOneKindsScriptFailsNobodyElse", false,
		},
	}
}
