package main

// outages: what the profiles of the simulation have found (engine/sim_profile_test.go).
func outages() []mutant {
	return []mutant{
		{
			"ghost-beside-what-was-read", "a write hold that nobody has stays for as long a lease as its owner has read with",
			one("engine/readwrite.go", "\tsc.besideLasts(h, op.set.Lease)\n", ""),
			"engine", "TestAWriteHoldIsGivenBackHoweverLongItsOwnerMayHaveRead", false,
		},
		{
			"ghost-beside-what-was-extended", "the same, where what it has read with was extended",
			one("engine/lease.go", "\tsc.besideLasts(h, d)\n", ""),
			"engine", "TestAWriteHoldIsGivenBackHoweverLongItsOwnerMayHaveRead", false,
		},
		{
			"place-of-one-who-left", "who gave up in an outage keeps its place in a fair lock's queue",
			one("engine/cleanup.go", "return now.Before(c.giveUp.Add(placeLasts))", "return false"),
			familySuite, "TestFairWaiterThatGivesUpInALongOutageLeavesTheQueue", false,
		},
		{
			"forced-before-it-is-lost", "a ForceRelease frees what the holder still believes in, while another one is about to tell it",
			one("engine/force.go", "\t\tlistener{e}.Lost(h, renew.CauseForced)\n", ""),
			"engine", "TestTheHolderIsToldBeforeEachOfTwoForceReleasesIsSent", false,
		},
		{
			"lowered-to-nothing", "a key in its last millisecond is deleted and made anew: the lock is held for ever",
			one("resp/scripts/reacquire.lua", "elseif set == 1 then", "elseif false then"),
			"resp", "TestACountThatChangesInTheLastMillisecondLeavesAnExpiry", false,
		},
	}
}
