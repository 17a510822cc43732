package main

// overloads: more than a server can do costs time, and nothing else.
func overloads() []mutant {
	const queue, lane, beyond, held = "resp/queue.go", "resp/lane.go", "TestWhatIsBeyondTheBoundStaysInTheQueue", "TestAcquiresAreHeldBackAndNothingElse"
	return []mutant{
		{
			"run-without-bound", "a burst that a slow server cannot finish in time ends unknown",
			one(queue, "return releases, s, min(acquires, rest-s)", "return releases, s, acquires"), "resp", beyond, false,
		},
		{
			"bound-never-shrinks", "each write to a slow server ends unknown",
			one(queue, "case took >= limit/4:", "case took >= 4*limit:"), "resp", "TestTheBoundShrinksToWhatAnEighthOfTheLimitCovers", false,
		},
		{
			"bound-never-grows", "a hiccup makes a lane slow for ever",
			one(queue, "case ops >= b.ops && took", "case ops > b.ops && took"), "resp", "TestTheBoundGrowsWhileFullRunsAreQuick", false,
		},
		{
			"bound-collapses", "one moment of a server that stands still costs a lane its throughput",
			one(queue, "min(int(fits), b.ops), b.ops/4, ", "min(int(fits), b.ops), "), "resp", "TestTheBoundShrinksToWhatAnEighthOfTheLimitCovers", false,
		},
		{
			"bound-learns-nothing", "the lane never measures",
			one("resp/round.go", "\tl.learn(replies, l.received.Sub(sentAt))\n", ""),
			"resp", "TestALaneLearnsHowMuchItMaySend", false,
		},
		{
			"acquire-overtakes-releases", "an acquire asks for what its own engine has not given back yet",
			one(queue, "\t\treturn b.ops, 0, 0\n", "\t\treturn b.ops / 2, 0, b.ops / 2\n"), "resp", "TestARunIsSharedByUrgency", false,
		},
		{
			"singles-starve-acquires", "who extends without end keeps everybody from acquiring",
			one(queue, "rest-min(acquires, (rest+2)/4))", "rest)"), "resp", "TestARunIsSharedByUrgency", false,
		},
		{
			"singles-starve-acquires-of-small-runs", "who extends without end keeps everybody from acquiring where a run has room for two",
			one(queue, "(rest+2)/4", "rest/4"), "resp", "TestASmallRunHasAPlaceForAnAcquireBesideSingleOps", false,
		},
		{
			"left-ops-are-lost", "what a write does not carry is never answered",
			one(lane, "\tl.oldest, l.begun = oldest, now\n", "\tl.queue.acquires = fifo{}\n\tl.oldest, l.begun = oldest, now\n"), "resp", beyond, false,
		},
		{
			"swept-ops-are-sent", "what was taken back while acquires are held back is answered when they go on",
			one(lane, "l.dropped = l.queue.acquires.sweep(l.dropped[:0])", "l.dropped = l.dropped[:0]"), "resp", held, false,
		},
	}
}

// urgency: what is held comes before what is new.
func urgency() []mutant {
	const lane, sender, times, held = "resp/lane.go", "renew/sender.go", "renew/time.go", "TestAcquiresAreHeldBackAndNothingElse"
	return []mutant{
		{
			"renewals-wait-for-acquires", "new holds are asked for that the server cannot renew",
			one(lane, "now.Before(clock.Instant(until)) && !l.closed", "false && !l.closed"), "resp", held, false,
		},
		{
			"held-back-for-ever", "acquires that were held back are not sent any more",
			one(lane, "\tdefault:\n\t\tl.asleep = false\n\t\tl.wake.Ring()\n", "\tdefault:\n"), "resp", held, false,
		},
		{
			"a-closed-lane-holds-back", "Close waits for acquires that are held back",
			one(lane, " && !l.closed && !l.cut.Load()", ""), "resp", held, false,
		},
		{
			"renewals-in-the-order-of-their-coming", "short leases end behind many long ones",
			one("renew/urgency.go", "cmp.Or(cmp.Compare(b.deadline, a.deadline), ", "cmp.Or("),
			"renew", "TestShortLeasesDoNotWaitBehindLongOnes", false,
		},
		{
			"renewals-in-the-order-of-their-batches", "short leases end behind many long ones that came before",
			one("renew/urgency.go", "if !a[0].deadline.After(b[0].deadline) {", "if false {"), "renew", "TestUrgencyGivesTheEarliestDeadlineFirst", false,
		},
		{
			"renewed-holds-stay-in-memory", "what was released is kept from the collector",
			one("renew/urgency.go", "\tclear(u.sorted)\n", ""), "renew", "TestUrgencyForgetsWhatItGave", false,
		},
		{
			"late-renewals-hold-nobody-back", "the engine asks for more while it cannot renew what it has",
			one(sender, "if late && renewed && !s.retry ||", "if false && late && renewed && !s.retry ||"), "renew", "TestShortLeasesDoNotWaitBehindLongOnes", false,
		},
		{
			"refused-renewals-hold-back", "acquires wait for renewals that are refused",
			one(sender, "late && renewed && !s.retry ||", "late && (renewed || true) && !s.retry ||"), "renew",
			"TestAcquiresAreHeldBackForRenewalsWithoutAnAnswerAndNotForThoseRefused", false,
		},
		{
			"unanswered-renewals-hold-nobody-back", "a server gives its time to acquires, and held locks are lost",
			one(sender, "timedOut && !hangs {", "false && !hangs {"), "renew",
			"TestAcquiresAreHeldBackForRenewalsWithoutAnAnswerAndNotForThoseRefused", false,
		},
		{
			"one-hung-connection-holds-back", "acquires starve though the server is idle, because one connection for renewals hangs",
			one(sender, "timedOut && !hangs {", "timedOut && (!hangs || true) {"), "renew", "TestAcquiresAreNotHeldBackForOneConnectionThatHangs", false,
		},
		{
			"a-slow-line-holds-back", "acquires over a slow line wait for renewals that are in time",
			one(times, "min(lease/4, time.Second)", "lease/24"), "renew", "TestManyKindsOfHoldsAreKeptOverASlowLine", false,
		},
	}
}

// renewalCalls: what travels together, and what an answer is the answer to.
func renewalCalls() []mutant {
	return []mutant{
		{
			"kinds-one-after-the-other", "held locks are lost on a slow line, if they are of more kinds than travel together",
			one("resp/renewal.go", "n < len(parts) && work < MaxRenewWork; n++", "n < len(parts) && n < 16; n++"), "resp", "TestManyKindsOfRenewalsAreOneRoundTrip", false,
		},
		{
			"calls-of-many-permits", "held permits are lost on a slow line: a call of them takes many round trips",
			one("renew/sender.go", "work+next.work, next.due", "work+1, next.due"), "renew", "TestACallIsBoundedByItsWork", false,
		},
		{
			"late-answer-starts-a-second-chain", "a hold is renewed twice and three times in each period, by three calls at once",
			one("renew/hold.go", "h.attempt != noAttempt && a.SentAt.Before(h.next)", "false"), "renew",
			"TestALateAnswerIsNotThatOfTheNextRenewal", false,
		},
		{
			"planned-though-released", "the watchdog looks for ever at a lock that was released while it made its plans",
			one("renew/watchdog.go", "h.gone() { // see reschedule", "false && h.gone() {"), "renew",
			"TestWhatChangedAfterAFiringTookItOut", false,
		},
		{
			"many-wake-nobody", "holds whose next looks were planned together are looked at too late",
			one("wheel/set.go", "\t\talarm = min(alarm, s.scheduleSome(some))\n", "\t\talarm = s.scheduleSome(some[:0])\n\t\ts.scheduleSome(some)\n"), "wheel",
			"TestSchedule", false,
		},
		{
			"late-answer-proves-nothing", "a hold is lost though the server has renewed it",
			one("renew/watchdog.go", "\t\tk.proves(h, a.SentAt, t.lease, now)\n", "\t\t_ = k\n"), "renew",
			"TestALateAnswerProvesWhatItProves", false,
		},
		{
			"renewed-by-the-other-connection", "what one connection has renewed is sent over the other one, too, once it gets there",
			one("renew/watchdog.go", "return h.gone() || h.attempt == noAttempt", "return h.gone()"), "renew",
			"TestWhatTheOtherConnectionHasRenewedIsNotSent", false,
		},
	}
}
