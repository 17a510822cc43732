package main

// reading: what a read hold is told from, and what keeps it (P1, P4).
func reading() []mutant {
	return []mutant{
		{
			"wire-id-is-used-again", "an older release takes a later read hold",
			one(
				"resp/batch.go", "c.field = first.Family.newField(n.world, n.opts.ID)\n",
				"c.field = first.Family.newField(n.world, n.opts.ID)\n\t\t\tif n := len(first.insideField()) - len(writeSuffix); n > 0 {\n\t\t\t\tc.field = first.insideField()[:n]\n\t\t\t}\n",
			),
			familySuite, "TestALateCopyOfAReadReleaseTakesNoLaterReadHold|TestTwoReadingsBesideOneWriteAreTwoReadHolds", false,
		},
		{
			"release-overtakes-a-reading", "a writer that asked to read has to wait behind the next writer",
			one("engine/release.go", " || h.downgradeAsked() {", " {"),
			familySuite, "TestAWriterThatAskedToReadGoesOnReading", false,
		},
		{
			"passed-on-beside-a-reader", "a writer beside who reads",
			one("engine/readwrite.go", "if child.hold != nil || child.First() != nil || child.Attempt() != nil {", "if child.First() != nil {"),
			familySuite, "TestAWriteHoldIsNotPassedOnWhileItsOwnerReads", false,
		},
		{
			"reading-waits-like-others", "an owner that reads waits for a writer that waits for it",
			one("resp/batch.go", "return op.Sink.(Insider).Inside()", "return \"\""),
			familySuite, "TestAReaderEntersAgainBesideAWriterThatWaits", true,
		},
		{
			"lost-beside-is-not-told", "an owner that asks to read beside a lock that is gone waits for ever",
			one("engine/readwrite.go", "h.Held() {\n\t\treturn sc.lose", "h.Held() {\n\t\treturn nil\n\t} else if false {\n\t\treturn sc.lose"),
			familySuite, "TestAReadingBesideALockThatIsGoneIsTold", true,
		},
		{
			"force-without-not-after", "a late copy of a ForceRelease takes a later lock",
			one("resp/scripts/force.lua", "if now > tonumber(ARGV[5]) then", "if false then"),
			faultSuite, "TestALateCopyOfAForceReleaseTakesNoLaterLock", false,
		},
		{
			"force-is-over-too-early", "the same, before its not-after",
			one("engine/request.go", "if op.bounded && op.indeterminate.MayRunAfter(e.clock.Now()) &&", "if false &&"),
			faultSuite, "TestALateCopyOfAForceReleaseTakesNoLaterLock", false,
		},
		{
			"force-is-sent-once", "a lock stays that its holder was told to have lost",
			one("engine/force.go", "repeat: true, bounded: true", "bounded: true"),
			faultSuite, "TestAForceReleaseWithoutAnAnswerIsSentAgain", false,
		},
		{
			"force-keeps-what-it-took", "a lock that nobody has is kept for the rest of its lease",
			one("engine/force.go", "for _, h := range holds {\n\t\tsc.clean", "for _, h := range holds[:0] {\n\t\tsc.clean"),
			faultSuite, "TestWhatAForceReleaseWithoutAnAnswerTookHereIsGivenBack", true,
		},
	}
}

// notes: what writers and readers leave beside a read-write lock.
func notes() []mutant {
	return []mutant{
		{
			"note-outlives-its-writer", "readers wait for nobody",
			one("engine/acquire.go", "sc.applyStep(ent, ent.Leave(&op.Waiter))\n\t\tsc.closeNote(ent)", "sc.applyStep(ent, ent.Leave(&op.Waiter))"),
			familySuite, "TestAWriterThatGivesUpTakesItsNoteBack", false,
		},
		{
			"late-note-stays", "the same, if the note comes later than its writer leaves",
			one("engine/attempt.go", "sc.closeNote(ent) // at once", "// at once"),
			familySuite, "TestANoteThatComesAfterItsWriterHasLeftIsTakenBack", false,
		},
		{
			"note-goes-with-one-writer", "readers overtake the writer that waits on",
			one("engine/readwrite.go", "ent.children().noted && !ent.WriterNext() {", "ent.children().noted {"),
			familySuite, "TestTheNoteStaysForTheWriterThatWaitsOn", false,
		},
		{
			"ghost-writer", "a write hold that nobody has keeps readers out for as long as its owner reads",
			one("engine/cleanup.go", "if !traits(c.op.Family).Halved() {", "if true {"),
			familySuite, "TestALostWriteHoldIsReleasedHoweverLongItsOwnerReads", false,
		},
		{
			"mark-is-lowered", "a reader's release takes the lock from one who reads for longer",
			one("resp/scripts/read.lua", "if type(set) == 'number' and set < wanted then", "if type(set) == 'number' then"),
			"resp", "TestAskingAgainForLessLowersNothing", false,
		},
		{
			"note-over-another-type", "a lock of that name is destroyed",
			one("resp/scripts/write.lua", "if type(call('GET', note)) == 'table' then", "if false then"),
			"resp", "TestWhatIsNoNoteIsLeftAlone", false,
		},
		{
			"no-note-keeps-readers-out", "for as long as a key of that name stands",
			one("resp/scripts/read.lua", " or type(call('GET', note)) ~= 'string' then", " then"),
			"resp", "TestWhatIsNoNoteIsLeftAlone", false,
		},
		{
			"no-note-is-deleted", "a lock of that name is destroyed by a release",
			one("resp/scripts/writerelease.lua", "if type(noted) == 'string' then", "if true then"),
			"resp", "TestWhatIsNoNoteIsLeftAlone", false,
		},
		{
			"mark-over-another-type", "what stands there is destroyed",
			one("resp/scripts/read.lua", "'1', 'PX', lease, 'NX')", "'1', 'PX', lease)"),
			"resp", "TestAMarkIsNotWrittenOverAnotherType", false,
		},
		{
			"derived-name-is-a-name", "two locks share a key",
			one("slot/check.go", "case strings.HasSuffix(name, writerNote):", "case false:"),
			"slot", "TestNoNameIsDerivedFromAnother", false,
		},
	}
}
