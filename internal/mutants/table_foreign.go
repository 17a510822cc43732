package main

// foreign: what keeps engines from winning every race against clients that are slower.
func foreign() []mutant {
	const (
		left  = "TestALockIsLeftToOthersNowAndThenIfThereAreSome"
		hears = "TestWhoHearsThatALockIsLeftWaitsHoweverLongItHas"
		asks  = "TestWhoAsksWhenALockIsLeftDoesNotAskAgainAtOnce"
		wire  = "TestALockIsLeftByAMessageThatRedissonKnows"
	)
	return []mutant{
		{
			"lock-is-never-left", "engines win every race against a JVM",
			one("engine/internal/lockstate/tenure.go", "if !q.Crowded() ||", "if true || !q.Crowded() ||"), "engine/internal/lockstate", left, false,
		},
		{
			"lock-is-left-within-a-turn", "a turn ends with each grant",
			one("engine/internal/lockstate/tenure.go", "|| q.TenureOpen(now) || now.Sub(q.seldom().leftAt)", "|| now.Sub(q.seldom().leftAt)"), "engine/internal/lockstate", left, false,
		},
		{
			"left-only-by-newcomers", "engines that have waited for long win every race against a JVM",
			one("engine/internal/lockstate/queue.go", "if left {\n\t\tpause = LeftFor", "if left && pause > 0 {\n\t\tpause = LeftFor"), "engine/internal/lockstate", hears, false,
		},
		{
			"left-but-asked-again", "an engine that is just asking wins the race",
			one("engine/internal/lockstate/queue.go", "if left && q.wait == waitWoken {", "if false {"), "engine/internal/lockstate", asks, false,
		},
		{
			"left-to-one", "a message that other clients may not know, for nothing",
			one("engine/internal/lockstate/tenure.go", "leaveTo    = 2", "leaveTo    = 1"), waitSuite, wire, true,
		},
		{
			"spin-has-no-rivals", "who spins elsewhere is kept out",
			one("engine/internal/lockstate/tenure.go", "return leftAt != 0 && now.Sub(leftAt) < rivalsFor", "return leftAt != leftAt"),
			"engine/internal/lockstate", "TestASpinLockHasRivalsForAWhileAfterSomebodyElseHadIt", false,
		},
		{
			"spin-leaves-nothing", "who spins elsewhere is kept out",
			one("engine/attempt.go", "ent.root().SawOthers(r.ReceivedAt)", "_ = r.ReceivedAt"),
			waitSuite, "TestASpinnerElsewhereGetsItsTurn", true,
		},
	}
}
