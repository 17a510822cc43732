package main

// edges: what a caller meets first: durations, Close, errors, and what Open refuses.
func edges() []mutant {
	return []mutant{
		{
			"duration-is-cut", "a lease is shorter than what was asked for",
			one("engine/options.go", "if rounded < d {", "if false {"),
			"engine", "TestADurationIsRoundedUpAndNeverPastItsBounds", false,
		},
		{
			"over-becomes-a-millisecond", "a MaxWait that is over waits",
			one("engine/options.go", "rounded := d.Truncate(time.Millisecond)\n\tif rounded < d {",
				"rounded := d.Truncate(time.Millisecond)\n\tif rounded <= d {"),
			"engine", "TestADurationIsRoundedUpAndNeverPastItsBounds", false,
		},
		{
			"elapsed-is-a-bad-option", "a caller whose deadline has passed is told of a bad option alone",
			one("engine/options.go", "if d <= 0 {", "if false {"),
			apiSuite, "TestAMaxWaitThatIsOverIsToldAsTheEndOfTime", false,
		},
		{
			"alert-unread", "a certificate that a server refuses is a broken pipe",
			one("resp/guard.go", "return n, w.alert(err)", "return n, err"),
			"resp", "TestAWriteThatFailsSaysWhyTheServerRefusesTheCertificate", false,
		},
		{
			"no-grace", "a service that a signal ends leaves its locks to their leases",
			one("engine/engine.go", "if err == nil || left <= 0 ||", "if true ||"),
			faultSuite, "TestASignalLeavesNoLockBehind", false,
		},
		{
			"grace-beside-a-deadline", "Close takes longer than its caller allows",
			one("engine/engine.go", "errors.Is(err, context.DeadlineExceeded) && !c.ended {", "false {"),
			faultSuite, "TestCloseGraceBesideACtxThatEndsLater", false,
		},
		{
			"grace-counts-from-the-end", "Close takes longer than CloseGrace says",
			one("engine/engine.go", "closeGrace) - e.clock.Now().Sub(c.began)", "closeGrace)"),
			faultSuite, "TestCloseGraceBesideACtxThatEndsLater", false,
		},
		{
			"silence-by-default", "nobody is told of trouble unless somebody asked for a logger",
			one("engine/engine.go", "if cfg.Logger == nil {", "if false {"),
			"engine", "TestWithoutALoggerTroubleGoesToTheDefaultOne", true,
		},
		{
			"asides-by-default", "the program's log has what needs nobody's attention",
			one("engine/engine.go", "return level >= slog.LevelWarn && ", "return "),
			"engine", "TestWithoutALoggerTroubleGoesToTheDefaultOne", false,
		},
	}
}

// errorsTold: what an error says, and what may be tried again.
func errorsTold() []mutant {
	return []mutant{
		{
			"bare-deadline", "who gives up is not told who was in the way",
			one("engine/acquire.go", "return &WaitError{op.lock.Name(), cause, state}", "_ = state\n\treturn &WaitError{op.lock.Name(), cause, nil}"),
			waitSuite, "TestWhoGivesUpIsToldWhoWasInTheWay", false,
		},
		{
			"bare-deadline-of-several", "the same, of several locks",
			one("engine/gather.go", "cause: ended.cause, state: known()}", "cause: ended.cause}"),
			waitSuite, "TestWhoGivesUpSeveralLocksIsToldWhichWasInTheWay", false,
		},
		{
			"holder-of-long-ago", "who waited is told of a holder whose time is over, though the server only refuses since",
			one("engine/wait.go", "return ent.ToldBusy(now) && !ent.doubted(now)", "return ent.ToldBusy(now)"),
			waitSuite, "TestWhoGivesUpIsToldWhatTheServerSaid", false,
		},
		{
			"holder-is-not-named", "nobody can say which caller of its own engine has the lock",
			one("engine/acquire.go", "err.Holder, err.here, err.last = h.ownerID(), true, nil", "err.last = nil"),
			waitSuite, "TestWhoGivesUpIsToldWhoWasInTheWay", false,
		},
		{
			"last-answer-is-not-told", "a replica looks like a holder that stays",
			one("engine/errors.go", "if e.last == nil {\n\t\treturn []error{ErrHeld}\n\t}", "if true {\n\t\treturn []error{ErrHeld}\n\t}"),
			waitSuite, "TestWhoGivesUpIsToldWhatTheServerSaid", false,
		},
		{
			"work-is-repeated", "a Do whose function failed is called safe to try again",
			one("engine/errors.go", "case errors.As(err, &ran), errors.As(err, &ended),", "case errors.As(err, &ran) && false, errors.As(err, &ended),"),
			waitSuite, "TestSafeToRetryOfADoThatHasRun", false,
		},
		{
			"end-of-ctx-is-retried", "a caller whose ctx has ended tries for ever",
			one("engine/errors.go", "return !errors.Is(err, context.Canceled) && ", "return true || "),
			"engine", "TestSafeToRetryFollowsTheTableOfErrors", false,
		},
		{
			"loss-is-retried", "a lost lease is called safe to try again",
			one("engine/errors.go", "return errors.As(err, &refused)", "_ = refused\n\t\treturn true"),
			"engine", "TestSafeToRetryFollowsTheTableOfErrors", false,
		},
		{
			"retries-come-together", "who was refused together comes back together",
			one("engine/errors.go", "return pause/2 + rand.N(pause)", "_ = rand.N(pause)\n\treturn pause"),
			"engine", "TestRetryAfterIsAPauseWhereThereIsAReason", false,
		},
	}
}

// opening: what Open and Ping refuse.
func opening() []mutant {
	return []mutant{
		{
			"replica-is-ready", "Ping says that a server is ready which takes no writes",
			one("resp/node.go", "n.refusal(names[1:], all[1:])", "n.refusal(names[:1], all[:1])"),
			apiSuite, "TestOpenAndPingRefuseAServerThatTakesNoWrites", false,
		},
		{
			"open-on-a-replica", "a process starts on a server that gives no locks",
			one("engine/engine.go", "if !resp.RefusesWrites(err) {", "if true {"),
			apiSuite, "TestOpenAndPingRefuseAServerThatTakesNoWrites", false,
		},
		{
			"full-is-ready", "a server without memory is taken for one that gives locks",
			one("resp/writable.go", "case limit > 0 && info", "case limit < 0 && info"),
			apiSuite, "TestOpenAndPingRefuseAServerThatTakesNoWrites", false,
		},
		{
			"asks-what-it-may-not", "each Ping is a refused command in the server's log",
			one("resp/writable.go", "n.infoFrom.Store(again)", "_ = again"),
			apiSuite, "TestPingOfAUserWithoutTheRightToInfoAsksOnce", false,
		},
		{
			"tls-waits-for-plain", "TLS to a server of plain text is a timeout",
			one("resp/speaks.go", "if speaksPlain(asking, wrapped.RemoteAddr()) {", "if false {"),
			apiSuite, "TestOpenSaysAtOnceWhatIsTheMatter", false,
		},
		{
			"plain-to-tls-is-eof", "plain text to a server of TLS is the end of a file",
			one("engine/config.go", "case silent && security == nil &&", "case silent && security == nil && false &&"),
			apiSuite, "TestOpenSaysAtOnceWhatIsTheMatter", false,
		},
		{
			"several-are-one-silence", "of several addresses nobody says what is the matter with each",
			one("engine/config.go", "failures := resp.Failures(err)\n", "failures := resp.Failures(err)[:0]\n"),
			apiSuite, "TestOpenSaysAtOnceWhatIsTheMatter", false,
		},
		{
			"firewall-accepts", "a dial that nobody answers is a server that accepts connections",
			one("engine/config.go", "network.Op == \"dial\" && network.Timeout():", "network.Op == \"dial\" && false:"),
			apiSuite, "TestOpenSaysThatNobodyAnswersToADial", false,
		},
		{
			"any-server-may-be-redis", "a web server is a connection that failed",
			one("engine/config.go", "case errors.Is(err, resp.ErrReply):\n\t\treturn at", "case false:\n\t\treturn at"),
			apiSuite, "TestOpenSaysAtOnceWhatIsTheMatter", false,
		},
		{
			"any-client-is-taken", "a client that sends twice is used",
			one("engine/config.go", "if broken := brokenOption(cfg.Client); broken != \"\" {", "if broken := brokenOption(cfg.Client); false {"),
			"engine", "TestAGivenClientOfOtherOptionsIsRefusedByTheirName", false,
		},
		{
			"client-of-one-server-is-taken", "the same, of a single server",
			one("engine/borrowed.go", "return brokenSingle(v)", "_ = brokenSingle\n\treturn \"\""),
			"engine", "TestAGivenClientOfOtherOptionsIsRefusedByTheirName", false,
		},
	}
}

// shared: what is used again, or told from something else, because it costs less.
func shared() []mutant {
	return []mutant{
		{
			"settings-unshared", "each held lock keeps settings of its own",
			one("engine/options.go", "before != nil && *before == *set", "false"),
			"engine", "TestHandlesMadeAlikeShareTheirSettings", false,
		},
		{
			"settings-keep-an-owner", "an owner that nobody knows any more stays in memory",
			one("engine/options.go", " || set.owner != nil {", " {"),
			"engine", "TestHandlesMadeAlikeShareTheirSettings", false,
		},
		{
			"number-of-before", "a lock is taken with the lease of another",
			one("resp/batch.go", "if d.text == \"\" || d.n != n {", "if d.text == \"\" {"),
			"resp", "TestANumberIsWrittenAsItIsAndNotAsTheLastOne", false,
		},
		{
			"suspend-unseen", "a lease is believed for as long as the machine slept",
			one("internal/clock/tie.go", "if jump > tieSlack || jump < -tieSlack {", "if jump == 1 {"),
			"internal/clock", "TestASuspendIsSeenAtOnce", false,
		},
		{
			"boot-clock-never-asked", "a suspend that a step of the wall clock hides is never seen",
			one("internal/clock/tie.go", "since > tieEvery || since < -tieEvery", "since < -tieEvery"),
			"internal/clock", "TestAHiddenSuspendIsSeenWithinATenthOfASecond", false,
		},
		{
			"tied-clock-behind", "an alarm fires before its time",
			one("internal/clock/tie.go", "tied = most\n", "tied = least\n"),
			"internal/clock", "TestTheTiedClockNeverGoesBackAndIsNeverBehind", false,
		},
		{
			"tied-by-a-test", "a test with clocks of its own moves everybody's clock",
			one("internal/clock/tie.go", "tied < least || tied > most+tieFar {", "tied < least {"),
			"internal/clock", "TestTheClocksOfATestAreNotTheMachines", false,
		},
		{
			"bell-left-behind", "a caller is told that there is a result before there is one",
			one("engine/future.go", "	case <-ctx.Done(): // the result may still ring it\n", "	case <-ctx.Done():\n\t\tparked.Put(w)\n"),
			"engine", "TestABellServesOneWaiterAfterTheOther", false,
		},
	}
}
