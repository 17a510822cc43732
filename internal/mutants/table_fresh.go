package main

// fresh: what fresh seeds of the simulation have found (P5).
func fresh() []mutant {
	return []mutant{
		{
			"lost-but-not-told-is-held", "a Try is told of a holder who was just told that it holds nothing",
			one("engine/internal/lockstate/queue.go", "return q.closed == closedHeld", "return q.closed != closedNot"),
			"engine", "TestALockWhoseLossIsJustToldIsNobodys", false,
		},
		{
			"first-here-is-not-first-there", "who is first in a fair lock's queue hears of no release, for another one asked before it",
			one("engine/wait.go", "child := all.head; child != nil && child.hold == nil;", "child := all.first; child == all.first && child.hold == nil;"),
			"engine", "TestWhoIsInTheQueueHearsOfAReleaseThoughOneThatAskedBeforeHasNoAnswer", false,
		},
		{
			"loss-is-not-looked-at-again", "a lock that was kept in its last moment is lost at once",
			one("renew/watchdog.go", "over := !k.clock.Now().Before(SignalAt(h.Deadline(), h.Lease()))", "over := true"),
			"engine", "TestALockThatIsEnteredAgainInItsLastMomentIsKeptOrNotGranted", false,
		},
		{
			"lost-hold-is-extended", "a lock that is being lost is granted to who enters it again, or extended",
			one("renew/watchdog.go", "\tif h.gone() {\n\t\treturn false\n", "\tif false {\n\t\treturn false\n"),
			"engine", "TestALockThatIsEnteredAgainInItsLastMomentIsKeptOrNotGranted", false,
		},
	}
}
