package main

// changing: changes of a hold's count that get no answer, or a refusal.
func changing() []mutant {
	scene := func(id, why, file, old, broken, test string) mutant {
		return mutant{id, why, one("engine/"+file, old, broken), "engine", test, false}
	}
	return []mutant{
		scene("behind-no-answer-for-ever", "who waits behind a change without an answer is never told",
			"wirehold.go", "if over := now.Sub(c.since) > most; over ||", "if over := false; over ||", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("patience-begins-with-the-sending", "of several changes the last is told after several times the patience",
			"wirehold.go", "\t\tn.queue[i].failed(now)\n", "\t\tn.queue[i].since = now\n", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("told-handle-stays", "a handle whose release was told that nobody knows is never taken off",
			"wirehold.go", "if c.acquire != nil || c.extend != nil {\n\t\t\t\tcontinue", "if !c.settles {\n\t\t\t\tcontinue", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("entry-stays-in-the-queue", "entries that gave up pile up behind a change without an answer",
			"acquire.go", "\t\tsc.leaveReentry(ent, op)\n", "", "TestWhoGivesUpEnteringAgainLeavesTheQueue"),
		scene("lost-after-everything-was-given-back", "an owner that has nothing to give back is told to give back first",
			"reentry.go", "!c.left() && back != nil && h.count == 0 {", "false {", "TestWhoGaveEverythingBackMayEnterAfterALoss"),
		scene("refused-change-is-not-settled", "a handle that nobody has keeps the key for an hour",
			"wirehold.go", "\tn.rest = now.Add(settleAgain)\n", "", "TestARefusedChangeIsSettledWhenTheServerLetsIt"),
		scene("entry-settles-what-was-refused", "a key keeps the expiry of a handle that nobody has, for another came in meanwhile",
			"wirehold.go", "if n.cur.acquire == nil { // an entry raises", "if true { // an entry raises", "TestAnEntryDoesNotSettleWhatWasRefused"),
	}
}
