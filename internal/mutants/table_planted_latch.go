package main

// plantedLatches: what the load generator has to notice of latches.
func plantedLatches() []mutant {
	const (
		lg     = "cmd/loadgen/"
		plants = "TestWhatIsPlantedEndsInItsStatus/"
		caller = lg + "internal/contest/latch.go"
		report = lg + "internal/report/latch.go"
	)
	planted := func(id, why string, edits []edit, test string) mutant {
		return mutant{"latched-" + id, why, edits, "cmd/loadgen", plants + test, false}
	}
	judged := func(id, why string, edits []edit) mutant {
		return mutant{"latched-" + id, why, edits, lg + "internal/report", "TestWhatOfALatchIsJudged", false}
	}
	return []mutant{
		planted("early-not-seen", "loadgen does not see that somebody is let in before the last count",
			one(caller, "\tif !o.last.Load() {\n", "\tif false {\n"), "latch_sync_LetInEarly"),
		planted("last-not-held-back", "the last count counts as begun from the start, so nobody can be early",
			one(caller, "\tif err := l.down(ctx, l.Count-1); err != nil {\n",
				"\to.last.Store(true)\n\tif err := l.down(ctx, l.Count-1); err != nil {\n"), "latch_async_LetInEarly"),
		planted("late-not-seen", "loadgen does not see that callers wait for ever",
			one(caller, "\tcase err != nil && gaveUp:\n\t\tl.Late.Add(1)\n", "\tcase err != nil && gaveUp:\n"), "latch_sync_NeverOpened"),
		planted("foreign-count", "loadgen does not see that a latch has a count already",
			one(caller, "if err == nil && !done {", "if false && !done {"), "latch_sync_CountedAlready"),
		judged("early-is-fine", "callers that were let in early are no failure", one(report, "if l.Early > 0 {", "if l.Early > 100 {")),
		{
			"latched-death-opens", "loadgen does not see that the death of a client lets callers in",
			one(lg+"internal/scenario/latchdeath.go", "out.Early += l.in()", "out.Early += 0"),
			lg + "internal/scenario", "TestWhatIsSeenOfALatchWhoseClientDied", false,
		},
		{
			"latched-death-shuts", "loadgen does not see that callers wait for ever after a client died",
			one(lg+"internal/scenario/latchdeath.go", "out.Late += l.late(ctx)", "out.Late += 0"),
			lg + "internal/scenario", "TestWhatIsSeenOfALatchWhoseClientDied", false,
		},
		{
			"latched-count-too-many", "loadgen does not see that a count of a client that died counted twice",
			one(lg+"internal/scenario/latchdeath.go", "case has > answered+unsettled:", "case false:"),
			lg + "internal/scenario", "TestCountsOfAClientThatDied", false,
		},
		{
			"latched-count-missing", "loadgen does not see that a count of a client that died is missing",
			one(lg+"internal/scenario/latchdeath.go", "case has < answered:", "case false:"),
			lg + "internal/scenario", "TestCountsOfAClientThatDied", false,
		},
		judged("missing-is-fine", "counts of a client that died which are missing are no failure",
			one(report, "case l.KilledMissing > 0:", "case l.KilledMissing > 100:")),
		judged("late-is-fine", "callers that wait for ever are no failure", one(report, "if l.Late > 0 {", "if l.Late > 100 {")),
	}
}
