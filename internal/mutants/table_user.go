package main

// user: the code of others that the engine calls, and the packages it stands on, cannot stop it; and many
// holds taken at once are no peak of renewals.
func user() []mutant {
	const journal, pool, contexts = "internal/callback/log.go", "internal/callback/pool.go", "internal/callback/context.go"
	return []mutant{
		{
			"logger-asked-by-the-watchdog", "a logger that blocks in Enabled stops all renewals",
			one("engine/core.go", "\te.callbacks.Say(level, text, args...)", "\tif e.cfg.Logger != nil && e.cfg.Logger.Enabled(context.Background(), level) {\n\t\te.callbacks.Say(level, text, args...)\n\t}"),
			"engine", "TestALoggerThatBlocksPanicsOrEndsItsGoroutineStopsNothing/BlocksInEnabled", true,
		},
		{
			"logger-hears-of-its-own-panic", "a logger that panics is called again and again because of that",
			one(journal, "r := recover()", "var r any"),
			"engine", "TestALoggerThatBlocksPanicsOrEndsItsGoroutineStopsNothing/PanicsInHandle", true,
		},
		{
			"panic-reported-in-the-worker", "a callback whose panic makes the logger panic never counts as returned",
			one(pool, "p.Say(slog.LevelError, text, \"panic\", r, \"stack\", string(debug.Stack()))", "p.logger.Error(text, \"panic\", r, \"stack\", string(debug.Stack()))"),
			"engine", "TestALoggerThatPanicsOfACallbackThatPanicsInAPoolThatGrewEndsNothing", true,
		},
		{
			"lines-without-bound", "a logger that blocks fills the memory",
			one(journal, "if len(p.lines) >= MaxLines {", "if len(p.lines) < 0 {"),
			"internal/callback", "TestLinesForALoggerThatBlocksAreBoundedCountedAndInOrder", false,
		},
		{
			"context-asked-under-the-mutex", "a caller's context that asks the engine locks it up",
			one("engine/acquire.go", "\t\tsc.look(op)\n", "\t\t_ = op.ctx.Done()\n\t\tsc.look(op)\n"),
			apiSuite, "TestAContextMayAskTheEngineWhenItIsWatched", true,
		},
		{
			"watch-outlives-its-op", "what was granted while its context was looked at leaves a watch behind",
			one("engine/acquire.go", "\tif !waits {\n\t\tstop()\n\t}\n", ""),
			apiSuite, "TestNoWatchOfAContextOutlivesItsOperation", false,
		},
		{
			"refused-command-keeps-its-watch", "every Inspect of a closed engine leaves a watch of its context behind",
			one("engine/request.go", "\t\te.callbacks.UnwatchHere(op.stop)\n", ""),
			apiSuite, "TestNoWatchOfAContextOutlivesItsOperation", false,
		},
		{
			"context-panics-on-the-lane", "a caller's context that panics ends the process",
			one(contexts, "if r := recover(); r != nil {\n\t\tp.panicked(\"holdfast: a context panicked\", r)\n\t}", ""),
			apiSuite, "TestAContextThatPanicsStopsNothing", true,
		},
	}
}

// workers: a callback costs itself alone, whatever it does.
func workers() []mutant {
	const pool = "internal/callback/pool.go"
	return []mutant{
		{
			"callback-that-ends-ends-the-turn", "who waits behind a callback that ended its goroutine waits for a tick, or for ever",
			one(pool, "\t\t\tp.start() // it ended", "\t\t\t_ = p // it ended"),
			"internal/callback", "TestACallbackThatPanicsOrEndsItsGoroutineCostsItselfAlone", false,
		},
		{
			"pool-grows-from-what-runs", "a pool whose workers have just returned is narrow for ever",
			one(pool, "max(p.ants.Running(), poolSize) + n", "p.ants.Running() + n"),
			"internal/callback", "TestAPoolThatGrowsLateIsNotNarrower", false,
		},
		{
			"stuck-callbacks-keep-the-pool", "callbacks that block, as many as there are workers, keep all others from running",
			one(pool, "p.ants.Tune(max(p.ants.Running(), poolSize) + n)", "_ = n"),
			"internal/callback", "TestAPoolThatIsStuckGrowsByAFewWorkersATickAndShrinksAgain", false,
		},
		{
			"turns-not-begun-look-stuck", "on a busy machine each tick adds workers though nobody is stuck",
			one(pool, "if p.ants.Running() <= busy {", "if busy >= 0 {"),
			"internal/callback", "TestAPoolThatIsStuckGrowsByAFewWorkersATickAndShrinksAgain", false,
		},
		{
			"pool-stays-wide", "once stuck, the workers are without bound for good",
			one(pool, "\t\tp.ants.Tune(poolSize)\n", ""),
			"internal/callback", "TestAPoolThatIsStuckGrowsByAFewWorkersATickAndShrinksAgain", false,
		},
		{
			"release-forgets-what-waits", "a callback that a full pool refused while Close ended it is never called",
			one(pool, "waits := len(p.queue) > 0", "waits := false"),
			"internal/callback", "TestWhatAFullPoolRefusedIsCalledWhenItIsReleased", false,
		},
		{
			"close-leaves-callbacks", "who is told by Close, behind a callback that is stuck, is never told",
			one(pool, "\tif !over {\n\t\tp.waitIdle(context.Background(), idle)\n\t}\n", "\tif !over {\n\t\tidle.WaitIn(context.Background())\n\t}\n"),
			"internal/callback", "TestCallbacksBehindOneThatIsStuckAreCalledThoughCloseGaveUp", true,
		},
	}
}

// timing: a timing wheel of the user, and when holds taken at once are renewed.
func timing() []mutant {
	const source = "wheel/timing.go"
	return []mutant{
		{
			"timing-wheel-called-under-a-mutex", "a timing wheel that locks itself up locks the engine up",
			one(source, "w.timed.set = t.wake", "w.timed.set = func(at clock.Instant) { t.after(at.Sub(w.clock.Now())+tick, w.onTimer) }"),
			"wheel", "TestATimingWheelThatIsStuckHoldsNobodyUp", true,
		},
		{
			"stop-waits-for-a-stuck-timing-wheel", "Close never returns once the timing wheel is stuck",
			one(source, "\tcase <-t.ended:\n\tcase <-patience.C:\n", "\tcase <-t.ended:\n"),
			"wheel", "TestATimingWheelThatIsStuckHoldsNobodyUp", true,
		},
		{
			"early-look-is-aimed-again", "a wall clock that was stepped back has the timing wheel called without end",
			one(source, "if at := w.sweep(); at != was {", "if at := w.sweep(); at != was-1 {"),
			"wheel", "TestSources", false,
		},
		{
			"ticker-aims-nothing", "a timing wheel that came early is never asked again",
			one("wheel/correct.go", "case <-ticks:\n\t\t\tw.arm(w.sweep())", "case <-ticks:\n\t\t\tw.sweep()"),
			"wheel", "TestSources", true,
		},
		{
			"first-renewals-in-a-peak", "what was taken at once is renewed at once, five times the mean, period after period",
			one("renew/time.go", "return now.Add(w.N(left))", "return sentAt.Add(lease/3 - w.N(min(left, jitter(lease)+1)))"),
			"renew", "TestRenewalsOfManyHoldsTakenAtOnceComeEvenlyFromTheFirstPeriodOn", false,
		},
		{
			"every-hold-is-renewed-soon", "holds of a moment cost a renewal each",
			one("renew/time.go", "return sentAt.Add(jitter(lease))", "return sentAt.Add(0 * lease)"),
			"renew", "TestAHoldThatEndsInTheFirstFifthOfItsPeriodIsNeverRenewed", false,
		},
	}
}
