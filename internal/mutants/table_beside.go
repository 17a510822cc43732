package main

// beside: what is asked for beside a hold, and what outlives its handle.
func beside() []mutant {
	return []mutant{
		{
			"beside-parked", "a release has no end while memory is full: a reading that was refused waits on",
			one("engine/readwrite.go", "\top.Newcomer() // nobody", "\t// nobody"),
			familySuite, "TestAReleaseDoesNotWaitForAReadingThatIsRefused", true,
		},
		{
			"beside-says-held", "who waits for an answer beside its own hold is told that somebody else has the lock",
			one("engine/wait.go", "op.Queued() && ent.besideHold() == nil {", "op.Queued() {"),
			familySuite, "TestMaxWaitOfAReadingBesideItsOwnersWriteIsUnknown", false,
		},
		{
			"readers-enter-twice", "who must not enter again has the lock twice",
			one("engine/readwrite.go", "if op.set.once && h.readsFor(op.lease.owner) > 0 {", "if false {"),
			familySuite, "TestOfTwoNonReentrantReadsThatWaitTogetherOneEnters", false,
		},
		{
			"extend-passed-on", "the next holder's key lives for as long as the one before asked for",
			one("engine/release.go", "with.Unlowered = h.reentry() != nil && h.reentry().unlowered", ""),
			waitSuite, "TestAnExtendDoesNotOutliveItsHandle", false,
		},
		{
			"extend-copy-forgotten", "a late copy of an Extend raises the expiry of the next holder's key",
			one("engine/lease.go", "h.extra.extended.Until = max(h.extra.extended.Until, x.op.indeterminate.Until)", ""),
			waitSuite, "TestALateCopyOfAnExtendMeetsNoOtherHolder", false,
		},
		{
			"extend-of-who-left", "an Extend of a handle that is given back raises what the others ask for",
			one("engine/lease.go", "if ls.state.Load() == leaseActive { // else the others", "if true { // else the others"),
			waitSuite, "TestAnExtendOfWhoHasLeftRaisesNoOthersWish", false,
		},
	}
}
