package main

// moving: what needs several keys, in a slot that is on its way.
func moving() []mutant {
	return []mutant{
		{
			"moving-keeps-no-mark", "a read hold's mark runs out while its slot stays half-moved, and another reader's release ends it",
			one("resp/renewal.go", "\tn.renewMarks(l, limit, marks)\n", "\t_ = marks\n"),
			clusterSuite, "TestAReadHoldOutlivesItsLeaseInASlotThatStaysHalfMoved", false,
		},
		{
			"moving-makes-marks-anywhere", "a mark is made at the target while it is at the source: the move stops there",
			one("resp/renewal.go", "hashes[i] = Renewal{Key: part[0].Key, Field: part[0].Field, LeaseMs: part[0].LeaseMs}", "hashes[i] = part[0]"),
			clusterSuite, "TestAReadHoldOutlivesItsLeaseInASlotThatStaysHalfMoved", false,
		},
		{
			"moving-frees-by-halves", "a release takes the reader out and is refused afterwards: ErrLost for a hold that was held",
			one("resp/scripts/readrelease.lua", "    gone = call('DEL', key)\n", ""),
			clusterSuite, "TestAReadHoldOutlivesItsLeaseInASlotThatStaysHalfMoved", false,
		},
		{
			"moving-believes-a-mark-is-gone", "a reader's release ends another's hold whose mark is still at the source",
			one("resp/scripts/fragments/longest.lua", " or left == -2 and type(call('EXISTS', key, mark)) == 'table'", ""),
			clusterSuite, "TestAReadHoldOutlivesItsLeaseInASlotThatStaysHalfMoved", false,
		},
		{
			"moving-undoes-what-was-there", "a reader that asks again loses the hold it has",
			one("resp/scripts/read.lua", "set.err and mine == 1 then", "set.err and mine == 2 then"),
			"resp", "TestAReadHoldThatIsAskedForAgainStaysIfItsMarkCannotBeWritten", false,
		},
		{
			"moving-waits-for-ever", "fenced and fair locks that are free are refused until the slot has moved",
			one("resp/moving.go", "err == nil || err.Class != ClassAsk", "err == nil || err.Class == ClassAsk"),
			clusterSuite, "TestEveryFamilyGoesOnInASlotThatStaysHalfMoved", false,
		},
		{
			"moving-does-not-look", "a fenced lock is taken at the target without the counter that is at the source",
			one("resp/moving.go", "err == nil || err.Class != ClassAsk", "false && err == nil"),
			clusterSuite, "TestALockWhoseOtherKeysAreLeftAtTheSourceIsWaitedFor", false,
		},
		{
			"moving-empties-the-queue", "a queue without its scores is taken for one of the dead",
			one("resp/scripts/fragments/fairqueue.lua", "  must('EXISTS', queue, timeouts)\n", ""),
			clusterSuite, "TestALockWhoseOtherKeysAreLeftAtTheSourceIsWaitedFor", false,
		},
		{
			"moving-extends-elsewhere", "a read hold's mark is made anew where the one at the source is still to come",
			one("resp/moving.go", "op.Kind != OpReacquire && op.Kind != OpExtend {", "op.Kind != OpReacquire {"),
			clusterSuite, "TestALockWhoseOtherKeysAreLeftAtTheSourceIsWaitedFor", false,
		},
		{
			"moving-notes-elsewhere", "the same for the note of a writer that waits",
			one("resp/family.go", "op.Waits && !op.asking {", "op.Waits {"),
			clusterSuite, "TestAWriterThatWaitsMakesNoNoteWhereOneIsStillToCome", false,
		},
		{
			"move-over-too-early", "a master believes an older claim, and the owner deletes the keys of the slot",
			one("internal/redisproc/move.go", "err == nil && heard < epoch {\n\t\t\t\tinARow", "err == nil && heard > epoch {\n\t\t\t\tinARow"),
			"internal/redisproc", "TestAMoveIsOverWhenEveryMasterKnowsTheEpochOfItsClaim", false,
		},
		{
			"moving-patience-ends", "who waits for a lock in a slot on its way is refused after a while",
			one("engine/internal/lockstate/asking.go", ", f.Moving && (!try || !out):", ":"),
			"engine/internal/lockstate", "TestVerdictAfterAFailedAcquire", false,
		},
	}
}
