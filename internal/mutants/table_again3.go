package main

// changing: changes of a hold's count that get no answer, or a refusal.
func changing() []mutant {
	scene := func(id, why, file, old, broken, test string) mutant {
		return mutant{id, why, one("engine/"+file, old, broken), "engine", test, false}
	}
	return []mutant{
		scene("behind-no-answer-for-ever", "who waits behind a change without an answer is never told",
			"internal/lockstate/changes.go", "if over := now.Sub(c.Since) > most; over ||", "if over := false; over ||", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("patience-begins-with-the-sending", "of several changes the last is told after several times the patience",
			"internal/lockstate/changes.go", "\t\tn.queue[i].failed(now)\n", "\t\tn.queue[i].Since = now\n", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("told-handle-stays", "a handle whose release was told that nobody knows is never taken off",
			"internal/lockstate/changes.go", "if c.Enter != nil || c.Extend != nil {\n\t\t\t\tcontinue", "if !c.Settles {\n\t\t\t\tcontinue", "TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold"),
		scene("entry-stays-in-the-queue", "entries that gave up pile up behind a change without an answer",
			"acquire.go", "\t\tsc.leaveReentry(ent, op)\n", "", "TestWhoGivesUpEnteringAgainLeavesTheQueue"),
		scene("lost-after-everything-was-given-back", "an owner that has nothing to give back is told to give back first",
			"reentry.go", "!c.Left() && back != nil && h.Count() == 0 {", "false {", "TestWhoGaveEverythingBackMayEnterAfterALoss"),
		scene("refused-change-is-not-settled", "a handle that nobody has keeps the key for an hour",
			"internal/lockstate/changes.go", "\tn.rest = now.Add(SettleAgain)\n", "", "TestARefusedChangeIsSettledWhenTheServerLetsIt"),
		scene("entry-settles-what-was-refused", "a key keeps the expiry of a handle that nobody has, for another came in meanwhile",
			"internal/lockstate/changes.go", "if n.cur.Enter == nil { // an entry raises", "if true { // an entry raises", "TestAnEntryDoesNotSettleWhatWasRefused"),
	}
}
