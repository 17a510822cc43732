package main

// wishes: a key lives as long as the handles that remain ask for.
func wishes() []mutant {
	return []mutant{
		{
			"reentry-without-max-wait", "an owner that enters again waits for ever",
			one("engine/reentry.go", "\tsc.limitWait(op)\n", ""),
			familySuite, "TestMaxWaitBoundsAnOwnerThatEntersAgain|TestMaxWaitBoundsAnOwnerWhoseReentryHasToQueue", false,
		},
		{
			"nothing-is-lowered", "what a crashed holder leaves stays for as long as anybody ever asked for",
			one("engine/reentry.go", "n.op.Kind, n.op.LeaseMs = resp.OpLeave, keep.Milliseconds()", "n.op.Kind, n.op.LeaseMs = resp.OpCount, 1"),
			familySuite, "TestANestedFixedLeaseLeavesNothingOnTheKeyWhenItIsGivenBack", false,
		},
		{
			"lowered-to-what-was-left", "while a lowering waits in its lane, what it lowers to stays",
			one("resp/batch.go", "is && op.Kind == OpLeave", "is && op.Kind == OpCount"),
			"resp", "TestEveryScriptIsGivenWhatItsHeaderAsksFor", false,
		},
		{
			"lowered-is-believed-a-little-longer", "a holder believes for a millisecond longer than was granted to it",
			one("engine/wish.go", "return max(renew.TrustUntil(now, k.lease), k.until)", "return renew.TrustUntil(now, k.at(now))"),
			"engine", "TestMachineALoweredHoldIsTrustedForNoMoreThanWasGranted", false,
		},
		{
			"lowered-but-believed", "a holder believes for longer than the server keeps its key",
			one("engine/reentry.go", "\tsc.eng.watchdog.Lower(h, n.keeps.trusted(now))\n", ""),
			familySuite, "TestAFixedLeaseThatRemainsKeepsItsOwnEnd", false,
		},
		{
			"late-lowering-ignored", "a late copy takes from a handle what it was granted",
			one("engine/reentry.go", "if n.LowersUntil() != 0 {", "if false {"),
			familySuite, "TestALateCopyOfALoweringTakesNothingThatIsTrusted", false,
		},
		{
			"lowers-under-readers", "a reader's key expires early because its writer lowered it",
			one("resp/scripts/reacquire.lua", "elseif fields - mode > 1 then", "elseif false then"),
			familySuite, "TestAWriterThatLeavesLowersNothingUnderItsReader", false,
		},
		{
			"first-lease-is-renewed", "a longer lease of the same hold is not kept",
			one("engine/wish.go", "c.lease = max(c.lease, w.set.Lease)", ""),
			"engine", "TestANestedLongerWatchdogLeaseIsRenewedWithItsOwnLength|TestModelWishes", false,
		},
		{
			"max-hold-ends-all", "a limit on one handle ends the others",
			one("engine/loss.go", "!h.allCompatible() {\n\t\tsc.tellWatchdog(h)", "!h.allCompatible() {"),
			"engine", "TestMaxHoldOfOneHandleEndsNoOther", false,
		},
		{
			"stop-is-forgotten", "a handle that was to run out is renewed again",
			one("engine/wish.go", "\tw.end(now, deadline)\n\t*ws = append", "\t*ws = append"),
			"engine", "TestStopRenewingOfOneOfSeveralReaders|TestModelWishes", false,
		},
		{
			"attempts-too-short", "a lock on a slow line is lost",
			one("renew/time.go", "return min(lease/3, 2*time.Second)", "return min(lease/6, 2*time.Second)"),
			"engine", "TestAWatchdogLeaseSurvivesASlowLine", false,
		},
		{
			"no-hedge", "a connection that hangs leaves too little time for the next",
			one("renew/watchdog.go", "h.attempt == attemptSent && !now.Before(h.hedge()):", "false:"),
			"renew", "TestNoHoldIsLostWhileRoundTripsStayBelowTheirLimit", true,
		},
		{
			"old-terms-believed", "a renewal proves what another command has taken back since",
			one("renew/watchdog.go", "proven := min(lease, h.Lease())", "proven := lease"),
			"renew", "TestARenewalProvesNoMoreThanTheTermsThatChangedMeanwhile", false,
		},
	}
}
