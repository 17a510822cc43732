package main

// again: what an owner holds, or has lost, decides whenever an acquire of its own comes to a queue or is answered.
func again() []mutant {
	return []mutant{
		{
			"reading-waits-for-its-own-write", "an owner waits for itself: a reading that was heard late is queued behind its own write lock",
			one("engine/readwrite.go", "case op == nil || op.lease.owner != nil && sc.reenterOrRefuse(root, op):", "case op == nil:"),
			"engine", "TestAnOwnerThatWritesByNowDoesNotWaitForItself|TestAnOwnerThatHasLostTheLockByNowIsNotLetInAnew", false,
		},
		{
			"granted-anew-after-a-loss", "what was asked for beside something else is granted when that is given back and another thing is lost",
			one("engine/attempt.go", "op != nil && root.lostTo(op.lease.owner); op", "op != nil && false; op"),
			"engine", "TestAnOwnerThatHasLostTheLockByNowIsNotLetInAnew", false,
		},
		{
			"given-back-keeps-from-a-loss", "a loss ends nothing that is asked for beside a lock of which nobody has a handle",
			one("engine/loss.go", "&& root.lostTo(o) {", "&& root.lostTo(o) && root.hold == nil {"),
			"engine", "TestAnOwnerThatGivesBackAndLosesTheRestGetsNothingItAskedFor", false,
		},
		{
			"entered-after-a-loss", "an owner enters by a lock that it was giving back when it lost the rest",
			one("engine/reentry.go", "case lost, over:", "case lost && false, over:"),
			"engine", "TestAnOwnerThatGivesBackAndLosesTheRestGetsNothingItAskedFor", false,
		},
		{
			"told-of-its-own-grant", "a Try is told of a holder that is its own grant, not believed while a ForceRelease was on its way",
			one("engine/force.go", "\t\tsc.cleanUnbelieved(ent)\n", ""),
			"engine", "TestATryIsNotToldOfItsOwnGrantThatAForceReleaseCrossed", false,
		},
	}
}
