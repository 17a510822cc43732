package main

// hostile: what is well formed, and no server of ours says; keys that hold more than a reply may.
func hostile() []mutant {
	const malformed = "TestMalformedRepliesAreAnUnknownOutcomeAndNeverAGrant"
	return []mutant{
		{
			"entry-takes-what-is-free", "a server says that a re-entry has taken a lock anew",
			one("resp/answers.go", "case code == 1 && !must:", "case code == 1:"),
			"resp", malformed, false,
		},
		{
			"gone-for-who-asks", "a server says that a lock is gone to who only asks for it: that ended the process",
			one("resp/answers.go", "case code == -1 && must:", "case code == -1:"),
			"resp", malformed, false,
		},
		{
			"passed-to-nobody", "a server says that it has passed on a lock for which no waiter was named: that ended the process",
			one("resp/answers.go", " || r.Code == CodePassed && !c.ops[sparse.at-1].bequeaths(r.Value) {", " {"),
			"resp", malformed, false,
		},
		{
			"inspect-of-long-fields", "an Inspect of a hash with a huge field ends everybody's connection",
			one("resp/scripts/fragments/contents.lua", "BYTES, PAGES = 1048576,", "BYTES, PAGES = 104857600,"),
			securitySuite, "TestLookingAtAHugeKeyEndsNoConnection", false,
		},
		{
			"inspect-of-a-long-mode", "the same, of a hash with a huge mode",
			one("resp/scripts/inspect.lua", "if mode ~= 'read' and mode ~= 'write' then", "if not mode then"),
			securitySuite, "TestLookingAtAHugeKeyEndsNoConnection", false,
		},
		{
			"queue-of-long-places", "the same, of a queue with a huge place",
			one("resp/scripts/queue.lua", "if bytes > BYTES then", "if bytes > 100 * BYTES then"),
			securitySuite, "TestLookingAtAHugeKeyEndsNoConnection", false,
		},
		{
			"inspect-shows-less", "an Inspect shows nothing of a lock with some readers",
			one("resp/scripts/fragments/contents.lua", "BYTES, PAGES = 1048576,", "BYTES, PAGES = 104857,"),
			securitySuite, "TestLookingAtALargeKeyShowsItWhole", false,
		},
		{
			"crowd-is-not-told", "a table of a thousand masters that answer takes a gigabyte for connections",
			one("resp/slots.go", "crowd.Store(int32(len(all)))", "crowd.Store(1)"),
			"resp", "TestNodesWithoutASlotAreKeptUnlessTheyAreMany", false,
		},
		{
			"crowd-has-large-buffers", "the same",
			one("engine/config.go", "if crowd.Load() > crowdOf {", "if false {"),
			securitySuite, "TestAThousandMastersThatAnswerTakeLittleMemory", false,
		},
		{
			"idle-crowd-is-kept", "tables that name others each time make twice as many nodes as a table may name",
			one("resp/slots.go", "> maxIdle\n", "> 100*maxIdle\n"),
			"resp", "TestNodesWithoutASlotAreKeptUnlessTheyAreMany", false,
		},
		{
			"sentinels-name-thousands", "a sentinel that names thousands of others takes 200 MB",
			one("engine/config.go", "option.DialCtxFn = cfg.guard.Sentinels(option.DialCtxFn)", "_ = cfg.guard"),
			securitySuite, "TestASentinelThatNamesThousandsIsNotRead", false,
		},
		{
			"sentinels-say-a-lot", "the same, of few elements that are long",
			one("resp/guard_replies.go", "s.small && (s.size > smallReply || s.elements > smallElements)", "s.small && s.elements > smallElements"),
			"resp", "TestTheGuardRefusesMoreOfASentinel", false,
		},
		{
			"password-for-a-port", "a password where a port should be is in the error",
			one("engine/config.go", "return redactPort(addr)", "return addr"),
			securitySuite, "TestC158_ThePasswordIsInNoRefusalOfAnAddress", false,
		},
	}
}
