package main

// plantedPermits: what the load generator has to notice of a semaphore.
func plantedPermits() []mutant {
	const (
		lg       = "cmd/loadgen/"
		plants   = "TestWhatIsPlantedEndsInItsStatus/"
		caller   = lg + "internal/contest/semaphore.go"
		check    = lg + "internal/scenario/semaphore.go"
		verdicts = lg + "internal/report/permits.go"
		witness  = "internal/witness/permits.go"
	)
	planted := func(id, why string, edits []edit, test string) mutant {
		return mutant{"permits-" + id, why, edits, "cmd/loadgen", plants + test, false}
	}
	judged := func(id, why string, edits []edit) mutant {
		return mutant{"permits-" + id, why, edits, lg + "internal/report", "TestWhatOfThePermitsIsJudged", false}
	}
	return []mutant{
		planted("held-not-counted", "loadgen does not see that too many permits are held",
			one(caller, "\ts.Held.Take(s.n, s.caller)\n", ""), "semaphore_sync_PermitsFromNowhere"),
		planted("held-elsewhere-not-counted", "what other processes hold counts for nothing",
			one(caller, "\t\ts.Witness.Enter(s.n, s.Permits, s.caller)\n", "\t\t_ = s.Permits\n"), "semaphore_sync_TooManyHeldElsewhere"),
		planted("overdrawn-not-told", "too many held permits are not in the report",
			one(check, "\tr.AddOverdrawn(c.count.Held)\n", ""), "semaphore_async_TooManyHeld"),
		planted("end-not-judged", "permits that are missing at the end are not a failure",
			one(check, "\t\tout.AddTo(r, free)\n", "\t\t_ = free\n"), "semaphore_sync_PermitsLost"),
		planted("lost-semaphore-is-fine", "a semaphore that is gone is taken for a full one",
			one(check, "\t\tfree, err = 0, nil\n", "\t\tfree, err = int64(c.s.Cfg.Permits), nil\n"), "semaphore_sync_SemaphoreLost"),
		judged("too-many-are-fine", "more free permits than there are is no failure", one(verdicts, "case p.Missing < 0:", "case p.Missing < 0 && false:")),
		judged("dead-hold-nothing", "what a killed client had is called missing",
			one(verdicts, "\twant -= p.KilledHeld\n", "\twant -= 0\n")),
		judged("free-for-ever", "permits that lie free beside a waiter are no failure", one(verdicts, "if p.Idle > p.Bound {", "if p.Idle > 100*p.Bound {")),
		{
			"permits-of-the-dead-are-free", "what a dead process held is counted no more", one(witness, "gone && !p.gone()", "p.gone()"),
			"internal/witness", "TestPermitsAreCountedAcrossProcesses", false,
		},
		{
			"permits-killed-in-doubt", "a client is killed while it is not known what it has",
			one(lg+"internal/chaos/client.go", "Permits(false); unsettled == 0 {", "Permits(false); unsettled >= 0 {"),
			lg + "internal/chaos", "TestAClientThatIsNotSureOfItsPermitsHasNone", false,
		},
		{
			"permits-idle-begins-anew", "a waiter that comes later hides how long permits were free",
			one(check, "\tcase p.since.IsZero():\n", "\tdefault:\n"),
			lg + "internal/scenario", "TestPermitsThatAreFreeBesideAWaiter", false,
		},
	}
}
