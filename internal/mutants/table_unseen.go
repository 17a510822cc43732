package main

import "slices"

// unseen: changes that no test noticed until somebody made them.
func unseen() []mutant {
	return slices.Concat(unseenMoves(), unseenPauses(), unseenClients(), unseenElsewhere(), unseenLinks(), unseenServers(), unseenSentinels())
}

// unseenMoves breaks what a renewal counts from, and what a failover leaves behind.
func unseenMoves() []mutant {
	const renewal, node, link = "resp/renewal.go", "resp/node.go", "resp/link.go"
	const move = "range n.links() {\n\t\tif w := l.cur.Load(); w != nil {"
	const moved = "TestANodeThatIsMovedLeavesTheOldMasterWithEveryConnection"
	return []mutant{
		{
			"renewal-counts-from-its-answer-in-a-move", "a slow answer of the slot's next node makes the holder believe too long",
			one(renewal, "\t\tsentAt := n.opts.Clock.Now()\n\t\treplies := w.client.DoMulti(ctx, cmds...)\n\t\tcancel()",
				"\t\treplies := w.client.DoMulti(ctx, cmds...)\n\t\tsentAt := n.opts.Clock.Now()\n\t\tcancel()"),
			"resp", "TestC028_ARenewalCountsFromBeforeItWasSent", false,
		},
		{
			"renewal-counts-from-its-answer", "a slow answer makes the holder believe too long",
			one(renewal, "limit)\n\tsentAt := n.opts.Clock.Now()\n\treplies := w.client.DoMulti(ctx, cmds...)\n",
				"limit)\n\treplies := w.client.DoMulti(ctx, cmds...)\n\tsentAt := n.opts.Clock.Now()\n"),
			"resp", "TestC028_ARenewalCountsFromBeforeItWasSent", false,
		},
		{
			"retries-stay-at-the-old-master", "a renewal that failed once is proven by a server that is master no more",
			one(node, move, "range n.links() {\n\t\tif w := l.cur.Load(); w != nil && l != n.retries {"), "resp", moved, false,
		},
		{
			"acked-stays-at-the-old-master", "what waits for replicas goes to the old master",
			one(node, move, "range n.links() {\n\t\tif w := l.cur.Load(); w != nil && l != n.acked {"), "resp", moved, false,
		},
		{
			"subscriptions-stay-at-the-old-master", "waiters hear nothing of releases after a failover",
			one(node, "\tn.subs.Replace()\n\tif old != nil", "\tif old != nil"), "resp", moved, false,
		},
		{
			"moved-while-dialling", "a connection that was being made at a failover stays at the old master",
			one(link, "if l.from.moves.Load() != moves {", "if false && l.from.moves.Load() != moves {"),
			"resp", "TestAConnectionThatIsMadeWhileItsNodeMovesIsGivenUp", false,
		},
	}
}

// unseenPauses breaks how soon, and how often, a server is looked for.
func unseenPauses() []mutant {
	const node, link, keepers = "resp/node.go", "resp/link.go", "TestKeepersLookNowAndThenAndNeverWithoutAPause"
	return []mutant{
		{
			"failed-dials-are-not-shared", "each lane in turn waits for a host that swallows connections",
			one(link, "if l.failed != nil && l.clock", "if false && l.clock"),
			"resp", "TestADialThatFailedAnswersForThoseRightBehindIt", false,
		},
		{
			"failed-dials-are-shared-for-long", "a server that is back is not asked",
			one(link, "const shareFailure = 25 *", "const shareFailure = 250 *"),
			"resp", "TestADialThatFailedAnswersForThoseRightBehindIt", false,
		},
		{
			"leave-pause-stays-short", "an address that leads to a replica for good is dialled ten times a second",
			one(link, "pause = min(max(2*time.Duration(l.leavePause.Load()), leaveLeast), leaveMost)", "_ = leaveMost"),
			"resp", "TestThePauseBetweenTwoLeavesDoubles", false,
		},
		{
			"leave-pause-stays-long", "a replica is left 5 s late because there was trouble last week",
			one(link, "if now.Sub(next) < leaveMost {", "if now.Sub(next) < 1000*leaveMost {"),
			"resp", "TestThePauseBetweenTwoLeavesDoubles", false,
		},
		{
			"table-is-not-read-by-itself", "a cluster that changes while nobody asks it anything stays unknown",
			one("resp/slots.go", "timer.Reset(tableEvery)", "timer.Stop()"), "resp", keepers, false,
		},
		{
			"sentinels-are-not-asked-by-themselves", "a failover that nobody heard of stays unknown",
			one("resp/follow.go", "timer.Reset(lookEvery)", "timer.Stop()"), "resp", keepers, false,
		},
		{
			"table-pause-stays-short", "nodes that do not answer are asked twenty times a second",
			one("resp/slots.go", "pause = min(2*pause, tableMost)", "_ = tableMost"), "resp", keepers, false,
		},
		{
			"sentinel-pause-stays-short", "sentinels that do not answer are asked twenty times a second",
			one("resp/follow.go", "pause = min(2*pause, tableMost)", "_ = tableMost"), "resp", keepers, false,
		},
		{
			"table-pause-grows-for-ever", "nodes that were silent for a while are never asked again",
			one("resp/slots.go", "pause = min(2*pause, tableMost)", "pause *= 2"), "resp", keepers, false,
		},
		{
			"table-pause-stays-long", "a cluster that changes is followed a second late each time",
			one("resp/slots.go", "if ns.counts.changes.Load() != changes {", "if false && ns.counts.changes.Load() != changes {"),
			"resp", "TestATableThatChangesIsReadAgainSoon", false,
		},
		{
			"lost-subscriptions-are-no-suspicion", "while everybody waits for messages nobody notices that their server is gone",
			one(node, "if e.Kind == pubsub.Lost || ", "if "), "resp", "TestLostSubscriptionsAreASuspicion", false,
		},
		{
			"no-subscriptions-are-no-suspicion", "the same, where there never was a connection",
			one(node, "e.Kind == pubsub.DialFailed || ", ""), "resp", "TestLostSubscriptionsAreASuspicion", false,
		},
		{
			"refused-subscriptions-are-no-suspicion", "a node that serves the slot no more refuses the channel, and is asked again and again",
			one(node, " || e.Kind == pubsub.Refused {", " {"), "resp", "TestLostSubscriptionsAreASuspicion", false,
		},
	}
}

// unseenClients breaks what the engine's clients are made with, and its name.
func unseenClients() []mutant {
	const config, dialer = "engine/config.go", "resp/dialer.go"
	const needs, crowd = "TestEveryClientIsMadeWithWhatCorrectnessNeeds", "TestOnlyACrowdOfNodesHasSmallRings"
	const verified = "TestEachNodeIsVerifiedByItsOwnAddressUnlessANameIsGiven"
	return []mutant{
		{
			"uuid-of-24-bits", "one of a few thousand engines has the name of another, and holds its locks",
			one("internal/world/world.go", "return crypto.Read(b)", "_, _ = crypto.Read(b[:3])\n\t\treturn len(b), nil"), "engine", "TestAllOfAUUIDIsRandom", false,
		},
		{
			"uuid-says-one-thing-twice", "half of the UUID follows from the other half",
			one("internal/world/world.go", "return crypto.Read(b)", "_, _ = crypto.Read(b[:8])\n\t\treturn 8 + copy(b[8:], b[:8]), nil"),
			"engine", "TestAllOfAUUIDIsRandom", false,
		},
		{
			"uuid-of-the-program", "a program that has its own ids repeat has engines that hold each other's locks",
			one("engine/engine.go", "uuid.Must(uuid.NewRandomFromReader(w)).String()", "uuid.NewString()"),
			"engine", "TestAUUIDIsNotDrawnFromTheReaderOfTheProgram", false,
		},
		{
			"url-names-every-node", "each node of a cluster has to show the certificate of the URL's host, or may",
			one(config, "option.TLSConfig.ServerName = \"\" //", "//"), "engine", verified, false,
		},
		{
			"asked-name-is-forgotten", "whoever redirects sends the password to any node with a certificate of its own",
			one(config, "option.TLSConfig = cfg.TLS\n", "option.TLSConfig = cfg.TLS.Clone()\n\t\toption.TLSConfig.ServerName = \"\"\n"), "engine", verified, false,
		},
		{
			"client-tries-again", "the client sends a command twice by itself, behind our back",
			one(config, "option.DisableRetry = true", "option.DisableRetry = false"), "engine", needs, false,
		},
		{
			"client-loses-answers", "an answer that has arrived is lost when its connection breaks",
			one(config, "option.AlwaysPipelining = true", "option.AlwaysPipelining = false"), "engine", needs, false,
		},
		{
			"client-multiplexes", "a key's commands overtake each other on two connections",
			one(config, "option.PipelineMultiplex = -1", "option.PipelineMultiplex = 1"), "engine", needs, false,
		},
		{
			"client-waits-for-long", "a dead connection is noticed after 10 s",
			one(config, "option.ConnWriteTimeout = 2 *", "option.ConnWriteTimeout = 10 *"), "engine", needs, false,
		},
		{
			"small-rings-for-everybody", "a connection that is busy has a tenth less throughput",
			one("engine/config.go", "if crowd.Load() > crowdOf {", "if crowd.Load() >= 0 {"), "engine", crowd, false,
		},
		{
			"small-rings-one-early", "the bound is another than is written",
			one("engine/config.go", "if crowd.Load() > crowdOf {", "if crowd.Load() >= crowdOf {"), "engine", crowd, false,
		},
		{
			"closed-connections-linger", "a connection that is given up still sends what is in its buffer",
			one(dialer, "_ = tcp.SetLinger(0)", "_ = tcp.SetLinger(-1)"), "resp", "TestConnectionsAreDialledToEndSoon", false,
		},
		{
			"no-user-timeout", "a peer that is gone is noticed by the kernel after a quarter of an hour",
			one(dialer, "setUserTimeout(tcp, dialTimeout)", "_ = setUserTimeout"), "resp", "TestConnectionsAreDialledToEndSoon", false,
		},
		{
			"name-stays-in-the-configuration", "the second node is verified by the first one's address",
			one(dialer, "secured = config.Clone()", "_ = config.Clone"), "resp", "TestWhoAnswersIsVerifiedByTheAddressThatWasDialled", false,
		},
	}
}

// unseenElsewhere breaks what is none of these.
func unseenElsewhere() []mutant {
	const turn = "TestATurnAndThePauseBehindItAreAsLongAsTheWay"
	return []mutant{
		{
			"mark-is-made-anew-in-a-move", "a renewal in a move shortens the life of a longer read hold",
			one("resp/moving.go", ".Value(\"1\").Nx().Px", ".Value(\"1\").Px"), "resp", "TestAMarkIsMadeOrRaisedAndNeverLoweredOnItsWay", false,
		},
		{
			"mark-is-lowered-in-a-move", "the same, where it is there",
			one("resp/moving.go", "Milliseconds(r.LeaseMs).Gt().Build()", "Milliseconds(r.LeaseMs).Build()"),
			"resp", "TestAMarkIsMadeOrRaisedAndNeverLoweredOnItsWay", false,
		},
		{
			"turn-ignores-the-way", "over a long way a turn is over before its second grant",
			one("engine/attempt.go", "max(10*r.ReceivedAt.Sub(r.SentAt), lockstate.TenureLeast)", "max(0*r.ReceivedAt.Sub(r.SentAt), lockstate.TenureLeast)"), "engine", turn, false,
		},
		{
			"turn-without-a-bound", "over a very long way nobody else has the lock for seconds",
			one("engine/attempt.go", "min(max(10*r.ReceivedAt.Sub(r.SentAt), lockstate.TenureLeast), lockstate.TenureMost)", "max(10*r.ReceivedAt.Sub(r.SentAt), lockstate.TenureLeast)"),
			"engine", turn, false,
		},
		{
			"pause-ignores-the-way", "over a long way an engine takes the lock again before the others have heard of its release",
			one("engine/release.go", "max(2*r.ReceivedAt.Sub(r.SentAt), least)", "max(0*r.ReceivedAt.Sub(r.SentAt), least)"), "engine", turn, false,
		},
		{
			"pause-without-a-bound", "over a very long way a lock lies idle",
			one("engine/release.go", "min(max(2*r.ReceivedAt.Sub(r.SentAt), least), lockstate.YieldMost)", "max(2*r.ReceivedAt.Sub(r.SentAt), least)"),
			"engine", turn, false,
		},
		{
			"dropped-lines-are-not-shown", "nobody sees that the log has gaps",
			one("engine/stats.go", "= ran.Dropped, e.wheel.Stuck()", "= 0, e.wheel.Stuck()"),
			"engine", "TestLinesThatWereDroppedAreInTheStatistics", false,
		},
		{
			"stuck-wheel-is-not-shown", "nobody sees that what waits for time comes late",
			one("engine/stats.go", "= ran.Dropped, e.wheel.Stuck()", "= ran.Dropped, 0"),
			"engine", "TestAStuckTimingWheelIsReportedOnce", false,
		},
		{
			"witness-marks-over-a-mark", "two that are granted one lock at one moment are not seen",
			one("internal/witness/witness.go", "return at.CompareAndSwap(0, mark)", "at.Store(mark)\n\t\treturn true"),
			"internal/witness", "TestTwoThatHaveSeenTheSame", false,
		},
		{
			"witness-marks-over-a-mark-of-one-that-is-gone", "the same, where one that is gone had it",
			one("internal/witness/witness.go", "if !at.CompareAndSwap(other, mark) {", "at.Store(mark)\n\t\tif false {"),
			"internal/witness", "TestTwoThatHaveSeenTheSame", false,
		},
		{
			"witness-looks-once", "who comes between another's look and its mark is not seen",
			one("internal/witness/witness.go", "\t\tw.again.Add(1)\n", "\t\tw.again.Add(1)\n\t\tbreak\n"),
			"internal/witness", "TestTakeAtTheVerySameMoment", false,
		},
		{
			"lane-counts-from-its-answer", "a slow answer makes the holder believe too long",
			one("resp/round.go", "outcome := c.readReply(w, reply, sentAt, l.received)", "outcome := c.readReply(w, reply, l.received, l.received)"),
			"resp", "TestC028_WhatALaneSendsCountsFromBeforeItWasSent", false,
		},
		{
			"lane-counts-from-its-first-round", "what was sent again, behind a dial or without its script, is believed for too short a time",
			one("resp/round.go", "l.rounds > 1 || w != before {", "w != before && false {"),
			"resp", "TestC028_WhatALaneSendsCountsFromBeforeItWasSent", false,
		},
	}
}

// unseenLinks breaks what becomes of connections, and of renewals that their node does not serve.
func unseenLinks() []mutant {
	const renewal, moving, link = "resp/renewal.go", "resp/moving.go", "resp/link.go"
	const elsewhere, doubted = "TestARenewalElsewhere", "TestARenewalThatIsRefusedIsASuspicion"
	return []mutant{
		{
			"one-lease-for-all-renewals", "a hold of a short lease is renewed for a long one, or the other way round",
			one(renewal, "other.script() && r.LeaseMs == other.LeaseMs", "other.script()"), "resp", "TestRenewalsOfOneLeaseShareACommand", false,
		},
		{
			"one-script-for-all-renewals", "a read hold is renewed without its mark",
			one(renewal, "return r.script() == other.script() && ", "return "), "resp", "TestRenewalsOfOneLeaseShareACommand", false,
		},
		{
			"refused-renewal-is-no-suspicion", "while everybody only holds nobody notices a failover",
			one(renewal, "r.Err != nil && r.Err.Class.suspicious() }", "r.Err != nil && r.Err.Class == ClassReadOnly }"), "resp", doubted, false,
		},
		{
			"refused-renewal-is-no-suspicion-in-a-cluster", "the same of a cluster",
			one(renewal, "doubtful = doubtful || r.Err.Class.suspicious()", "doubtful = false"), "resp", doubted, false,
		},
		{
			"moved-renewal-teaches-nothing", "each renewal of a slot that has moved goes to the old node first",
			one(renewal, "n.nodes.learn(r.slot(), addr)", "_ = addr"), "resp", elsewhere, false,
		},
		{
			"asks-without-asking", "the next node of a slot refuses its renewals until the move is over",
			one(renewal, "w.client.B().Asking().Build(), renewCommand(w, true, hashes[i:i+1]))", "w.client.B().Ping().Build(), renewCommand(w, true, hashes[i:i+1]))"),
			"resp", elsewhere, false,
		},
		{
			"mark-for-what-is-gone", "a read hold that is gone leaves a mark that keeps the key alive",
			one(renewal, "r.Code == CodeRenewed && r.Family.row().marks {", "r.Family.row().marks {"), "resp", elsewhere, false,
		},
		{
			"mark-is-for-others-too", "a lock gets a mark of a read hold",
			one(renewal, "r.Code == CodeRenewed && r.Family.row().marks {", "r.Code == CodeRenewed {"), "resp", elsewhere, false,
		},
		{
			"refused-mark-is-believed", "a reader believes in a hold whose mark runs out",
			one(moving, "r.Code, r.Err = CodeError, classify(err)", "_ = classify(err)"), "resp", elsewhere, false,
		},
		{
			"broken-connection-stays", "what comes next is sent nowhere, and left in doubt",
			one(link, "\t\tdefer l.wg.Done()\n\t\tl.giveUp(w)\n", "\t\tdefer l.wg.Done()\n"),
			"resp", "TestAConnectionThatBreaksIsLeftBeforeAnythingIsSent", false,
		},
		{
			"replica-is-used", "a master that sentinels named too late is written to",
			one(link, "err == nil && name != \"master\" {", "err == nil && name == \"sentinel\" {"), "resp", "TestWhoIsNoMasterIsNotUsedAsOne", false,
		},
		{
			"role-may-not-be-asked", "a server where ROLE is refused is not used",
			one(link, "if err != nil || len(parts) == 0 {\n\t\treturn nil", "if err != nil || len(parts) == 0 {\n\t\treturn errClosed"),
			"resp", "TestWhoIsNoMasterIsNotUsedAsOne", false,
		},
	}
}

// unseenServers breaks how servers are left, and what is known of those that are connected to.
func unseenServers() []mutant {
	const renewal, moving, node = "resp/renewal.go", "resp/moving.go", "resp/node.go"
	const again, closed, stays = "TestWhoIsRefusedAsByAReplicaConnectsAgain", "TestTheClientOfTheMasterThatWasLeftIsClosed", "TestWhoAnswersAsAMasterStaysOne"
	return []mutant{
		{
			"renewals-stay-at-a-replica", "behind one address renewals are refused until the lease is over",
			one(renewal, "left = left || slices.", "left = left && slices."), "resp", again, false,
		},
		{
			"lane-stays-at-a-replica", "behind one address everything is refused",
			one("resp/lane.go", "if l.node.left(err) && l.sent != nil {", "if l.node.left(err) && l.sent == nil {"), "resp", again, false,
		},
		{
			"left-master-stays-open", "each failover leaves connections behind",
			one(node, "n.follow.wg.Go(old.Close)", "_ = old.Close"), "resp", closed, false,
		},
		{
			"borrowed-client-is-closed", "somebody else's client is closed at a failover",
			one(node, "if old != nil && !n.from.borrowed {", "if old != nil {"), "resp", closed, false,
		},
		{
			"marks-share-an-answer", "a reader believes in a hold whose mark was refused",
			one(moving, "range replies[i*each : (i+1)*each] {", "range replies[i-i:each] {"), "resp", "TestEachMarkInAMoveHasItsOwnAnswer", false,
		},
		{
			"mark-that-is-there-breaks-its-connection", "each renewal in a move connects again",
			one(moving, "if reply.NonRedisError() != nil && !rueidis.IsRedisNil(reply.Error()) {", "if reply.Error() != nil {"),
			"resp", "TestEachMarkInAMoveHasItsOwnAnswer", false,
		},
		{
			"unanswered-connection-stays-in-a-move", "answers go to the wrong commands, or to none",
			one(renewal, "if reply.NonRedisError() != nil {\n\t\t\t\tn.retries", "if false {\n\t\t\t\tn.retries"), "resp", "TestARenewalElsewhere", false,
		},
		{
			"counter-stays-behind", "a fenced lock's release waits until its counter has arrived",
			one(moving, "if !op.asks() {\n\t\treturn nil\n\t}\n\treturn []string{slot.FenceToken", "return []string{slot.FenceToken"), "resp", "TestTheKeysThatHaveToBeOnOneSide", false,
		},
		{
			"queue-stays-behind", "who asks again for a fair lock makes a second queue",
			one(moving, "if !op.asks() {\n\t\treturn nil\n\t}\n\treturn []string{\n\t\tslot.FairQueue", "if op.Kind != OpAcquire {\n\t\treturn nil\n\t}\n\treturn []string{\n\t\tslot.FairQueue"), "resp", "TestTheKeysThatHaveToBeOnOneSide", false,
		},
		{
			"broken-once-is-silent", "one sentinel that lies wins when a connection to the master happens to break",
			one(node, "!silent && tries == 1 {", "!silent && tries == 0 {"), "resp", stays, false,
		},
		{
			"full-master-is-silent", "one sentinel that lies wins while the master has no room for another connection",
			one(node, " || failed.Class == ClassMaxClients", ""), "resp", stays, false,
		},
		{
			"refusing-master-is-silent", "one sentinel that lies wins where ROLE may not be asked",
			one(node, "return refused\n", "return refused && false\n"), "resp", stays, false,
		},
		{
			"first-command-has-no-clock", "the first acquire of a connection has a not-after of long ago",
			one("resp/link.go", "w.est.learn(serverMs, received)", "_, _ = serverMs, received"), "resp", "TestAConnectionKnowsItsServersClockFromTheBeginning", false,
		},
		{
			"clock-of-seconds", "a not-after is up to a second early",
			one("resp/link.go", "return parts[0]*1000 + parts[1]/1000, nil", "return parts[0] * 1000, nil"),
			"resp", "TestAConnectionKnowsItsServersClockFromTheBeginning", false,
		},
	}
}

// unseenSentinels breaks what is understood of sentinels' answers, and of redirections.
func unseenSentinels() []mutant {
	const follow, redirect = "resp/follow.go", "resp/redirect.go"
	const answer, finding, none = "TestASentinelsAnswerIsRead", "TestAFindingMovesTheNodeOrDoesNot", "TestARedirectionIsReadOrIsNone"
	return []mutant{
		{
			"address-of-a-sentinel-is-not-checked", "what a sentinel makes up is dialled, and stands in logs",
			one(follow, "len(address) != 2 || !dialable(address[0], address[1]):", "len(address) != 2:"), "resp", answer, false,
		},
		{
			"epoch-is-not-read", "an old configuration counts as a new one",
			one(follow, "strconv.ParseInt(about[\"config-epoch\"], 10, 64)", "strconv.ParseInt(about[\"epoch\"], 10, 64)"), "resp", answer, false,
		},
		{
			"no-such-master-is-no-error", "a name that no sentinel knows is asked for again and again",
			one(follow, "case rueidis.IsRedisNil(err):", "case rueidis.IsRedisNil(err) && false:"), "resp", answer, false,
		},
		{
			"finding-always-moves", "each look at the sentinels breaks every connection",
			one(follow, "if found.addr == f.node.Addr() {", "if false {"), "resp", finding, false,
		},
		{
			"closed-follower-moves", "a node is moved while it is closed",
			one(follow, "if found.err != nil || f.ctx.Err() != nil || ", "if found.err != nil || "), "resp", finding, false,
		},
		{
			"nobody-is-told-of-a-master", "the log does not say that there was a failover",
			one(follow, "\t\tf.told(found.addr)\n", "\t\t_ = f.told\n"), "resp", finding, false,
		},
		{
			"sharded-from-another-version", "a fleet of two versions of us does not hear each other",
			one("resp/nodes.go", "want == PubSubAuto && atLeast(version, 7, 0)", "want == PubSubAuto && atLeast(version, 8, 0)"),
			"resp", "TestReleasesTravelAsAskedForOrAsTheVersionAllows", false,
		},
		{
			"redirection-without-a-slot", "a redirection that makes no sense is followed",
			one(redirect, "err != nil || n < 0 || n >= slotCount {", "err != nil || n == -9 {"), "resp", none, false,
		},
		{
			"redirection-to-nobody", "a node that does not know its own host leads nowhere",
			one(redirect, "if host == \"\" || host == \"?\" {", "if host == \"\" {"), "resp", none, false,
		},
	}
}
