package main

// refused: who waits for a give-back that the server refuses, and what one of several leaves to the others.
func refused() []mutant {
	const (
		counted = "engine/counted.go"
		scenes  = "TestWhoAsksForReplicasGoesOnBehindAReleaseOfPermits|TestATryForReplicasWaitsForNoRefusedGiveBack|" +
			"TestATryForReplicasWaitsForNoUndoingThatALockStandsBefore|TestTheRestOfAReleaseIsGivenBackThoughItIsRefused|" +
			"TestATryForReplicasWaitsForAGiveBackThatIsRefusedOnce|TestWhatIsRefusedIsTriedAgainForItsOwnHour|TestAReleaseBehindAnOldRefusalHasItsOwnTime"
	)
	scene := func(id, why, file, from, to string) mutant {
		return mutant{id, why, one(file, from, to), "engine", scenes, false}
	}
	return append(refusedTries(), []mutant{
		scene("permits-answered-and-nobody-told", "who asks for replicas waits for ever behind a release of permits",
			counted, "\tif rested { // of another kind, on another connection\n", "\tif false && rested {\n"),
		scene("refused-give-back-is-under-way", "a Try for replicas waits for as long as a give-back is refused",
			"engine/cleanup.go", "\t\tsc.rest(c, again, r.Err)\n", ""),
		scene("refused-give-back-wakes-nobody", "a Try for replicas that has rested is not sent when the give-back is refused",
			"engine/cleanup.go", "\tsc.advanceAll(ent)\n\tif rested {\n", "\tsc.advanceAll(ent)\n\tif false && rested {\n"),
		scene("refused-permits-are-under-way", "a Try for replicas waits for permits whose release is refused",
			"engine/internal/lockstate/giveback.go", "\tq.ensureExtra().failing++\n", "\tq.ensureExtra().failing += 0\n"),
		scene("rest-of-a-release-is-dropped", "permits are lost: a part was handed out, and the rest refused",
			counted, "\t\tg.sent.owed += op.part\n", "\t\t_ = op\n"),
		scene("refused-share-one-hour", "permits are lost: what comes late to an old refusal is dropped with it",
			counted, "refusedUnits{fresh, now})", "refusedUnits{fresh, slices.Concat(g.refused, []refusedUnits{{0, now}})[0].since})"),
		scene("refused-for-ever", "what is refused is tried again for ever",
			counted, "now.Sub(g.refused[0].since) > requestLasts {", "false {"),
		scene("release-has-no-time", "the outcome of a release behind an old refusal is unknown at once",
			counted, "\t\tg.next, g.since = pendingUnits{}, 0\n", "\t\tg.next = pendingUnits{}\n"),
		scene("release-waits-behind-a-refused-rest", "who gives permits back is not told that the server refuses them",
			counted, "\t\tg.sent.add(g.next)\n\t\tg.next, g.since = pendingUnits{}, 0\n", "\t\tg.since = 0\n"),
		{
			"undoing-ends-for-another", "permits are lost: what is taken meanwhile takes the note that an undoing still needs, for another undoing has ended",
			one("engine/cleanup.go", "all != nil && c.undoes {", "all != nil && traits(c.op.Family).counted() {"), "engine",
			"TestAnUndoingThatIsAnsweredAgainEndsNoOther", false,
		},
	}...)
}

// refusedTries: the same for who only tries.
func refusedTries() []mutant {
	const (
		counted = "engine/counted.go"
		tries   = "TestATryIsNotToldOfWhatItsOwnEngineIsJustGivingBack|TestATryWaitsForNoReleaseThatFails|" +
			"TestWhoAsksForReplicasWaitsForAReleaseThatIsSentAgain|TestATryThatAsksAgainIsInNobodysWay|" +
			"TestATryWaitsForNoneOfManyThatAreRefused|TestATryOfAnotherKindIsAskedForWherePermitsWereServed|" +
			"TestWhoWaitsBehindATryThatAsksAgainKnowsOfTheHolder|TestATryBehindAReleaseThatIsRefusedForGood|" +
			"TestWhoAsksForReplicasWaitsForNoneOfManyThatAreRefused|TestAWaiterWaitsForItsReleaseAlone|" +
			"TestMaxWaitBehindARefusedReleaseIsNotUnknown|TestTheCtxOfATryThatAsksAgainEnds"
	)
	try := func(id, why, file, from, to string) mutant {
		return mutant{id, why, one(file, from, to), "engine", tries, false}
	}
	return []mutant{
		try("refused-once-is-for-long", "a Try for replicas is told of what its own engine is just giving back",
			"engine/cleanup.go", " || !sc.failsLong(c.began, again, err) {", " {"),
		try("try-does-not-ask-again", "a Try is told of what its own engine is just giving back",
			"engine/attempt.go", "if ent.BusyBehind(", "if false && ent.BusyBehind("),
		try("try-asks-again-at-once", "a Try is told of what its own engine is just giving back",
			"engine/internal/lockstate/giveback.go", "q.seldom().rests != q.head && !q.head.again {", "q.seldom().rests != q.head {"),
		try("try-gives-way-to-a-move", "a Try is told of what its own engine is just giving back, for the slot moves",
			"engine/cleanup.go", "longest = sc.eng.nodes.AttemptLimit()", "longest += 0"),
		try("release-that-fails-is-under-way", "a Try waits as long as a release is refused",
			"engine/release.go", "if retry.rests = sc.failsLong", "if retry.rests = false && sc.failsLong"),
		try("try-waits-beyond-what-passes", "a Try waits for a give-back that is sent again in a second",
			"engine/cleanup.go", "return again.Sub(began) >= longest", "return sc.eng.clock.Now().Sub(began) >= longest"),
		try("try-waits-for-what-is-sent-again", "a Try waits for seconds where many give-backs are refused",
			"engine/internal/lockstate/giveback.go", "\tq.ensureExtra().failing--\n", "\tq.ensureExtra().failing--\n\tq.answered--\n"),
		try("try-of-many-asks-again", "a Try is refused though there is enough, and a waiter waits, for another Try asks again",
			"engine/internal/lockstate/giveback.go", "asked.Object != ObjectLock || !q.Meant", "!q.Meant"),
		try("try-that-left-is-in-the-way", "a waiter is not sent when the Try before it has left",
			"engine/internal/lockstate/queue.go", "case first && rests:", "case first && rests && false:"),
		try("too-few-is-of-every-kind", "who wants a lock is told of permits",
			counted, "sc.refuseTries(ent, a.op.Family, false, r.ReceivedAt)", "sc.answerTries(a, r)"),
		try("too-few-is-told-to-every-kind", "a Try hangs as long as the server refuses, for it was told of permits",
			counted, "ent.Meant(&traits(f).Traits) && w.TellBusy()", "w.TellBusy()"),
		try("release-rests-for-ever", "the answer to a release that has failed for a while is waited for by nobody",
			"engine/release.go", "\t\top.ent.GivenBackAgain()\n", ""),
		try("refused-release-is-answered", "a Try is told of its own engine, which gives back what it told a caller that it could not",
			"engine/release.go", "\t\t\tanswered = ent.ReleaseFollowed\n", ""),
		try("replicas-wait-for-all", "who asks for replicas waits for minutes where many give-backs are refused",
			"engine/internal/lockstate/giveback.go", "\tif q.whole().owes(q.behind) {\n", "\tif q.whole().UnderWay() {\n"),
		try("waiter-waits-for-all", "a waiter is not sent though its release is answered: others of the name are refused",
			"engine/internal/lockstate/giveback.go", "if !under || !q.whole().owes(q.behind) {", "if !under {"),
		try("never-sent-is-unknown", "a waiter that was never sent is told that nobody knows what came of it",
			"engine/wait.go", " || !ent.Asked() && gives {", " || gives && false {"),
		try("told-try-is-unanswered", "a Try that was told of a holder says that it had no answer",
			"engine/acquire.go", "op.Try && !op.AsksAgain() && ", "op.Try && "),
		try("told-try-is-not-counted", "a Try is told of a holder, and no refusal is counted",
			"engine/acquire.go", "if op.Try && errors.Is(err, ErrHeld) { // it", "if false { // it"),
	}
}
