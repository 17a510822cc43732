package main

// resting: what rests until answers have come goes on with the last of them.
func resting() []mutant {
	return []mutant{
		{
			"seats-answer-is-its-own", "a queue that waits for the answers of its seats' give-backs, too, is never asked for again",
			one("engine/cleanup.go", "c.eng.kickAllLocked(sh, ent, fx)", "c.eng.kickLocked(sh, ent, fx)"),
			"engine", "TestAQueueGoesOnWhenTheLastOfItsSeatsGivesBackIsAnswered", false,
		},
	}
}
