package main

// replays: a server that takes over is sent the last releases again.
func replays() []mutant {
	const run, pause, moved = "TestAnotherRunOfAServerIsToldTheLastReleasesOnce",
		"TestWhatIsRefusedIsToldAgainAfterAPause", "TestClusterMasterThatDidNotHearOfAReleaseIsToldAgain"
	return []mutant{
		{
			"another-run-hears-nothing", "a server that took over keeps what was given back for a whole lease",
			one("resp/round.go", "if w.stock != l.recent.run {", "if false {"), "resp", run, false,
		},
		{
			"idle-lane-waits-to-be-asked", "an engine that does nothing else does not say its last releases again",
			one("resp/replay.go", "l.recent.behind(l.link.cur.Load(), now):", "false:"), "resp", run, false,
		},
		{
			"same-run-is-told", "each new connection brings the last releases once more",
			one("resp/replay.go", "rr.kept == 0, w != nil && w.stock == rr.run:", "rr.kept == 0:"), "resp", run, false,
		},
		{
			"said-again-is-noted", "each replay makes what is told next longer",
			one("resp/replay.go", "is && again.of.lane == l && !again.moved {", "is && again.of.lane == nil {"), "resp", run, false,
		},
		{
			"permits-are-given-back-twice", "a semaphore has more permits after a failover",
			one("resp/replay.go", "!op.Family.row().replay || ", ""), "resp", run, false,
		},
		{
			"what-failed-counts-as-told", "a server that was loading is told nothing",
			one("resp/replay.go", "\t\ts.failed = true\n", ""), "resp", pause, false,
		},
		{
			"told-without-a-pause", "a server that is loading is told at each tick",
			one("resp/replay.go", "min(max(2*l.replayPause, replayPauseLeast), replayPauseMost)", "1"), "resp", pause, false,
		},
		{
			"refused-for-good-is-told-for-ever", "a server that refuses is asked every two seconds",
			one("resp/replay.go", "(r.Err.Class.Transient() || !r.Definite() || RefusesWrites(r.Err))", "true"),
			"resp", "TestWhatIsRefusedForGoodIsNotToldAgain", false,
		},
		{
			"too-few-replicas-count-as-told", "a master that has no replica yet is told nothing",
			one("resp/replay.go", " || RefusesWrites(r.Err)", ""), "resp", pause, false,
		},
		{
			"shared-connection-tells-for-all", "what one lane released is not said again where another has made their connection",
			one("resp/replay.go", "return w.stock != rr.run", "return false"),
			"resp", "TestALaneWhoseConnectionAnotherHasMadeTellsWhatItReleased", false,
		},
		{
			"note-is-taken-back-again", "a waiting writer's note is gone after a failover",
			one("resp/replay.go", " || strings.HasSuffix(op.Field, noteMark)", ""),
			"resp", "TestANoteIsNotTakenBackAgain", false,
		},
		{
			"who-is-gone-is-dialled-for-ever", "a server that does not come back is dialled every two seconds",
			one("resp/replay.go", "l.node.opts.Clock.Now().Sub(l.recent.last) >= replayFor || ", ""),
			"resp", "TestAServerThatIsGoneForGoodIsLeftAlone", false,
		},
		{
			"what-moved-is-nobodys", "a master that took over slots does not hear of the last releases",
			one("resp/replay.go", "p.send(r, true)", "_ = r"), "engine/internal/suite/cluster", moved, false,
		},
		{
			"nobody-asks-who-took-over", "an idle engine learns of a new master half a minute late",
			one("resp/replay.go", "\t\t\tl.node.suspect() // another may serve its slots, or be the master\n", ""),
			"engine/internal/suite/cluster", moved, false,
		},
	}
}

// replayed: how much of them is kept, and sent at a time.
func replayed() []mutant {
	return []mutant{
		{
			"replay-goes-at-once", "callers wait behind a replay for seconds",
			one("resp/replay.go", "left := int32(replayMost)", "left := int32(1 << 30)"),
			"resp", "TestAReplayIsSentAFewAtATimeTheLatestFirst", false,
		},
		{
			"one-that-fails-fails-all", "a release that is refused for long has all others sent again every two seconds",
			one("resp/replay.go", "\t\tif s.failed {\n", "\t\tif rr.current.failed.Load() {\n"),
			"resp", "TestWhatIsRefusedIsSentAgainAlone", false,
		},
		{
			"long-releases-count-as-one", "an engine that holds nothing keeps 200 MB of releases, and its callers wait behind a replay",
			one("resp/replay.go", "work := max(op.Family.Work(op.Field), 1) + ", "work := 1 + "),
			"resp", "TestAReleaseIsTheWorkOfItsKeysAndLonger", false,
		},
		{
			"what-comes-back-is-forgotten", "a release whose slot has moved forth and back is never sent to a later run",
			one("resp/replay.go", "again.of.lane == l && !again.moved {", "again.of.lane == l {"),
			"resp", "TestAMovedReleaseThatComesBackIsKept", false,
		},
		{
			"who-owes-is-retired", "what a node has released is forgotten while those who took over refuse it",
			one("resp/slots.go", " && !m.node.owesReplay()", ""), "resp", "TestANodeStaysForWhatOthersAreStillToBeSent", false,
		},
		{
			"who-owes-stays-for-ever", "a node without slots stays as long as others refuse what it has released",
			one("resp/slots.go", "now.Sub(m.idle) > replayMovedFor, ", ""), "resp", "TestANodeStaysForWhatOthersAreStillToBeSent", false,
		},
	}
}

// inTheWay: who waits asks who has the lock.
func inTheWay() []mutant {
	const scene = "TestAHoldThatOnlyTheServerKnowsIsGivenBack"
	return []mutant{
		{
			"own-ghost-is-let-alone", "who waits for what its own engine gave back waits for a whole lease",
			one("engine/wait.go", "sc.clean(ent, lockRef{field, ent.head().set.family}, lockstate.Indeterminate{}, left)", "_ = left"),
			"engine", scene, false,
		},
		{
			"fair-field-is-a-mutex", "a place in a queue is given back as a mutex",
			one("resp/family.go", " && field[len(id)+1] != '0'", ""), "engine", "TestWhoElseHasTheLockIsLetAlone", false,
		},
		{
			"holder-elsewhere-is-not-named", "nobody is told who has the lock",
			one("engine/wait.go", "ent.wakeups().holder.owner = resp.Printable(field)", "_ = field"),
			"engine", "TestWhoElseHasTheLockIsLetAlone", false,
		},
		{
			"holder-who-left-is-named", "an error names who gave the lock back long ago",
			one("engine/wait.go", "p.holder.owner = \"\"", "_ = p"),
			"engine", "TestWhoHeldTheLockBeforeIsNotSaidToHoldIt", false,
		},
		{
			"holder-is-not-asked-anew", "an error names who had the lock before",
			one("engine/wait.go", "q.owner, q.next = \"\", now", "_ = d"),
			"engine", "TestWhoHeldTheLockBeforeIsNotSaidToHoldIt", false,
		},
		{
			"too-few-replicas-are-enough", "a server that refuses writes for lack of replicas looks ready",
			one("resp/writable.go", "asked[i] == \"EVALSHA\" && RefusesWrites(said):", "false:"),
			apiSuite, "TestPingSeesThatAServerRefusesWrites", false,
		},
		{
			"refused-loads-are-asked-again", "each Ping of a user who may load no scripts stands in the log of the ACL",
			one("resp/writable.go", "n.loadFrom.Store(again)", "_ = again"),
			apiSuite, "TestPingOfAUserWhoMayLoadNoScriptAsksOnce", false,
		},
	}
}
