package main

// permits: requests for permits that come again, or late. What is counted has no owner: a request that is carried out
// twice, or that is noted and not carried out, makes permits or loses them for ever.
func permits() []mutant {
	const (
		twice = "TestATakeThatIsSentTwiceTakesOnce"
		gives = "TestPermitsThatAreGivenTwiceAreGivenOnce"
		back  = "TestATakeThatNobodyWantsIsGivenBackOnce"
		take  = "semaphore"
		give  = "semaphorerelease"
	)
	return []mutant{
		in(take, "permits-taken-twice", "a take that is sent again takes again, and nobody has what it took first",
			"if last == request and took > 0 then", "if false then", twice),
		in(take, "permits-of-the-same-number", "a take that was given back takes again when a copy of it comes late",
			"tonumber(last) >= tonumber(request)", "tonumber(last) > tonumber(request)", back),
		in(take, "permits-late-copy", "a copy of an older take takes permits that nobody knows of",
			"elseif last and tonumber(last) >= tonumber(request) then", "elseif last == request then", twice),
		in(take, "permits-numbers-as-texts", "from the tenth request on a late copy is taken for a new one",
			"tonumber(last) >= tonumber(request)", "last >= request", twice),
		in(give, "permits-given-twice", "a give that is sent again gives again: there are more permits than were set",
			"tonumber(last) >= tonumber(request)", "tonumber(last) > tonumber(request)", gives),
		in(give, "permits-given-late", "a copy of an older give gives again",
			"local over = last and tonumber(last) >= tonumber(request)", "local over = last == request", gives),
		in(give, "permits-gives-and-takes-share-a-number", "a take of the same number as a give is taken for a late copy",
			"who, said = who .. ':given', request", "said = request", gives),
		in(give, "permits-undone-twice", "what a take took is given back as often as somebody asks",
			"local said = request .. ' 0'", "local said = request .. ' 1'", back),
		in(give, "permits-undone-too-early", "a take that was given back before it came takes permits that nobody knows of",
			"return not over and keep(notes, who, said, note) or -1", "return -1", back+"|TestATakeThatWasGivenBackBeforeItCameTakesNothing"),
		in(give, "permits-undone-late", "a late copy of an older undoing takes the note of what was taken since: it is never given back",
			"return not over and keep(notes, who, said, note) or -1", "return keep(notes, who, said, note) or -1", back),
		in(give, "permits-undone-of-another", "what another take took is given back while its holder works",
			"if permits == '' and last == request and", "if permits == '' and last and", back),
		in(give, "permits-of-a-foreign-note", "a note of somebody else's is no number, and a call for it ends in an error each time",
			"(tonumber(took) or 0) > 0", "took ~= '0'", "TestNotesOfOthersGiveNothing"),
		in(take, "permits-of-a-foreign-number", "a grant of as many permits as somebody has written",
			"took = count_of(took or '0') or 0", "took = tonumber(took or '0')", "TestNotesOfOthersGiveNothing"),
	}
}

// permitsTaken: who gets them.
func permitsTaken() []mutant {
	const (
		order = "TestPermitsAreTakenForAsManyAsThereAreEnoughForInTheirOrder"
		late  = "TestC029_NoScriptTakesAKeyAfterItsNotAfter"
		take  = "semaphore"
		set   = "semaphoreset"
	)
	return []mutant{
		in(take, "permits-overtaken", "whoever wants few overtakes whoever wants many, who never gets them",
			"      break\n", "", order),
		in(take, "permits-one-at-a-time", "of those who wait one is served, and the others poll",
			"    sum = sum + tonumber(ARGV[i])\n", "    sum = sum + tonumber(ARGV[i])\n    if i == 5 then\n      break\n    end\n", order),
		in(take, "permits-below-none", "more permits are taken than there are",
			"if sum + tonumber(ARGV[i]) > free then", "if sum >= free then", order),
		in(take, "permits-one-is-left", "the last permit is never taken",
			"if sum + tonumber(ARGV[i]) > free then", "if sum + tonumber(ARGV[i]) >= free then", order),
		in(take, "permits-rounded", "many permits are taken as a number with an exponent: a note that nobody reads",
			"string.format('%.0f', sum)", "string.format('%.3g', sum)", order),
		in(take, "permits-late-take", "a take that comes late takes permits that nobody waits for",
			"if now > tonumber(ARGV[3]) then", "if false then", late),
		in(set, "permits-late-set", "permits that were set are set again by a copy that comes late",
			"if now > tonumber(ARGV[5]) then", "if false then", late),
	}
}

// permitsNoted: what is left where something is refused, and for how long.
func permitsNoted() []mutant {
	const (
		twice   = "TestATakeThatIsSentTwiceTakesOnce"
		refused = "TestWhereTheCountIsRefusedTheNoteIsWhatItWas"
		halves  = "TestARefusalEndsItsScriptAndLeavesNothingHalfDone"
		take    = "semaphore"
		give    = "semaphorerelease"
		notes   = "fragments/requests"
	)
	return []mutant{
		in(take, "permits-note-after-a-refusal", "a take that was refused is noted: asked again it answers permits that it has not",
			"    forget(notes, who, note)\n", "", refused),
		in(give, "permits-given-note-after-a-refusal", "a give that was refused is noted: asked again it changes nothing, and the permits are lost",
			"    forget(notes, who, note)\n", "", refused),
		in(notes, "permits-note-before", "the note of the request before is lost where the next is refused",
			"call('HSET', notes, who, before or '0 0')", "call('HSET', notes, who, '0 0')", refused),
		in(notes, "permits-note-of-none", "where a note may not be deleted it stays, and says what was not done",
			"  call('HSET', notes, who, before or '0 0') -- refused or not: it was allowed a moment ago\n", "", refused),
		in(notes, "permits-notes-for-ever", "notes of engines that are gone stay for ever",
			"local kept = call('PEXPIRE', notes, KEPT)", "local kept = 1", "TestC017_NoScriptMakesAKeyWithoutATTL"),
		in(notes, "permits-notes-for-a-moment", "a copy that comes after a minute finds no note, and is carried out",
			"local KEPT = 3600000", "local KEPT = 60000", twice),
		in(notes, "permits-expiry-refused", "notes that may not be given an expiry stay for ever",
			"if type(kept) == 'table' and not forget(notes, who, before) then", "if false then", refused),
		in(notes, "permits-expiry-refused-unsaid", "notes without an expiry stay, and nobody is told to delete them",
			"  return before\n", "  return true\n", refused),
		in(notes, "permits-expiry-refused-and-taken", "a request whose note has no expiry is carried out and answered as refused",
			"return type(kept) == 'table' and kept or nil", "return nil", refused),
		in(notes, "permits-unnoted", "a take whose note is refused takes permits that it cannot answer again",
			"  if type(noted) == 'table' then\n    return noted\n  end\n", "", halves),
		in(take, "permits-note-unread", "a note that may not be read is taken for none",
			"  if type(note) == 'table' then\n    return nil, note\n  end\n", "  note = type(note) == 'string' and note\n", halves),
	}
}

// permitsCounted: what stands there, and who is told.
func permitsCounted() []mutant {
	const (
		numbers = "TestWhatIsNoNumberOfPermitsIsLeftAlone"
		told    = "TestWaitersAreToldHowManyPermitsAreFree"
		changed = "TestASemaphoreIsSetOnceAndChangedAsAsked"
		give    = "semaphorerelease"
		set     = "semaphoreset"
		count   = "fragments/count"
	)
	return []mutant{
		in(count, "permits-of-lua", "what INCRBY cannot count is counted: get answers it, and every take is an error",
			"string.match(text, '^-?[1-9]%d*$')", "tonumber(text)", numbers),
		in(count, "permits-of-zeros", "007 is no number to INCRBY",
			"'^-?[1-9]%d*$'", "'^-?%d+$'", numbers),
		in(count, "permits-beyond-53-bits", "more permits than Lua can count are rounded up",
			"< 2 ^ 53", "< 2 ^ 63", numbers),

		in(give, "permits-given-in-silence", "waiters sleep until their poll",
			"local heard = call(publish, channel(key), string.format('%.0f', free))", "local heard = 0", told),
		in(give, "permits-message", "Redisson's waiters are told of fewer permits than there are",
			"string.format('%.0f', free)", "'1'", told),
		in(give, "permits-told-of-none", "a listener of Redisson's fails on a number below 0",
			"elseif free < 1 then", "elseif free < -9 then", told),
		in(set, "permits-set-in-silence", "who waits for permits that are set or added sleeps until its poll",
			"  if v > 0 then\n", "  if false then\n", told),
		in(set, "permits-set-tells-of-none", "a listener of Redisson's fails on permits that are taken away",
			"  if v > 0 then\n", "  if true then\n", told),
		in(give, "permits-unpublished", "a give whose message is refused passes for an error: it is sent again for ever",
			"return type(heard) == 'table' and -2 or heard", "return heard", told),
		in(set, "permits-set-again", "permits are set while some are taken: there are more than were set",
			"if what == 'set' and not free then", "if what == 'set' then", changed),
		in(set, "permits-added-to-nothing", "permits are added to a semaphore that is not there",
			"what == 'some' and free then", "what == 'some' then", changed),
		in(set, "permits-drained-below-none", "permits that are owed are forgiven",
			"elseif what == 'drain' and number > 0 then", "elseif what == 'drain' and number ~= 0 then", changed),
		in(set, "permits-stay", "permits that were set for a time stay for ever",
			"done = call('SET', key, many, 'PX', ARGV[4])", "done = call('SET', key, many)", changed),
		{
			"permits-notes-are-left-behind", "while a slot is moved a take is carried out where its notes are not: it takes again",
			one("resp/family.go", "more: wantedArgs, otherKeys: otherKeysCounted,", "more: wantedArgs,"),
			"resp", "TestTheKeysThatHaveToBeOnOneSide", false,
		},
		{
			"permits-call-unread", "a reply that no script gives is taken for done",
			one("resp/answers.go", "0: CodeNone, 1: CodeDone, -3: CodeWrongKind", "0: CodeNone, 1: CodeDone, 2: CodeDone, -1: CodeNone, -3: CodeWrongKind"),
			"resp", "TestAnswersThatNoScriptGivesAreMalformed", false,
		},
	}
}
