package main

// unsent: an error that says that nothing was done is true, and where nobody knows that is said.
func unsent() []mutant {
	return []mutant{
		{
			"unreachable-is-unknown", "who could not even connect is told that the outcome is unknown",
			one("engine/wait.go", "failed != nil && ent.unsent(op)", "failed != nil && false"),
			faultSuite, "TestMaxWaitWithoutAnAnswerTellsTheLastError", false,
		},
		{
			"refused-though-it-was-granted", "an acquire whose answer was lost is said to have done nothing: the next found no server",
			one("engine/wait.go", " && !ent.Attempt().retry.Unknown() && !op.Asked &&", " &&"),
			faultSuite, "TestMaxWaitWithoutAnAnswerIsUnknownAsLongAsACopyMayRun", false,
		},
		{
			"refused-though-it-is-sent", "an acquire that is on its way is said to have done nothing: the last one found no server",
			one("engine/wait.go", "return ent.Resends() && !ent", "return !ent"),
			faultSuite, "TestMaxWaitWithoutAnAnswerIsUnknownAsLongAsACopyMayRun", false,
		},
		{
			"refused-though-it-was-counted", "who was counted at a barrier is told that nothing was done",
			one("engine/wait.go", " && !op.Asked && !op.Told() &&\n\t\ttraits(op.set.family).Serves == lockstate.ServesOne", ""),
			faultSuite, "TestWhoIsCountedAtABarrierIsNotToldThatNothingWasDone", false,
		},
		{
			"multi-is-refused-while-it-waits", "several locks are said not to be held, though one that had no answer may be",
			one("engine/gather.go", "case !told: // it", "case !told && false: // it"),
			faultSuite, "TestOneOfSeveralLocksThatMayBeHeldMakesTheWholeUnknown", false,
		},
		{
			"multi-first-error-wins", "several locks are said not to be held: the first was refused, another one is open",
			one("engine/gather.go", "err := cmp.Or(unknown, refused)", "err := cmp.Or(refused, unknown)"),
			faultSuite, "TestOneOfSeveralLocksThatMayBeHeldMakesTheWholeUnknown", false,
		},
		{
			"red-one-error-wins", "a red lock is said not to be held: one server refused it, the others are silent",
			one("engine/redlock.go", "(!open || errors", "(true || !open || errors"),
			faultSuite, "TestOneOfSeveralLocksThatMayBeHeldMakesTheWholeUnknown", false,
		},
	}
}

// otherConnection: what fails over one connection is tried over the one that may be well, and the log says why it fails.
func otherConnection() []mutant {
	return []mutant{
		{
			"refusal-takes-the-connection", "a renewal that the server refuses is tried again over a connection that may not be there",
			one("renew/watchdog.go", "h.set(secondBit, t.second == saidBy(a.Err))", "h.set(secondBit, !t.second)"),
			"renew", "TestARenewalThatTheServerRefusesIsTriedAgainOverTheSameConnection", false,
		},
		{
			"retries-over-one-connection", "once a renewal has failed only the second connection is tried",
			one("renew/watchdog.go", "h.set(secondBit, t.second == saidBy(a.Err))", "h.set(secondBit, true)"),
			"renew", "TestFailedRenewalIsTriedAgainSoonOverTheOtherConnection", false,
		},
		{
			"no-hedge-after-a-failure", "a second attempt that hangs is not sent over the other connection",
			one("renew/watchdog.go", "h.attempt == attemptSent && !now.Before(h.hedge()):", "h.attempt == attemptSent && !h.failing && !now.Before(h.hedge()):"),
			"renew", "TestAHoldOutlastsAnErrorAndAConnectionThatHangs", true,
		},
		{
			"old-clock-raises", "a deadline that was over is raised by an answer that read the clock before",
			one("renew/watchdog.go", "\t\tk.mu.Lock()\n\t\tnow := k.clock.Now() // under mu: a deadline that is over meanwhile stays over\n\t\tfor", "\t\tnow := k.clock.Now()\n\t\tk.mu.Lock()\n\t\tfor"),
			"renew", "TestADeadlineThatEndsBeforeTheTurnOfAnAnswerStaysOver", false,
		},
		{
			"silence-without-a-name", "a server that does not answer a dial is told as the end of a context that nobody has",
			one("resp/words.go", "if err == context.DeadlineExceeded {", "if false {"),
			"resp", "TestAServerThatDoesNotAnswerADialIsNamed", false,
		},
		{
			"secret-in-the-log-of-a-loss", "the log of a lost lock has a password that the server says",
			one("resp/renewal.go", "n.renewing.Store(hidden(n.opts.Hide, failed))", "n.renewing.Store(failed)"),
			faultSuite, "TestTheLogOfALockThatIsNotRenewedHasNoSecretAndNoOthersError", false,
		},
		{
			"others-error-in-the-log", "the log of a lost lock names another lock",
			one("resp/renewal.go", "failed == nil || failed.Class.perKey() || !failed.Class.Transient()", "failed == nil"),
			faultSuite, "TestTheLogOfALockThatIsNotRenewedHasNoSecretAndNoOthersError", false,
		},
	}
}
