package main

// rare: what random programs found late, where several rare things meet.
func rare() []mutant {
	return []mutant{
		{
			"brief-wait-is-not-armed", "a MaxWait that is over before the engine looks ends late",
			one("engine/acquire.go", "if op.set.maxWait <= soonOver {", "if false {"),
			"engine", "TestMaxWaitEndsOnTimeHoweverLongAnAnswerTakes", false,
		},
		{
			"age-counts-from-the-round", "what waited for a round before its own is found late",
			one("resp/lane.go", "l.oldest, l.begun = oldest, now", "l.oldest, l.begun = now, max(now, oldest)"),
			"engine", "TestMaxWaitEndsOnTimeHoweverLongAnAnswerTakes", false,
		},
		{
			"unbelieved-grant-is-not-watched", "MaxWait does not end an acquire whose grant a ForceRelease overtook",
			one("engine/acquire.go", "if ent.First() != nil && !ent.InFlight() {", "if false {"),
			"engine", "TestMaxWaitEndsWhereAGrantIsNotBelieved", false,
		},
		{
			"given-back-is-held", "an owner that lost one lock enters anew by another of which it has no handle",
			one("engine/readwrite.go", "(other == nil || other.Out() == 0)", "other == nil"),
			"engine", "TestAnOwnerThatGivesBackTheRestEntersNothingAfterALoss", false,
		},
		{
			"goes-home-after-a-loss", "the same, of who was queued before the loss",
			[]edit{
				{"engine/reentry.go", "if sc.reenterOrRefuse(at, op) {", "if false {"},
				{"engine/attempt.go", "op != nil && root.lostTo(op.lease.owner); op", "op != nil && false; op"},
			},
			"engine", "TestAnOwnerThatGivesBackTheRestEntersNothingAfterALoss", false,
		},
		{
			"context-outlives-its-release", "what was given back just when Close or a loss ended it goes on",
			one("engine/release.go", "ended = h.unwatch(ls) // whoever else", "if h.Held() {\n\t\tended = h.unwatch(ls)\n\t}\n\t// whoever else"),
			"engine", "TestTheContextOfALeaseHasEndedWhenItsReleaseReturns", false,
		},
		{
			"passed-on-while-it-closes", "Close returns before who was passed a lock by a caller's release is told",
			one("engine/core.go", "sc.owed = sc.sh\n\t\tsc.sh.telling.Add(1)", "_ = sc.sh"),
			"engine", "TestCloseWaitsForWhoIsJustTold", false,
		},
		{
			"cancelled-while-it-closes", "Close returns before who was just cancelled is told",
			one("engine/acquire.go", "\tsh.telling.Add(1)\n\tdefer e.told(sh)\n", ""),
			"engine", "TestCloseWaitsForWhoIsJustTold", false,
		},
		{
			"poll-forgets-the-holder", "MaxWait says that nobody knows, while the poll of who is known to wait is on its way",
			one("engine/internal/lockstate/queue.go", "return polls || q.wait == waitParked", "return polls && false || q.wait == waitParked"),
			"engine", "TestMaxWaitTellsOfTheHolderWhileAPollIsOnItsWay", false,
		},
		{
			"note-goes-with-the-writer-before", "readers overtake a writer whose note was taken back by the one before it",
			one("engine/readwrite.go", "\t\tsc.clean(ent, note, lockstate.Indeterminate{}, 0)\n",
				"\t\tc := sc.newCleanup(ent, note, lockstate.Indeterminate{}, 0)\n\t\tsc.sh.pending++\n\t\t_ = c.eng.nodes.Submit(&c.op)\n"),
			"engine", "TestANoteThatIsTakenBackIsNotThatOfTheNextWriter", false,
		},
		{
			"extend-keeps-for-good", "what was given back beside an Extend keeps its key until its own lease ends",
			one("engine/lease.go", "h.reentry() != nil && h.reentry().unlowered &&", "false &&"),
			"engine", "TestAKeyIsLoweredWhenTheExtendThatKeptItIsAnswered", false,
		},
		{
			"next-fair-holder-first", "the next holder of a fair lock has it before the last one is told that it is lost",
			one("engine/attempt.go", "sc.before = root.tellFirst()", "_ = root.tellFirst"),
			"engine", "TestTheHolderOfAFairLockIsToldBeforeTheNextHereHasIt", false,
		},
	}
}

// overdue: what is over and not noticed yet, and renewals that come late.
func overdue() []mutant {
	return []mutant{
		{
			"past-its-deadline-is-held", "an owner enters by a lock that it has lost, until the watchdog comes to it",
			one("engine/readwrite.go", "case !ent.eng.clock.Now().Before(h.Deadline()):", "case false:"),
			"engine", "TestAnOwnerWhoseTimeIsOverEntersNothing", false,
		},
		{
			"over-is-not-final", "Lost is true for a moment, and then false again",
			one("renew/hold.go", "int64(to) <= old || int64(now) >= old {", "int64(to) <= old {"),
			"renew", "TestADeadlineThatIsOverStaysOver", false,
		},
		{
			"kinds-wait-for-each-other", "on a slow line a hold is lost because others of the engine have another lease or kind",
			one("renew/sender.go", "\t\tanswers, renewed, timedOut = s.send(byKind(subjects), answers[:0])\n",
				"\t\tfor _, g := range byKind(subjects) {\n\t\t\tanswers, renewed, timedOut = s.send([]group{g}, answers[:0])\n\t\t}\n"),
			"renew", "TestManyKindsOfHoldsAreKeptOverASlowLine", false,
		},
		{
			"over-refuses-other-kinds", "a lock that is over still fails who asks for another kind",
			one("engine/children.go", "otherKind(h.Family, want) && now.Before(h.Deadline())", "otherKind(h.Family, want)"),
			"engine", "TestWhatIsOverRefusesNoOtherKind", false,
		},
	}
}
