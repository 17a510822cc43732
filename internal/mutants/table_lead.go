package main

// leads: a caller that leads a lane.
func leads() []mutant {
	const lead, direct = "resp/lead.go", "resp/direct.go"
	sim := func(name, why, file, from, to string) mutant {
		return mutant{name, why, one(file, from, to), "engine", "TestSimOfLeaders", false}
	}
	return []mutant{
		{
			"leader-waits-for-its-answer", "a caller whose ctx ends returns when the server answers",
			one(direct, "d.limited, err = true, d.conn.SetReadDeadline(time.Now().Add(leadMost))", "d.limited, err = true, d.conn.SetReadDeadline(time.Now().Add(time.Minute))"),
			"resp", "TestALeaderLeavesARoundThatTakesLong", false,
		},
		{
			"leader-dials", "a caller whose ctx ends waits for a dial",
			one("resp/round.go", "if leads && (l.rounds > 0 || !l.leadable(w)) {", "if leads && l.rounds > 0 {"),
			"resp", "TestALeaderLeavesTheDialToTheWorker", false,
		},
		{
			"left-round-begins-anew", "what a leader has sent is sent again",
			one("resp/round.go", "if l.stage != stageReply && !l.open(w) {", "if !l.open(w) {"),
			"resp", "TestALeaderLeavesARoundThatTakesLong", false,
		},
		{
			"leader-keeps-the-lane", "who comes behind a round that its leader has left waits for ever",
			one(lead, "idle := l.stage == stageNone && l.queue.len() == 0 && !l.closed", "idle := l.queue.len() == 0 && !l.closed"),
			"resp", "TestALeaderLeavesARoundThatTakesLong", false,
		},
		{
			"leader-forgets-close", "Close waits for ever for a lane that a caller has led",
			one(lead, "l.queue.len() == 0 && !l.closed", "l.queue.len() == 0"), "resp", "TestCloseWaitsForALeaderOnly", false,
		},
		sim("sim-leader-forgets-the-queue", "who asked while a caller led waits until somebody else comes", lead,
			"idle := l.stage == stageNone && l.queue.len() == 0 && !l.closed", "idle := l.stage == stageNone && !l.closed"),
		sim("sim-left-round-is-forgotten", "a round that its leader has left has no answer", lead,
			"idle := l.stage == stageNone && l.queue.len()", "idle := l.queue.len()"),
	}
}

// ownConnections: a lane that writes and reads itself.
func ownConnections() []mutant {
	const direct = "resp/direct.go"
	return []mutant{
		{
			"lanes-share-a-connection", "what one lane is answered another takes for its own reply",
			one("resp/node.go", "over = n.beside[i-1]", "_ = i"), "resp", "TestWideOpsTakeAllLanes", false,
		},
		{
			"late-interrupt-ends-the-next-round", "a round that has just begun has no answer",
			one(direct, "if d.limited && !leads || d.interrupted.Load() {", "if d.limited && !leads {"),
			"resp", "TestDirectTakesNoInterruptOfTheRoundBefore", false,
		},
		{
			"stray-deadline-ends-a-round", "a leader's deadline ends the round that the worker goes on with",
			one(direct, "if d.limited && !leads || d.interrupted.Load() {", "if d.interrupted.Load() {"),
			"resp", "TestDirectIsLeftByItsLeaderAndTheWorkerGoesOn", false,
		},
		{
			"round-has-no-end", "a silent server holds its lane for ever",
			one(direct, "\tif err == nil && over() {\n", "\tif err == nil && false && over() {\n"),
			"resp", "TestAttemptWithoutAnAnswerEndsAtItsLimitAndIsNotDefinite", false,
		},
		{
			"round-is-not-interrupted", "a silent server holds its lane for ever",
			one("resp/lane.go", "\t\td.interrupt()\n", "\t\t_ = d\n"),
			"resp", "TestAttemptWithoutAnAnswerEndsAtItsLimitAndIsNotDefinite", false,
		},
		{
			"leader-writes-what-may-wait", "a leader's time ends in the middle of a write, and TLS with it",
			one(direct, "if leads && len(d.out) > leadBytes {", "if false {"),
			"resp", "TestDirectIsLeftByItsLeaderBeforeAWriteThatMayWait", false,
		},
		{
			"surplus-is-an-answer", "a reply that nobody asked for grants a lock that somebody else holds",
			one("resp/peek_unix.go", "p.there = n > 0", "p.there = n < 0"),
			"resp", "TestALaneTakesNoReplyThatNobodyAskedFor", false,
		},
		{
			"end-of-tls-unseen", "what is sent behind the end of TLS is unknown",
			one("resp/peek_unix.go", "p.there = n > 0", "p.there = n < 0"),
			"resp", "TestDirectSeesTheEndOfTLS", false,
		},
	}
}

// ownReplies: how such a lane reads what the server says, and what it does while that says nothing.
func ownReplies() []mutant {
	const direct = "resp/direct.go"
	return []mutant{
		{
			"arrived-is-lost", "what had come when the connection broke is unknown",
			one(direct, "at, there := 0, d.asked-d.left()", "at, there := 0, 0"), "resp", "TestDirectKeepsWhatHadComeWhenItsConnectionBreaks", false,
		},
		{
			"push-is-a-reply", "a push of the server is taken for the answer",
			one(direct, "for kind == '>' { // a push", "for kind == '?' { // a push"), "resp", "TestDirectIsLeftByItsLeaderAndTheWorkerGoesOn", false,
		},
		{
			"push-of-two-rounds", "a part of a push that came with the last reply is the beginning of the next round's",
			one(direct, "if !d.conn.in.between() {", "if false {"), "resp", "TestDirectIsOfNoMoreUseWithAPartOfAMessage", false,
		},
		{
			"push-has-no-elements", "a push within an array is read as a text: a length that is negative ends the process",
			one(direct, "case '>': // within", "case '?': // within"), "resp", "TestDirectReadsAPushWithinAnArray", false,
		},
		{
			"text-is-shared", "a reply's text becomes another's",
			one(direct, "c.texts = c.texts || len(text) > 0", "_ = c.texts"), "resp", "TestDirectKeepsEachText", false,
		},
		{
			"ended-unseen", "what is sent on a connection that had ended is unknown",
			one("resp/round.go", "w.direct.stale()", "false"), "resp", "TestALaneSeesThatItsConnectionHasEnded", false,
		},
		{
			"idle-is-closed", "a server that closes idle connections closes the lane's, and the next call pays for a dial",
			one("resp/round.go", "now.Sub(l.received) >= idlePing {", "false {"), "resp", "TestALaneKeepsItsIdleConnectionAlive", false,
		},
		{
			"ping-hides-what-comes-next", "who waits behind a sign of life that took long is not told when its ctx ends",
			one("resp/round.go", "\tl.since, l.reported = 0, false\n", "\tl.since = 0\n"),
			"resp", "TestALaneGivesUpAnIdleConnectionThatGivesNoSign", false,
		},
		{
			"idle-and-silent", "a connection that a firewall has forgotten is found out by a call",
			one("resp/round.go", "if replies[0].NonRedisError() != nil {", "if replies[0].NonRedisError() != nil && false {"), "resp", "TestALaneGivesUpAnIdleConnectionThatGivesNoSign", false,
		},
	}
}

// busyPolls: a lane that asks for its replies again and again.
func busyPolls() []mutant {
	return []mutant{
		{
			"busy-poll-burns", "a lane polls where that carries no more",
			one("resp/busypoll.go", "if polls < waits-least {", "if polls < 8*waits {"),
			"resp", "TestABusyPollKeepsWhatCarriesMore", false,
		},
		{
			"busy-poll-beside-others", "a lane polls where another has work for the processor",
			one("resp/round.go", "len(l.ops), !l.node.spread.wide.Load())", "len(l.ops), true)"),
			"resp", "TestALaneBesideOthersDoesNotPoll", false,
		},
		{
			"busy-poll-learns-from-others", "what a lane takes beside others decides how it waits alone",
			one("resp/busypoll.go", "p.began, p.ops, p.mode = now, 0, blocked", "p.began, p.mode = now, blocked"),
			"resp", "TestALaneBesideOthersDoesNotPoll", false,
		},
		{
			"busy-poll-led-by-outliers", "one process that stood still for a moment halves the pace for hundreds of rounds",
			one("resp/busypoll.go", "rounds[:busyPollTries*3/4]", "rounds"), "resp", "TestABusyPollLeavesOutliersOut", false,
		},
		{
			"busy-poll-led-by-one-trial", "a lane changes how it waits by chance",
			one("resp/busypoll.go", "p.score = max(p.score-1, -busyPollSure)", "p.score = -busyPollTurns"),
			"resp", "TestABusyPollLeavesOutliersOut", false,
		},
		{
			"busy-poll-led-by-the-hour", "a machine that slows down decides how a lane waits",
			one("resp/busypoll.go", "p.left <= 2*busyPollTries && p.ops > 0", "p.ops > 0"), "resp", "TestABusyPollLeavesOutliersOut", false,
		},
		{
			"busy-poll-counts-rounds", "rounds of one op count as much as those of many",
			one("resp/busypoll.go", "took+r.took, ops+r.ops", "took+r.took, ops+1"), "resp", "TestABusyPollCountsOps", false,
		},
		{
			"busy-poll-to-and-fro", "a lane changes how it waits where there is no difference",
			one("resp/busypoll.go", "\t\tleast /= 2\n", ""), "resp", "TestABusyPollIsSteady", false,
		},
		{
			"busy-poll-makes-garbage", "a lane that polls makes a hundred megabytes of garbage a second",
			one("resp/peek_unix.go", "n, _ := unix.Poll(p.fds[:], 0)",
				"n, _, _ := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)"),
			"resp", "TestAPeekerTakesNoMemory", false,
		},
		{
			"busy-poll-never-tries", "a lane blocks where that halves its pace",
			one("resp/busypoll.go", "\t\tp.mode = 1 - p.mode\n", ""), "resp", "TestABusyPollKeepsWhatCarriesMore", false,
		},
		{
			"busy-poll-of-one-processor", "nobody sees what comes from the network",
			one("resp/busypoll.go", " || p.mode == polling && runtime.GOMAXPROCS(0) == 1 {", " {"), "resp", "TestABusyPollOfOneProcessorBlocks", false,
		},
		{
			"busy-poll-without-end", "a lane burns a processor for a server that is silent",
			one("resp/busypoll.go", "time.Since(began) < busyPollMost", "time.Since(began) < 10*time.Second"), "resp", "TestABusyPollEnds", false,
		},
	}
}

// hijacks: what becomes of a connection that a lane takes over.
func hijacks() []mutant {
	const hijack = "resp/hijack.go"
	return []mutant{
		{
			"client-pings-the-server", "the client's PING stands between a lane's commands",
			one("resp/guard.go", "if n, undone, err := h.write(b); !undone {", "if n, undone, err := h.write(b); false && !undone {"),
			"resp", "TestAHijackedConnectionIsIdleAndAliveToItsClient", false,
		},
		{
			"hijacked-too-early", "the answer to the client's PING is taken for that of a lane's command",
			one(hijack, "if w.in.answered != w.asked.sent.Load() || !w.in.between() {", "if false {"),
			"resp", "TestAConnectionOnWhichTheClientWaitsIsNotHijacked", false,
		},
		{
			"client-unanswered", "the client gives a connection up that is well",
			one(hijack, "h.pending = append(h.pending, pingReply...)", "_ = pingReply"),
			"resp", "TestAHijackedConnectionIsIdleAndAliveToItsClient", false,
		},
		{
			"pong-within-a-message", "the client reads a PONG as a part of a reply, and a hostile server ends the process",
			one(hijack, "for !h.taken && !h.undone && !h.closed {", "for false {"), "resp", "TestAPingIsNotAnsweredBeforeTheConnectionIsTaken", false,
		},
		{
			"tls-keeps-an-answer", "what a server sends too much by TLS is the answer to the next command",
			one("resp/direct.go", "return secure && d.buffered()", "return false"), "resp", "TestWhatTLSHasReadAlreadyIsNotTheNextAnswer", false,
		},
		{
			"hijacked-with-an-answer", "what a server sent too much before the connection was taken is the answer to the first command",
			one("resp/link.go", "if w.direct.stale() {", "if false {"), "resp", "TestALinkKeepsNoConnectionWithAReplyTooMany", false,
		},
		{
			"hijacked-once-closed", "a client that has closed its connection is kept where it reads",
			one(hijack, "if w.closed.Load() { // since", "if false { // since"), "resp", "TestAClosedConnectionIsNotHijacked", false,
		},
		{
			"hijacked-at-any-price", "two read from one connection",
			one(hijack, "case <-timer.C:\n\t\t_ = w.Close()\n\t\treturn false, errNotLeft", "case <-timer.C:\n\t\treturn true, nil"), "resp", "TestAConnectionWithoutAReaderIsNotHijacked", false,
		},
	}
}
