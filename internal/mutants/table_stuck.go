package main

// stuck: what the scripts' twins have shown on other servers: scripts that run for ever, a refusal nobody knows.
func stuck() []mutant {
	return []mutant{
		{
			"fair-asks-for-ever", "a dead waiter on a server that takes no writes: the server answers nobody",
			one("resp/scripts/fair.lua", "    if type(gone) == 'table' then", "    if false then"),
			"resp", "TestAFairScriptEndsWhereADeadWaiterCannotBeTakenOut", true,
		},
		{
			"fair-release-for-ever", "the same, of who gives the lock back",
			one("resp/scripts/fairrelease.lua", "    if type(gone) == 'table' then", "    if false then"),
			"resp", "TestAFairScriptEndsWhereADeadWaiterCannotBeTakenOut", true,
		},
		{
			"give-back-needs-hlen", "a give-back of one handle fails in the middle where the ACL has no HLEN for it",
			one("resp/scripts/reacquire.lua", "type(fields) == 'table' or type(mode) == 'table' then", "false then"),
			"resp", "TestAGiveBackOfAHandleNeedsNoRightToCount", false,
		},
		{
			"slot-not-served-is-final", "Redis from 7.2 on: a slot that nobody has yet ends what should be tried again",
			one("resp/class.go", `, strings.Contains(text, "access a slot not served"):`, ":"),
			"resp", "TestC035EveryErrorReplyHasItsClassAndItsConsequence", false,
		},
	}
}
