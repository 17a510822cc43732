package main

import "strings"

// in makes a mutant of a script, whose tests are in resp.
func in(script, id, why, old, text, tests string) mutant {
	return mutant{id, why, one("resp/scripts/"+script+".lua", old, text), "resp", tests, false}
}

// copies: what a copy of a command may do that comes late, or a second time, script by script.
func copies() []mutant {
	const late, again = "TestC029_NoScriptTakesAKeyAfterItsNotAfter", "TestAskingAgainGivesTheWholeLeaseAgain"
	var all []mutant
	for _, script := range []string{"fair", "fenced", "read", "write"} {
		at := "3"
		if script == "fair" {
			at = "2"
		}
		all = append(all, in(script, "late-copy-of-"+script, "a copy that comes late takes a lock that nobody knows of, or a place in its queue",
			"if now > tonumber(ARGV["+at+"]) then", "if false then", late))
	}
	return append(all, []mutant{
		in("reacquire", "asked-again-is-not-raised", "who asks again has what is left of the lease, and believes in all of it",
			"return math.max(left, least)", "return left < 0 and least or left", again),
		in("fair", "fair-asked-again-is-not-raised", "the same of a fair lock",
			"      must('PEXPIRE', lock, lease)\n    end\n    return nil", "    end\n    return nil", again),
		in("fenced", "fenced-asked-again-is-not-raised", "the same of a fenced one",
			"if type(left) ~= 'table' and left < tonumber(lease) then", "if false then", again),
		in("read", "read-asked-again-is-not-raised", "the same of a read hold",
			"if left < wanted then\n    local ttl", "if false then\n    local ttl", again),
		in("read", "mark-asked-again-is-not-raised", "the same of its mark",
			"if type(set) == 'number' and set < wanted then", "if false then", again),
		in("write", "write-asked-again-is-not-raised", "the same of a write hold",
			"if left < wanted then", "if false then", again),
		in("reacquire", "count-takes-what-an-extend-gave", "whoever enters again with a short lease loses what an Extend gave",
			"return math.max(left, least)", "return must and least or math.max(left, least)", "TestAskingAgainForLessLowersNothing"),
		in("reacquire", "count-makes-a-lock", "a change of the count of a lock that is gone makes it anew, for an owner who knows of no grant",
			"if must then\n  return {now, -1, 0}\nend\nlocal set", "local set", "TestACountOfALockThatIsGoneMakesNone"),
		in("reacquire", "count-of-anothers-is-busy", "whoever has lost a lock to another is told to wait for it, not that it is gone",
			"  if must then\n    return {now, -1, 0}\n  end\n", "", "TestACountOfALockThatIsGoneMakesNone"),
	}...)
}

// immortals: keys without an expiry, script by script.
func immortals() []mutant {
	const tests = "TestC017_NoScriptMakesAKeyWithoutATTL"
	fails := func(script, id, of, old, text string) mutant {
		return in(script, id, of+" whose holder dies stays for ever", old, text, tests)
	}
	return []mutant{
		fails("fair", "fair-no-ttl", "a fair lock", "local ttl = call('PEXPIRE', key, lease)", "local ttl = 1"),
		fails("fenced", "fenced-no-ttl", "a fenced lock", "local ttl = call('PEXPIRE', key, lease)", "local ttl = 1"),
		fails("read", "read-no-ttl", "a read lock", "local ttl = call('PEXPIRE', key, lease)\n  if ttl ~= 1", "local ttl = 1\n  if ttl ~= 1"),
		fails("read", "mark-no-ttl", "the mark of a read hold", "'1', 'PX', lease, 'NX')", "'1', 'NX')"),
		fails("write", "write-no-ttl", "a write lock", "local ttl = call('PEXPIRE', key, lease)", "local ttl = 1"),
		fails("write", "note-no-ttl", "the note of a writer that waits,", "'^[^:]*'), 'PX', patience)", "'^[^:]*'))"),
		fails("fairrelease", "passed-no-ttl", "a fair lock that a release passes on", "if call('PEXPIRE', lock, lease) ~= 1 then", "if false then"),
		fails("acquire", "restored-no-ttl", "a lock made from another, in a cluster,", "call('RESTORE', key, lease, template)", "call('RESTORE', key, 0, template)"),
		fails("fragments/fairqueue", "queue-no-ttl", "what we note of a queue", "local kept = call('PEXPIRE', key, life)", "local kept = 1"),
		in("readrenew", "mark-is-not-made-again", "a live reader whose mark was deleted is taken for dead by Redisson",
			"set = call('SET', hold, '1', 'PX', lease)", "set = 0", "TestARenewalMakesTheMarkOfAReadHoldAgain"),
	}
}

// halves: what was refused, or taken away, is not left by halves; and who is to hear of it does.
func halves() []mutant {
	const taken, tokens = "TestWhatIsGrantedByHalvesIsTakenBack", "TestATokenRisesThoughTheClockDoesNot"
	const tells = "TestAReleaseTellsWhatItsFamilySays"
	return []mutant{
		in("fenced", "token-of-a-clock-that-stands", "two grants have one token if the server's clock stands still or goes back",
			"if last < micros then", "if last <= micros then", tokens),
		in("fenced", "token-of-a-clock-that-went-back", "the same where it went back",
			"last = math.max(last + 1, micros)", "last = math.max(last, micros)", tokens),
		in("fenced", "counter-is-lost", "a counter that is no number is written over, and tokens begin anew",
			"      if type(was) == 'string' then\n        call('SET', counter(key), was) -- refused or not: it was allowed a moment ago\n      end\n", "", "TestACounterThatCannotRiseIsRefused"),
		in("fenced", "lock-without-a-token", "a token that cannot be written leaves a lock that nobody has",
			"return ours and set or undo(key, set)", "return set", taken),
		in("read", "read-is-not-undone", "a mark that cannot be written leaves a reader whom nobody knows of",
			"return undo(key, fresh, set)", "return set", taken),
		in("fair", "half-a-place", "a place that cannot be had whole is left by halves, and stands in the way",
			"local undone, more = try(drop, field)", "local undone, more = true, refusal", "TestNoRefusalEndsAFairScriptHalfWay"),
		in("fenced", "fenced-last-millisecond", "a fenced lock in its last millisecond answers what nobody understands",
			"left < 0 then\n    return left\n  end\n  return -left - 10", "left <= 0 then\n    return left\n  end\n  return -left - 10", "TestALockInItsLastMillisecondIsBusy"),
		in("force", "force-leaves-the-note", "after a ForceRelease readers wait for a writer that has gone",
			"redis.pcall('DEL', note)", "redis.pcall('GET', note)", "TestAForceReleaseTakesTheNoteOfAWriterThatWaits"),
		in("write", "note-besideHold-a-writer", "a writer that waits for a writer keeps readers out that wait longer",
			"if mode == 'read' and patience ~= '0' then", "if patience ~= '0' then", "TestAWriterThatWaitsForAWriterLeavesNoNote"),
		in("readrelease", "last-reader-tells-nobody", "a writer sleeps until its poll",
			"local heard = call(publish, 'redisson_rwlock:' .. tag, message)", "local heard = 0", tells),
		in("writerelease", "writer-tells-nobody", "those who wait for a writer sleep until their poll",
			"local heard = call(publish, channel, message)", "local heard = 0", tells),
		{
			"write-release-wakes-one", "of Redisson's readers that wait one is woken when a writer leaves, and the others sleep",
			one("resp/family.go", "message: readUnlockMessage,", "message: unlockMessage,"), "resp", tells, false,
		},
	}
}

// places: scores of Redisson's waiters beside ours.
func places() []mutant {
	const tests, listens = "TestRedissonsWaitersBehindOursKeepTheirTime", "TestARedissonWaiterThatListensKeepsItsPlace"
	return []mutant{
		in("fragments/fairqueue", "fair-listener-is-taken-out-on-a-server", "a live waiter of Redisson loses its place while somebody holds the lock for long",
			"listens[2] > 0 and", "listens[2] > 1 and", listens),
		in("fragments/fairqueue", "fair-head-with-time-is-looked-for", "a waiter of Redisson that has its time is given another",
			"if not gone and till and till > now + SOON or", "if gone and till and till > now + SOON or", listens),
		in("fragments/fairqueue", "fair-listener-is-not-told-on-a-server", "one whose time is over when the lock is given back sleeps until the lease that it was told is over",
			"(released or must('EXISTS', lock) == 1)", "must('EXISTS', lock) == 1", listens),
		in("fragments/fairqueue", "fair-lift-of-one-on-a-server", "waiters of Redisson behind ours lose the time that ours are there",
			"for i = f, #members do", "for i = f, f do", tests),
		in("fragments/fairqueue", "fair-grant-takes-a-place", "a grant of ours takes what a place of Redisson's is worth off all behind it",
			"  must('ZREM', timeouts, field)\n", "  must('ZREM', timeouts, field)\n  for _, m in ipairs(must('ZRANGE', timeouts, 0, -1)) do\n    must('ZINCRBY', timeouts, -place, m)\n  end\n", tests),
		in("fair", "fair-place-is-worth-one", "one of ours adds what a place of Redisson's is worth: its own asking takes off more than it added",
			"      till = tail and score(tail) or till\n", "      till = tail and (score(tail) or till) + place or till\n", tests),
		{
			"waits-mixed", "who does not wait gets a place in the queue, or who waits gets none",
			one("resp/batch.go", " || op.Waits != first.Waits)", ")"), "resp", "TestATryAndAWaiterOfFairLocksAreTwoCommands", false,
		},
	}
}

// aliases: a call that ends its script after a write, by whatever name.
func aliases() []mutant {
	const tests = "TestC035_NoScriptCanRaiseAnErrorAfterAWrite"
	var all []mutant
	for script := range strings.FieldsSeq("acquire fair fairrelease fenced read readrelease readrenew reacquire release renew write writerelease semaphore semaphorerelease semaphoreset") {
		all = append(all, in(script, "raises-in-"+script, "a refusal ends the script after a write, and what it has done is unknown",
			" = redis.pcall", " = redis.call", tests))
	}
	return all
}

// replies: what a client makes of them, and of refusals.
func replies() []mutant {
	return []mutant{
		{
			"renewals-uncounted", "a reply that names too few is taken for renewed",
			one("resp/renewal.go", "if sparse.bad || n != int64(len(part)) {", "if sparse.bad {"),
			"resp", "TestMalformedRepliesAreAnUnknownOutcomeAndNeverAGrant", false,
		},
		{
			"grants-uncounted", "a reply that names too few is taken for granted",
			one("resp/answers.go", "if sparse.bad || n+named-normals != int64(len(c.ops)) {", "if _ = n + named - normals; sparse.bad {"),
			"resp", "TestMalformedRepliesAreAnUnknownOutcomeAndNeverAGrant", false,
		},
		{
			"copy-is-tried-again", "a server that refuses COPY writes a line into its log with each batch",
			one("resp/batch.go", "case len(c.ops) < 2 || w.noCopy.Load():", "case len(c.ops) < 2:"),
			"resp", "TestCopyIsNotTriedAgainWhereItIsRefused", false,
		},
		{
			"wait-for-the-most", "who wants one replica waits for what another of the batch wants",
			[]edit{
				{"resp/confirm.go", "number, left = min(number, w.op.Ack.Replicas)", "number, left = max(number, w.op.Ack.Replicas)"},
				{"resp/confirm.go", "min(left, l.acks.slice))", "left)"},
			},
			"resp", "TestWhoWantsFewerReplicasIsAnsweredFirst", true,
		},
		{
			"demoted-is-a-refusal", "a grant that the next master has seen counts as refused, and stays",
			one("resp/confirm.go", "if err != nil && err.Class == ClassReadOnly {", "if err != nil && err.Class == ClassNone {"),
			"resp", "TestAGrantOfAMasterThatWasDemotedMeanwhileIsAnUnknownOutcome", false,
		},
		{
			"undone-unsubscription-tells-nobody", "who came meanwhile never hears that it is subscribed, and polls",
			one("resp/pubsub/round.go", "\twakes := ch.confirmedLocked(nil)\n\tif ch.refs == 0 {\n\t\tm.idleLocked(sh, ch, time.Now())\n\t}\n\tsh.mu.Unlock()\n\tm.wakeAll(wakes, \"\")\n",
				"\tif ch.refs == 0 {\n\t\tm.idleLocked(sh, ch, time.Now())\n\t}\n\tsh.mu.Unlock()\n"),
			"resp/pubsub", "TestMux_SubscribeDuringAnUnsubscribeThatIsRefused", true,
		},
		{
			"redirects-without-end", "nodes that disagree send an op round in circles for ever",
			one("resp/redirect.go", "if op.hops >= maxHops {", "if op.hops > 100 {"),
			"resp", "TestAnOpIsPassedOnSoOftenAndNoMore", false,
		},
		{
			"nodes-stay", "nodes that serve nothing any more are kept, with their connections",
			one("resp/slots.go", "now.Sub(m.idle) > retireAfter &&", "now.Sub(m.idle) > 1000*retireAfter &&"),
			"resp", "TestRedirectionsLeadToSoManyStrangersAndNoMore", false,
		},
		{
			"unpublished-is-malformed", "a release whose publish was refused has no answer",
			one("resp/answers.go", "\tcase normal == CodeReleased && v == -2:\n\t\treturn CodeReleased, -1, true\n", ""),
			"resp", "TestWellFormedRepliesAreRead", false,
		},
		{
			"loading-is-for-ever", "a server that reads its data set ends what would wait for it",
			one("resp/class.go", "\t\tClassLoading, ClassMasterDown, ClassMaxClients, ClassMoved,", "\t\tClassMasterDown, ClassMaxClients, ClassMoved,"),
			"resp", "TestC035_EveryErrorReplyHasItsClassAndItsConsequence", false,
		},
	}
}
