package main

// telling: what callers are told, by results, events, contexts and counters, is what has happened (P2).
func telling() []mutant {
	return []mutant{
		{
			"loss-told-as-release", "who gives back what somebody else has by now is told that all is well",
			one("engine/release.go", "if op.retry != nil && op.retry.unknown {\n\t\treturn nil", "if op.retry == nil || op.retry.unknown {\n\t\treturn nil"),
			"engine", "TestSimCorpus", false,
		},
		{
			"extend-without-effect", "an Extend is told to have worked, and the holder does not trust it",
			one("engine/lease.go", "over = !e.watchdog.Extended(h, r.SentAt, x.lease)", "over = !e.watchdog.Extended(h, r.SentAt, 0*x.lease)"),
			"engine", "TestSimCorpus", false,
		},
		{
			"force-always-took", "who takes away a lock that nobody has is told that there was one",
			one("engine/force.go", "return op.indeterminate.Until != 0, nil", "return true, nil"),
			"engine", "TestSimCorpus", false,
		},
		{
			"failed-renewal-is-a-loss", "one renewal without an answer ends a lock that is held",
			one("renew/watchdog.go", "\tdefault:\n\t\tt.failed++\n", "\tdefault:\n\t\tt.lost, t.causes = append(t.lost, s), append(t.causes, CauseNotOurs)\n\t\tt.failed++\n"),
			"engine", "TestSimCorpus", false,
		},
		{
			"hand-off-is-not-told", "the stream of events knows nothing of who was handed a lock",
			one("engine/release.go", "\tsc.grant(op, ls, with.Now, with.Now)\n", "\top.value = ls\n\tsc.waited(op, with.Now, with.Now)\n\tsc.results.Add(&op.Waiter)\n"),
			"engine", "TestSimCorpus", false,
		},
		{
			"loss-is-told-twice", "whoever counts by the events counts a lock that is lost twice",
			one("engine/loss.go", "\tsc.eng.tell(EventLost, h, causeText(l.cause))\n", "\tsc.eng.tell(EventLost, h, causeText(l.cause))\n\tsc.eng.tell(EventLost, h, causeText(l.cause))\n"),
			"engine", "TestSimCorpus", false,
		},
		{
			"close-tells-of-one-handle", "after Close the events still hold all but one handle of a lock, or hold less than none",
			one("engine/loss.go", "for range h.Handles() { // those", "for range 1 { // those"),
			"engine", "TestCloseTellsOfEachHandleThatItGivesBack", false,
		},
		{
			"jeopardy-of-what-is-over", "jeopardy is told of a lock that was given back or lost before",
			one("engine/loss.go", "held := h.Held() && h.Handles() > 0", "held := h.Handles() > -1"),
			"engine", "TestNoJeopardyIsToldOfWhatIsOver", false,
		},
	}
}

// tellingLate: what is told late, twice or not at all.
func tellingLate() []mutant {
	return []mutant{
		{
			"over-is-held-to-read", "an owner holds to read what has ended, until the watchdog comes to it",
			one("engine/readwrite.go", "h.Held() && ent.eng.clock.Now().Before(h.Deadline()) {", "h.Held() {"),
			"engine", "TestALeaseThatIsOverIsNotHeldAndHasNoContextBeforeTheWatchdogComesToIt", false,
		},
		{
			"only-one-kind-is-held", "an owner does not hold what another kind of the name was taken beside",
			one("engine/reentry.go", "\t\th := at.hold\n\t\tif h != nil && h.owner == o &&", "\t\th := at.hold\n\t\tif h != nil && h.owner == o {\n\t\t\thandles = 0\n\t\t}\n\t\tif h != nil && h.owner == o &&"),
			"engine", "TestAnOwnerIsToldOfEachKindOfLockThatItHoldsUnderAName", false,
		},
		{
			"reader-that-left-is-counted", "an owner holds to read what it has given back, while others read by the same hold",
			one("engine/readwrite.go", "h.extra.readers[ls.owner]--", "h.extra.readers[ls.owner] += 0"),
			"engine", "TestSimCorpus", false,
		},
		{
			"late-context-lives-on", "a context that is asked for when its lease is over has not ended",
			one("engine/lease.go", "if ls.Lost() {\n\t\tc.cancel", "if ls.state.Load() == leaseLost || ls.hold.Status() == lockstate.Lost {\n\t\tc.cancel"),
			"engine", "TestALeaseThatIsOverIsNotHeldAndHasNoContextBeforeTheWatchdogComesToIt", false,
		},
		{
			"context-of-a-lost-lease-lives-on", "a context that is asked for after the loss never ends",
			one("engine/lease.go", "if ls.Lost() {\n\t\tc.cancel", "if ls.state.Load() == leaseLost {\n\t\tc.cancel"),
			"engine", "TestSimCorpus", false,
		},
		{
			"pass-on-to-nobody-is-a-hand-off", "more hand-offs are counted than grants",
			one("engine/release.go", "sc.sh.counts.handOffs += sc.sh.counts.grants - before", "sc.sh.counts.handOffs += 1 + 0*before"),
			"engine", "TestAGrantThatIsPassedOnAndNotBelievedIsNoHandOff", false,
		},
		{
			"reentry-is-no-grant", "the counters of grants and releases drift apart",
			one("engine/reentry.go", "\t\tsc.sh.counts.grants++\n\t\tls := &Lease{hold: h,", "\t\tls := &Lease{hold: h,"),
			"engine", "TestSimCorpus", false,
		},
	}
}

// lasting: how long a lease lasts, and is told to last.
func lasting() []mutant {
	return []mutant{
		{
			"max-hold-ends-at-half", "MaxHold ends a hold too early",
			one("engine/attempt.go", "terms.Until = r.ReceivedAt.Add(limit)", "terms.Until = r.ReceivedAt.Add(limit / 2)"),
			"engine", "TestAMaxHoldEndsNothingBeforeItsTime", false,
		},
		{
			"loss-told-at-three-quarters", "a lease is told to be lost long before it is",
			one("renew/time.go", "return min(bucket+25*time.Millisecond, lease/4)", "return max(bucket+25*time.Millisecond, lease/4)"),
			"engine", "TestSimCorpus", false,
		},
		{
			"fixed-lease-is-trusted-for-half", "a fixed lease ends long before it was granted for",
			one("renew/watchdog.go", "\th.deadline.Store(int64(TrustUntil(t.SentAt, t.Lease)))\n\tif !t.Renew {\n", "\th.deadline.Store(int64(TrustUntil(t.SentAt, t.Lease)))\n\tif !t.Renew {\n\t\th.deadline.Store(int64(TrustUntil(t.SentAt, t.Lease/2)))\n"),
			"engine", "TestSimCorpus", false,
		},
		{
			"stopped-handle-is-cut-short", "who stops its renewals while others go on has its lease for half as long as it was promised",
			one("engine/wish.go", "w.until, w.trusted = 0, min(deadline, renew.TrustUntil(now, w.set.Lease))", "w.until, w.trusted = 0, min(deadline, renew.TrustUntil(now, w.set.Lease/2))"),
			"engine", "TestWhoStopsBesideALongerLeaseIsTrustedForItsOwn", false,
		},
		{
			"stopped-trusts-what-others-had", "who stopped goes on trusting what was renewed for somebody else",
			one("engine/wish.go", "w.until, w.trusted = 0, min(deadline, renew.TrustUntil(now, w.set.Lease))", "w.until, w.trusted = 0, renew.TrustUntil(now, 4*w.set.Lease)"),
			"engine", "TestWhoStopsBesideALongerLeaseIsTrustedForItsOwn", false,
		},
		{
			"renewal-raises-who-stopped", "who stopped trusts what a renewal brings that was on its way then",
			one("renew/watchdog.go", "\tif h.Renewing() {\n\t\th.raise(", "\tif true {\n\t\th.raise("),
			"engine", "TestARenewalThatIsOnItsWayProlongsNothingThatHasStopped", false,
		},
		{
			"remaining-is-the-lease", "who is refused is told the holder's whole lease, and not what is left",
			one("engine/wait.go", "return max(ent.hold.Deadline().Sub(now), 0)", "return max(ent.hold.Lease(), 0)"),
			"engine", "TestSimCorpus", false,
		},
		{
			"busy-until-is-doubled", "who is refused is told twice what the holder has left",
			one("engine/attempt.go", "until = r.ReceivedAt.Add(fromServerMs(r.Value))", "until = r.ReceivedAt.Add(2 * fromServerMs(r.Value))"),
			"engine", "TestSimCorpus", false,
		},
		{
			"readers-join-for-ever", "writers elsewhere wait for as long as there are readers here",
			one("engine/readwrite.go", " || !h.shareable(op.set, now) ||\n\t\th.TenureOver(now) {", " || !h.shareable(op.set, now) {"),
			"engine", "TestReadersJoinOthersForATurnAndThenAskTheServer", false,
		},
		{
			"readers-join-before-a-writer", "a reader overtakes the writer of its own engine that waits",
			one("engine/readwrite.go", "ent.children() == nil || ent.First() != nil || ent.hold != nil", "ent.children() == nil || ent.hold != nil"),
			"engine", "TestSimCorpus", false,
		},
		{
			"close-leaves-read-locks", "what a closed engine has read stays locked until it expires",
			one("engine/engine.go", "if h := ent.hold; h != nil {\n\t\t\tcontexts", "if h := ent.hold; h != nil && ent.root() == ent {\n\t\t\tcontexts"),
			"engine", "TestSimCorpus", false,
		},
		{
			"close-forgets-what-it-has", "a closed engine says that it has given everything back, and the locks stay until they expire",
			one("engine/loss.go", "_, _ = sc.sendRelease(newReleaseOp(h)) // nobody", "h.End(lockstate.Released)\n\tsc.eng.watchdog.Forget(h)\n\th.ent.freed(h) // nobody"),
			apiSuite, "TestC173_CloseEndsThousandHeldThousandWaitingAndThousandInFlight", false,
		},
	}
}
