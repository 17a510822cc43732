package main

// publishing: what nobody hears is left out of a batch of releases, and nothing else.
func publishing() []mutant {
	const (
		listeners = "resp/listeners.go"
		where     = "TestAReleaseOfSeveralIsPublishedWhereSomebodyListens"
		unknown   = "TestAReleaseIsPublishedWhereItIsNotKnownWhoListens"
		replicas  = "TestAReleaseIsPublishedWhereReplicasMayHaveSubscribers"
		doubt     = "TestAReleaseIsPublishedWhereAServerDoesNotSayThatItIsAlone"
		modes     = "TestReleasesAskWhoListensWhereNobodyCanBeMissed"
		told      = "TestOnlyWhoAskedIsToldThatItWasInVain"
	)
	script := func(id, why, old, text, tests string) mutant {
		return in("release", "publish-"+id, why, old, text, tests)
	}
	inResp := func(id, why, file, old, text, tests string) mutant {
		return mutant{"publish-" + id, why, one(file, old, text), "resp", tests, false}
	}
	return []mutant{
		script("misses-braces", "whoever waits for a name with a brace polls",
			"        heard[string.sub(name, 24)] = true\n", "", where),
		script("misses-plain-names", "whoever waits for a name without a brace polls",
			"        heard[string.sub(name, 25, -2)] = true\n", "", where),
		script("asks-for-names-in-braces-only", "the same of a name with a brace in its middle",
			"'redisson_lock__channel:*')", "'redisson_lock__channel:{*')", where),
		script("nobody-is-heard", "every message of a batch is left out", "heard and not heard[key]", "heard", where),
		script("misses-patterns", "who listens to a pattern hears of no batch",
			"and (not patterns or number(stats, patterns) == 0)", "", unknown),
		script("asks-among-any-number", "with ten thousand channels each batch takes the server as long as they are many",
			"if v >= 0 and v <= n then", "if v >= 0 then", unknown),
		script("sharded-is-plain", "in a cluster who waits is looked for among the other kind of channels",
			"'pubsubshard_channels', nil, 'SHARDCHANNELS'", "'pubsub_channels', nil, 'CHANNELS'", unknown),
		script("misses-replicas", "who listens at a replica hears of no batch",
			"number(replicas, 'connected_slaves') == 0 and ", "", doubt),
		script("says-nothing-of-replicas", "who listens at a replica of a server that does not call it so hears of no batch",
			"local _, colon = find(info, '\\n' .. what .. ':', 1, true)\n    return colon and",
			"local _, colon = find(info, '\\n' .. what .. ':', 1, true)\n    return not colon and 0 or", doubt),
		script("misses-a-backlog", "who listens at a replica that is away for a moment misses what was released meanwhile",
			" and number(replicas, 'repl_backlog_active') == 0)", ")", replicas),
		script("refusal-is-nobody", "without the right to ask every message of a batch is left out",
			"    if names.err then\n      v = -2\n    else\n", "    do\n", unknown),
		script("vain-is-silent", "a server with a replica is asked by each batch, for nothing",
			"    out[3], out[4] = 0, v\n", "", unknown),
		inResp("one-alone-asks", "a lock that is given back alone costs the server twice as much", "resp/batch.go",
			"max(e.askFrom, 2)", "1", modes),
		inResp("spin-asks", "a release that tells nobody asks who listens", "resp/batch.go",
			" && !c.ops[0].Family.row().silent", "", modes),
		inResp("cannot-be-turned-off", "PublishAlways has no effect", listeners,
			"want == PublishAlways, cluster &&", "cluster &&", modes),
		inResp("asks-in-a-cluster", "who listens at another node, or at a replica, hears of no batch", listeners,
			"cluster && (want != PublishMasters || !m.sharded)", "cluster && !m.sharded", modes),
		inResp("plain-in-a-cluster", "who listens to a plain channel at another node hears of no batch", listeners,
			"cluster && (want != PublishMasters || !m.sharded)", "cluster && want != PublishMasters", modes),
		inResp("never-rests", "each batch asks in vain", listeners,
			"h.until.Store(int64(now.Add(askAgain)))", "", "TestWhoListensIsAskedWhereItIsWorthIt"),
		inResp("asks-once", "after one replica was seen nobody asks again", listeners,
			" || !now.Before(clock.Instant(h.until.Load()))", "", "TestWhoListensIsAskedWhereItIsWorthIt"),
		inResp("asks-what-is-refused", "the ACL log of the server has a line for each batch", listeners,
			"h.refused.Store(true)", "", "TestANodeAsksOnceForWhatItHasNoRightTo"),
		inResp("unasked-is-told", "a reply that is none of ours counts as one", "resp/answers.go",
			"sparse.at == 0 && c.asks &&", "sparse.at == 0 && normal == CodeReleased &&", told),
		inResp("told-twice", "the same of one that says it twice", "resp/answers.go",
			" && inVain == 0 && named == 0 &&", " &&", told),
		inResp("told-anything", "the same of one that gives a reason that there is not", "resp/answers.go",
			"if inVain != 0 && !w.heard.inVain(", "if w.heard.inVain(inVain, 1, 0); false && w.heard.inVain(", told),
		{
			"publish-loadgen-misses-messages", "a read-write lock that nobody is told of passes for one that nobody waits for",
			one("cmd/loadgen/internal/report/judge.go", "case kind == config.KindLock, kind == config.KindFenced:", "default:"),
			"cmd/loadgen/internal/report", "TestReleasesThatNobodyHearsNeedNoMessage", false,
		},
	}
}

// counters: what the load generator makes of the server's.
func counters() []mutant {
	return []mutant{
		{
			"publish-loadgen-compares-two-servers", "a server that was started anew passes for a violation of exclusion",
			one("cmd/loadgen/internal/report/judge.go", "case r.Before.Runs != r.After.Runs:", "case false:"),
			"cmd/loadgen/internal/report", "TestCountersThatBeginAgainAreNotCompared", false,
		},
		{
			"publish-loadgen-interrupt", "an interrupt changes nothing for a question to a server that is gone",
			one("cmd/loadgen/internal/topology/ask.go", "\t\t\tend(errGone)\n", ""),
			"cmd/loadgen/internal/topology", "TestAQuestionEnds", false,
		},
		{
			"publish-loadgen-repeats", "a stall of the server fails the run that went on after it",
			one("cmd/loadgen/internal/report/judge.go", " && !r.Reconnected\n", "\n"),
			"cmd/loadgen/internal/report", "TestRepeatsAreAllowedForAfterAReconnect", false,
		},
	}
}
