package main

// endings: how holds end, by Close, by a loss and by their holders (P2, P10).
func endings() []mutant {
	return []mutant{
		{
			"close-in-two-steps", "what comes between the end of the changes and the release hangs, or crashes",
			one("engine/loss.go",
				"_, _ = sc.sendRelease(newReleaseOp(h))", "e := sc.eng\n\tsc.more = append(sc.more, func() {\n\t\tlater := e.enter(h.ent.hash)\n\t\t_, _ = later.sendRelease(newReleaseOp(h))\n\t\tlater.unlock()\n\t})"),
			"engine", "TestAHandleGivenBackWhileCloseTellsIsAnswered", true,
		},
		{
			"second-close-waits-inside", "a Close that the first one calls waits for it",
			[]edit{
				{"engine/engine.go", "\tif e.closing.CompareAndSwap(false, true) {\n\t\te.stopAdmitting()", "\te.closer.Lock()\n\tdefer e.closer.Unlock()\n\tif e.closing.CompareAndSwap(false, true) {\n\t\te.stopAdmitting()"},
				{"engine/core.go", "\tsettled  *world.Bell  ", "\tcloser   sync.Mutex\n\tsettled  *world.Bell  "},
			},
			"engine", "TestASecondCloseDoesNotWaitInsideTheFirst", true,
		},
		{
			"first-close-decides", "who closes with a context without end hears that callbacks have not returned, as the first call was told",
			one("internal/callback/pool.go", "\tif !over {\n\t\tp.waitIdle(context.Background(), idle)\n\t}\n", "\t_ = over\n"),
			apiSuite, "TestEachCloseWaitsForCallbacksAsItsOwnContextAllows", false,
		},
		{
			"loss-remembered-when-told", "an owner that gives back while it is told is locked out, or enters anew",
			[]edit{
				{"engine/loss.go", "\th.owner.remember(sc.eng, h.ent.key, h.Count())\n\tif", "\tif"},
				{"engine/loss.go", "\tsc.eng.tell(EventLost, h, causeText(l.cause))\n", "\tsc.eng.tell(EventLost, h, causeText(l.cause))\n\th.owner.remember(sc.eng, h.ent.key, h.Count())\n"},
			},
			"engine", "TestSimCorpus", false,
		},
		{
			"loss-opens-the-queue-first", "the next holder here begins before the last one is told",
			[]edit{
				{"engine/loss.go", "\tif h.ent.freed(h) {\n\t\tsc.advanceAll(h.ent)\n\t}\n\tsc.answered()", "\tsc.answered()"},
				{"engine/loss.go", "\t\tsc.lostOne(h)\n\t}\n", "\t\tsc.lostOne(h)\n\t}\n\tif h.ent.freed(h) {\n\t\tsc.advanceAll(h.ent)\n\t}\n"},
			},
			"engine", "TestTheHolderIsToldBeforeTheNextHereHasTheLock", false,
		},
		{
			"unknown-give-back-is-out", "an owner that gave everything back is locked out for ever",
			one("engine/internal/lockstate/changes.go", "if c.Enter == nil && c.Extend == nil && !c.Settles {", "if c.Leave != nil {"),
			"engine", "TestAGiveBackOfUnknownOutcomeIsNoHandleOfALostLock|TestAnEntryThatNobodyWantsIsNoHandleOfALostLock", false,
		},
	}
}

// handles: how a Do, a handle and a context end (P2, P10).
func handles() []mutant {
	return []mutant{
		{
			"do-owns-every-lock", "goroutines inside one Do are in every other lock at once",
			one("engine/lock.go", "ls := d.lease; ls != nil && ls.isOf(l) {", "ls := d.lease; ls != nil {"),
			apiSuite, "TestDoIsNoOwnerOfOtherLocks", false,
		},
		{
			"do-forgets-the-one-around-it", "the outer lock of nested Dos waits for itself",
			one("engine/lock.go", "for at := d; at != nil; at = at.outer {", "for at := d; at == d; at = at.outer {"),
			apiSuite, "TestBothLocksOfNestedDosMayBeEnteredAgain", false,
		},
		{
			"do-owns-after-its-end", "what a Do has left running is not excluded by the next",
			one("engine/lock.go", " && ls.state.Load() == leaseActive {\n\t\t\treturn ls.owner", " {\n\t\t\treturn ls.owner"),
			apiSuite, "TestADoThatIsOverIsNoOwner", false,
		},
		{
			"stop-renewing-in-two-steps", "a handle that is given back stops the next holder's renewals",
			[]edit{
				{"engine/lease.go", "func (ls *Lease) StopRenewing() {\n", "func (ls *Lease) StopRenewing() {\n\tactive := ls.state.Load() == leaseActive\n\ttime.Sleep(time.Millisecond)\n"},
				{"engine/lease.go", "if ls.state.Load() == leaseActive && ls.hold", "if active && ls.hold"},
			},
			"engine", "TestStopRenewingBesideAReleaseStopsNobodyElse", false,
		},
		{
			"ended-contexts-hang-on", "what one holder asks for late hangs on the next one's hold",
			one("engine/lease.go", "	default: // an ended one hangs on nothing: the hold may be somebody else's by now\n		m := h.ensureExtra()\n		c.next, m.watch = m.watch, c\n	}\n", "	}\n	m := h.ensureExtra()\n	c.next, m.watch = m.watch, c\n"),
			"engine", "TestAContextOfALeaseThatIsOverHangsOnNothing", false,
		},
		{
			"jeopardy-counts-the-rest", "a healthy lock is reported in jeopardy when its renewals go on",
			one("renew/watchdog.go", "		h.sentAt, h.jeopardy = max(h.sentAt, now), false // its periods begin anew\n", ""),
			"renew", "TestRenewalsThatGoOnPutNobodyInJeopardy", false,
		},
		{
			"campaign-enters-again", "two terms of one owner run at once",
			one("engine/election/election.go", "el.lock.With(engine.As(engine.NewOwner())).Acquire(ctx)", "el.lock.Acquire(ctx)"),
			"engine/election", "TestOneLeadsThoughCampaignsShareAnOwner", false,
		},
		{
			"close-waits-for-its-caller", "a callback that closes the engine waits for itself",
			one("engine/engine.go", "if callback.Inside() {", "if false {"),
			"engine", "TestCloseCalledByACallbackReturns|TestCallbacksMayCloseEachOthersEngines", true,
		},
	}
}
