package main

// secrets: who is asked, who is believed, and what is shown.
func secrets() []mutant {
	return []mutant{
		{
			"sentinels-in-plain-text", "with TLS to the master the sentinels are asked in plain text: whoever stands between names the master",
			one("engine/config.go", "\t\toption.Sentinel.TLSConfig = option.TLSConfig\n", ""),
			securitySuite, "TestSentinelsAreAskedOverTLSWhereTheMasterIs", false,
		},
		{
			"highest-epoch-wins", "one sentinel that somebody has taken over names the master, with whatever epoch it likes",
			one("resp/elect.go", "\tbest := elect(votes, now.addr)\n", "\tbest := finding{}\n\tfor _, one := range all {\n\t\tif one.err == nil && one.epoch == newest {\n\t\t\tbest.addr, best.epoch, known = one.addr, one.epoch, 1\n\t\t}\n\t}\n"),
			securitySuite, "TestALoneSentinelThatLiesIsNotFollowed", false,
		},
		{
			"last-sentinel-is-believed", "the same, while the others are silent and the master answers",
			one("resp/follow.go", "found.weak && f.node.mastering(f.ctx)", "false"),
			securitySuite, "TestTheLastSentinelIsBelievedOnceTheMasterIsSilent", false,
		},
		{
			"outage-of-most-is-for-ever", "after an outage that took most sentinels the new master is never found",
			one("resp/elect.go", "case 2*n > known, 2*n > answered && best.epoch >= now.epoch:", "case 2*n > known:"),
			securitySuite, "TestTheLastSentinelIsBelievedOnceTheMasterIsSilent", true,
		},
		{
			"quickest-sentinel-wins", "at Open the first sentinel that answers is believed",
			one("resp/elect.go", "case best.addr == \"\": // two have as many", "case false:"),
			securitySuite, "TestOfTwoSentinelsThatDoNotAgreeNoneIsBelieved", false,
		},
		{
			"liar-names-the-voters", "a sentinel that lies names as many others as it takes to be most",
			one("resp/elect.go", "if 2*n > known && !before[addr] {", "if 2*n > 0 && !before[addr] {"),
			"resp", "TestFollowMeetsTheSentinelsThatMostName", false,
		},
		{
			"liar-leaves-the-voters-out", "a sentinel that lies leaves the others out while they are silent",
			one("resp/elect.go", "if 2*(answered-naming[addr]) <= known {", "if 2*naming[addr] > known {"),
			"resp", "TestFollowMeetsTheSentinelsThatMostName", false,
		},
		{
			"one-voter-by-two-names", "a sentinel that is asked by its name and by its address has two votes",
			one("resp/elect.go", "\tif len(f.named) == 0 {\n", "\tif true {\n"),
			"resp", "TestFollowCountsASentinelOnce", false,
		},
		{
			"liar-raises-the-epoch", "a sentinel that lies names the right master with an epoch that makes every failover seem old",
			one("resp/elect.go", "epochs[(len(epochs)-1)/2]", "epochs[len(epochs)-1]"),
			"resp", "TestFollowBelievesWhatMostSentinelsSay", false,
		},
	}
}

// shown: what is shown of passwords, and of what servers and names say.
func shown() []mutant {
	return []mutant{
		{
			"address-is-shown", "an address that cannot be one is refused together with the password in it",
			one("engine/config.go", "is not host:port\", redactAddr(addr))", "is not host:port\", addr)"),
			securitySuite, "TestC158_ThePasswordIsInNoRefusalOfAnAddress", false,
		},
		{
			"url-is-shown-as-it-stands", "of a URL that cannot be read the part behind a password's @ is shown",
			one("engine/config.go", "\t\treturn scheme + \"://\" + hidden\n", "\t\treturn scheme[:0] + hidden + addr[strings.LastIndexByte(addr, '@')+1:]\n"),
			securitySuite, "TestC158_ThePasswordIsInNoRefusalOfAnAddress", false,
		},
		{
			"fields-one-by-one", "a verb that is none for a text shows the fields of a configuration, the password too",
			one("engine/config.go", "func (cfg Config) Format(", "func (cfg Config) format("),
			securitySuite, "TestC158_ThePasswordIsInNothingThatFmtMakesOfAConfigOrItsOption", false,
		},
		{
			"option-holds-the-password", "an option that is printed shows the password",
			one("engine/config.go", "\toption.Username, option.Password = \"\", \"\"\n", ""),
			securitySuite, "TestC158_ThePasswordIsInNothingThatFmtMakesOfAConfigOrItsOption", false,
		},
		{
			"echo-is-shown", "a server that echoes what it refuses has the password shown",
			one("resp/words.go", "text := hide(e.Text)", "text := e.Text"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerEchoes", false,
		},
		{
			"echo-of-a-sentinel-is-shown", "the same of a sentinel",
			one("resp/follow.go", "dial: f.ask, hide: f.hide}", "dial: f.ask}"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerEchoes", false,
		},
		{
			"malformed-echo-is-logged", "the same in the log, where the echo is not even a reply",
			one("engine/engine.go", "if e.hide != nil { // it begins", "if false { // it begins"),
			securitySuite, "TestC158_ThePasswordIsNotInTheLogOfWhatAServerSent", false,
		},
		{
			"echo-is-shown-but-for-itself", "what a server has cut off or quoted of a password is shown",
			one("resp/words.go", "const secretBegin, secretPart = 4, 6", "const secretBegin, secretPart = 1 << 10, 1 << 10"),
			securitySuite, "TestC158_ThePasswordIsNotInWhatAServerEchoes", false,
		},
		{
			"name-turns-a-log", "a name turns the direction in which a line of a log is read",
			one("engine/loss.go", `"name", resp.Printable(ent.eng.nameOf(ent.key))`, `"name", ent.eng.nameOf(ent.key)`),
			"engine", "TestNamesTurnNoDirectionInALogOrAnError", false,
		},
		{
			"password-of-an-argument", "loadgen takes a password that whoever lists the processes sees",
			one("cmd/loadgen/flags_server.go", "case option.Password != \"\":", "case option.Password != \"\" && false:"),
			"cmd/loadgen", "TestThePasswordIsNoArgument", false,
		},
		{
			"server-text-raw", "a server's text clears the screen and forges lines of a log",
			one("resp/words.go", "case strconv.IsPrint(r):", "case true:"),
			securitySuite, "TestServerTextInTheErrorOfAnOperationIsPrintableAndCut", false,
		},
		{
			"server-text-endless", "a server's text fills a log",
			one("resp/words.go", "b.Len() >= mostText", "false"),
			"resp", "TestServerTextInErrorsIsPrintableAndCut|TestPrintableLeavesOrdinaryTextAndNothingThatSpeaksToATerminal", false,
		},
	}
}
