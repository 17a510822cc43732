package main

// planted: what the load generator has to notice in each scenario and API, down to its exit status.
func planted() []mutant {
	const (
		lg, plants = "cmd/loadgen/", "TestWhatIsPlantedEndsInItsStatus/"
		contend    = lg + "internal/scenario/contend.go"
	)
	m := func(id, why string, edits []edit, test string) mutant {
		return mutant{"planted-" + id, why, edits, "cmd/loadgen", plants + test, false}
	}
	return append(plantedOperations(), []mutant{
		m("exit-status", "whatever the report says, the program passes",
			one(lg+"main.go", "\tp.status = status\n", "\tp.status = min(status, report.StatusOK)\n"), "lock_async_Leftover"),
		m("violation-is-a-failure", "what the ledger caught ends in status 1",
			one(lg+"internal/report/report.go", "case r.Violations > 0 || r.Violated:", "case r.Violated:"), "rw_async_SecondHolder"),
		m("ghost-is-a-failure", "a grant that the server knows nothing of ends in status 1",
			one(lg+"internal/report/report.go", "r.Violated = r.Violated || len(v.ghosts) > 0", "_ = r.Violated || len(v.ghosts) > 0"), "lock_async_Ghost"),
		m("ghost-not-told", "the same is not in the report",
			one(lg+"internal/report/report.go", "\tr.Failures = append(r.Failures, v.ghosts...)\n", ""), "fair_sync_Ghost"),
		m("more-releases-than-ours", "a release too many passes",
			one(lg+"internal/report/judge.go", "if did.HDel < released || did.HDel > released && exact {", "if did.HDel < released {"), "contend_async_Mismatch"),
		m("verdict-not-added", "what the server's counters say is not looked at",
			one(lg+"internal/report/report.go", "\t\tr.addVerdict(judge(cfg.CheckServer, one), one)\n", ""), "fenced_sync_Mismatch"),
		m("tokens-not-told", "tokens that did not rise are not in the report",
			one(contend, "\ts.tokens.addTo(r)\n", ""), "fenced_async_TokensRepeat"),
		m("tokens-are-a-failure", "tokens that did not rise end in status 1",
			one(lg+"internal/scenario/fenced.go", "\t\tr.Violated = true\n", ""), "fenced_sync_TokensRepeat"),
		m("tokens-not-seen", "nobody compares tokens",
			one(contend, "\t\ts.contest.Observer = s.tokens\n", ""), "fenced_sync_TokensRepeat"),
		m("order-not-told", "callers that lost their place are not in the report",
			one(contend, "\ts.order.addTo(r, s.Cfg.Chaos)\n", ""), "fair_async_PlaceLost"),
		m("lost-place-ignored", "the same are no failure",
			one(lg+"internal/scenario/fair.go", "if out.LostPlace > 0 {", "if out.LostPlace > 1<<40 {"), "fair_sync_PlaceLost"),
		m("blame-nobody", "a violation between processes is not in the report",
			one(lg+"internal/witness/witness.go", "\to.blame(r, out)\n", ""), "fenced_async_HolderElsewhere"),
		m("lock-ledger-not-told", "what the ledger of the scenario lock caught is not in the report",
			one(lg+"internal/scenario/lock.go", "\tr.AddViolations(s.load.Ledger)\n", ""), "lock_async_SecondHolder"),
		m("lock-leftover", "keys of the scenario lock are not looked for",
			one(lg+"internal/scenario/lock.go", "\t\ts.addLeftover(ctx, r, s.Cfg.Keys, s.load.Ledger.Name),\n", ""), "lock_sync_Leftover"),
		m("contend-leftover", "keys of those that contend are not looked for",
			one(contend, "return s.addLeftover(ctx, r, s.Cfg.Keys, s.contest.Ledger.Name)", "return nil"), "rw_async_Leftover"),
		m("nobody-may-look", "hold passes where it may not look for keys",
			one(lg+"internal/scenario/hold.go", "return r, errors.Join(err, countErr)", "_ = countErr\n\treturn r, errors.Join(err)"), "hold_sync_NobodyMayLook"),
		m("nobody-may-compare", "the same where it may not ask for the locks",
			one(lg+"internal/scenario/hold.go", "err = fmt.Errorf(\"compare with the server: %w\", err)", "err = nil"), "hold_async_NobodyMayCompare"),
		m("mismatch-not-counted", "a lock that differs on the server counts as held",
			one(lg+"internal/scenario/hold.go", "\t\t\ta.mismatches++\n", ""), "hold_async_NoExpiry"),
		m("second-owner-passes", "a lock that another has on the server, too, counts as held",
			one(lg+"internal/scenario/hold.go", "case len(fields) != 1 || fields[want.owner] == \"\":", "case fields[want.owner] == \"\":"), "hold_sync_HeldTwice"),
		m("disturbance-not-noted", "a disturbance that failed is forgotten",
			one(lg+"internal/chaos/chaos.go", "\t\t\tc.failed = append(c.failed, fmt.Sprintf(\"%s: %v\", kind, err))\n", ""), "hold_async_FailedDisturbance"),
		m("chaos-not-told", "what was disturbed is not in the report",
			one(lg+"session.go", "\ts.chaos.AddTo(s.report, quiet)\n", "\t_ = quiet\n"), "contend_sync_FailedDisturbance"),
		{
			"planted-told-to-take-over-again", "a replica that has taken over is told to, and refuses, for a minute",
			one(lg+"internal/chaos/chaos.go", "if err == nil && slices.Contains(owners, next) {", "if err == nil && slices.Contains(owners, next) && !asked.IsZero() {"),
			"cmd/loadgen/internal/chaos", "TestWhoHasTakenOverIsNotToldAgain", false,
		},
	}...)
}

// plantedOperations: what becomes of one operation.
func plantedOperations() []mutant {
	const lg, plants = "cmd/loadgen/", "TestWhatIsPlantedEndsInItsStatus/"
	m := func(id, why string, edits []edit, test string) mutant {
		return mutant{"planted-" + id, why, edits, "cmd/loadgen", plants + test, false}
	}
	return []mutant{
		m("async-without-ledger", "two holders of a lock that futures brought are not seen",
			one(lg+"internal/load/async.go", "\tc.load.Ledger.Take(s.key, s.holder)\n\tc.load.Ledger.Give(s.key, s.holder)\n", ""), "lock_async_SecondHolder"),
		m("async-error-forgotten", "an operation of futures that failed is not counted",
			one(lg+"internal/load/async.go", "\tc.rec.Failed(err)\n", "\t_ = err\n"), "lock_async_Squatter"),
		m("sync-error-forgotten", "the same of a blocking caller",
			one(lg+"internal/load/sync.go", "\tc.rec.Pair(lease != nil, err, granted-since, freed-granted)\n",
				"\tif err == nil {\n\t\tc.rec.Pair(true, nil, granted-since, freed-granted)\n\t}\n"), "lock_sync_Squatter"),
		m("hold-error-forgotten", "the same of a lock to hold",
			one(lg+"internal/load/held.go", "\t\t\trec.Failed(err)\n\t\t\treturn\n\t\t}\n\t\trec.Acquired(", "\t\t\treturn\n\t\t}\n\t\trec.Acquired("), "hold_async_Squatter"),
		m("contend-error-forgotten", "the same of who contends",
			one(lg+"internal/contest/contest.go", "\trec.Pair(granted, err, waited, freeing)\n",
				"\tif err == nil {\n\t\trec.Pair(granted, err, waited, freeing)\n\t}\n"), "fair_async_Squatter"),
		m("lost-nowhere", "leases that were lost are counted neither by the load generator nor from the engine", []edit{
			{lg + "internal/meter/recorder.go", "\t\tr.Lost++\n", "\t\t_ = r\n"},
			{lg + "session.go", "s.report.Lost = max(s.report.Lost, lost)", "_ = lost"},
		}, "fenced_async_Losses"),
	}
}

// hunting: what make mutate says about tests.
func hunting() []mutant {
	const control = "internal/mutants/control.go"
	m := func(id, why string, edits []edit, tests string) mutant {
		return mutant{"hunt-" + id, why, edits, "internal/mutants", tests, false}
	}
	return []mutant{
		m("without-controls", "a small hunt has one control, or none",
			one(control, "max(leastControls, (", "max(0*leastControls, ("), "TestControlsAreSpreadAmongTheMutants"),
		m("flaky-kills", "what only a test noticed that fails by itself counts as killed",
			one(control, "\t\t\tc.doubtful[f.number] = f.failed\n\t\t\tdoubtful = append(doubtful, f.number)\n", "\t\t\tc.killed[f.number] = f.failed\n"),
			"TestAKillByATestThatFailsByItselfIsDoubtful"),
		m("doubt-is-final", "what a reliable test would have noticed behind a flaky one stays doubtful",
			one(control, "\tc.again(b.runs(ctx, with, doubtful, tests, limit))\n", "\t_ = doubtful\n"), "TestAFlakyTestKillsNothing"),
		m("flaky-runs-again", "who is run again meets the flaky test first, again",
			one(control, "\twith.skip = strings.Join(skip, \"|\")\n", "\t_ = strings.Join(skip, \"|\")\n"), "TestAFlakyTestKillsNothing"),
		m("doubtful-counts", "the share has what is doubtful among the killed",
			one("internal/mutants/mutate.go", "killed := len(caught.killed)", "killed := len(caught.killed) + len(caught.doubtful)"), "TestConclude"),
		m("equivalent-not-told", "nobody hears that a mutant called equivalent was noticed",
			one("internal/mutants/mutate.go", "if id := all[n-1].ID(); h.known[id] != \"\" {", "if id := all[n-1].ID(); h.known[id] != \"\" && false {"), "TestConclude"),
	}
}

// makingWay: who waits, or works for long, makes way for others.
func makingWay() []mutant {
	return []mutant{
		{
			"unplanned-failover-unseen", "a failover that the machine brought about is reported as an error of the engine",
			one("cmd/loadgen/internal/chaos/chaos.go", "c.unplanned || gone > planned", "c.unplanned"),
			"cmd/loadgen/internal/chaos", "TestAnUnplannedFailoverIsNoted", true,
		},
		{
			"unplanned-failover-hidden-by-a-planned-one", "the same where a step replaces another master at that time",
			one("cmd/loadgen/internal/chaos/chaos.go", "c.unplanned || gone > planned", "c.unplanned || gone > 9*planned"),
			"cmd/loadgen/internal/chaos", "TestAnUnplannedFailoverIsNoted", true,
		},
		{
			"planned-failover-excuses", "after a master was killed a disagreement of engine and server is let pass for a lease",
			one("cmd/loadgen/internal/chaos/chaos.go", "c.noteFailovers(step, replacedBy(kind))", "c.noteFailovers(step, 0)"),
			"cmd/loadgen/internal/chaos", "TestAnUnplannedFailoverIsNoted", true,
		},
		{
			"witness-busy-wait", "a process that waits for the others takes a core from them",
			one("internal/witness/barrier.go", "\t\ttime.Sleep(barrierPause)\n", ""),
			"internal/witness", "TestAwait/WhoWaitsRestsBetweenTwoLooks", true,
		},
		{
			"wheel-makes-no-way", "on one core a release waits for all the renewals that are due",
			one("wheel/set.go", "\t\truntime.Gosched() // whoever waits for the mutex goes first, not after a fair fight\n", "\t\t_ = runtime.Gosched\n"),
			"wheel", "TestABucketOfAnySizeHoldsNobodyUp", false,
		},
		{
			"watchdog-renews-what-is-lost", "a lock that the server said is another's is renewed once more, while other losses are told",
			one("renew/watchdog.go", "append(t.causes, CauseNotOurs)\n\t\treturn", "append(t.causes, CauseNotOurs)\n\t\tbreak"),
			"renew", "TestWhoWaitsToBeToldOfALossIsNotRenewed/NotOurs", false,
		},
		{
			"watchdog-renews-another-type", "the same where something else stands in the lock's place",
			one("renew/watchdog.go", "append(t.causes, CauseWrongType)\n\t\treturn", "append(t.causes, CauseWrongType)\n\t\tbreak"),
			"renew", "TestWhoWaitsToBeToldOfALossIsNotRenewed/AnotherType", false,
		},
		{
			"witness-writes-behind-the-end", "a file that cannot become longer is written to behind its end, and the process dies",
			one("internal/witness/witness.go", "if err := f.Truncate(int64(fileSize(o.Keys))); err != nil {", "if err := f.Truncate(int64(fileSize(o.Keys))); err != nil && false {"),
			"internal/witness", "TestAFileThatKeepsItsLengthIsRefused/CannotBeLonger", false,
		},
		{
			"witness-keeps-old-marks", "a run begins with the marks of the last one",
			one("internal/witness/witness.go", "if err := f.Truncate(0); err != nil {", "if err := f.Truncate(0); err != nil && false {"),
			"internal/witness", "TestAFileThatKeepsItsLengthIsRefused/CannotBeEmpty", false,
		},
	}
}
