package main

// stuck: what the scripts' twins have shown on other servers: refusals that nobody looks at, or knows.
func stuck() []mutant {
	return []mutant{
		{
			"fair-refusal-unnoticed", "a place that is written in part, of a waiter that believes to stand in the queue",
			one("resp/scripts/fragments/fairqueue.lua", "if type(v) == 'table' and v.err then", "if false then"),
			"resp", "TestNoRefusalEndsAFairScriptHalfWay", false,
		},
		{
			"give-back-needs-hlen", "a give-back of one handle fails in the middle where the ACL has no HLEN for it",
			one("resp/scripts/reacquire.lua", "type(fields) == 'table' or type(mode) == 'table' then", "false then"),
			"resp", "TestAGiveBackOfAHandleNeedsNoRightToCount", false,
		},
		{
			"slot-not-served-is-final", "Redis from 7.2 on: a slot that nobody has yet ends what should be tried again",
			one("resp/class.go", `, strings.Contains(text, "access a slot not served"):`, ":"),
			"resp", "TestC035_EveryErrorReplyHasItsClassAndItsConsequence", false,
		},
		{
			"read-copies-what-was-held", "a key gets the time of one that was held for longer",
			one("resp/scripts/read.lua", "if copying and made then", "if copying and v == nil then"),
			"resp", "TestNoScriptGivesAKeyTheLeaseOfAnother", false,
		},
		{
			"write-copies-what-was-held", "a key gets the time of one that was held for longer",
			one("resp/scripts/write.lua", "if copying and made then", "if copying and v == nil then"),
			"resp", "TestNoScriptGivesAKeyTheLeaseOfAnother", false,
		},
		{
			"fenced-copies-what-was-held", "a key gets the time of one that was held for longer",
			one("resp/scripts/fenced.lua", "if copying and made and type", "if copying and type"),
			"resp", "TestNoScriptGivesAKeyTheLeaseOfAnother", false,
		},
	}
}
