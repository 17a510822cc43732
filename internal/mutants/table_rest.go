package main

// resting: what rests until answers have come goes on with the last of them.
func resting() []mutant {
	return []mutant{
		{
			"seats-answer-is-its-own", "a queue that waits for the answers of its seats' give-backs, too, is never asked for again",
			one("engine/cleanup.go", "c.eng.kickAllLocked(sh, ent, fx)", "c.eng.kickLocked(sh, ent, fx)"),
			"engine", "TestAQueueGoesOnWhenTheLastOfItsSeatsGivesBackIsAnswered", false,
		},
		{
			"reader-that-left-keeps-nothing", "a write hold that nobody has stays for as long as a reader has just kept it",
			one("engine/cleanup.go", "c.giveUp = max(c.giveUp, root.seats.lasts)", "_ = root"),
			"engine", "TestALostWriteHoldIsGivenBackForAsLongAsItsReaderMayKeepIt", false,
		},
	}
}
