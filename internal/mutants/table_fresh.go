package main

// fresh: what fresh seeds of the simulation have found (P5).
func fresh() []mutant {
	return []mutant{
		{
			"lost-but-not-told-is-held", "a Try is told of a holder who was just told that it holds nothing",
			one("engine/queue.go", "if q.hold == nil || q.hold.status.Load() == holdLost {", "if q.hold == nil {"),
			"engine", "TestALockWhoseLossIsJustToldIsNobodys", false,
		},
		{
			"loss-is-not-looked-at-again", "a lock that was kept in its last moment is lost at once",
			one("renew/watchdog.go", "if h.expire(k.clock.Now()) {", "if h.expire(k.clock.Now()) || true {"),
			"engine", "TestALockThatIsEnteredAgainInItsLastMomentIsKeptOrNotGranted", false,
		},
		{
			"loss-keeps-its-deadline", "a lock that is being lost is granted to who enters it again",
			one("renew/hold.go", "int64(min(old, now))", "int64(old)"),
			"engine", "TestALockThatIsEnteredAgainInItsLastMomentIsKeptOrNotGranted", false,
		},
	}
}
