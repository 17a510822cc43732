package main

// redLocks: what the simulation of RedLocks notices.
func redLocks() []mutant {
	const lock, lease = "engine/redlock.go", "engine/redlease.go"
	sim := func(name, why, file, from, to string) mutant {
		return mutant{name, why, one(file, from, to), "engine", "TestSimOfRedLocks", false}
	}
	return []mutant{
		sim("sim-red-of-a-minority", "two hold a RedLock, each on some of the servers", lock,
			"return len(r.all.sorted)/2 + 1", "return len(r.all.sorted) / 2"),
		sim("sim-red-keeps-a-minority", "who has no majority keeps what it has, and so does everybody else", lock,
			"\top.giveBack()\n\top.phase = redPauses", "\top.phase = redPauses"),
		sim("sim-red-late-grant-is-nobodys", "what a silent server grants late is held for as long as the engine lives", lock,
			"\t\t\tif !p.op.Cancel() {\n\t\t\t\tgiveBackLater(&p.op.Future)\n\t\t\t}\n", ""),
		sim("sim-red-joins-what-is-over", "what a server grants after the release is held for as long as the engine lives", lease,
			"\tif over {\n\t\tgivePart(ls)\n\t\treturn\n\t}\n", "\tif over {\n\t\treturn\n\t}\n"),
		sim("sim-red-counts-what-is-lost", "a majority is trusted of which a server has said that it is gone", lease,
			"\tif over, _ := ls.decided(); over {\n\t\treturn 0\n\t}\n", ""),
		sim("sim-red-outlives-its-majority", "the context of a RedLock outlives its majority", lease,
			"\trl.lost.Store(true)\n\trl.group.end(ErrLost)", "\trl.lost.Store(true)"),
		sim("sim-red-release-of-one", "a release is answered when one server is free", lease,
			"\tv.all, v.lost = all, end == leaseLost\n", "\tv.all, v.lost, v.needed, v.quorum = all, end == leaseLost, 1, 1\n"),
		sim("sim-red-gives-one-back", "a release leaves the lock on all servers but one", lease,
			"\tfor _, ls := range all {\n\t\tv.add(givePart(ls))\n\t}\n", "\tfor _, ls := range all[:1] {\n\t\tv.add(givePart(ls))\n\t}\n"),
		{
			"try-takes-another-kinds-answer", "who asks for a semaphore as a lock is told that somebody holds the lock",
			one("engine/internal/lockstate/queue.go", "\tasks := !granted\n", "\tasks := false\n"), "engine", "TestATryBehindOneOfAnotherKindIsAskedForItself", false,
		},
		{
			"red-keeps-what-is-no-majority", "who share out the servers that answer do so for a second, again and again",
			one(lock, "case granted+failed >= quorum && !op.hurried && !op.try && op.tries%redPatient != 0:", "case false:"), severalSuite, "TestRedLockBesideSuspendedServers", false,
		},
		{
			"red-try-forgets-the-far-one", "a try does not wait for a server that is 80 ms behind where another is held",
			one(lock, "!op.hurried && !op.try &&", "!op.hurried &&"), severalSuite, "TestRedLockCountsAServerThatIsFarAway", false,
		},
		{
			"red-always-hurries", "a RedLock is not granted beside a server that is far away, until it is lucky",
			one(lock, " && op.tries%redPatient != 0:", ":"), "engine", "TestRedWaitsForAServerThatIsFarAwayNowAndThen", false,
		},
		sim("sim-red-waits-for-all", "one server that is away keeps everybody from a RedLock", lock,
			"return len(r.all.sorted)/2 + 1", "return len(r.all.sorted)"),
	}
}
