package main

// joining: what becomes of a part of a RedLock that is granted late.
func joining() []mutant {
	const lease = "engine/redlease.go"
	return []mutant{
		{
			"red-watches-twice", "a release never returns, because the list of who is told of a loss has become a ring",
			one(lease, "\tif watched {\n", "\tif false {\n"), "engine", "TestRedWatchesAPartOnceThatJoinsWhileItBegins", false,
		},
		{
			"red-renews-what-joins", "a holder that has stopped renewing holds the lock for as long as its engine lives",
			one(lease, "\tif asked.stop {\n", "\tif false {\n"), "engine", "TestRedStopsRenewingWhatJoinsLater", false,
		},
		{
			"red-extends-not-what-joins", "an extended lease is lost with the majority that does not count who has joined",
			one(lease, "\t\textendPart(ls, d)\n\t}\n}", "\t\t_ = d\n\t}\n}"), "engine", "TestRedExtendsWhatJoinsLater", false,
		},
		{
			"red-waits-for-what-is-lost", "a release of a lock that was never lost says it was, and waits for a silent server",
			one(lease, "if f.err == nil || v.freed && errors.Is(f.err, ErrLost) {", "if f.err == nil {"), severalSuite,
			"TestRedLockIsFreeThoughOnePartWasLostAndOneServerIsSilent", false,
		},
	}
}
