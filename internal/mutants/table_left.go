package main

// left: what one is told whose ctx has ended.
func left() []mutant {
	const told = "TestWhoseCtxEndsIsToldOfWhat"
	return []mutant{
		{
			"await-tells-a-bare-end", "who awaits is not told of what",
			one("engine/future.go", "return none, f.op.awaitEnded(ctx.Err())", "return none, ctx.Err()"),
			"engine/internal/suite/fault", told, false,
		},
		{
			"question-tells-a-bare-end", "who asks with a ctx that has ended is not told of what",
			one("engine/request.go", "op.abandon(&WaitError{Name: op.name, cause: err})", "op.abandon(err)"),
			"engine/internal/suite/fault", told, false,
		},
		{
			"change-sounds-undone", "who leaves a change is not told that it may be done",
			one("engine/request.go", "op.bounded || op.copies || !op.repeat", "false"),
			"engine/internal/suite/fault", told, false,
		},
		{
			"close-names-each", "what Close has given back is told lock by lock",
			one("engine/multilease.go", "gone = append(gone, s.leases[i])", "others = append(others, err)"),
			"engine/internal/suite/several", "TestMultiThatCloseHasGivenBackIsToldInOneLine", false,
		},
		{
			"refused-request-has-named", "who was named by a refused request counts as heard of",
			one("engine/attempt.go", "if r.Definite() {\n\t\ta.namedNobody()", "if false {\n\t\ta.namedNobody()"),
			"engine", "TestWhoWasNamedByARefusedRequestWasNotHeardOf", false,
		},
		{
			"leaver-was-named-by-a-refused-request", "who leaves before its request is refused counts as heard of",
			one("engine/meeting.go", "\t\tp.named = false\n", "\t\t_ = p\n"),
			"engine", "TestWhoWasNamedByARefusedRequestWasNotHeardOf", false,
		},
		{
			"red-counts-what-close-gave-back", "a part that Close has given back counts towards a majority",
			one("engine/redlease.go", "(lost || errors.Is(f.err, ErrNotHeld))", "lost"),
			"engine", "TestRedOfWhichOnePartIsLostAndOneIsClosedIsLost", false,
		},
		{
			"multi-forgets-what-its-release-found", "several locks of which one was lost are said to be held still",
			one("engine/multilease.go", "\t\ts.of.state.CompareAndSwap(leaseReleased, leaseLost)\n", ""),
			"engine/internal/suite/several", "TestMultiIsLostWhereItsReleaseSaysSo", false,
		},
		{
			"run-reports-its-end", "an election reports that its ctx has ended",
			one("engine/election/run.go", " || errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))", ""),
			"engine/election", "TestRunIsSilentAboutItsEnd", false,
		},
		{
			"lua-ends-by-a-type", "a latch whose name stands for something else ends its script in the middle",
			one("resp/scripts/latch.lua", "if type(count) == 'table' then", "if false then"),
			"resp", "TestNoScriptBreaksOffBecauseAKeyIsOfAnotherType", false,
		},
		{
			"fence-passes-on-the-type", "a fenced value's key of another type is not ErrKey",
			one("engine/fence/fence.go", `strings.Contains(said.Error(), "WRONGTYPE")`, "false && said != nil"),
			"engine/fence", "TestRedisRefusesTheHolderThatSlept", false,
		},
		{
			"interrupt-is-no-connection", "loadgen blames the server where it was interrupted",
			one("cmd/loadgen/session.go", "if ctx.Err() != nil {\n\t\tsay(s.stderr, \"loadgen: interrupted", "if false {\n\t\tsay(s.stderr, \"loadgen: interrupted"),
			"cmd/loadgen", "TestRun/InterruptedBeforeItBegins", false,
		},
	}
}

// losses: what is known of the end of a lock.
func losses() []mutant {
	return []mutant{
		{
			"another-type-is-released-again", "what another type has replaced is given back again and again",
			one("engine/core.go", "return f.alone && r.Err != nil", "return false && r.Err != nil"),
			"engine/internal/suite/api", "TestALossThatTheReleaseFinds", false,
		},
		{
			"another-type-is-cleaned-again", "what an acquire left, and another type has replaced, is given back again and again",
			one("engine/cleanup.go", "if traits(c.op.Family).goneBy(r) {", "if false {"),
			"engine/internal/suite/fault", "TestNothingGoesOnForWhatAnotherTypeHasReplaced", false,
		},
		{
			"unseen-loss-is-not-counted", "a loss that the release finds is neither counted nor told of",
			one("engine/release.go", "\tif lost {\n", "\tif lost && false {\n"),
			"engine/internal/suite/api", "TestALossThatTheReleaseFinds", false,
		},
		{
			"loss-has-no-reason", "an error about a loss does not say why",
			one("engine/lease.go", "because(ErrLost, why)", "because(ErrLost, nil)"),
			"engine/internal/suite/api", "TestLossIsToldByLostByTheContextAndByRelease", false,
		},
		{
			"late-loss-wakes-somebody", "what ran out while its release was refused or on its way counts as lost",
			one("engine/release.go", "op.retry == nil && r.ReceivedAt.Before(op.hold.Deadline())", "true"),
			"engine/internal/suite/api", "TestALeaseThatRunsOutBehindItsReleaseIsNoLoss", false,
		},
		{
			"slow-loss-wakes-somebody", "what ran out while its release was on its way counts as lost",
			one("engine/release.go", "op.retry == nil && r.ReceivedAt.Before(op.hold.Deadline())", "op.retry == nil"),
			"engine/internal/suite/api", "TestALeaseThatRunsOutBehindItsReleaseIsNoLoss", false,
		},
		{
			"another-type-is-entered", "an owner that enters what another type has replaced is not told of the loss",
			one("engine/reentry.go", "case r.Err == nil, gone:", "case r.Err == nil:"),
			"engine/internal/suite/api", "TestAnotherTypeInALocksPlaceIsALossForEveryCommand", false,
		},
		{
			"another-type-is-extended", "an Extend of what another type has replaced does not tell of the loss",
			one("engine/request.go", "case r.Err == nil, op.raises != nil && r.Err.Class == resp.ClassWrongType:", "case r.Err == nil:"),
			"engine/internal/suite/api", "TestAnotherTypeInALocksPlaceIsALossForEveryCommand", false,
		},
		{
			"multi-says-the-first-reason", "of locks that were lost for different reasons one is told for all",
			one("engine/multilease.go", "why == nil || why.Error() != reasons[0].Error()", "why == nil"),
			"engine/internal/suite/several", "TestMultiSaysWhyItWasLost", false,
		},
		{
			"red-has-no-reason", "a majority is lost, and nobody says why",
			one("engine/redlease.go", "v.why = append(v.why, reasonOf(f.err))", "v.why = nil"),
			"engine/internal/suite/several", "TestRedLockOutlivesAMinorityAndNotTheMajority", false,
		},
		{
			"a-release-allocates-more", "each release moves something to the heap for a loss that few have",
			one("engine/loss.go", "func() { eng.log(", "func() { _ = eng; sc.eng.log("), "engine/internal/suite/api", "TestAPairAllocatesFewTimes", false,
		},
		{
			"longer-lease-is-forgotten", "what a longer lease keeps on the server is not given back for long enough",
			one("engine/lease.go", "if c.lease < h.Lease() {", "if false {"), "engine", "TestWhatALongerLeaseKeepsIsGivenBackForAsLong", false,
		},
		{
			"another-type-is-no-other-kind", "a loss by another kind of value is not ErrWrongKind",
			one("engine/errors.go", "if renew.Cause(c) == renew.CauseWrongType {", "if false {"),
			"engine/internal/suite/api", "TestAnotherTypeInALocksPlaceIsALossForEveryCommand", false,
		},
	}
}
