package main

// leaving: what is left behind by who is gone keeps nobody waiting.
func leaving() []mutant {
	const lanes = "resp/confirm.go"
	return []mutant{
		{
			"cancelled-waits-for-replicas", "who has given up keeps the lock for the rest of the time in which replicas were to see it",
			one("resp/op.go", "if op.Ack != nil {", "if false {"),
			"engine", "TestWhoLeavesTheWaitForReplicasGivesTheLockBackAtOnce", false,
		},
		{
			"cancelled-wait-goes-on", "the same, once replicas are waited for",
			one("engine/acquire.go", "sc.more = append(sc.more, func() { e.nodes.Unwait(op) })", "_ = e"),
			"engine", "TestWhoLeavesTheWaitForReplicasGivesTheLockBackAtOnce", false,
		},
		{
			"wait-for-nobody-goes-on", "who comes next waits behind a WAIT that nobody needs",
			[]edit{
				{lanes, "if len(l.acks.waiting) == 0 && l.acks.cut != nil {", "if false {"},
				{lanes, "min(left, l.acks.slice))", "left)"},
			},
			"engine", "TestWhoLeavesTheWaitForReplicasGivesTheLockBackAtOnce", false,
		},
		{
			"next-waits-as-who-left", "who wants no replicas waits for those of one who has left",
			one("engine/acquire.go", "if !ent.AcksSuit() {", "if false {"),
			"engine", "TestTheNextDoesNotWaitForTheReplicasOfOneWhoLeft", false,
		},
		{
			"unwanted-is-unseen", "who waits next is told that replicas have not seen a grant, though nobody waited for them",
			one("engine/attempt.go", "a.tooFew(r) && !r.Unwanted()", "a.tooFew(r)"),
			"engine", "TestTheNextDoesNotWaitForTheReplicasOfOneWhoLeft", false,
		},
		{
			"entry-nobody-wants-waits-for-replicas", "an owner cannot give back what it has, for an entry that it has cancelled waits for replicas",
			one("engine/reentry.go", "entering(n.Current()) == op && n.op.Ack != nil {", "false {"),
			"engine", "TestWhoLeavesTheWaitForReplicasOfAnEntryHoldsNobodyUp", false,
		},
		{
			"rounds-end-by-ping", "Close hangs on commands without an answer until the connection is found dead, 11 s later",
			one("engine/engine.go", "\t\te.nodes.GiveUp()", "\t\t_ = e"),
			"engine", "TestCloseEndsInTimeThoughNoAnswerComes", false,
		},
		{
			"trust-of-who-left-stays", "a reader that wants no renewals is trusted for up to a lease longer, because of one who had some and left",
			one("engine/release.go", "\t\t\tsc.trustLess(h)\n", ""),
			"engine", "TestAReaderThatStoppedIsTrustedForItsOwnLease", false,
		},
	}
}

// leavingNothing: what who leaves, gives up or loses a lock must not leave behind.
func leavingNothing() []mutant {
	return []mutant{
		{
			"lost-writer-leaves-its-note", "readers wait up to 2.5 s for a writer that has had the lock and lost it",
			one("engine/loss.go", "\t\tsc.lostNote(h.ent)\n", "\t\t_ = h\n"),
			"engine", "TestALostWriterLeavesNoNote", false,
		},
		{
			"context-asked-on-the-lane", "a caller's context that blocks stops a lane, and one that closes the engine waits for itself",
			one("internal/callback/context.go", "\tif foreign(ctx) {\n\t\tp.Add(fn)", "\tif foreign(ctx) && false {\n\t\tp.Add(fn)"),
			apiSuite, "TestAContextThatBlocksStopsNothing|TestAContextMayCloseTheEngineWhenItIsWatched", true,
		},
		{
			"force-asks-its-context-late", "a context that blocks keeps everybody from a name that is to be force-released",
			[]edit{
				{"engine/force.go", "\t\tField: traits(l.set.family).channel(l.key),\n\t}\n\treturn single(ctx, l, op)\n", "\t\tField: traits(l.set.family).channel(l.key),\n\t}\n\tif ctx.Err() == nil && l.nameErr() == nil {\n\t\top.begin()\n\t\top.begin = nil\n\t}\n\treturn single(ctx, l, op)\n"},
			},
			apiSuite, "TestAContextThatBlocksAForceReleaseKeepsNobodyOut", true,
		},
		{
			"rest-of-a-change-waits-anew", "a release that waited behind a change without an answer is told twice as late as any other",
			one("engine/reentry.go", "\t\trelease.troubledSince(c.Since)\n", "\t\t_ = release\n"),
			"engine", "TestTheRestOfAChangeHasNoPatienceOfItsOwn", false,
		},
		{
			"release-behind-a-reading-waits-anew", "the same of a release behind what its owner asks to read",
			one("engine/attempt.go", "\t\tsc.changesWait(h.reentry(), now, r.Err)\n", "\t\t_ = h\n"),
			"engine", "TestTheRestOfAChangeHasNoPatienceOfItsOwn", false,
		},
		{
			"extend-behind-a-change-waits-anew", "the same of an Extend",
			one("engine/lease.go", "\top.since = c.Since", "\t_ = c.Since"),
			"engine", "TestTheRestOfAChangeHasNoPatienceOfItsOwn", false,
		},
		{
			"short-lease-ends-late", "the context of a lease of 100 ms ends when somebody else may have the lock already",
			one("renew/time.go", "{ return lease/4 < bucket", "{ return false && lease/4 < bucket"),
			"engine", "TestTheContextOfAShortLeaseEndsBeforeItsDeadline", false,
		},
		{
			"precise-is-not-precise", "the same, by the wheel",
			one("wheel/set.go", "max(s.width/finer, 1)", "s.width"),
			"wheel", "TestSchedule|TestTwin", false,
		},
	}
}
