package main

// forcing: what happens beside a ForceRelease (P1, P3).
func forcing() []mutant {
	return []mutant{
		{
			"asks-beside-a-force", "whoever asks meanwhile asks again and again, for a grant that is not believed",
			one("engine/internal/lockstate/queue.go", "case q.Forcing(): // its grant would not be believed", "case false:"),
			familySuite, "TestAReaderRestsWhileAForceReleaseMayStillRun|TestAReadingBesideAWriteRestsWhileAForceReleaseMayStillRun", false,
		},
		{
			"believed-after-a-force", "two hold it: replicas were waited for while a ForceRelease took the lock",
			one("engine/internal/lockstate/queue.go", "return !q.overtaken && !q.Forcing()", "return !q.Forcing()"),
			familySuite, "TestAGrantThatWaitsForReplicasIsNotBelievedAfterAForceRelease", false,
		},
		{
			"passed-on-during-a-force", "two hold it: a fair lock was passed on by a release while a ForceRelease took it",
			one("engine/internal/lockstate/queue.go", "return !q.overtaken && !q.Forcing()", "return !q.overtaken"),
			"engine/internal/lockstate", "TestQueueBelievesNoGrantWhileAForceReleaseIsOnItsWay", false,
		},
		{
			"force-judges-by-the-mode-at-the-call", "a reader believes what a ForceRelease took behind a downgrade",
			one("engine/force.go", "			l.alsoTaken(false)\n", ""),
			familySuite, "TestAForceReleaseOfAReadLockThatRunsBehindADowngradeTellsWhoReads|TestAForceReleaseOfAWriteLockThatIsBeingReleasedTellsWhoReads", false,
		},
	}
}
