package main

// guarding: nothing that a server sends ends the process, takes its memory or grants what it has not.
func guarding() []mutant {
	const malformed = "TestMalformedRepliesAreAnUnknownOutcomeAndNeverAGrant"
	return []mutant{
		{
			"one-key-twice-grants-another", "a reply that names one key twice grants another",
			one("resp/reply.go", "if s.at <= s.last || s.at > s.most {", "if s.at < 1 || s.at > s.most {"),
			"resp", malformed, false,
		},
		{
			"a-key-beyond-the-batch", "a reply that names a key beyond the batch ends the process",
			one("resp/reply.go", "|| s.at > s.most {", "{"),
			"resp", malformed, false,
		},
		{
			"key-without-its-answer", "a reply that is cut off behind a key ends the process",
			one("resp/reply.go", "if len(values) < head || (len(values)-head)%2 != 0 {", "if len(values) < head {"),
			"resp", malformed, false,
		},
		{
			"malformed-keeps-its-connection", "after a reply that is none, replies may go to other commands",
			one("resp/answers.go", "\t\tw.malformed.Store(true)\n", "\t\t_ = w\n"),
			"resp", malformed, false,
		},
		{
			"astray-is-believed", "behind a reply too many, the others grant what they were not asked for",
			one("resp/reply.go", "\tcase w.malformed.Load():\n\t\treturn nil, errAstray\n", ""),
			"resp", "TestRepliesBehindAMalformedOneAreNoAnswer", false,
		},
		{
			"times-overflow", "a server's clock that is far ahead makes a not-after that is long over",
			one("resp/estimate.go", "serverMs = min(max(serverMs, 0), longestMs)", "_ = longestMs"),
			"resp", "TestTimesOfTheServerAreBounded", false,
		},
		{
			"slot-of-two-masters", "a table with a hundred thousand ranges keeps Open for ever",
			one("resp/slots.go", "if p.served[slot] {", "if false {"),
			"resp", "TestTablesThatAreNoneAreRefused", false,
		},
		{
			"table-without-end", "a table of 16,384 masters makes a hundred thousand goroutines",
			one("resp/slots.go", "if len(p.known) == maxTableNodes {", "if false {"),
			"resp", "TestTablesThatAreNoneAreRefused", false,
		},
		{
			"strangers-without-end", "redirections to ten thousand addresses make 74,000 goroutines",
			one("resp/slots.go", "if strangers >= maxStrangers {", "if strangers >= 100*maxStrangers {"),
			"resp", "TestRedirectionsLeadToSoManyStrangersAndNoMore", false,
		},
		{
			"other-nodes-each-time", "tables that name others each time make nodes without end",
			one("resp/slots.go", "case many, now.Sub(m.idle) > replayMovedFor,", "case m.idle != 0 && now.Sub(m.idle) > replayMovedFor, m.idle != 0 &&"),
			"resp", "TestTablesThatNameOthersEachTimeMakeNoNodesWithoutEnd", false,
		},
	}
}

// refusing: what the guard in front of each connection refuses.
func refusing() []mutant {
	const refuses = "TestTheGuardRefusesWhatItsClientMustNotRead"
	return []mutant{
		{
			"reply-too-many", "a reply that nobody asked for ends the process",
			one("resp/guard_replies.go", "if s.answered >= s.asked.sent.Load() {", "if false {"),
			"resp", refuses, false,
		},
		{
			"confirmation-too-many", "the confirmation of a subscription that nobody asked for ends the process",
			one("resp/guard_replies.go", "if !ok || c.channels == 0 {", "if ok && c.channels == 0 {"),
			"resp", refuses, false,
		},
		{
			"queued-subscription", "a subscription that is answered QUEUED ends the process",
			one("resp/guard_replies.go", `case ok && c.channels > 0 && m.is("QUEUED"):`, "case false:"),
			"resp", refuses, false,
		},
		{
			"negative-length", "a negative length ends the process",
			one("resp/guard_replies.go", "\tcase n < 0:\n\t\treturn errLength\n", "\tcase n < -1000:\n\t\treturn errLength\n"),
			"resp", refuses, false,
		},
		{
			"line-without-end", "a line without an end takes all memory",
			one("resp/guard_replies.go", "\ts.cr = b[len(b)-1] == '\\r'\n\tif s.length > mostLine {", "\ts.cr = b[len(b)-1] == '\\r'\n\tif false {"),
			"resp", refuses, false,
		},
		{
			"complete-without-its-end", "a null or a boolean without CRLF is a reply to the client, before the guard counts it",
			one("resp/guard_replies.go", "\treturn begins(s.line[:min(s.length, len(s.line))])\n", "\t_ = begins\n\treturn nil\n"),
			"resp", refuses, false,
		},
		{
			"nested-without-end", "nested arrays take the stack",
			one("resp/guard_replies.go", "if s.depth == mostDepth {", "if s.depth == mostDepth && n > 1 {"),
			"resp", refuses, false,
		},
		{
			"elements-without-end", "an array takes all memory",
			one("resp/guard_replies.go", "case s.size > mostReply || s.elements > mostElements:", "case s.size > mostReply:"),
			"resp", refuses, false,
		},
		{
			"bytes-without-end", "strings take all memory",
			one("resp/guard_replies.go", "case s.size > mostReply || s.elements > mostElements:", "case s.elements > mostElements:"),
			"resp", refuses, false,
		},
		{
			"commands-are-miscounted", "a connection is closed whose commands are written in pieces",
			one("resp/guard_commands.go", "\t\ts.length += n\n", "\t\ts.length = n\n"),
			"resp", "TestTheGuardLetsThroughWhatServersSend", false,
		},
		{
			"pong-is-counted", "the PING behind an unsubscription lets a reply too many through",
			one("resp/guard_commands.go", "if unasked && string(name)", "if unasked && len(name) == 0 && string(name)"),
			"resp", refuses, false,
		},
		{
			"no-guard", "the first reply that nobody asked for ends the process",
			one("engine/config.go", "option.DialCtxFn = cfg.guard.Dialer(dial)", "option.DialCtxFn = dial"),
			faultSuite, "TestMangledReplies", false,
		},
	}
}
