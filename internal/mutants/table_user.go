package main

// user: the code of others that the engine calls, and the packages it stands on, cannot stop it; and many
// holds taken at once are no peak of renewals.
func user() []mutant {
	const journal, callbacks = "engine/log.go", "engine/callbacks.go"
	return []mutant{
		{
			"logger-asked-by-the-watchdog", "a logger that blocks in Enabled stops all renewals",
			one(journal, "\te.callbacks.say(line{level, text, args})", "\tif e.cfg.Logger != nil && e.cfg.Logger.Enabled(context.Background(), level) {\n\t\te.callbacks.say(line{level, text, args})\n\t}"),
			"engine", "TestALoggerThatBlocksPanicsOrEndsItsGoroutineStopsNothing/BlocksInEnabled", true,
		},
		{
			"logger-hears-of-its-own-panic", "a logger that panics is called again and again because of that",
			one(journal, "r := recover()", "var r any"),
			"engine", "TestALoggerThatBlocksPanicsOrEndsItsGoroutineStopsNothing/PanicsInHandle", true,
		},
		{
			"panic-reported-in-the-worker", "a logger that panics of a panic ends the process",
			one(callbacks, "c.say(line{slog.LevelError, text, []any{\"panic\", r, \"stack\", string(debug.Stack())}})", "c.logger.Error(text, \"panic\", r, \"stack\", string(debug.Stack()))"),
			"engine", "TestALoggerThatPanicsOfACallbackThatPanicsBesideThePoolEndsNothing", true,
		},
		{
			"lines-without-bound", "a logger that blocks fills the memory",
			one(journal, "if len(c.lines) >= maxLines {", "if len(c.lines) < 0 {"),
			"engine", "TestLinesForALoggerThatBlocksAreBoundedCountedAndInOrder", false,
		},
		{
			"close-leaves-callbacks", "who is told by Close, behind a callback that is stuck, is never told",
			one(callbacks, "\t\tc.world.Go(\"callbacks\", func() { c.waitIdle(context.Background(), idle) })\n", ""),
			"engine", "TestCallbacksBehindOneThatIsStuckAreCalledThoughCloseGaveUp", true,
		},
		{
			"context-asked-under-the-mutex", "a caller's context that asks the engine locks it up",
			one("engine/acquire.go", "\t\tsc.look(op)\n", "\t\t_ = op.ctx.Done()\n\t\tsc.look(op)\n"),
			"engine", "TestAContextMayAskTheEngineWhenItIsWatched", true,
		},
		{
			"watch-outlives-its-op", "what was granted while its context was looked at leaves a watch behind",
			one("engine/acquire.go", "\tif !waits {\n\t\tstop()\n\t}\n", ""),
			"engine", "TestNoWatchOfAContextOutlivesItsOperation", false,
		},
		{
			"refused-command-keeps-its-watch", "every Inspect of a closed engine leaves a watch of its context behind",
			one("engine/single.go", "\t\te.callbacks.unwatchHere(op.stop)\n", ""),
			"engine", "TestNoWatchOfAContextOutlivesItsOperation", false,
		},
		{
			"context-panics-on-the-lane", "a caller's context that panics ends the process",
			one(callbacks, "if r := recover(); r != nil {\n\t\tc.panicked(\"holdfast: a context panicked\", r)\n\t}", ""),
			"engine", "TestAContextThatPanicsStopsNothing", true,
		},
	}
}

// timing: a timing wheel of the user, and when holds taken at once are renewed.
func timing() []mutant {
	const source = "wheel/source.go"
	return []mutant{
		{
			"timing-wheel-called-under-a-mutex", "a timing wheel that locks itself up locks the engine up",
			one(source, "w.timed.set = t.wake", "w.timed.set = func(at clock.Instant) { t.after(at.Sub(w.clock.Now())+t.w.tick, w.onTimer) }"),
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
			one("wheel/wheel.go", "case <-ticks:\n\t\t\tw.arm(w.sweep())", "case <-ticks:\n\t\t\tw.sweep()"),
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
