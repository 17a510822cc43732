package main

// onTime: what tests in a simulated world time to the millisecond.
func onTime() []mutant {
	return []mutant{
		{
			"loss-told-behind-the-deadline", "a holder is told when it is trusted no longer, and not before",
			one("renew/time.go", "return min(bucket+25*time.Millisecond, lease/4)", "return -max(lease/100, 10*time.Millisecond)"),
			"engine", "TestC009_SilenceIsToldBeforeTheServerLetsGo", false,
		},
		{
			"tried-for-longer", "who waits for a server that is gone is told later than promised",
			one("engine/core.go", "const retryBudget = 3", "const retryBudget = 4"),
			"engine", "TestC023_AnAcquireWithoutAServerEndsOnTime|TestC026_AReleaseWithoutAServerIsOfUnknownOutcome", false,
		},
		{
			"leaver-told-late", "who leaves while the answer is on its way is told a second later",
			one("engine/engine.go", "e.nodes.Tick(now, tickEvery, ", "e.nodes.Tick(now, 20*tickEvery, "),
			"engine", "TestC038_WhoLeavesIsToldAtOnce", false,
		},
		{
			"renewed-at-half", "a lease is renewed when half of it is over",
			one("renew/time.go", "return sentAt.Add(lease/3 - w.N(jitter(lease)+1))", "return sentAt.Add(lease/2 - w.N(jitter(lease)+1))"),
			"engine", "TestWatchdogKeepsALeaseOfOneSecondWellAboveItsEnd", false,
		},
		{
			"message-not-counted", "nobody sees whether waiters are woken by messages",
			one("engine/core.go", "c.byMessage++", "_ = c.byMessage"),
			clusterSuite, "TestClusterWaiterIsWokenByTheMessage", false,
		},
	}
}
