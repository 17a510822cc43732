package main

// unseen: changes that no test noticed until somebody made them.
func unseen() []mutant {
	const renewal, node, link = "resp/renewal.go", "resp/node.go", "resp/link.go"
	const move = "[]*link{n.commands, n.acked, n.renewals, n.retries} {\n\t\tif w := l.cur.Load(); w != nil {"
	const moved = "TestANodeThatIsMovedLeavesTheOldMasterWithEveryConnection"
	const keepers = "TestKeepersLookNowAndThenAndNeverWithoutAPause"
	return []mutant{
		{
			"renewal-counts-from-its-answer-in-a-move", "a slow answer of the slot's next node makes the holder believe too long",
			one(renewal, "\t\tsentAt := n.opts.Clock.Now()\n\t\treplies := w.client.DoMulti(ctx, cmds...)\n\t\tcancel()",
				"\t\treplies := w.client.DoMulti(ctx, cmds...)\n\t\tsentAt := n.opts.Clock.Now()\n\t\tcancel()"),
			"resp", "TestC028ARenewalCountsFromBeforeItWasSent", false,
		},
		{
			"renewal-counts-from-its-answer", "a slow answer makes the holder believe too long",
			one(renewal, "limit)\n\tsentAt := n.opts.Clock.Now()\n\treplies := w.client.DoMulti(ctx, cmds...)\n",
				"limit)\n\treplies := w.client.DoMulti(ctx, cmds...)\n\tsentAt := n.opts.Clock.Now()\n"),
			"resp", "TestC028ARenewalCountsFromBeforeItWasSent", false,
		},
		{
			"retries-stay-at-the-old-master", "a renewal that failed once is proven by a server that is master no more",
			one(node, move, "[]*link{n.commands, n.acked, n.renewals} {\n\t\tif w := l.cur.Load(); w != nil {"), "resp", moved, false,
		},
		{
			"acked-stays-at-the-old-master", "what waits for replicas goes to the old master",
			one(node, move, "[]*link{n.commands, n.renewals, n.retries} {\n\t\tif w := l.cur.Load(); w != nil {"), "resp", moved, false,
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
