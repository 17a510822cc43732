package main

// leasedPermits: what the scripts promise of permits that are leased, each under an id.
func leasedPermits() []mutant {
	const (
		expire = "TestPermitsExpireAndAreFreeThen"
		byID   = "TestPermitsAreReleasedByTheirIDs"
		again  = "TestPermitsThatAreAskedForAgainAreLeasedForNoShorter"
		lives  = "TestLeasedPermitsLiveAsLongAsTheirSemaphore"
		full   = "TestLeasedPermitsAreKeptAndGivenBackWhenMemoryIsFull"
		ten    = "TestTenThousandPermitsThatExpiredAtOnceAreGivenBackInPieces"
	)
	black := func(script, id, why, old, text, tests string) mutant {
		m := in(script, id, why, old, text, tests)
		m.pkg = familySuite
		return m
	}
	return []mutant{
		in("permits", "leased-taken-twice", "an acquire that is sent again takes as many once more",
			"    if not score then\n      fresh", "    if true then\n      fresh", again),
		in("permits", "leased-shortened-by-a-copy", "a late copy of an acquire lowers a lease that is trusted",
			"math.max(tonumber(score or 0), till)", "till", again),
		in("permits", "leased-set-outlives", "a semaphore that is made anew gets what an older one had leased",
			"local refused = expire_with(key, timeouts)", "local refused = nil", lives),
		in("permitsset", "leased-anew-with-the-old", "the same, where only the number was deleted",
			"local left = not there and call('DEL', timeouts)", "local left = nil", lives),
		in("permitsrelease", "leased-made-of-nothing", "a release makes a semaphore, or permits of one that is gone",
			"give_back(key, timeouts, members, free)", "give_back(key, timeouts, members, true)",
			lives),
		in("permitsrenew", "leased-lost-in-full-memory", "permits that are held are lost when the server's memory is full",
			"string.find(set.err, 'OOM', 1, true)", "false", full),
		in("fragments/permits", "leased-kept-in-full-memory", "no permit is given back when the server's memory is full",
			"  local gone = call('ZREM', timeouts, unpack(ids))\n",
			"  call('INCRBY', key, 0) -- refused or not: first\n  local gone = call('INCRBY', key, 0)\n"+
				"  if type(gone) == 'table' then\n    return gone\n  end\n  gone = call('ZREM', timeouts, unpack(ids))\n", full),
		black("permits", "leased-expired-kept", "what a process had that has died is missing for ever",
			"local collected = collect()", "local collected = false", expire),
		black("permits", "leased-collected-at-once", "the server answers nobody else while it gives back what has expired",
			"local EXPIRED, NEVER = 100,", "local EXPIRED, NEVER = 5000,", ten),
		black("permits", "leased-nobody-looks", "who waits hears a second late that a permit has expired",
			"return at >= NEVER and -1 or math.max(at - now, 0)", "return -1", "TestWhoWaitsForPermitsLooksWhenTheyExpire"),
		black("permitsrelease", "leased-part-for-whole", "who has lost one of its permits is told that it had them all",
			"whole = whole and score and tonumber(score) > now", "whole = true", byID),
		black("permitsrenew", "leased-renewed-though-gone", "a permit that was taken away is believed",
			"elseif not score or tonumber(score) <= now then\n      return -1\n", "elseif not score then\n      return nil\n",
			"TestPermitsThatSomebodyTookAwayAreLost"),
		black("permitsset", "leased-some-of-the-ids", "of permits that are released by their ids some are given back",
			"    elseif not score or tonumber(score) <= now then\n      return nil\n    end\n    out[#out + 1] = score\n    out[#out + 1] = id\n",
			"    elseif score then\n      out[#out + 1] = score\n      out[#out + 1] = id\n    end\n", byID),
	}
}

// leasedHolds: what the engine makes of them.
func leasedHolds() []mutant {
	return []mutant{
		{
			"leased-as-many-as-others", "who wants one permit is given what was asked for by who wants two",
			one("engine/internal/lockstate/serve.go", "t.Family == asked.Family && t.Units == asked.Units &&", "t.Family == asked.Family &&"),
			familySuite, "TestPermitsThatNobodyWantsAnyMoreAreGivenBack", false,
		},
		{
			"leased-asked-again-for-others", "who waits behind an acquire without an answer gets as many permits as that wanted",
			one("engine/attempt.go", "(!op.set.Family.Many || a.permits() == op.set.Units)", "true"),
			familySuite, "TestWhoWaitsBehindAnAcquireWithoutAnAnswerGetsWhatItWants", false,
		},
		{
			"leased-handed-to-who-wants-fewer", "who wants one permit is handed two",
			one("engine/internal/lockstate/terms.go", " && t.Units == o.Units", ""),
			familySuite, "TestARenewedPermitIsHandedOverUnlessItsIDsWereTold", false,
		},
		{
			"leased-handed-under-known-ids", "who was told the ids of a permit releases what somebody else has by now",
			one("engine/release.go", " || h.extra != nil && h.extra.shown {", " {"),
			familySuite, "TestARenewedPermitIsHandedOverUnlessItsIDsWereTold", false,
		},
		{
			"leased-tries-refused", "tries are refused though there are permits",
			one("engine/attempt.go", "		sc.advance(root)\n		return\n	}\n	sc.admit", "		sc.answerTries(a, r)\n		sc.advance(root)\n		return\n	}\n	sc.admit"),
			familySuite, "TestTriesForPermitsAtOnceAreAllServed", false,
		},
		{
			"leased-forced-by-a-lock", "a ForceRelease of a lock tells who has permits of that name that they are lost",
			one("engine/core.go", "traits(by).Mode == traits(there).Mode && (traits(by).Many || !traits(there).Many)",
				"traits(by).Mode == traits(there).Mode"),
			familySuite, "TestPermitsAndALockOfTheSameNameAreApart", false,
		},
		{
			"leased-nobody-is-next", "after a grant nobody asks for the next, though there are permits",
			one("engine/attempt.go", "	if f.Many { // there may be more: it is no answer to tries\n		sc.advance(root)\n", "	if f.Many {\n"),
			familySuite, "TestTriesForPermitsAtOnceAreAllServed", true,
		},
		{
			"leased-mine-is-everybodys", "every permit is said to be this engine's",
			one("engine/permits.go", "mine := len(id) == resp.PermitID && id[:len(mark)] == mark", "mine := len(id) > 0 && mark != \"\""),
			familySuite, "TestALeaseOfPermitsIsExtendedAndReadAndChanged", false,
		},
		{
			"leased-renewed-by-default", "a permit without an option is renewed for as long as its process lives",
			one("engine/family.go", "channel: slot.SemaphoreChannel, fixed: true,", "channel: slot.SemaphoreChannel,"),
			familySuite, "TestPermitsAreNotRenewedUnlessAsked", false,
		},
		{
			"leased-renewed-as-a-lock", "permits whose set has moved are not renewed",
			one("resp/renewal.go", "				hashes[i].Family = part[0].Family\n", ""),
			clusterSuite, "TestPermitsInASlotThatStaysHalfMoved", false,
		},
		{
			"leased-many-in-one-command", "one command gives back so many permits that the server answers nobody else",
			one("resp/batch.go", "if work += op.Family.Work(op.Field); work > most && end > start {", "if work += op.Family.Work(op.Field); false {"),
			"resp", "TestOneCommandIsForSoManyPermits", false,
		},
		{
			"leased-rest-kept-after-a-loss", "where one of several permits was taken away, the others are leased to nobody until their lease is over",
			one("engine/internal/lockstate/grant.go", ", why == LossTaken && w.terms.Units > 1:", ":"),
			familySuite, "TestPermitsThatSomebodyTookAwayAreLost", false,
		},
	}
}
