package main

// barriers: nobody passes before its generation has come, and all of it pass, or all are told.
func barriers() []mutant {
	const look, leave, set, fragment = "resp/scripts/barrier.lua", "resp/scripts/barrierleave.lua", "resp/scripts/barrierset.lua", "resp/scripts/fragments/barrier.lua"
	const meeting, cleanup, barrier = "engine/meeting.go", "engine/cleanup.go", "engine/barrier.go"
	const passes, early, leaves, dies = "TestABarrierLetsAllPassWhenAllHaveCome", "TestNobodyPassesABarrierBeforeItsWholeGenerationHasCome", "TestABarrierIsBrokenByWhoLeaves", "TestABarrierIsBrokenByAProcessThatDied"
	const unheard, gone = "TestWhoLeavesABarrierBeforeItIsHeardOfBreaksIt", "TestABarrierOfManyEnginesThatHaveGone"
	const lost, refuses = "TestAnswersToThoseWhoArriveAreLost", "TestABarrierRefusesWhatItCannotDo"
	at := func(id, why, file, old, text, tests string, hangs bool) mutant {
		return mutant{id, why, one(file, old, text), familySuite, tests, hangs}
	}
	scene := func(id, why, file, old, text string) mutant {
		return mutant{
			id, why, one(file, old, text), "engine", "TestALateLeaveBreaksNoYoungerGeneration|TestALeaveThatIsOvertakenBreaksItsGeneration|" +
				"TestCloseOfAPartyThatIsNotHeardOfBreaksItsGeneration|TestMaxWaitAtALatchThatIsJustCountedDownIsUnknown|" +
				"TestARedLockIsGivenBackInTimeThoughItsLeadIsClosed", false,
		}
	}
	return []mutant{
		scene("barrier-left-just-now", "who left breaks a generation that began later", cleanup, "leftAgo(now.Sub(c.began))", "leftAgo(0 * now.Sub(c.began))"),
		scene("barrier-left-and-named", "who was never named leaves, is overtaken, and the others wait on", cleanup, "	if p.named {", "	if p.named || true {"),
		scene("barrier-closed-unheard", "an engine is closed, and whom its party was to meet waits on", "engine/acquire.go",
			"sc.partyLeaves(ent, op, errors.Is(err, ErrClosed))", "sc.partyLeaves(ent, op, false)"),
		scene("latch-is-held", "who waits for a latch that is just counted down is told that it is not open", "engine/wait.go",
			"gives := traits(op.set.family).Serves == lockstate.ServesOne && ent", "gives := ent"),
		scene("red-has-no-timers", "a RedLock whose lead is closed is given back after seconds", "engine/redlease.go", " && !v.eng.closing.Load() //", " //"),
		at("barrier-one-early", "a generation passes one early", look, "if b.arrived >= b.parties then", "if b.arrived >= b.parties - 1 then", passes+"|"+early, true),
		at("barrier-counts-twice", "an arrival whose answer is lost counts twice", look, "  of[id] = e.of[id]\n", "", lost, true),
		at("barrier-forgets-who-passed", "who asks again after its generation has passed is told that it is broken", look,
			"    kept[#kept + 1] = id\n", "    if of[id] == b.generation then kept[#kept + 1] = id end\n", passes+"|"+lost, true),
		at("barrier-reset-passes", "who waited when it was reset passes", look, "  elseif broken[generation] then\n    verdicts[i] = 'b'\n", "", leaves, false),
		at("barrier-lost-arrives-again", "who waits at a barrier that is lost begins another generation alone", look, "if waited[id] or b.broken == 1 then", "if b.broken == 1 then", leaves, true),
		at("barrier-lets-in-when-broken", "who comes to a broken barrier waits", look, "if waited[id] or b.broken == 1 then", "if waited[id] then", leaves, true),
		at("barrier-any-parties", "parties that wait for other numbers wait together", look, "b.parties ~= wanted[id] then", "false then", refuses, true),
		at("barrier-dead-for-ever", "who waits for a party whose process died waits for ever", fragment, "          news = breaks(b) or news\n", "", dies, true),
		at("barrier-no-expiry", "a barrier that nobody uses stays for ever", fragment, "text, 'PX', KEPT)", "text)", passes, false),
		at("barrier-leaves-unsaid", "who leaves is waited for", leave, "e.of[id] == b.generation and breaks(b)", "false", leaves, true),
		at("barrier-mended-by-nobody", "a reset leaves it broken", fragment, "math.max(b.generation + 1, micros), 0, 0", "math.max(b.generation + 1, micros), 0, b.broken", leaves, true),
		at("barrier-reset-remembers-nothing", "a generation that was reset is taken for one that has passed", set, "b.ended[#b.ended + 1] = b.generation\n", "", leaves, false),
		at("barrier-engine-says-nothing", "an engine does not say who has left", cleanup, "		delete(all.parties, op)\n", "		delete(all.parties, op)\n		return\n", leaves, true),
		at("barrier-left-unheard", "who leaves before the server has heard of it leaves the others waiting", cleanup, "	case gaveUp:\n		id =", "	case false:\n		id =", unheard, true),
		at("barrier-left-of-another", "who leaves before it is heard of breaks what is for another number", leave, "tonumber(parties) == b.parties and", "tonumber(parties) and tonumber(parties) > 0 and", unheard, true),
		at("barrier-too-long-to-read", "a barrier is bricked by those who came and went", fragment, "if #text > LONGEST then", "if false then", gone, true),
		at("barrier-remembers-all", "a change of a barrier takes long, for it remembers everybody", fragment, "(#b.text <= SPARE and KEPT or LATE)", "KEPT", gone, true),
		{"barrier-left-twice", "a leave that comes twice breaks the next generation", one(leave, " and b.generation <= micros - tonumber(ago) * 1000", ""), "internal/twin", "TestDifferentialTwinAnswersAsTheServerDoes", false},
		at("barrier-under-another-number", "an arrival that is sent again is another party", meeting, "		if !known {\n			id =", "		if !known || !op.SawClosed {\n			id =", lost, true),
		at("barrier-told-by-none", "who is told to wait is taken for one that comes", meeting, `			party += "+"`, `			party += ""`, leaves, true),
		at("barrier-too-short-a-lease", "a lease that ends between two words of an engine is allowed", barrier, "case want.Lease < MinPartyLease:", "case want.Lease < 0:", refuses, false),
		at("barrier-for-nobody", "a barrier for no parties is allowed", barrier, "case parties < 1 ||", "case parties < 0 ||", refuses, true),
		at("permits-forced-unsaid", "who has a permit that is force-released learns of it too late", "engine/permits.go", "	l.loseForced(holds)\n", "", "TestPermitsAreForceReleased", false),
		at("permits-forced-in-part", "the other permits of a lease that is force-released are missing until it ends", "engine/permits.go", "		sc.clean(h.ent, h.lockRef(), h.Indeterminate(), h.maxRemoteLife(sc.eng.clock.Now()))\n	}\n	sc.owe()", "		_ = h\n	}\n	sc.owe()", "TestPermitsAreForceReleased", true),
		at("permits-forced-all-or-none", "where one is free by then none is taken", "engine/permits.go", "case len(ids) == 1:", "case len(ids) >= 1:", "TestPermitsAreForceReleased", false),
		at("permits-forced-of-others", "leases that have none of them are lost", "engine/permits.go", "return wanted[id] }", "return wanted[id] || id != \"\" }", "TestPermitsAreForceReleased", false),
		at("passed-over-by-no-one", "nobody learns that others are served first", "engine/attempt.go", "	sc.passedOver(ent)\n", "", "TestWaitersThatArePassedOverAreCounted", true),
		at("passed-over-by-too-little", "who wants more than is free counts as passed over", "engine/wait.go", " && ent.wakeups().freed >= int(op.set.Units)", "", "TestWaitersThatArePassedOverAreCounted", false),
	}
}
