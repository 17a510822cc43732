package main

// silence: servers that accept and say nothing, and what must not pile up behind them.
func silence() []mutant {
	return []mutant{
		{
			"endpoint-dials-for-each", "whoever asks for a silent server adds a dial of his own: connections without end",
			one("resp/endpoint.go", "first := client == nil && d == nil && !closed", "first := client == nil && !closed"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"endpoint-keeps-a-late-dial", "a client that nobody closes, after Close",
			one("resp/endpoint.go", "\tcase p.closed:\n\t\terr = rueidis.ErrClosing\n\tcase p.dialled", "\tcase p.dialled"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"endpoint-takes-the-server-it-left", "locks of the new master asked for at the old one",
			one("resp/endpoint.go", "case p.dialled != d:", "case false:"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"endpoint-move-waits-for-the-server-it-left", "after a failover everybody waits for the silent old master first",
			one("resp/endpoint.go", "old, p.client, p.dialled = p.client, nil, nil", "old, p.client = p.client, nil"),
			"resp", "TestEndpointDialsTheNewServerBesideTheOldDial", false,
		},
		{
			"endpoint-dial-is-known-by-the-moves", "two dials of the new master, one client that nobody closes",
			one("resp/endpoint.go", "case p.dialled != d:", "case p.dialled != d && p.dialled != nil:"),
			"resp", "TestADialThatBeginsBehindAMoveIsNotTheEndpoints", false,
		},
		{
			"link-shares-a-move", "after a failover every lane waits before it dials the new master",
			one("resp/link.go", "if !errors.Is(err, errMoved) {", "if true {"),
			"resp", "TestAMoveIsNoFailureThatIsShared", false,
		},
		{
			"subscriptions-take-a-move-for-a-failure", "a failover looks like a server that does not answer",
			one("resp/node.go", "if errors.Is(err, errMoved) {", "if false {"),
			"resp", "TestAMoveIsNoFailureThatIsShared", false,
		},
		{
			"endpoint-late-dial-hides-the-new-one", "two dials of one server, one client that nobody closes",
			one("resp/endpoint.go", "if p.dialled == d {", "if true {"),
			"resp", "TestEndpointDialsTheNewServerBesideTheOldDial", false,
		},
		{
			"hide-changes-our-own-errors", "with a password that begins like one of our words, WaitReplicas takes an unwanted hold for a lost one",
			one("resp/words.go", "if hide == nil || !e.quotes() {", "if hide == nil || e == nil {"),
			"resp", "TestAnErrorOfOursIsNotHidden", false,
		},
		{
			"table-reading-outlives-close", "Close waits two seconds for every three silent masters",
			one("resp/slots.go", "\t\tcase <-ns.stop:\n\t\t\treturn errClosed\n\t\t}\n\t\twaiting--", "\t\t}\n\t\twaiting--"),
			"resp", "TestCloseEndsAReadingOfTheTable", false,
		},
	}
}

// room: what all the replies on their way may take.
func room() []mutant {
	const more, save = "TestTheGuardRefusesMoreThanWasAskedFor", "TestAServerCannotSaveRoomForALargeReply"
	return []mutant{
		{
			"room-for-anything", "a pipeline of replies, each as large as one may be, takes gigabytes",
			one("resp/guard_replies.go", "\tcase s.size+elementCost*s.elements > s.room:\n\t\treturn errRoom\n", ""),
			"resp", more, false,
		},
		{
			"room-counts-bytes-only", "a null is three bytes on the wire and forty in memory",
			one("resp/guard_replies.go", "case s.size+elementCost*s.elements > s.room:", "case s.size > s.room:"),
			"resp", more, false,
		},
		{
			"room-is-not-used-up", "each reply may be as large as all together",
			one("resp/guard_replies.go", "\ts.spent += int64(s.size + elementCost*s.elements)\n", ""),
			"resp", more, false,
		},
		{
			"room-can-be-saved", "a server that was honest for a day may then send gigabytes",
			one("resp/guard_replies.go", "\ts.spent = max(s.spent, s.forfeit)\n", ""),
			"resp", save, false,
		},
		{
			"room-of-those-on-their-way-is-forfeit", "honest replies end their connection",
			one("resp/guard_replies.go", "\tif s.answered < s.mark {\n\t\treturn\n\t}\n", ""),
			"resp", "TestTheGuardRefusesMoreThanWasAskedFor|TestTheGuardLetsThroughWhatServersSend", false,
		},
		{
			"pushes-need-room", "a lock that many wait for ends the connection that tells of it",
			one("resp/guard_replies.go", "case kind == '>' || s.asked", "case s.asked"),
			"resp", more, false,
		},
		{
			"pushes-of-resp2-need-room", "the same, where pushes are arrays",
			one("resp/guard_replies.go", "case kind == '>' || s.asked.listens.Load() && !s.asked.resp3.Load():", "case kind == '>':"),
			"resp", more, false,
		},
		{
			"room-for-a-borrowed-client", "an application's own large replies end its connection",
			one("resp/guard_replies.go", "case !s.own:\n", "case s.own && kind == 0:\n"),
			"resp", more, false,
		},
		{
			"no-room-is-made", "the engine's own connections take gigabytes",
			one("engine/engine.go", "&resp.Guard{Own: true}", "&resp.Guard{}"),
			securitySuite, "TestAServerThatSaysMuchToLittleLosesItsConnection", false,
		},
		{
			"looks-have-the-room-of-a-key", "Inspect of a large hash ends its connection",
			one("resp/guard_commands.go", "if s.size == lookArguments && length", "if s.size == 0 && length"),
			"resp", more + "|TestARunCarriesFewLooks", false,
		},
		{
			"looks-all-at-once", "three hundred Inspects of large hashes take gigabytes",
			one("resp/lane.go", "l.claim(&q.looks, mostLooks)", "l.claim(&q.looks, 1000*mostLooks)"),
			"resp", "TestARunCarriesFewLooks", false,
		},
		{
			"looks-beyond-the-first-are-lost", "an Inspect that is never answered",
			one("resp/lane.go", "l.claim(&q.looks, mostLooks)", "l.claim(&q.looks, mostLooks)\n\t\tq.looks = fifo{}"),
			"resp", "TestARunCarriesFewLooks", true,
		},
	}
}

// toldLater: a server that says later what it was told in the handshake.
func toldLater() []mutant {
	const operations = "TestC158_ThePasswordIsInNoErrorOfAnOperation"
	return []mutant{
		{
			"operation-tells-a-password", "an error of an operation has the password that the server sends back",
			one("resp/lane.go", "hidden(l.node.opts.Hide, r.Err),", "r.Err,"),
			apiSuite, operations, false,
		},
		{
			"ping-tells-a-password", "so has Ping's",
			one("resp/writable.go", "return hidden(n.opts.Hide, refused)", "return refused"),
			apiSuite, operations, false,
		},
		{
			"table-tells-a-password", "so has the error of a table that is none",
			one("resp/slots.go", "hidden(p.hide, unexpected(\"CLUSTER SLOTS\", replies[1]))", "unexpected(\"CLUSTER SLOTS\", replies[1])"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerSaysOfItself", false,
		},
		{
			"host-tells-a-password", "so has that of a table with a host that is none",
			one("resp/slots.go", "hidden(p.hide, AsServerError(err))", "AsServerError(err)"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerSaysOfItself", false,
		},
		{
			"policy-tells-a-password", "so has the warning of a policy that evicts",
			one("resp/link.go", "l.evicts(l.hidden(evictionPolicy(info)))", "l.evicts(evictionPolicy(info))"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerSaysOfItself", false,
		},
		{
			"replicas-tell-a-password", "so has the error of a grant that too few replicas have seen",
			one("resp/lane.go", "hidden(l.node.opts.Hide, r.AckErr)", "r.AckErr"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerSaysOfItself", false,
		},
		{
			"version-tells-a-password", "so have the statistics",
			one("resp/link.go", "w.caps.Version = l.hidden(w.caps.Version)", "_ = l"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerSaysOfItself", false,
		},
		{
			"large-pushes", "a message of megabytes, again and again",
			one("resp/guard_replies.go", "s.room = allowPush\n\tdefault", "s.room = allowAnything\n\tdefault"),
			"resp", "TestTheGuardRefusesMoreThanWasAskedFor", false,
		},
		{
			"room-without-what-was-sent", "refusals that name long keys end the connection",
			one("resp/guard_commands.go", "\ts.allowed += int64(len(b)) // a refusal may name what was sent\n", ""),
			"resp", "TestTheGuardRefusesMoreThanWasAskedFor", false,
		},
	}
}
