package main

// ends: each handle keeps its own end, whatever another extends, and who is too late is told.
func ends() []mutant {
	return []mutant{
		{
			"fixed-readers-share", "a reader with a fixed lease is trusted for as long as another one has extended its own",
			one("engine/readwrite.go", "op != nil && op.set.Watchdog && op.set.Compatible(h.Terms())", "op != nil && op.set.Compatible(h.Terms())"),
			familySuite, "TestReadersWithFixedLeasesKeepTheirOwnEnds", false,
		},
		{
			"late-reader-is-told-nothing", "one of several readers gives back what it has lost, and is not told",
			one("engine/release.go", "if shared && !now.Before(h.Deadline()) {", "if false {"),
			"engine", "TestOneOfSeveralReadersThatGivesBackTooLateHasLostTheLock", false,
		},
		{
			"late-reader-alone-is-told", "a reader that shares what another one has found lost is not told at once",
			one("engine/release.go", "\tsc.tellLoss()\n", "\tsc.lost = nil\n"),
			"engine", "TestOneOfSeveralReadersThatGivesBackTooLateHasLostTheLock", false,
		},
		{
			"late-extend-stays", "a late copy of an Extend whose handle was given back stays on the key",
			one("engine/reentry.go", "if h.extra != nil && h.extra.extended.MayRunAfter(now) {", "if false {"),
			"engine", "TestALateCopyOfAnExtendIsSettledWhenItsHandleIsGivenBack|TestAnExtendThatNobodyWaitsForIsSettledWhenItsHandleIsGivenBack", false,
		},
		{
			"extend-of-who-left-is-trusted", "the answer to an Extend of who has left raises what the others trust",
			one("engine/lease.go",
				"if ls.state.Load() == leaseActive { // else the others ask for no more than they did\n\t\tover = !e.watchdog.Extended(h, r.SentAt, x.lease)",
				"over = !e.watchdog.Extended(h, r.SentAt, x.lease)\n\t\tif ls.state.Load() == leaseActive {"),
			"engine", "TestTheAnswerToAnExtendOfWhoHasLeftRaisesNoTrust", false,
		},
		{
			"handed-over-unlowered", "the next holder's key lives for as long as an owner had asked for that gave all its handles back at once",
			one("engine/reentry.go", "resp.OpCount, 1, true", "resp.OpCount, 1, keep != 0"),
			"engine", "TestHandlesThatAreGivenBackAtOnceLeaveTheNextHolderItsOwnLease", false,
		},
	}
}
