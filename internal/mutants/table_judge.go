package main

import (
	"path"
	"strings"
)

// judging: what the checks are made of that say whether a run was right. A check that passes everything proves nothing.
func judging() []mutant {
	const (
		overlap, linear, history = "internal/history/overlap.go", "internal/history/linear.go", "internal/history/history.go"
		table                    = "TestChecksTellRightHistoriesFromWrongOnes"
	)
	return []mutant{
		{
			"history-explained-by-later", "a hold that was handed over after a deletion explains an overlap that began before it",
			one(overlap, "return d.Sent < c.begins[second.Hold] && first", "return d.Sent < second.Begin && first"),
			"internal/history", table + "/HandedOverAfterTheDeletion", false,
		},
		{
			"history-handed-over-trusts", "a grant that was passed on after a deletion may trust a renewal",
			one(overlap, "c.begins[g.Hold] < d.Sent && g.Deadline", "g.Begin < d.Sent && g.Deadline"),
			"internal/history", table + "/RenewedAndHandedOverAfterTheDeletion", false,
		},
		{
			"history-undecided-passes", "what porcupine gives up on counts as right",
			one(linear, "return s.failed(\"undecided within \"+limit.String(), 0)", "return nil"),
			"internal/history", "TestASliceThatIsNotDecidedIsAFailure", false,
		},
		{
			"history-unseen-is-believed", "a grant that a process saw too late, for it had stood still, keeps everybody out",
			one(linear, "\t\tif g.unseen() {\n", "\t\tif false {\n"),
			"internal/history", "TestAGrantThatIsSeenTooLateCanHaveBeenLostAtAnyTime", false,
		},
		{
			"history-bound-is-less", "right histories are refused at the bound",
			one(overlap, "first.Deadline <= d.Answered.Add(c.name.Trust())", "first.Deadline < d.Answered.Add(c.name.Trust())"),
			"internal/history", table + "/RenewedWhileItWasDeleted", false,
		},
		{
			"history-everything-hits-nothing", "FLUSHALL explains nothing",
			one(history, "return d.Name == Everything || d.Name == name", "return d.Name == name"),
			"internal/history", table + "/AfterADeletionOfEverything", false,
		},
		{
			"history-lost-not-counted", "the report hides how many were lost",
			one(overlap, "\t\tc.report.Lost++", "\t\t_ = c"),
			"internal/history", "TestTheOutcomesAreCounted", false,
		},
		{
			"history-tells-all", "thousands of wrong slices are told",
			one(linear, "if len(errs) > violationsMax {", "if len(errs) > 1000*violationsMax {"),
			"internal/history", "TestSomeOfManyWrongSlicesAreTold", false,
		},
		{
			"history-check-drops-linear", "what only porcupine refuses passes",
			one(history, "return report, errors.Join(overlaps, linear)", "_ = linear\n\treturn report, errors.Join(overlaps)"),
			"internal/history", "TestCheckIsBothChecks", false,
		},
		{
			"history-check-drops-overlaps", "belief past the deadline passes",
			one(history, "return report, errors.Join(overlaps, linear)", "_ = overlaps\n\treturn report, errors.Join(linear)"),
			"internal/history", "TestCheckIsBothChecks", false,
		},
	}
}

// judgingHolders: the witness of several processes, fences, elections.
func judgingHolders() []mutant {
	const (
		witness, alive  = "internal/witness/witness.go", "internal/witness/alive_linux.go"
		fence, election = "engine/fence/fence.go", "engine/election/election.go"
	)
	return []mutant{
		{
			"witness-pid-used-twice", "a process that died holding is taken for alive, and its marks for violations",
			one(alive, "(started == 0 || began == 0 || began == started)", "(started == 0 || began == 0 || began <= started)"),
			"internal/witness", "TestAProcessThatBeganAtAnotherTimeIsAnother", false,
		},
		{
			"witness-any-version", "the file of another version is read as one's own",
			one(witness, "case h.version != version:", "case h.version > 1000:"),
			"internal/witness", "TestOpen/AnotherVersionIsLeftAlone", false,
		},
		{
			"witness-counts-what-it-tells", "the sixth violation is not counted",
			one(witness, "\tw.me.violations.Add(1)\n\tw.mu.Lock()\n\tdefer w.mu.Unlock()\n\tif len(w.told) < violationsTold {\n",
				"\tw.mu.Lock()\n\tdefer w.mu.Unlock()\n\tif len(w.told) < violationsTold {\n\t\tw.me.violations.Add(1)\n"),
			"internal/witness", "TestTake/AllAreCountedAndTheFirstAreTold", false,
		},
		{
			"witness-without-generations", "a caller that gives back what it had before is not seen",
			one(witness, "w.generation.Add(1))", "1)"),
			"internal/witness", "TestTake/AnOldMarkOfTheSameCallerIsSeen", false,
		},
		{
			"fence-refuses-the-same-token", "a holder cannot write twice",
			one(fence, "if tonumber(ARGV[1]) < seen then", "if tonumber(ARGV[1]) <= seen then"),
			"engine/fence", "TestRedisRefusesTheHolderThatSlept", false,
		},
		{
			"fence-writes-into-the-lock", "a value is written into the hash of the lock, which is held by nobody then",
			one(fence, "if not seen and redis.call('EXISTS', KEYS[1]) == 1 then", "if false then"),
			"engine/fence", "TestRedisRefusesTheHolderThatSlept", false,
		},
		{
			"fence-forgets-what-failed", "a write that failed, and may have happened, lets an older holder write after it",
			one(fence, "\tg.seen[resource] = token\n\treturn write()", "\terr := write()\n\tif err == nil {\n\t\tg.seen[resource] = token\n\t}\n\treturn err"),
			"engine/fence", "TestGateLetsNoStaleWriterPass", false,
		},
		{
			"election-ends-with-an-outage", "who observes an election hears nothing any more after the first outage",
			one(election, "case err != nil && !engine.SafeToRetry(err):", "case err != nil:"),
			"engine/election", "TestObserveOutlastsAnOutage", false,
		},
		{
			"election-is-never-mine", "a leader does not know that it leads",
			one(election, "Mine: info.Mine}", "Mine: false}"),
			"engine/election", "TestOneLeadsAtATimeAndTokensRise", false,
		},
	}
}

// leading: how a program leads, and stops.
func leading() []mutant {
	const run = "engine/election/run.go"
	return []mutant{
		{
			"run-keeps-leading", "a program that is told to stop goes on leading",
			one(run, "cancel(context.Cause(ctx)) })", "_ = cancel })"),
			"engine/election", "TestRunEndsWithItsContext", false,
		},
		{
			"run-keeps-the-term", "who has failed to lead keeps the others from it",
			one(run, "resigned = t.lastWord(ctx)", "resigned = nil"),
			"engine/election", "TestRunResignsAndPausesAfterAFailure", false,
		},
		{
			"run-waits-for-a-silent-server", "a program that is told to end is killed before it has",
			one(run, "late.Store(true); giveUp()", "late.Store(true)"),
			"engine/election", "TestRunEndsThoughTheServerIsSilent", false,
		},
		{
			"run-ends-with-an-outage", "nobody leads any more after the first outage",
			one(run, "!errors.Is(err, engine.ErrHeld) && !engine.SafeToRetry(err)", "!errors.Is(err, engine.ErrHeld)"),
			"engine/election", "TestRunOutlastsWhatPasses", false,
		},
		{
			"run-hides-a-loss", "a term that was lost is not reported",
			one(run, "\t\tr.tell(ctx, resigned)\n", ""),
			"engine/election", "TestRunLeadsAgainAfterALoss", false,
		},
	}
}

// judgingRuns: what the load generator's verdict is made of, on which every figure stands.
func judgingRuns() []mutant {
	const (
		lg                             = "cmd/loadgen/"
		table, plants, elsewhere, late = "TestEachThingThatIsWrongIsEnough", "TestWhatIsPlantedEndsInItsStatus", "TestWhatIsWrongElsewhereIsWrongHere", "TestNoteLate"
	)
	m := func(id, why string, edits []edit, tests string) mutant {
		in := path.Dir(edits[0].file) // the tests of a part stand beside it, those of whole runs with the command
		if strings.HasPrefix(tests, plants) {
			in = path.Clean(lg)
		}
		return mutant{"loadgen-" + id, why, edits, in, tests, false}
	}
	return []mutant{
		m("blames-its-own-only", "what another process saw does not end this one in status 4",
			one(lg+"internal/witness/witness.go", "if out.Violations > 0 {", "if own > 0 {"), elsewhere),
		m("gone-not-blamed", "a process that died unnoticed is no failure",
			one(lg+"internal/witness/witness.go", "if out.Gone > 0 && !o.cfg.KillsClient() {", "if false {"), elsewhere),
		m("contend-without-ledger", "two holders at once are not seen", []edit{
			{lg + "internal/contest/contest.go", "\t\t\tc.contest.Ledger.Take(key, uint64(c.n)+1)\n", ""},
			{lg + "internal/contest/contest.go", "\t\t\tc.contest.Ledger.Give(key, uint64(c.n)+1)\n", "\t\t\t_ = key\n"},
		}, plants+"/contend_sync_SecondHolder"),
		m("sync-without-ledger", "the same of blocking callers",
			one(lg+"internal/load/sync.go", "\t\tc.load.Ledger.Take(key, holder)\n\t\tc.load.Ledger.Give(key, holder)\n", "\t\t_ = holder\n"), plants+"/lock_sync_SecondHolder"),
		m("contend-without-witness", "two processes that hold at once are not seen", []edit{
			{lg + "internal/contest/contest.go", "\t\t\tc.marks = append(c.marks, w.Take(key, c.n))\n", "\t\t\t_, _ = w, key\n"},
			{lg + "internal/contest/contest.go", "\t\tc.contest.Witness.Give(c.keys[i], mark)\n", "\t\t_, _ = i, mark\n"},
		}, plants+"/contend_sync_HolderElsewhere"),
		m("hold-without-ledger", "the same lock taken twice is not seen", []edit{
			{lg + "internal/load/held.go", "\t\th.Ledger.Take(i, uint64(i)+1)\n", ""},
			{lg + "internal/load/held.go", "\t\th.Ledger.Give(i, uint64(i)+1)\n\t\treturn h.Leases[i].ReleaseAsync()", "\t\treturn h.Leases[i].ReleaseAsync()"},
		}, plants+"/hold_async_SecondHolder"),
		m("lost-not-failed", "lost leases are no failure",
			one(lg+"internal/report/report.go", "case n > 0:", "case n > 1<<40:"), table),
		m("errors-not-failed", "failed operations are no failure",
			one(lg+"internal/report/report.go", "if n := total.ErrorCount(); n > 0 {", "if n := total.ErrorCount(); n > 1<<40 {"), table),
		m("mismatch-ignored", "locks that the server does not have are no failure",
			one(lg+"internal/scenario/hold.go", "if s.beliefs.mismatches > 0 {", "if s.beliefs.mismatches > 1<<40 {"), table),
		m("leftover-ignored", "keys left after the release are no failure",
			one(lg+"internal/report/chaos.go", "if n > 0 {\n\t\tr.Fail(\"%d locks are still", "if n > 1<<40 {\n\t\tr.Fail(\"%d locks are still"), table),
		m("contend-ledger-not-told", "what the ledger caught is not in the report",
			one(lg+"internal/scenario/contend.go", "\tr.AddViolations(s.contest.Ledger)\n", ""), table),
		m("hold-ledger-not-told", "the same of held locks",
			one(lg+"internal/scenario/hold.go", "\tr.AddViolations(s.held.Ledger)\n", ""), table),
		m("told-late-ignored", "locks believed in for too long after a failover are not seen",
			one(lg+"internal/scenario/failover.go", "\t\tlate[i] = true\n", "\t\t_ = late\n"), late),
		m("chaos-failure-ignored", "a disturbance that failed is no failure",
			one(lg+"internal/chaos/chaos.go", "\tfor _, f := range c.failed {\n\t\tr.Fail(\"chaos %s\", f)\n\t}\n", ""), table),
		m("excused-elsewhere", "locks lost on masters that lived are excused",
			one(lg+"internal/report/report.go", "min(r.Failover.Lost, r.Lost)", "min(r.Failover.Lost+r.Failover.LostElsewhere, r.Lost)"), table),
	}
}

// keeping: what the wheel and the watchdog were not asked.
func keeping() []mutant {
	const watchdog = "renew/watchdog.go"
	return []mutant{
		{
			"drain-forgets-what-is-delivered", "what waits in a bucket that is half delivered is settled by nobody",
			one("wheel/set.go", "\tif s.leaving != nil {\n\t\tbuckets = append(buckets, s.leaving)\n\t}", "\t_ = s.leaving"),
			"wheel", "TestHalfDrainedBucket/DrainReturnsWhatIsStillInIt", false,
		},
		{
			"change-keeps-max-hold", "a hold whose MaxHold begins anew is given up with the old one, or one without it ends",
			one(watchdog, "\th.until = t.Until\n", ""), "renew", "TestC020_ChangeMovesTheEndOfMaxHold", false,
		},
		{
			"moved-renewals-not-counted", "the counter of failed renewals hides those of moved slots",
			one(watchdog, "\t\tt.failed++\n\t\th.next = now\n", "\t\th.next = now\n"),
			"renew", "TestMovedRenewalGoesToItsNewNodeAtOnce", false,
		},
		{
			"reset-unseen", "loadgen reports two holders because somebody has reset the server's counters",
			one("cmd/loadgen/internal/report/judge.go", "r.After.ResetSince(r.Before), r.Before", "r.Before"),
			"cmd/loadgen/internal/report", "TestCountersThatBeginAgainAreNotCompared", false,
		},
		{
			"reset-has-no-marks", "the same, because it does not know what it has sent itself",
			one("cmd/loadgen/internal/topology/counters.go", "callsOf(parseInfo(text), \"echo\")", "callsOf(parseInfo(text), \"no\")"),
			"cmd/loadgen/internal/topology", "TestAResetOfTheCountersIsSeen", false,
		},
	}
}
