package main

// joining: what becomes of a part of a RedLock that is granted late.
func joining() []mutant {
	const lease = "engine/redlease.go"
	return []mutant{
		{
			"red-watches-twice", "a release never returns, because the list of who is told of a loss has become a ring",
			one(lease, "\tif watched {\n", "\tif false {\n"), "engine", "TestRedWatchesAPartOnceThatJoinsWhileItBegins", false,
		},
	}
}
