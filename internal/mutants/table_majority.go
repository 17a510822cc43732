package main

// joining: what becomes of a part of a RedLock that is granted late.
func joining() []mutant {
	const lease = "engine/redlease.go"
	return []mutant{
		{
			"red-watches-twice", "a release never returns, because the list of who is told of a loss has become a ring",
			one(lease, "\tif watched {\n", "\tif watched && i < 0 {\n"), "engine", "TestRedWatchesAPartOnceThatJoinsWhileItBegins", false,
		},
		{
			"red-renews-what-joins", "a holder that has stopped renewing holds the lock for as long as its engine lives",
			one(lease, "\tif asked.stop {\n", "\tif false {\n"), "engine", "TestRedStopsRenewingWhatJoinsLater", false,
		},
		{
			"red-extends-not-what-joins", "an extended lease is lost with the majority that does not count who has joined",
			one(lease, "\t\trl.extend(i, ls, d)\n\t}\n}", "\t\t_ = d\n\t}\n}"), "engine", "TestRedExtendsWhatJoinsLater", false,
		},
		{
			"red-waits-for-what-is-lost", "a release of a lock that was never lost says it was, and waits for a silent server",
			one(lease, "given it back\n\t\t\tv.needed--\n", "given it back\n"), severalSuite,
			"TestRedLockIsFreeThoughOnePartWasLostAndOneServerIsSilent", false,
		},
		{
			"red-silent-about-the-majority", "a RedLock is given back as held, and most of its servers had lost it",
			one(lease, "case gone && (over || agreed):", "case gone && false:"), severalSuite, "TestARedLockWhoseServersForgotItSaysSo", false,
		},
		{
			"red-takes-the-first-who-agree", "the same, where the servers that have lost it do not answer first",
			one(lease, "waits := agreed && open", "waits := false && open"), severalSuite, "TestARedLockWhoseServersForgotItSaysSo", false,
		},
		{
			"red-waits-for-who-is-silent", "a release of a lock that was never lost waits for a silent server",
			one(lease, "due(clock.Instant) { v.resolve(struct{}{}, nil) }", "due(clock.Instant) {}"), severalSuite,
			"TestRedLockIsFreeThoughOnePartWasLostAndOneServerIsSilent", true,
		},
		{
			"red-do-forgets-who-joins", "what runs in the Do of a RedLock waits for itself when another server is gone",
			one("engine/redlock.go", "\td.several = ls.granted\n", "\tfirst := ls.granted()\n\td.several = func() []*Lease { return first }\n"), severalSuite,
			"TestRedDoEntersAgainWhatJoinedLater", false,
		},
	}
}

// extended: what an Extend of a RedLock does to its validity, and says of it.
func extended() []mutant {
	const lease = "engine/redlease.go"
	return []mutant{
		{
			"red-drift-of-the-first-lease", "a lease that was extended to an hour is trusted as if clocks drifted for a second",
			one(lease, "max(p.extends.length, own)", "own"), "engine", "TestRedTakesTheDriftOfWhatWasExtendedTo", false,
		},
		{
			"red-drift-of-the-longest-extend", "a lease is lost for the drift of an Extend that is long over",
			one(lease, "\t\t\tp.extends.length = d\n", ""), "engine", "TestRedTakesTheDriftOfWhatWasExtendedTo", false,
		},
		{
			"red-extend-takes-at-once", "a lease is lost by an Extend that has no answer yet",
			one(lease, "return max(until, min(p.extends.proven, deadline.Add(-drift(own))))", "return until"),
			"engine", "TestRedIsTrustedAsBeforeWhileAnExtendIsOnItsWay", false,
		},
		{
			"red-extend-says-lost", "who has a majority is told that the lease is lost, because one server has lost it",
			one(lease, "case !lost: //", "default: //"), "engine", "TestRedExtendSaysLostOnlyWhenTheMajorityIs", false,
		},
	}
}

// whoIsFirst: what puts locks of one name on several servers in order.
func whoIsFirst() []mutant {
	return []mutant{
		{
			"multi-order-without-the-database", "two processes take one name of two databases in other orders, and wait for each other for ever",
			one("engine/config.go", "addrs, option.SelectDB)", "addrs, 0)"), "engine", "TestThePlaceOfAnEngineIsWhichLocksItMeans", false,
		},
		{
			"multi-order-by-the-password", "two processes with other users take one name of two servers in other orders",
			one("engine/config.go", "addrs := strings.Join(slices.Sorted(slices.Values(option.InitAddress)), \" \")",
				"addrs := strings.Join(slices.Sorted(slices.Values(cfg.Addrs)), \" \")"), "engine", "TestThePlaceOfAnEngineIsWhichLocksItMeans", false,
		},
		{
			"multi-order-left-to-chance", "two processes with clients of their own wait for each other for ever",
			one("engine/multi.go", "\t\tm.err = checkPlaces(m.sorted)\n", ""), severalSuite, "TestMultiRefusesOneNameOfTwoEnginesWithAClientEach", false,
		},
		{
			"red-wants-an-order", "a RedLock of servers with given clients is refused",
			one("engine/redlock.go", "m := ordered(locks)", "m := Multi(locks...)"), severalSuite, "TestMultiRefusesOneNameOfTwoEnginesWithAClientEach", false,
		},
	}
}

// outlasting: what several locks are waited through.
func outlasting() []mutant {
	const gather = "engine/gather.go"
	return []mutant{
		{
			"multi-trusts-a-longer-handle", "several locks are lost when another handle of one of them is given back",
			one(gather, "ls.lasts().Sub(c.at(ls))", "ls.hold.Deadline().Sub(c.at(ls))"), "engine", "TestMultiExtendsAFixedLeaseBesideALongerOne", false,
		},
		{
			"multi-ends-with-a-failover", "who waits for several locks is told of a failover that one who waits for a single lock outlasts",
			one(gather, "case errors.Is(err, ErrHeld), !op.try && passes(err):", "case errors.Is(err, ErrHeld):"), "engine", "TestMultiOutlastsAFailoverAsOneLockDoes", false,
		},
		{
			"multi-try-waits", "a Try of several locks waits for the end of a failover",
			[]edit{
				{gather, "!op.try && passes(err):", "passes(err):"},
				{gather, "case busy >= 0 && op.try:", "case busy >= 0 && op.try && errors.Is(held, ErrHeld):"},
			},
			"engine", "TestMultiTryAsksOnceInAFailover", false,
		},
	}
}
