package main

// resting: what rests until something is over.
func resting() []mutant {
	return []mutant{
		{
			"close-overtakes-a-force", "a lock stays that an engine was just taking away when it was closed",
			one("engine/request.go", "\t\tsh.telling.Add(1) // Close waits until what begins here is sent, or ended\n\t\top.begin()", "\t\top.begin()\n\t\tsh.telling.Add(1)"),
			"engine", "TestCloseFreesWhatAForceReleaseIsJustTakingAway", false,
		},
		{
			"reader-that-left-keeps-nothing", "a write hold that nobody has stays for as long as a reader has just kept it",
			one("engine/cleanup.go", "c.giveUp = max(c.giveUp, root.children().lasts)", "_ = root"),
			"engine", "TestALostWriteHoldIsGivenBackForAsLongAsItsReaderMayKeepIt", false,
		},
	}
}

// living: a key lives no longer than its handles ask for, also where one of them is renewed no more.
func living() []mutant {
	return []mutant{
		{
			"max-hold-ends-when-noticed", "who gives back after another's MaxHold leaves the key longer than that one's lease",
			one("engine/wish.go", "w.end(w.until, deadline)", "w.end(now, deadline)"),
			"engine", "TestAMaxHoldThatHasPassedKeepsItsKeyNoLonger|TestModelWishes", false,
		},
		{
			"max-hold-is-not-looked-at", "the same, where the watchdog has not noticed the MaxHold yet",
			one("engine/reentry.go", "\tsc.passMaxHold(h, now)\n", ""),
			"engine", "TestAMaxHoldThatHasPassedKeepsItsKeyNoLonger", false,
		},
		{
			"max-hold-is-not-looked-at-by-readers", "the same of a write lock, where its reader leaves",
			one("engine/reentry.go", "\tsc.passMaxHold(w, now)\n", ""),
			"engine", "TestAMaxHoldThatHasPassedKeepsItsKeyNoLongerWhenItsReaderLeaves", false,
		},
		{
			"stopped-after-its-max-hold", "who is stopped after its MaxHold keeps the key for a lease from then on",
			one("engine/wish.go", "\tws.pass(now, deadline)\n", ""),
			"engine", "TestAMaxHoldThatHasPassedKeepsItsKeyNoLonger", false,
		},
		{
			"renewal-of-who-left-stays", "a renewal that crosses a give-back has the last word about the key's expiry",
			one("renew/watchdog.go", " || !h.Renewing() && TrustUntil(now, t.lease).After(h.Deadline())", ""),
			"engine", "TestARenewalOfWhoHasLeftIsSettled", false,
		},
	}
}
