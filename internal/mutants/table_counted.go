package main

// latches: what the scripts of a latch promise: they open for nobody early, and for everybody who saw it closed.
func latches() []mutant {
	const look, down = "latch", "latchdown"
	const opens, twice, early = "TestALatchIsCountedDownToItsOpening", "TestACountDownThatIsSentTwiceCountsOnce", "TestACountDownOfAnOpenLatchOpensNoLaterOne"
	const deleted, rise, foreign = "TestALatchThatWasDeletedIsNotOpen", "TestMarksOfALatchRiseWhateverTheClockSays", "TestNotesOfOthersOpenNoLatch"
	const refused, told = "TestWhereTheCountOfALatchIsRefusedTheNotesAreWhatTheyWere", "TestWaitersOfALatchAreTold"
	const empty = "TestALatchIsOpenWhenItHasNoCount"
	const late = "TestC029_NoScriptTakesAKeyAfterItsNotAfter"
	return []mutant{
		// Who is let in.
		in(look, "latch-opened-again-unseen", "who waited is not let in where the latch has another count by now",
			"if known >= 0 and opened > known then", "if known >= 0 and open and opened > known then", opens),
		in(look, "latch-opened-before", "who has seen it closed since is let in by an opening before that",
			"if known >= 0 and opened > known then", "if known >= 0 and opened >= known then", opens),
		in(look, "latch-newcomers-by-old-openings", "a newcomer is let in by an opening before it came",
			"if known >= 0 and opened > known then", "if opened > known then", opens),
		in(look, "latch-gone-is-open", "who waits for a latch that is lost is let in",
			"elseif known < 0 or count then", "elseif true then", empty),
		in(look, "latch-zero-is-gone", "a count of zero is a latch that is lost",
			"elseif known < 0 or count then", "elseif known < 0 then", empty),
		in(look, "latch-below-zero-is-closed", "a latch that somebody has counted below zero never opens",
			"local open = left <= 0", "local open = left == 0", empty),
		in(look, "latch-deleted-is-lost", "who waits for a latch that was deleted and set again waits for another",
			"elseif known >= 0 and deleted > known then\n  return {now, 4, opened}\n", "", deleted),
		in(look, "latch-deleted-to-newcomers", "whoever comes is told that the latch before was deleted",
			"elseif known >= 0 and deleted > known then", "elseif deleted > known then", deleted),
		in(look, "latch-mark-of-openings", "who sees a latch closed that was deleted once is told of that deletion",
			"return {now, 0, math.max(opened, deleted)}", "return {now, 0, opened}", deleted),
		in(look, "latch-notes-end", "the note of an opening ends while somebody waits",
			"  call('PEXPIRE', notes, KEPT) -- refused or not: it has an expiry\n", "", opens),
		in(look, "latch-late-look", "a look that comes late keeps notes", "if now > tonumber(ARGV[3]) then", "if false then", late),

		// Counts.
		in(down, "latch-counted-twice", "a count that is sent again counts again: it opens early",
			">= tonumber(request) then", "> tonumber(request) then", twice),
		in(down, "latch-numbers-as-texts", "from the tenth on a late copy is taken for a new one",
			"tonumber(match(note or '', '^%d+$') or '0') >= tonumber(request)", "(note or '0') >= request", twice),
		in(down, "latch-open-unnoted", "the copy of a count that changed nothing opens a latch that was set since",
			"  local done = keep(notes, who, request, note)\n", "  local done = count and keep(notes, who, request, note)\n", early),
		in(down, "latch-of-a-foreign-note", "counts of an engine are nothing because of a note of somebody else's",
			"match(note or '', '^%d+$') or '0'", "(string.gsub(note or '0', '%D', '9'))", foreign),
		in(down, "latch-one-early", "it opens one early", "local opens = left <= tonumber(by)", "local opens = left <= tonumber(by) + 1", opens),
		in(down, "latch-below-zero", "a count below zero stays, and who waits is not told",
			"local opens = left <= tonumber(by)", "local opens = left == tonumber(by)", opens),
		in(down, "latch-opening-unnoted", "nobody knows that it was open when it is set again",
			"    done = call('HSET', notes, 'ended', marked(mark_after(opened, deleted, micros), deleted))\n", "    done = 1\n", opens),
		in(down, "latch-deletion-forgotten", "who saw it closed before it was deleted and opened waits for another",
			"marked(mark_after(opened, deleted, micros), deleted))\n    if", "marked(mark_after(opened, deleted, micros), 0))\n    if", rise+"|TestALatchThatWasDeletedAndOpenedKeepsBothMarks"),
		in(down, "latch-note-after-a-refusal", "a count that was refused is noted: sent again it counts nothing",
			"    forget(notes, who, note)\n", "", refused),
		in(down, "latch-opening-after-a-refusal", "an opening that was refused is noted: all who wait are let in",
			"    if opens then\n      forget(notes, 'ended', ended)\n    end\n", "", refused),
		in(down, "latch-opens-in-silence", "Redisson's waiters wait for ever", "local heard = call(publish, channel_of(key, ARGV[2]), '0')", "local heard = 0", told),
		in(down, "latch-unpublished", "an opening whose message is refused passes for an error: it is sent again for ever",
			"return type(heard) == 'table' and -2 or heard", "return heard", told),
	}
}

// latchMarks: what is noted of a latch's openings and deletions, and who is told.
func latchMarks() []mutant {
	const set, marks = "latchset", "fragments/marks"
	const deleted, rise, foreign = "TestALatchThatWasDeletedIsNotOpen", "TestMarksOfALatchRiseWhateverTheClockSays", "TestNotesOfOthersOpenNoLatch"
	const refused, told, changed = "TestWhereTheCountOfALatchIsRefusedTheNotesAreWhatTheyWere", "TestWaitersOfALatchAreTold", "TestALatchIsSetOnceAndDeletedOnce"
	const numbers, tag = "TestWhatIsNoNumberIsNoLatch", "TestTheChannelOfALatchWithAHashTag"
	const late = "TestC029_NoScriptTakesAKeyAfterItsNotAfter"
	return []mutant{
		// Marks.
		in(marks, "latch-marks-by-the-clock", "after a clock was set back an opening is older than what who waits has seen",
			"return math.max(opened + 1, deleted + 1, micros)", "return micros", rise),
		in(marks, "latch-marks-apart", "the same, where it was deleted last", "return math.max(opened + 1, deleted + 1, micros)", "return math.max(opened + 1, micros)", rise),
		in(marks, "latch-marks-of-others", "a number that Lua cannot hold is a mark that nothing is above",
			"return count_of(opened or '0') or 0, count_of(deleted or '0') or 0", "return tonumber(opened or 0), tonumber(deleted or 0)", foreign),
		in(marks, "latch-channel-of-all", "Redisson's waiters on a single server hear nothing of a latch with a hash tag",
			"if tagged == 'tagged' and string.find", "if string.find", tag),
		in(marks, "latch-channel-elsewhere", "in a cluster nobody hears of a latch with a hash tag",
			"if tagged == 'tagged' and string.find(key, '{', 1, true) then", "if false then", tag),

		// Sets and deletes.
		in(set, "latch-set-twice", "a latch that is closed is set again", "elseif what == 'set' and not count then", "elseif what == 'set' then", changed),
		in(set, "latch-set-in-silence", "a gate of Redisson's stays open", "  call(ARGV[1], channel_of(key, ARGV[6]), '1') -- refused or not: waiters look again by themselves\n", "", told),
		in(set, "latch-late-set", "a latch that has opened is closed by a late copy", "if now > tonumber(ARGV[5]) then", "if false then", late),
		in(set, "latch-deletion-unnoted", "who waits for a latch that was deleted waits a second for word that it is open",
			"  done = keep(notes, 'ended', marked(opened, mark_after(opened, deleted, micros)), ended)\n", "", deleted),
		in(set, "latch-deletion-after-a-refusal", "a deletion that was refused is noted: all who wait are told that it is gone",
			"  forget(notes, 'ended', ended)\n", "", refused),
		in(set, "latch-text-deleted", "what is no latch is deleted", "if not number then", "if not number and what ~= 'delete' then", numbers),
		{
			"latch-notes-are-left-behind", "while a slot is moved a latch is deleted where its notes are not: the note stops the move",
			one("resp/family.go", "more: knownArgs, otherKeys: otherKeysLatch,", "more: knownArgs, otherKeys: otherKeysCounted,"),
			"resp", "TestTheKeysThatHaveToBeOnOneSide", false,
		},
		{
			"latch-look-unread", "a reply that no script gives lets everybody in",
			one("resp/answers.go", "0: CodeBusy, 1: CodeGranted, 2: CodeOpened, 3: CodeGone, 4: CodeDeleted,", "0: CodeBusy, 1: CodeGranted, 2: CodeOpened, 3: CodeGone, 4: CodeDeleted, 5: CodeGranted,"),
			"resp", "TestAnswersThatNoScriptGivesAreMalformed", false,
		},
	}
}

// counting: what the engine makes of permits and latches.
func counting() []mutant {
	const counted, semaphore, clean, wait = "engine/counted.go", "engine/semaphore.go", "engine/cleanup.go", "engine/wait.go"
	const lost, limited, undone = "TestC143_AnswersOfASemaphoreAreLost", "TestASemaphoreLetsInNoMoreThanItHasPermits", "TestATakeIsGivenBackThoughOthersTakeMeanwhile"
	const gone, again, foreign = "TestALatchThatIsDeletedOrLostIsNotOpen", "TestALatchThatIsSetAgainAtOnceLetsThoseInWhoWaited", "TestALatchThatRedissonOpensIsOpen"
	at := func(id, why, file, old, text, tests string, hangs bool) mutant {
		return mutant{id, why, one(file, old, text), familySuite, tests, hangs}
	}
	return []mutant{
		// Requests.
		at("take-under-another-number", "a take whose answer is lost takes again, and nobody has what it took first",
			counted, "if a.op.Sink = d; !a.kept() {", "if a.op.Sink = d; true {", lost, false),
		at("requests-of-one-number", "the second request of an engine is taken for a copy of the first",
			"engine/request.go", "e.requests.Add(1)", "e.requests.Load()+1", "TestASemaphoreIsItsNumberOfPermits|"+lost, true),
		at("give-under-another-number", "a give whose answer is lost gives again: there are more permits than were set",
			counted, "func (g *releaser) due(clock.Instant) {\n", "func (g *releaser) due(clock.Instant) {\n\tg.op.Field = newRequest(g.ent.eng) + \":\" + strconv.FormatInt(g.sent.units, 10)\n", lost+"|TestAnswersToCountDownsAreLost", false),
		at("give-not-again", "a give whose answer is lost is not sent again: its permits may be lost",
			counted, "case e.draining.Load(), refused && g.sent.owed == 0,", "case refused || !refused,", lost, false),
		at("undo-by-a-note-that-is-gone", "what a take took is lost for good if another take comes before it is given back",
			counted, "taker = ent.eng.id + \".\" + strconv.Itoa(i)", "break", undone, true),
		at("undo-forgotten-with-its-entry", "the same, where nobody else waits just then",
			clean, "root != nil && c.root == nil {", "root != nil && false {", undone, true),
		at("undo-over-too-early", "the same, where giving it back has failed once",
			clean, "if r.Err == nil { // else", "if true { // else", undone, true),
		at("set-sent-again", "a set whose answer is lost is sent again, and says that there was one",
			semaphore, `repeat: q.reads()`, "repeat: true", "TestASetWhoseAnswerIsLostIsUnknown", false),

		// Who gets permits.
		at("unclaimed-permits-kept", "permits that nobody wants any more are missing for ever",
			counted, "		sc.releaseUnits(ent, a.op.Family, pendingUnits{units: int64(left), owed: int64(left)})\n", "", "TestASemaphoreGetsBackWhatNobodyWantsAnyMore", true),
		at("permits-handed-out-and-given", "permits that were handed out are given back, too",
			semaphore, "pendingUnits{units: int64(left), ops: []*countedRelease{op}}", "pendingUnits{units: int64(n), ops: []*countedRelease{op}}", "TestWhatIsHandedOutIsNotGivenBack", true),
		at("permits-kept-by-one-engine", "others never get permits while an engine hands them out",
			counted, "\tif !ent.TenureOpen(now) {\n\t\treturn units", "\tif now == 0 {\n\t\treturn units", "TestASemaphoreIsNotKeptByOneEngine", true),
		at("gifts-meanwhile-lost", "what is given back while a give is on its way is never sent",
			counted, "if g.busy = false; g.next.units > 0 {", "if g.busy = false; false {", limited, true),
		at("releasers-untold", "whoever gives back waits for ever", counted, "	sc.tellReleased(&g.sent, err)\n	root, rested :=", "	root, rested :=", "TestASemaphoreServesItsEngineInOrder", true),
		at("wrong-kind-counted", "a count of what is no latch passes for done",
			counted, "	case r.Code == resp.CodeNotOurs:\n", "	case false:\n", "TestALatchRefusesWhatCannotBeAskedFor", false),

		// Who is let in.
		at("count-handed-to-waiters", "who waits for a latch is let in by a count that is not the last",
			counted, "if all || ent.First() == nil ||", "if !all && ent.First() == nil ||", "TestACountIsNotHandedToThoseWhoWait", false),
		at("latch-seen-by-nobody", "who waited is not let in where the latch has another count when they look",
			counted, "k.known, k.heard = latch.known, latch.heard", "k.heard = latch.heard", again+"|TestALatchThatIsDeletedAndSetAgainIsNotTheSame", true),
		at("latch-opening-for-newcomers", "a newcomer is let in by an opening before it came",
			counted, "return lookOpen, lookAgain", "return lookOpen, lookOpen", "TestANewcomerIsNotLetInByAnOpeningBeforeIt", false),
		at("latch-deletion-for-newcomers", "a newcomer is told of a deletion before it came",
			counted, "return lookGone, lookAgain", "return lookGone, lookGone", "TestALatchThatIsDeletedAndSetAgainIsNotTheSame", false),
		at("latch-gone-for-ever", "who waits for a latch that is lost waits for ever",
			counted, "case r.ReceivedAt.Sub(gone) >= goneFor:", "case false:", gone, true),
		at("latch-redissons-opening-unheard", "who waits for a latch that Redisson opens is told that it is gone",
			counted, "case s.heard > 0, !s.hears && subscribes:", "case !s.hears && subscribes:", foreign, false),
		at("latch-heard-before", "who waits for a latch that is lost is let in by a message of an opening before",
			counted, "if s.heard == k.heard { // what was heard was before this answer", "if false {", "TestAMessageOfAnOpeningBeforeLetsNobodyIn", false),
		at("latch-hearing-unnoted", "a latch that is lost is open to who has heard all messages",
			counted, "s.hears = s.hears || k.hears", "", gone, false),
		at("latch-deaf", "a latch that is lost is open to who could not hear of it",
			counted, "ent.wakeups().asked && !ent.wakeups().lost)", "ent.wakeups().asked)", "TestALatchThatIsLostToOneWhoHearsNothing", false),
		at("latch-any-message-opens", "a message that the latch has another count opens it where that is lost",
			wait, "case message == openMessage && p", "case message != \"\" && p", gone, false),
		at("latch-without-room", "a latch behind a lock of its name ends the process",
			counted, "&a.ent.ensureChildren().latch, false", "&a.ent.children().latch, false", "TestALatchBehindALockOfItsName", false),
		{
			"latch-unheard-in-a-cluster", "in a cluster nobody hears that a latch with a hash tag is open",
			one("engine/family.go", "channelInCluster: slot.LatchChannelInCluster,", ""),
			clusterSuite, "TestClusterSemaphoresAndLatchesAreHeardOf", true,
		},
		at("latch-look-given-back", "a look whose answer is lost is given back as if it had counted",
			"engine/acquire.go", "if a.kept() && traits(a.op.Family).Serves != lockstate.ServesAll {", "if a.kept() {", "TestALookThatNobodyWaitsForLeavesNothing", true),
	}
}

// countingRefused: what is refused, and who is asked for.
func countingRefused() []mutant {
	return []mutant{
		{
			"surplus-given-up", "what nobody wants is lost when giving it back is refused once",
			one("engine/counted.go", "refused && g.sent.owed == 0,", "refused,"),
			familySuite, "TestASurplusIsGivenBackThoughThatIsRefusedOnce", false,
		},
		{
			"unknown-pendingUnits-given-up", "what may have been given is not given any more when it is refused then",
			one("engine/counted.go", "&& !faultOf(r, g.op.Family).Passes && !g.unknown", "&& !faultOf(r, g.op.Family).Passes"),
			familySuite, "TestAReleaseThatHadNoAnswerGoesOnThoughItIsRefusedThen", false,
		},
		{
			"tries-answered-for-others", "a Try that came later is refused by an answer for others",
			one("engine/counted.go", "	if few {\n		sc.refuse", "	if true {\n		sc.refuse"),
			familySuite, "TestTriesOfASemaphoreThatComeTogetherAreEachAskedFor", false,
		},
		{
			"releasers-of-a-name-are-one", "a latch is counted up where somebody has taken it for a semaphore",
			one("engine/counted.go", "if g.op.Family == f {", "if g.op.Family != 0 || f == 0 {"),
			familySuite, "TestALatchIsNotASemaphoreForThoseWhoReleaseIt", false,
		},
		{
			"counted-stays-behind", "who waits for permits, or for a latch, listens where its name is served no more",
			one("engine/wait.go", "if p.sub == nil || p.at == sc.eng.nodes.Owner(p.ent.slot) {", "if true {"),
			clusterSuite, "TestClusterWhoIsCountedFollowsItsSlotAndHearsOfIt", true,
		},
	}
}
