package main

// A mutant is one way to break a promise.
type mutant struct {
	id    string
	why   string // what would go wrong
	edits []edit
	pkg   string // where its tests are, as a folder
	tests string // those that must fail, as a pattern of -run
	hangs bool   // they fail by waiting in vain: no need to watch them for long
}

// An edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

func one(file, old, text string) []edit { return []edit{{file, old, text}} }

// The suites of the engine's black-box tests.
const (
	apiSuite      = "engine/internal/suite/api"
	clusterSuite  = "engine/internal/suite/cluster"
	familySuite   = "engine/internal/suite/family"
	faultSuite    = "engine/internal/suite/fault"
	redissonSuite = "engine/internal/suite/redisson"
	securitySuite = "engine/internal/suite/security"
	severalSuite  = "engine/internal/suite/several"
	waitSuite     = "engine/internal/suite/wait"
)

// table lists the mutants, by what they break.
func table() []mutant {
	var all []mutant
	for _, part := range [][]mutant{
		trust(), scripts(), doubts(), queues(), handOff(), machines(), holders(), cluster(),
		endings(), handles(),
		moves(),
		wishes(),
		leases(), leasesElsewhere(), dropped(),
		moving(),
		waiting(), company(), rules(), fairOrder(), again(), fresh(),
		rare(), overdue(),
		user(), workers(), timing(),
		reading(), notes(),
		stuck(),
		silence(),
		room(),
		toldLater(),
		guarding(), refusing(),
		fairQueue(), fairOutages(),
		fairAges(),
		bounded(),
		boundedQueues(),
		foreign(),
		beside(),
		forcing(),
		outages(),
		ends(),
		changing(),
		resting(), living(),
		leaving(), leavingNothing(),
		network(),
		telling(), tellingLate(), lasting(), unsent(), otherConnection(),
		secrets(), shown(), runs(), commands(),
		hostile(),
		judging(), judgingHolders(), leading(), judgingRuns(), keeping(),
		copies(), immortals(), halves(), places(), aliases(), replies(),
		permits(), permitsTaken(), permitsNoted(), permitsCounted(), leasedPermits(), leasedHolds(),
		groupScripts(), groupHolds(),
		latches(), latchMarks(), counting(), countingRefused(), barriers(),
		handedOver(), sharing(), belonging(),
		onTime(),
		planted(), hunting(), makingWay(), plantedPermits(), plantedLeases(), plantedLatches(),
		spreading(), bunches(), lastHandles(), left(), losses(), replays(), replayed(), inTheWay(), refused(), givenBack(), lostToTheirOwners(), queueMaxes(), publishing(), counters(),
		overloads(), urgency(), renewalCalls(), budgets(), budgetsOfBytes(), budgetsOfQueues(),
		unseen(), several(), severalInTrouble(), majorities(), extended(), redLocks(), joining(), whoIsFirst(), outlasting(),
		edges(),
		leads(), ownConnections(), ownReplies(), hijacks(), busyPolls(), shared(),
		contention(), givingUp(), contentionByClass(), lateRenewals(), tracers(), statements(), errorsTold(), opening(), farAndForced(),
		loading(), oneKey(), oneKeyAnswers(),
		lingering(), lingeringNobodys(),
	} {
		all = append(all, part...)
	}
	return all
}

// trust: until when a holder believes (P1, P2).
func trust() []mutant {
	return []mutant{
		{
			"grant-deadline-from-reply", "a slow answer makes the holder believe for longer than the server does",
			one("engine/attempt.go", "renew.Terms{SentAt: r.SentAt,", "renew.Terms{SentAt: r.ReceivedAt,"),
			apiSuite, "TestDeadlineCountsFromTheSendingOfTheAcquire", false,
		},
		{
			"renewal-deadline-from-reply", "the same for a renewal",
			one("renew/watchdog.go", "h.raise(TrustUntil(sentAt, proven), now)", "h.raise(TrustUntil(now, proven), now)"),
			"renew", "TestC028_DeadlineCountsFromTheSendingOfTheAnsweredAttempt", false,
		},
		{
			"no-margin", "clock rates that differ let two believe",
			one("renew/time.go", "return max(lease/100, 10*time.Millisecond)", "return 0"),
			"renew", "TestMarginIsOnePercentAndAtLeastTenMilliseconds", false,
		},
		{
			"no-early-signal", "the holder is told when another may have the lock already",
			one("renew/time.go", "return min(bucket+25*time.Millisecond, lease/4)", "return 0*lease"),
			"renew", "TestLossIsToldEarlyByTheSmallerOfACohortAndAQuarterOfTheLease", false,
		},
		{
			"context-survives-loss", "the holder goes on after the loss",
			one("engine/loss.go", "c.cancel(ErrLost)\n\t}\n\tif l.cause", "_ = c\n\t}\n\tif l.cause"),
			apiSuite, "TestLossIsToldByLostByTheContextAndByRelease", true,
		},
		{
			"lost-ignores-the-clock", "Lost says no after the deadline while the watchdog has not noticed",
			one("engine/lease.go", "return lost || !over && !ls.eng().clock.Now().Before(ls.hold.Deadline())", "return lost || over && lost"),
			"engine", "TestLostLooksAtTheClock", false,
		},
		{
			"deadline-moves-back", "a late answer shortens what a newer one has proven",
			one("renew/hold.go", "if int64(to) <= old || int64(now)", "if int64(now)"),
			"renew", "TestDeadlineOnlyMovesForward", false,
		},
	}
}

// scripts: what the server does (P3, P6, P7, P8).
func scripts() []mutant {
	// A lock that is taken or given back alone has a script of its own; those for several keys see oneKey.
	const acquire, reacquire = "resp/scripts/acquireone.lua", "resp/scripts/reacquire.lua"
	const release, renewal = "resp/scripts/releaseone.lua", "resp/scripts/renew.lua"
	return []mutant{
		{
			"release-anybodys", "a late release frees the next holder's lock",
			one(release, "local v = call('HDEL', KEYS[1], ARGV[4])", "local v = call('DEL', KEYS[1])"),
			apiSuite, "TestC045_ReleaseOfALockThatAnotherHoldsLeavesItAlone", false,
		},
		{
			"renew-anybodys", "a holder believes in a lock that another has",
			one(renewal, "local v = call('HEXISTS', key, field)", "local v = call('EXISTS', key)"),
			"resp", "TestRenewAnswersEachKeyForItself", false,
		},
		{
			"count-by-steps", "a change of the count that is sent twice counts twice",
			[]edit{
				{reacquire, "local set = call('HSET', key, field, wanted)", "local set = call('HINCRBY', key, field, 1)"},
				{reacquire, "local changes = must and tonumber(count) ~= wanted", "local changes = must"},
			},
			"resp", "TestC024_ACountThatIsSentTwiceCountsOnce", false,
		},
		{
			"no-ttl", "a lock whose holder dies is held for ever",
			one(acquire, "v = call('PEXPIRE', key, ARGV[1])", "v = 1"),
			"resp", "TestC017_NoScriptMakesAKeyWithoutATTL", false,
		},
		{
			"no-ttl-when-asked-again", "the same, where the first answer was lost",
			one(reacquire, "local ttl = call('PEXPIRE', key, lease)", "local ttl = 1"),
			"resp", "TestC017_NoScriptMakesAKeyWithoutATTL", false,
		},
		{
			"pexpire-not-undone", "a refused PEXPIRE leaves a key for ever",
			one(acquire, "elseif call('HDEL', key, field) ~= 1 then", "elseif false then"),
			faultSuite, "TestACL_PexpireRefused", false,
		},
		{
			"renewal-shortens", "a renewal takes away what an Extend gave",
			[]edit{
				{renewal, "local set = call('PEXPIRE', key, lease, 'GT')", "local set = call('PEXPIRE', key, lease)"},
			},
			redissonSuite, "TestWireTTLIsNeverShortened", false,
		},
		{
			"poison-key-ends-the-batch", "one bad key stops the renewal of its neighbours",
			[]edit{
				{renewal, "local call = redis.pcall", "local call = redis.call"},
				{"resp/class.go", "ClassTryAgain, ClassWrongType:\n", "ClassTryAgain:\n"}, // else it would be split
			},
			faultSuite, "TestC167_PoisonKey", true,
		},
		{
			"publish-must-work", "where publishing is refused nothing can be released",
			one(release, "v = call(ARGV[1], ARGV[2], ARGV[3])", "v = redis.call(ARGV[1], ARGV[2], ARGV[3])"),
			faultSuite, "TestACL_PubSubRefused", false,
		},
		{
			"another-channel", "nobody hears the release",
			one("resp/batch.go", "channel = slot.LockChannel(first.Key)", "channel = slot.SemaphoreChannel(first.Key)"),
			redissonSuite, "TestWireOfALockTakenAloneIsRedissons", false,
		},
		{
			"release-needs-memory", "with a full memory nothing can be released",
			one(release, "local v = call('HDEL', KEYS[1], ARGV[4])",
				"local v = call('HINCRBY', KEYS[1], ARGV[4], -1)\nif v == 0 then\n  v = call('HDEL', KEYS[1], ARGV[4])\nend"),
			faultSuite, "TestC053_MemoryIsFull", false,
		},
	}
}

// doubts: answers that were lost, and copies that come late (P3, P4).
func doubts() []mutant {
	return []mutant{
		{
			"not-after-ignored", "a copy that comes late takes a lock that nobody knows of",
			one("resp/scripts/acquireone.lua", "if now > tonumber(ARGV[3]) then", "if false then"),
			"resp", "TestC029_NoScriptTakesAKeyAfterItsNotAfter", false,
		},
		{
			"not-after-ignored-when-asked-again", "the same for what was asked for again",
			one("resp/scripts/reacquire.lua", "if now > tonumber(ARGV[3]) then", "if false then"),
			"resp", "TestC029_NoScriptTakesAKeyAfterItsNotAfter", false,
		},
		{
			"new-wire-id-after-no-answer", "what was granted without an answer blocks its own caller",
			one("engine/attempt.go", "return a.retry != nil && a.retry.Unknown()", "return false"),
			faultSuite, "TestC021_AcquireReplyLost", true,
		},
		{
			"no-answer-is-an-answer", "a break of the connection counts as a refusal",
			one("resp/class.go", "return c != ClassUnknown && c != ClassPartly", "return c != ClassPartly"),
			faultSuite, "TestC021_AcquireReplyLost", true,
		},
		{
			"ghost-stays", "a grant that nobody wants any more blocks the lock for its lease",
			one("engine/attempt.go", "} else {\n\t\tsc.clean(ent, a.lockRef(), d, a.lease())", "} else {"),
			faultSuite, "TestC038_CtxEndsWithTheReplyPending", true,
		},
		{
			"late-copy-outlives-its-release", "what a late copy takes after the release stays",
			one("engine/internal/lockstate/grant.go", "case w.Indeterminate().MayRunAfter(sentAt):", "case false:"),
			faultSuite, "TestReleaseAnsweredAfterTheDoubtClosed", false,
		},
		{
			"renewal-of-a-released-lock", "what was forgotten is sent all the same",
			one("renew/watchdog.go", "return h.gone() || h.attempt == noAttempt", "return h.attempt == noAttempt"),
			"renew", "TestForgottenWhileQueuedIsNotSent", false,
		},
		{
			"answer-of-a-released-lock", "an answer for a released lock is told as a loss",
			one("renew/watchdog.go", "if h.gone() {\n\t\treturn\n\t}\n\tstale", "stale"),
			"renew", "TestC042_AnswerAfterForgetIsIgnored", false,
		},
	}
}

// queues: who waits, and for how long (P5, P9).
func queues() []mutant {
	return []mutant{
		{
			"wake-up-goes-with-who-cancels", "the next in the queue waits for a message that has come and gone",
			one("engine/attempt.go", "\t\t}\n\t\tsc.advance(ent)\n\tcase resp.CodeWrongKind:", "\t\t}\n\tcase resp.CodeWrongKind:"),
			waitSuite, "TestQueuedAcquireThatIsCancelledLeavesTheTurnToTheNext", true,
		},
		{
			"grant-nobody-wants-leaves-its-name", "the name of a grant that nobody wants stays in memory",
			one("engine/attempt.go", "a.lockRef(), d, a.lease())\n\t}\n\tsc.advance(ent)\n}", "a.lockRef(), d, a.lease())\n\t}\n}"),
			"engine", "TestSimCorpus", false,
		},
		{
			"older-busy-is-believed", "a release between the try and its answer is missed",
			one("engine/internal/lockstate/queue.go", "case q.hinted, ", "case "),
			waitSuite, "TestP5BusyAnswerOlderThanTheMessageIsNotBelieved", false,
		},
		{
			"no-poll", "where no message comes nobody is served",
			one("engine/wait.go", "sc.eng.timers.Schedule(p, now.Add(least+sc.eng.world.N(spread)))", "_ = least + sc.eng.world.N(spread)"),
			waitSuite, "TestC117_WaitersPollWhereSubscribingIsImpossible", true,
		},
		{
			"no-message", "every waiter waits for its poll",
			one("engine/wait.go", "p.wake(func(c *counts) { c.messages++; p.freed = freed }, lockstate.WakeMessage)", "_, _ = p, freed"),
			waitSuite, "TestWaiterIsServedByTheMessageOfARelease", false,
		},
		{
			"try-barges", "a Try overtakes those who wait",
			one("engine/internal/lockstate/queue.go", "return q.Standing() || q.head != nil && (q.wait != waitNot || q.ask != askInFlight)", "return false"),
			apiSuite, "TestTryNeverBargesPastThoseWhoWaitHere|TestTryOfALockHeldHereAnswersErrHeldWithoutACommand", false,
		},
		{
			"queue-without-bound", "a flood is taken in until memory ends",
			one("resp/lane.go", "if op.Kind == OpAcquire && l.full() {", "if false {"),
			"resp", "TestLaneWithAFullQueueRefusesAcquiresAndNothingElse", false,
		},
		{
			"token-bucket-off", "a server that comes back meets every repetition at once",
			one("resp/pacer.go", "return max(at, full.Add(-resendBurst*resendEvery))", "return at"),
			"resp", "TestPacerLetsABurstGoAtOnceAndTheRestAtItsRate|TestPacerNeverAllowsMoreThanItsRate", false,
		},
		{
			"batch-not-halved", "one forbidden name fails its whole batch",
			one("resp/answers.go", "if err.Class.perKey() && len(c.ops) > 1 {", "if false {"),
			"resp", "TestBatchThatIsRefusedForOneNameIsSplit", false,
		},
		{
			"answers-wait-for-others", "a lease is told when it is over, because another's command went again",
			one("resp/round.go", "\t\t\tl.publish()\n", "\t\t\t_ = l.publish\n"),
			faultSuite, "TestResultsWaitForOthersRounds", true,
		},
		{
			"replica-count-ignored", "a grant that too few replicas have seen is believed",
			one("engine/internal/lockstate/queue.go", "t.Lease == lease && t.Family == family && t.Replicas() <= seen", "t.Lease == lease && t.Family == family"),
			clusterSuite, "TestC081_WaitReplicasForMoreThanThereAre", true,
		},
		{
			"a-key-twice-in-a-batch", "COPY of a key onto itself, or two grants of one key",
			one("resp/batch.go", "if !seen.add(op) {", "if seen.add(op); false {"),
			"resp", "TestBatchIsCutAtADuplicateKey", false,
		},
	}
}

// handOff: a lock that passes from one caller of an engine to the next (P1).
func handOff() []mutant {
	return []mutant{
		{
			"hand-off-of-an-old-lease", "the next holder gets a deadline that is not worth having",
			one("engine/internal/lockstate/grant.go", "h.Deadline.Sub(h.Now) < h.Lease/2", "false"),
			waitSuite, "TestHandOffIsRefusedInTheLastHalfOfTheLease", false,
		},
		{
			"hand-off-with-a-command-in-flight", "a count on its way hits the next holder",
			[]edit{
				{"engine/internal/lockstate/grant.go", "case w.Changes() != nil && !w.Changes().settled():", "case false:"},
				{"engine/internal/lockstate/grant.go", "return w.count == 1 && (w.Changes() == nil || w.Changes().settling())", "return w.count == 1"},
			},
			waitSuite, "TestHandOffIsRefusedWhileACountIsOnItsWay", false,
		},
		{
			"hand-off-without-a-watchdog", "the next holder was promised a renewed lease",
			one("engine/internal/lockstate/grant.go", "case !w.terms.Watchdog || !h.Renewing:", "case !w.terms.Watchdog:"),
			waitSuite, "TestHandOffIsRefusedWhereItWouldNotBeAsSafe", false,
		},
		{
			"hand-off-to-another-lease", "the next holder gets another lease than it asked for",
			one("engine/internal/lockstate/terms.go", "&& t.Lease == o.Lease && t.Watchdog == o.Watchdog && t.MaxHold == o.MaxHold", "&& t.Watchdog == o.Watchdog"),
			waitSuite, "TestHandOffIsRefusedWhereItWouldNotBeAsSafe", false,
		},
		{
			"endless-turn", "waiters elsewhere are never served",
			one("engine/internal/lockstate/grant.go", "case w.grants >= tenureGrants || w.TenureOver(h.Now):", "case false:"),
			waitSuite, "TestForeignWaiterBesideSixtyFourBusyCallersGetsItsTurn", true,
		},
	}
}

// machines: what the model tests of the queue and the wire hold are for.
func machines() []mutant {
	const machine = "engine/internal/lockstate"
	queue := func(id, why, old, broken string) mutant {
		return mutant{id, why, one(machine+"/queue.go", old, broken), machine, "TestModelQueue", false}
	}
	hold := func(id, why, file, old, broken string) mutant {
		return mutant{id, why, one(machine+"/"+file, old, broken), machine, "TestModelWireHold", false}
	}
	return []mutant{
		queue("two-acquires-of-a-name", "one is sent while another is on its way", "q.releaseInFlight, q.ask == askInFlight, ", "q.releaseInFlight, "),
		queue("wake-up-sends-nothing", "a waiter is forgotten", "q.wait = waitWoken\n\treturn q.Next(), 0", "q.wait = waitWoken\n\treturn StepRest, 0"),
		queue("pause-is-cut-short", "courtesy is no use", "|| q.wait.paused() && kind != WakePause {", "{"),
		queue("kept-acquire-is-forgotten", "a copy that may still run is not asked for again", "if !keep {", "if true {"),
		{
			"waiter-is-refused", "one who was told busy is turned away",
			one("engine/internal/lockstate/queue.go", "if q.head.told {", "if q.wait != waitNot && q.head.told {"),
			faultSuite, "TestWaiterOutlastsAFullLaneAfterAHoldOfItsOwnEngine", true,
		},
		{
			"reader-beside-a-writer", "what an owner reads beside its write hold lets others in",
			one("engine/readwrite.go", "ent.First() != nil || ent.hold != nil || ", "ent.First() != nil || "),
			familySuite, "TestNobodyReadsBesideSomebodyElsesWriteHold", false,
		},
		{
			"newcomers-first", "no order among waiters",
			one(machine+"/waiter.go", "last.next, w.prev, q.head.prev = w, last, w", "w.prev, w.next, q.head.prev, q.head = last, q.head, w, w"),
			machine, "TestModelQueue", false,
		},
		hold("two-changes-of-a-count", "the later may run first", "changes.go", "for !n.busy && len(n.queue) > 0 {", "for len(n.queue) > 0 {"),
		hold("late-count-is-forgotten", "a late copy changes the next holder's count", "changes.go", "if !n.late.MayRunAfter(sentAt) {", "if true {"),
		{
			"refused-count-is-forgotten", "passed on with two on the wire",
			one("engine/internal/lockstate/grant.go", "case w.count != 1 || w.onWire != 1:", "case w.count != 1:"),
			"engine/internal/lockstate", "TestModelHandOverOnlyUnderEveryCondition", false,
		},
		hold("status-moves-twice", "lost and released", "grant.go", "return w.status.CompareAndSwap(uint32(Held), uint32(as))", "return w.status.Swap(uint32(as)) != uint32(as)"),
	}
}

// holders: what the holder and its engine do (P2, P9, P10).
func holders() []mutant {
	return []mutant{
		{
			"close-leaves-locks", "a service that restarts blocks itself for a lease",
			one("engine/loss.go", "if sc.eng.cfg.KeepOnClose {", "if true {"),
			apiSuite, "TestC173_CloseEndsThousandHeldThousandWaitingAndThousandInFlight", true,
		},
		{
			"max-hold-ignored", "a lease that was forgotten is renewed for ever",
			one("renew/watchdog.go", "if h.until != 0 && !now.Before(h.until) {", "if false {"),
			"renew", "TestC020_MaxHoldEndsTheRenewals", false,
		},
		{
			"second-connection-unused", "a connection that hangs costs every lock on it",
			one("renew/watchdog.go", "out.of(k, s).add(s, h.second())", "out.of(k, s).add(s, false)"),
			"renew", "TestFailedRenewalIsTriedAgainSoonOverTheOtherConnection", false,
		},
		{
			"cancel-and-grant-both-win", "one acquire has two results",
			one("engine/acquire.go", "if !op.claim() {\n\t\treturn false\n\t}\n\tsc := e.enterShard(sh)", "op.claim()\n\tsc := e.enterShard(sh)"),
			waitSuite, "TestC039_CancelAndGrantDecideWithOneResult", false,
		},
		{
			"owner-enters-what-it-lost", "an owner that lost a lock goes on as if it were fresh",
			one("engine/lock.go", "return o.lost[ownedName{e, key}] > 0", "return false"),
			familySuite, "TestC049_EnteringALostLockAgainIsErrLost", false,
		},
	}
}

// cluster: slots that move.
func cluster() []mutant {
	return []mutant{
		{
			"moved-not-followed", "locks of a slot that moved are refused",
			one("resp/redirect.go", "\t\tcase addr != \"\":\n\t\t\treturn ns.learn", "\t\tcase addr == from.Addr():\n\t\t\treturn ns.learn"),
			"resp", "TestClusterMovedIsFollowedAndLearnt", false,
		},
		{
			"moved-not-learnt", "every command of a slot that moved is refused once more",
			one("resp/redirect.go", "return ns.learn(op.Slot, addr), false, false", "return ns.member(addr), false, false"),
			"resp", "TestClusterMovedIsFollowedAndLearnt", false,
		},
		{
			"ask-without-asking", "locks of a slot that is moving are refused",
			one("resp/redirect.go", "return ns.member(addr), true, true", "return ns.member(addr), true, false"),
			clusterSuite, "TestClusterReleaseAndReentryFollowAMovingKey", true,
		},
		{
			"renewal-stays-behind", "a lock of a slot that moved is lost",
			one("renew/watchdog.go", "h.next = now\n\tdefault:", "h.next = now.Add(h.Lease())\n\tdefault:"),
			"renew", "TestMovedRenewalGoesToItsNewNodeAtOnce", false,
		},
		{
			"waiter-stays-behind", "a waiter listens where its name is served no more",
			one("engine/wait.go", "if p.sub == nil || p.at == sc.eng.nodes.Owner(p.ent.slot) {", "if true {"),
			clusterSuite, "TestClusterWaiterFollowsItsSlotAndHearsTheRelease", true,
		},
	}
}
