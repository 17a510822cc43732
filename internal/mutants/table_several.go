package main

// several: locks that are acquired together.
func several() []mutant {
	const gather, lease = "engine/gather.go", "engine/multilease.go"
	return []mutant{
		{
			"multi-keeps-what-comes-behind", "two callers that name locks in other orders wait for each other for ever",
			one(gather, "\t\top.giveBack(busy)\n", ""), severalSuite, "TestMultiKeepsOnlyWhatComesBeforeTheLockItWaitsFor", false,
		},
		{
			"multi-gives-the-first-back-first", "who waits for all of them has one after the other, in as many rounds",
			one(lease, "i := len(ml.leases) - 1; i >= 0; i--", "i := 0; i < len(ml.leases); i++"), "engine", "TestMultiGivesTheLastBackFirst", false,
		},
		{
			"multi-try-leaves-something", "a Try that failed is answered while the server still has what it took",
			one(gather, "givePart(p.lease).then(op.answered)", "givePart(p.lease)\n\t\top.answer()"), "engine", "TestMultiGivesTheLastBackFirst", false,
		},
		{
			"multi-lost-looks-at-one", "several locks are held while one of them is somebody else's",
			one(lease, "return slices.IndexFunc(ml.leases, c.lost)", "return slices.IndexFunc(ml.leases[:1], c.lost)"), severalSuite, "TestMultiIsLostAsAWhole", false,
		},
		{
			"multi-context-of-one", "the context of several locks outlives one of them",
			one(lease, "c.watch(ml.leases, ml.ended(c))", "c.watch(ml.leases[:1], ml.ended(c))"), severalSuite, "TestMultiIsLostAsAWhole", false,
		},
		{
			"multi-lost-in-silence", "who gives back several locks, of which one was lost by then, is told that all is well",
			one(lease, "\tif len(lost) > 0 {\n\t\tothers", "\tif len(lost) > 1 {\n\t\tothers"), severalSuite, "TestMultiIsLostAsAWhole|TestMultiWhoseLeaseRunsOutIsLostByTheClock", false,
		},
		{
			"multi-fixed-lease-runs-out", "what is kept runs out while another lock is waited for",
			one(gather, "\t\t\tp.kept = extendPart(p.lease, p.lock.set.Lease)\n", ""), severalSuite, "TestMultiHasNearlyAllOfAFixedLeaseHoweverLongItWaited", false,
		},
		{
			"multi-order-of-one-process", "callers in two processes wait for each other for ever, whose engines have other ids",
			one("engine/lock.go", "\tif byKey := cmp.Compare(l.key, key); byKey != 0 || l.eng == eng {\n\t\treturn byKey\n\t}\n", "\tif l.eng == eng {\n\t\treturn cmp.Compare(l.key, key)\n\t}\n"),
			"engine", "TestTheOrderOfLocksIsTheSameInEveryProcess", false,
		},
		{
			"multi-forgets-a-claimed-grant", "who gives up is told so while a lock is just granted to it",
			one(gather, "op.left.Load() > 0 && (op.phase == multiTries || op.phase == multiWaits)", "false"), "engine", "TestMultiIsToldThatItHasEndedWhenAllItsAcquiresHave", false,
		},
		{
			"multi-fixed-lease-is-old", "a fixed lease has only half of itself left when the call returns",
			one(gather, "\tworn := op.worn(len(op.parts))\n", "\tworn := op.worn(0)\n"), "engine", "TestMultiExtendsAtTheEndWhatHasRunForAWhile", false,
		},
		{
			"multi-goes-on-with-what-is-lost", "several locks are granted, of which one was lost while another was waited for",
			one(gather, "\tlost := firstLost(op.parts[:before])\n", "\tlost := -1\n"), "engine", "TestMultiStartsOverWithWhatWasLostWhileItWaited", false,
		},
		{
			"multi-takes-a-name-twice", "a lock is named twice, and its second acquire waits for the first",
			one("engine/multi.go", "if to > 0 && l.compare(m.sorted[to-1]) == 0 {", "if false {"), severalSuite, "TestMultiLockRefusesBadNamesAndOptionsAndSendsNothing", false,
		},
		{
			"multi-outlives-close", "Close returns while somebody waits for several locks, of which one is the engine's",
			one("engine/engine.go", "\te.joints.close() // they give back what they have\n", ""), severalSuite, "TestCloseEndsAMultiThatWaits", false,
		},
		{
			"multi-do-owns-nothing", "what runs in a Do of several locks waits for itself",
			one("engine/multi.go", "\td.several = func() []*Lease { return ls.leases }\n", ""), severalSuite, "TestMultiDoEntersAgainWhatItHolds", false,
		},
		{
			"multi-floods-a-lane", "many names at once are more than an engine lets in",
			one(gather, "return min(max(queueMax/share, 1), most)", "return most"), severalSuite, "TestTenThousandNamesThroughASmallQueue", false,
		},
	}
}

// majorities: locks on several servers.
func majorities() []mutant {
	return []mutant{
		{
			"red-of-a-minority", "two hold a RedLock, each on some of the servers",
			one("engine/redlock.go", "return len(r.all.sorted)/2 + 1", "return len(r.all.sorted) / 2"), severalSuite, "TestRedLockNeedsAMajorityOnly|TestRedLockExcludes", false,
		},
		{
			"red-waits-for-the-silent", "one server that is silent delays everybody",
			one("engine/redlock.go", "case granted+failed == len(op.parts) && granted >= quorum, op.graced && op.passed():", "case granted+failed == len(op.parts) && granted >= quorum:"), severalSuite, "TestRedLockWithASilentServer", false,
		},
		{
			"red-keeps-a-minority", "who has no majority keeps what it has, and so does everybody else",
			one("engine/redlock.go", "\top.giveBack()\n\top.phase = redPauses", "\top.phase = redPauses"), severalSuite, "TestRedLockExcludes|TestRedLockNeedsAMajorityOnly|TestCloseEndsARedLockThatWaits", false,
		},
		{
			"red-ignores-the-drift", "several clocks are trusted as if they were one",
			one("engine/redlease.go", "return lease/100 + 2*time.Millisecond", "return 0 * lease"), severalSuite, "TestRedLockIsHeldOnEveryServerThatAnswers", false,
		},
		{
			"red-outlives-its-majority", "the context of a RedLock outlives its majority",
			one("engine/redlease.go", "\trl.lost.Store(true)\n\trl.group.end(ErrLost)", "\trl.lost.Store(true)"), severalSuite, "TestRedLockOutlivesAMinorityAndNotTheMajority", false,
		},
		{
			"red-late-grant-is-nobodys", "what a silent server grants when the lock is given back is held for as long as the engine lives",
			one("engine/redlock.go", "\t\t\tif !p.op.Cancel() {\n\t\t\t\tgiveBackLater(&p.op.Future)\n\t\t\t}\n", ""), severalSuite, "TestRedLockWithASilentServer|TestRedLockNeedsAMajorityOnly", false,
		},
		{
			"red-of-one-engine", "a RedLock is the same server's word several times",
			one("engine/redlock.go", "if other := of[l.eng]; other != nil {", "if other := of[l.eng]; false {"), severalSuite, "TestRedLockRefusesTooFewAndTwoOfOneEngine", false,
		},
	}
}

// severalInTrouble: locks that are acquired together, in trouble that passes, tried by many, or of an engine that closes.
func severalInTrouble() []mutant {
	const gather, lease = "engine/gather.go", "engine/multilease.go"
	return []mutant{
		{
			"multi-tries-all-at-once", "of many who try the same locks nobody gets them",
			one(gather, "\tif op.try && from == 0 {\n", "\tif false {\n"), "engine", "TestMultiTryOfManyAtOnceIsGrantedToOne", false,
		},
		{
			"multi-fails-while-it-extends", "who has waited for several locks is refused for trouble that passes",
			one(gather, "case op.try || !passes(err):", "case err != nil:"), "engine", "TestMultiOutlastsTroubleWhileItExtends", false,
		},
		{
			"multi-extends-without-answers", "who waits for several locks fills the lane with Extends while the server is slow",
			one(gather, "p.kept == nil || p.kept.state.Load() == futureDone", "true"), "engine", "TestMultiExtendsOneAtATimeWhatItKeeps", false,
		},
		{
			"multi-extends-what-is-lost", "who waits for several locks extends for ever what it has lost",
			one(gather, "\t\tbefore = lost\n", ""), "engine", "TestMultiExtendsNothingFromWhatItHasLostOn", false,
		},
		{
			"multi-extends-the-worn-alone", "several locks are granted of which one has half of its lease left, though all answers were quick",
			one(gather, "\t\tworn = op.fixed()\n", "\t\t_ = op.fixed()\n"), "engine", "TestMultiExtendsEverythingTheLastTime", false,
		},
		{
			"multi-outlives-one-engine", "several locks are held of which one was given back by Close",
			one(lease, "return lost || over && c.apart ||", "return lost ||"), "engine", "TestMultiOfSeveralEnginesIsLostWhenOneOfThemCloses", false,
		},
		{
			"multi-context-says-released", "the context of several locks says that its holder gave them back, and one engine has closed",
			one(lease, "\t\tif errors.Is(cause, ErrReleased) {", "\t\tif false {"), "engine", "TestMultiOfSeveralEnginesIsLostWhenOneOfThemCloses", false,
		},
		{
			"holder-here-is-another", "who is refused for a reader of its own process is told that it is elsewhere",
			one("engine/acquire.go", "h != nil && !together(h.Family, op.set.family) &&", "h != nil && false &&"),
			familySuite, "TestHeldErrorNamesAHolderHere", false,
		},
		{
			"a-pause-is-unknown", "nothing was sent, and the caller is told that nobody knows what came of it",
			one("engine/wait.go", "\t\tif ent.Yields() ||", "\t\tif"), "engine", "TestMaxWaitThatEndsWhileTheNameIsLeftToOthersIsHeld", false,
		},
	}
}
