package main

// handedOver: what the next holder gets, and what an engine leaves to others.
func handedOver() []mutant {
	const queue = "engine/internal/lockstate/queue.go"
	return []mutant{
		{
			"hand-off-keeps-max-hold", "who is handed a lock has what is left of the last holder's MaxHold",
			one("engine/release.go", "Until: with.Now.Add(limit)})", "Until: min(sc.eng.watchdog.Until(h), with.Now.Add(limit))})"),
			"engine", "TestAHandOffBeginsItsHoldersMaxHoldAnew", false,
		},
		{
			"hand-off-keeps-the-owner", "the last holder's owner enters what somebody else holds by now",
			one("engine/release.go", "\th.owner = op.lease.owner\n", ""), "engine", "TestWhatIsHandedOverIsItsNewOwners", false,
		},
		{
			"no-courtesy", "an engine whose turn is over wins every race against those who first have to hear of it",
			one("engine/release.go", "\tent.Yield()\n\tsc.pause(ent.ensureWakeups(), yieldEnd(r, least))\n", "\t_ = least\n"),
			"engine", "TestAnEngineLeavesTheLockToOthersForAMomentWhenItsTurnIsOver", false,
		},
		{
			"no-head-start", "engines that wake by one message ask at once, all of them",
			[]edit{{"engine/internal/lockstate/tenure.go", "return 600 * time.Microsecond", "return 0"}, {"engine/internal/lockstate/tenure.go", "return 250 * time.Microsecond", "return 0"}},
			"engine/internal/lockstate", "TestMachineWakingKeepsItsOrderByWhatWasHeard", false,
		},
		{
			"head-start-of-who-had-it", "an engine that has just had the lock goes before those who wait for it",
			one("engine/internal/lockstate/queue.go", "q.wait, q.missedReleases, q.by = waitNot, 0, WakeNone", "q.wait, q.by = waitNot, WakeNone"),
			"engine/internal/lockstate", "TestMachineQueueForgetsItsWaiting", false,
		},
		{
			"turn-outlasts-others", "an engine goes on with a turn in which somebody else had the lock",
			one("engine/internal/lockstate/queue.go", "if q.tookUntil(until); q.head == nil ||", "if q.tookUntil(until); false &&"),
			"engine/internal/lockstate", "TestMachineBusyEndsTheTurn", false,
		},
		{
			"tenure-of-permits-ends-with-too-few", "permits go from hand to hand only until the next waiter is told that there are too few",
			one("engine/internal/lockstate/queue.go", "if q.tookUntil(until); q.head == nil || q.terms().Family.Serves != ServesSome {",
				"if q.tookUntil(until); true {"),
			"engine/internal/suite/family", "TestPermitsGoFromHandToHandThoughTheNextWaiterWasRefused", false,
		},
		{
			"who-is-left-behind-polls", "where who waits for many permits leaves, those behind who would find enough wait for their poll",
			one("engine/internal/lockstate/queue.go", "q.terms().Family.Serves == ServesSome: // there may", "false: // there may"),
			"engine/internal/lockstate", "TestWhoStandsBehindOneThatLeavesIsAskedFor", false,
		},
		{
			"releases-heard-without-end", "who has waited for longest begins to leave the others a head start",
			one("engine/internal/lockstate/queue.go", "if kind == WakeMessage && q.missedReleases < mostMissed {", "if kind == WakeMessage {"),
			"engine/internal/lockstate", "TestMachineWakingCountsWhatGoesBy", false,
		},
		{
			"unseen-told-to-others", "who asked for other replicas, or for longer, is told that too few have seen it",
			one(queue, "return t.Ack != nil && *t.Ack == ack && t.Family == family", "return t.Ack != nil && t.Family == family"),
			"engine/internal/lockstate", "TestMachineGrantThatTooFewHaveSeenIsToldToWhoAskedForThat", false,
		},
		{
			"unseen-told-to-another-kind", "a reader is told of what was asked for to write",
			one(queue, "return t.Ack != nil && *t.Ack == ack && t.Family == family", "return t.Ack != nil && *t.Ack == ack"),
			"engine/internal/lockstate", "TestMachineGrantThatTooFewHaveSeenIsToldToWhoAskedForThat", false,
		},
	}
}

// sharing: whom a reader may join, and what a ForceRelease takes.
func sharing() []mutant {
	return []mutant{
		{
			"reader-joins-a-worn-hold", "a reader has what is left of another one's lease",
			one("engine/readwrite.go", "h.Deadline().Sub(now) >= h.Lease()/2 && !h.Indeterminate()", "!h.Indeterminate()"),
			"engine", "TestNoReaderJoinsAHoldInTheLastHalfOfItsLease", false,
		},
		{
			"reader-joins-in-doubt", "a reader is in a hold that is released once more when its late copies have run",
			one("engine/readwrite.go", " && !h.Indeterminate().MayRunAfter(now)\n", "\n"), "engine", "TestNoReaderJoinsAHoldOfWhichALateCopyMayRun", false,
		},
		{
			"reader-joins-what-is-forced", "a reader is granted what a ForceRelease is just taking away",
			one("engine/readwrite.go", "h.Held() && !h.ForceReleased() && set", "h.Held() && set"), "engine", "TestNoReaderJoinsAHoldThatAForceReleaseTakes", false,
		},
		{
			"reader-joins-during-a-force-release", "something is granted while a ForceRelease of the name is on its way",
			one("engine/readwrite.go", " || ent.Forcing() ||\n", " ||\n"),
			"engine", "TestAForceReleaseOfTheOtherHalfTakesNothingAndLetsNobodyIn", false,
		},
		{
			"force-release-takes-both-halves", "a ForceRelease of the write lock tells the readers that they have lost theirs",
			one("engine/force.go", "return forces(f, there)", "return !otherKind(f, there)"),
			"engine", "TestAForceReleaseOfTheOtherHalfTakesNothingAndLetsNobodyIn", false,
		},
		{
			"force-release-in-doubt-takes-nothing", "who reads goes on with what a copy without an answer has taken",
			one("engine/force.go", "\t\t\tcase op.indeterminate.Until != 0:\n", "\t\t\tcase false:\n"),
			"engine", "TestAForceReleaseThatMayHaveTakenWhatIsReadTellsItsReader", false,
		},
		{
			"note-stays", "a writer that gives up keeps readers out",
			one("engine/readwrite.go", "\t\tsc.clean(ent, note, lockstate.Indeterminate{}, 0)\n", "\t\t_ = note\n"),
			"engine", "TestTheNoteOfAWriterThatGivesUpIsTakenBackAtOnce", false,
		},
	}
}

// belonging: what is remembered of holds, and under which name.
func belonging() []mutant {
	return []mutant{
		{
			"extend-of-unknown-outcome-is-forgotten", "what an Extend without an answer has made of the key is given up after the lease",
			one("engine/lease.go", "\th.AsksFor(d) // whatever the answer, the key may live that long\n", ""),
			"engine", "TestALockWhoseExtendGotNoAnswerIsGivenBackHoweverLongThatTakes", false,
		},
		{
			"free-by-forgets-an-extend", "a release says that the lock is free sooner than it is",
			one("engine/core.go", "h.Deadline().Add(max(h.Lease(), h.Indeterminate().Lease))", "h.Deadline().Add(h.Lease())"),
			"engine", "TestALockWhoseExtendGotNoAnswerIsGivenBackHoweverLongThatTakes", false,
		},
		{
			"one-lost-handle-is-remembered", "an owner that has given one of two lost handles back gets the lock anew",
			one("engine/loss.go", "\th.owner.remember(sc.eng, h.ent.key, h.Count())\n\tif", "\th.owner.remember(sc.eng, h.ent.key, min(h.Count(), 1))\n\tif"),
			"engine", "TestAnOwnerGivesEveryHandleOfALostLockBackBeforeItHasItAnew", false,
		},
		{
			"one-lost-reader-is-remembered", "the same of a reader",
			one("engine/loss.go", "o.remember(sc.eng, h.ent.key, n)", "o.remember(sc.eng, h.ent.key, min(n, 1))"),
			"engine", "TestAnOwnerGivesEveryHandleOfALostLockBackBeforeItHasItAnew", false,
		},
		{
			"prefix-forgets-fenced", "fenced locks of two programs with prefixes are the same",
			one("engine/lock.go", "if e.cfg.Prefix != \"\" {", "if e.cfg.Prefix != \"\" && family != resp.FamilyFenced {"),
			apiSuite, "TestPrefixIsPutBeforeEveryNameAndNowhereElse", false,
		},
		{
			"prefix-forgets-read-write", "read-write locks are",
			one("engine/lock.go", "if e.cfg.Prefix != \"\" {", "if e.cfg.Prefix != \"\" && !traits(family).Halved() {"),
			apiSuite, "TestPrefixIsPutBeforeEveryNameAndNowhereElse", false,
		},
		{
			"place-is-kept-until-a-time-of-day", "a waiter of a fair lock is said to keep its place for fifty years",
			one("engine/fair.go", "max(until-float64(r.Value), 0)", "max(until, 0)"), familySuite, "TestFairLockIsGrantedInTheOrderOfAsking", false,
		},
		{
			"place-is-never-ours", "an engine does not know its own waiters",
			one("engine/fair.go", "resp.FieldOf(l.eng.id, r.Fields[i]),", "resp.FieldOf(\"\", r.Fields[i]),"),
			familySuite, "TestFairLockIsGrantedInTheOrderOfAsking", false,
		},
		{
			"resent-by-all-at-once", "what failed at one moment comes back at one moment",
			one("engine/core.go", "return time.Millisecond + w.N(most)", "return time.Millisecond + most/2 + 0*w.N(most)"),
			"engine", "TestPausesBeforeResendingAreSpread", false,
		},
		{
			"max-wait-bounds-a-try", "a Try of a free lock has no answer over a slow line",
			one("engine/acquire.go", "if op.set.maxWait <= 0 || op.Try || op.watch", "if op.set.maxWait <= 0 || op.watch"),
			"engine", "TestMaxWaitBoundsNoTry", false,
		},
		{
			"senders-outlive-their-node", "each node that leaves a cluster leaves its senders behind, and Close waits for them",
			one("renew/watchdog.go", "\tif p != nil {\n\t\tp.retire()\n\t}", "\t_ = p"), "renew", "TestRetireEndsTheSendersOnceTheirQueueIsEmpty", true,
		},
	}
}
