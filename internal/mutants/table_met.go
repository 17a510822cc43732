package main

// farAndForced: what meets at a barrier, and a permit that waits for replicas.
func farAndForced() []mutant {
	return []mutant{
		{
			"parties-apart", "parties between whom another kind is asked for wait for each other for ever, and ask without end",
			one("engine/meeting.go", "if op.set.family != a.op.Family { // those behind it are parties, too: they are waited for here\n\t\t\tcontinue",
				"if op.set.family != a.op.Family {\n\t\t\tbreak"),
			"engine/internal/suite/family", "TestPartiesMeetThoughAnotherKindIsAskedForBetweenThem", false,
		},
		{
			"forced-permit-is-granted", "a permit that is taken by force while it waits for replicas has two holders",
			one("engine/permits.go", "\t\tent.Overtake() // what waits for replicas may be taken, too\n", ""),
			"engine/internal/suite/cluster", "TestAPermitThatWaitsForReplicasAndIsTakenByForceIsNobodys", false,
		},
		{
			"left-barrier-is-tried-again", "who has left a barrier tries again and again at one that is broken",
			one("engine/acquire.go", "return &nameError{op.lock.Name(), errLeftBarrier}", "return &nameError{op.lock.Name(), ErrNotOpen}"),
			"engine/internal/suite/family", "TestWhoHasLeftABarrierIsToldThatItIsBroken", false,
		},
	}
}
