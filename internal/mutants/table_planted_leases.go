package main

// plantedLeases: what the load generator has to notice of leased permits.
func plantedLeases() []mutant {
	const (
		lg       = "cmd/loadgen/"
		plants   = "TestWhatIsPlantedEndsInItsStatus/"
		check    = lg + "internal/scenario/semaphore.go"
		verdicts = lg + "internal/report/permits.go"
		witness  = "internal/witness/permits.go"
	)
	return []mutant{
		{
			"leases-loss-not-seen", "loadgen does not see that a lease is over while its holder has the permits",
			one(lg+"internal/contest/counted.go", "\tif l.permit.Lost() {\n", "\tif false {\n"),
			"cmd/loadgen", plants + "permits_sync_LostWhileHeld", false,
		},
		{
			"leases-loss-is-fine", "leases that were over while they were held are no failure",
			one(verdicts, "if p.Lost > 0 {", "if p.Lost > 100 {"),
			lg + "internal/report", "TestWhatOfThePermitsIsJudged", false,
		},
		{
			"leases-of-the-dead-for-good", "what a killed client had may stay away though it was leased",
			one(verdicts, "\tif p.Leased {\n\t\treturn", "\tif false {\n\t\treturn"),
			lg + "internal/report", "TestWhatOfThePermitsIsJudged", false,
		},
		{
			"leases-over-not-free", "permits whose leases are over are taken for missing",
			one(check, "\treturn free + expired, gone, err\n", "\treturn free + 0*expired, gone, err\n"),
			"cmd/loadgen", plants + "permits_sync_LeaseThatIsOver", false,
		},
		{
			"leases-not-over-free", "permits that are leased for ever are taken for free",
			one(check, "Max(now[0] + \"000\")", "Max(now[0] + \"000000\")"),
			"cmd/loadgen", plants + "permits_sync_LeaseThatNobodyHas", false,
		},
		{
			"leases-of-the-dead-count", "what a dead process had under a lease counts as held",
			one(witness, "\tdead, _ := w.Permits(true)\n", "\tdead := int64(0)\n"),
			"internal/witness", "TestLeasedPermitsOfTheDeadAreNobodys", false,
		},
		{
			"leases-too-many-are-fine", "too many permits are held under leases, and nobody is told",
			one(witness, "if held -= dead; held > int64(permits) {", "if held -= dead; held > 2*int64(permits) {"),
			"internal/witness", "TestLeasedPermitsOfTheDeadAreNobodys", false,
		},
	}
}
