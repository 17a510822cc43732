package main

// groupScripts: what the scripts promise of values of a group.
func groupScripts() []mutant {
	const (
		overlap = "TestSetsOfValuesThatOverlapExcludeEachOtherAndOthersDoNot"
		again   = "TestAnswersOfAGroupLockAreLost"
		whole   = "TestValuesAreRenewedExtendedAndLostAsAWhole"
		owner   = "TestAnOwnerEntersItsValuesAgain"
		full    = "TestValuesAreKeptAndGivenBackWhenMemoryIsFull"
		left    = "TestWhatOthersHaveLeftGoesWithTheirValue"
		refused = "TestARefusalEndsItsScriptAndLeavesNothingHalfDone"
	)
	black := func(script, id, why, old, text, tests string) mutant {
		m := in(script, id, why, old, text, tests)
		m.pkg = familySuite
		return m
	}
	return []mutant{
		black("group", "group-taken-by-two", "who asks for values of which one is held gets all of them",
			"    busy = math.max(busy, till)", "    busy = 0", overlap),
		black("group", "group-shortest-of-those-held", "who waits is told of the value that is free first",
			"busy = math.max(busy, till)", "busy = busy == 0 and till or math.min(busy, till)",
			"TestWhoIsRefusedIsToldOfTheValueThatIsHeldLongest"),
		black("group", "group-late-copy-counts-anew", "a copy of an acquire takes the count of an owner back to one",
			"if owners[i] == owner and tills[i] > now then -- of an earlier copy", "if false then",
			"TestALateCopyOfAnAcquireOfValuesChangesNoCount"),
		black("group", "group-leftovers-stay", "what dead holders have left makes a group larger and larger",
			"if #left > 0 then", "if false then", left),
		in("group", "group-half-without-expiry", "values that got no expiry stay taken for ever",
			"local undone = #fresh > 0 and call('HDEL', key, unpack(fresh))", "local undone = nil", refused),
		in("group", "group-late-copy", "a copy that comes late takes values that nobody knows of",
			"if now > tonumber(ARGV[3]) then", "if false then", "TestC029_NoScriptTakesAKeyAfterItsNotAfter"),
		black("group", "group-beside-a-read-write-lock", "values are taken in the hash of a read-write lock",
			"elseif owners[#values + 1] then", "elseif false then", "TestAGroupIsNoReadWriteLockAndNoString"),
		black("groupcount", "group-count-a-step", "a count that is sent again counts twice",
			"  set[#set + 1] = ARGV[4]\n", "  set[#set + 1] = ARGV[4] + (redis.pcall('HGET', key, count_of(value, owner)) or 0)\n", again),
		black("groupcount", "group-count-not-lowered", "what an owner gave back keeps the values for longer than the rest asks for",
			"ARGV[5] == '2' and math.min or math.max", "math.max", owner),
		black("grouprelease", "group-part-for-whole", "who has lost one of its values is told that it had them all",
			"if not has_all(owner, owners, tills, now) then", "if false then", "TestValuesAreForceReleased"),
		black("grouprelease", "group-release-takes-others", "a release takes away what somebody else has by now",
			"    if owners[i] == owner then\n      gone", "    if true then\n      gone", whole),
		black("grouprenew", "group-renewed-in-part", "values of which one was taken away are believed",
			"elseif not has_all(owner, owners, tills, now) then\n    return -1", "elseif false then\n    return -1", whole),
		black("fragments/group", "group-hash-lives-as-the-last", "who comes with a short lease ends those of others",
			"math.max(left, lease)", "lease", "TestTheHashLivesAsLongAsTheLongestOfItsValues"),
		black("fragments/group", "group-lost-in-full-memory", "values that are held are lost when the server's memory is full",
			"return redis.pcall('PEXPIRE', key, string.format('%.0f', math.max(left, lease)))", "return left", full),
		black("groupforce", "group-forced-beside", "a ForceRelease takes values that nobody named",
			"local key, values = KEYS[1], values_in(ARGV[6])", "redis.call('DEL', KEYS[1])\nlocal key, values = KEYS[1], values_in(ARGV[6])",
			"TestValuesAreForceReleased"),
	}
}

// groupHolds: what the engine makes of them.
func groupHolds() []mutant {
	const names, hash = "TestValuesStandInRedisAsRedissonHasThem", "TestTheHashOfAValueIsRedissonsForEveryLength"
	return []mutant{
		{
			"group-one-owner-for-two-sets", "two sets that are asked for at once are granted together, though they share a value",
			one("resp/batch.go", "op.Kind == OpAcquire && !row.values ||", "op.Kind == OpAcquire ||"),
			"resp", "TestEachAcquireOfValuesHasAnOwnerIDOfItsOwn", false,
		},
		{
			"group-order-matters", "who names the same values in another order is another one",
			one("engine/groupvalues.go", "strings.Join(slices.Sorted(slices.Values(v.names)), \"\")", "strings.Join(v.names, \"\")"),
			"engine", "TestTheOrderOfValuesIsNothingToTheLock", false,
		},
		{
			"group-twice-named", "a value that is named twice is held once, and given back twice",
			one("engine/groupvalues.go", "if sorted[i] == sorted[i+1] {", "if false {"),
			"engine", "TestValuesAreRefused", false,
		},
		{
			"group-hash-words", "Redisson finds no value of ours", one("engine/groupvalues.go", "	slices.Reverse(sum[8:])\n", ""), "engine", hash, false,
		},
		{
			"group-kryo-ascii", "Redisson finds no value of ours that is a short text",
			one("engine/groupvalues.go", "const kryoASCIIMost = 32", "const kryoASCIIMost = 64"), "engine", names, false,
		},
		{
			"group-kryo-planes", "Redisson finds no value of ours with a character of the higher planes",
			one("engine/groupvalues.go", "units := utf16.Encode([]rune(s))", "units := make([]uint16, 0, len(s))\n	for _, r := range s {\n		units = append(units, utf16.Encode([]rune{r & 0xFFFF})...)\n	}"),
			"engine", names, false,
		},
		{
			"group-rest-is-kept", "of values of which one was taken away the others stay held by nobody",
			one("engine/loss.go", "case c == renew.CauseDeadline, c == renew.CauseNotOurs && f.parts:", "case c == renew.CauseDeadline:"),
			familySuite, "TestValuesAreRenewedExtendedAndLostAsAWhole", false,
		},
		{
			"group-others-here-starve", "busy callers of one set never leave a turn to other sets of their engine",
			one("engine/release.go", " && !ent.othersListen(traits(f)) {", " {"),
			"engine", "TestASetThatOthersOfTheEngineWaitBesideIsLeftToThem", false,
		},
		{
			"group-slot-of-the-values", "in a cluster a renewal that meets a moved group never finds it",
			one("resp/renewal.go", "slot.Of(r.Family.object(r.Key))", "slot.Of(r.Key)"),
			"resp", "TestARenewalOfValuesHasTheSlotOfTheirGroup", false,
		},
		{
			"group-name-with-values", "errors and leases name what nobody has named",
			one("engine/core.go", "	name, _ := slot.CutGroup(strings.TrimPrefix(key, e.cfg.Prefix))\n	return name\n", "	return strings.TrimPrefix(key, e.cfg.Prefix)\n"),
			familySuite, "TestValuesOfAGroupAreHeldOnTheWireOfRedisson", false,
		},
	}
}
