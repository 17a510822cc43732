package main

// leases: nothing of what somebody asked for stays on a key when nobody asks for it any more.
func leases() []mutant {
	const writeRelease = "resp/scripts/writerelease.lua"
	return []mutant{
		{
			"downgrade-keeps-the-writers-lease", "what a crashed reader leaves stays for as long as its writer had asked for",
			one(writeRelease, "if type(left) ~= 'table' and most < left then", "if false then"),
			"engine", "TestADowngradeLeavesTheKeyTheReadersLease|TestADowngradeLeavesTheKeyAsLongAsTheLongestReaderOfRedissons", false,
		},
		{
			"count-keeps-the-server-busy", "a field that says 1e18 hangs the server when a writer leaves",
			one("resp/scripts/fragments/longest.lua", "if not (count <= HOLDS) or count > looks or", "if not (count <= 1e6) or"),
			"resp", "TestACountThatNobodyReachesKeepsNoServerBusy", false,
		},
		{
			"downgrade-cuts-readers", "a reader of Redisson's loses the lock when a writer leaves",
			one("resp/scripts/fragments/longest.lua", "for hold = math.min(count, HOLDS), 1, -1 do", "for hold = 1, 1 do"),
			"engine", "TestADowngradeLeavesTheKeyAsLongAsTheLongestReaderOfRedissons", false,
		},
		{
			"readers-lease-stays", "what a crashed writer leaves stays for as long as it had read",
			one("engine/reentry.go", "keep != 0 && keep < asked {", "keep != 0 && keep < asked && false {"),
			"engine", "TestAReaderThatLeavesItsWriterTakesItsLeaseAlong", false,
		},
		{
			"unwanted-readers-lease-stays", "the same for a reading that nobody wanted any more",
			one("engine/cleanup.go", "root != nil && traits(c.op.Family).Shared {", "false {"),
			"engine", "TestAReaderThatLeavesItsWriterTakesItsLeaseAlong", false,
		},
		{
			"nothing-is-lowered-under-readers", "what a crashed writer leaves stays for as long as it ever asked for",
			one("resp/scripts/reacquire.lua", "least = mode == 1 and longest(key, tag, least, fields) or left", "least = left"),
			"engine", "TestAWriterThatGivesBackALongEntryKeepsTheKeyForItselfAndItsReader", false,
		},
		{
			"late-count-stays", "a late copy of an entry leaves a count and a lease that nobody asks for, for good",
			one("engine/reentry.go", "at := n.SettleAt(); at == 0 {", "true {\n\t\t\t\treturn\n\t\t\t} else if at := n.SettleAt(); at == 0 {"),
			"engine", "TestALateCopyOfAnEntryIsSettled", false,
		},
		{
			"release-waits-to-be-settled", "a release hangs behind a command that nobody waits for",
			one("engine/internal/lockstate/grant.go", "(w.Changes() == nil || w.Changes().settling())", "w.Quiet()"),
			"engine", "TestNobodyWaitsForAHoldToBeSettled", false,
		},
		{
			"acquire-sets-the-count", "a late copy of an acquire takes handles off the wire",
			one("resp/scripts/reacquire.lua", "local changes = must and tonumber", "local changes = tonumber"),
			"engine", "TestALateCopyOfAnAcquireLeavesTheCount", false,
		},
	}
}

// leasesElsewhere: counters, wheels and kinds.
func leasesElsewhere() []mutant {
	return []mutant{
		{
			"deleted-counter-is-no-token", "a fenced lock that is asked for again has no token, and its reply is nonsense",
			one("resp/scripts/fenced.lua", "    return token(key, true)\n", "    return n\n"),
			familySuite, "TestACounterThatIsDeletedBeforeTheGrantIsAskedForAgain", false,
		},
		{
			"counter-past-counting", "two grants have one token",
			one("resp/scripts/fenced.lua", "not value or value ~= value or value >= most", "not value"),
			familySuite, "TestACounterThatIsNoNumberIsNamedAndLeavesNoLock", false,
		},
		{
			"stuck-wheel-is-not-noticed", "nobody hears that the timing wheel hangs",
			one("wheel/correct.go", "hangs := calls%2 != 0 && calls == t.seen", "hangs := false"),
			"wheel", "TestATimingWheelThatIsStuckIsCounted", false,
		},
		{
			"silent-wheel-is-not-noticed", "nobody hears that the timers of the timing wheel do not come",
			one("wheel/correct.go", "silent := due != nil && now.After(*due)", "silent := due != nil && false && now.After(*due)"),
			"wheel", "TestATimingWheelThatIsStuckIsCounted", false,
		},
		{
			"stuck-wheel-is-not-told", "the log of an engine whose timing wheel hangs says nothing",
			one("engine/engine.go", "if !e.stuck && e.wheel.Stuck() > 0 {", "if false {"),
			"engine", "TestAStuckTimingWheelIsReportedOnce", false,
		},
		{
			"entered-as-another-kind", "an owner's plain lock is entered as a fenced one, and has no token",
			one("engine/core.go", "return traits(held).EntersAs(&traits(wanted).Traits)", "return !otherKind(held, wanted)"),
			familySuite, "TestMeetingsOfKindsUnderOneName", false,
		},
		{
			"answered-twice-told-twice", "each renewal that succeeds over both connections halves what the histogram says of its lag",
			one("renew/watchdog.go", "if lag := h.lag(now); lag >= 0 {", "if lag := max(h.lag(now), 0); lag >= 0 {"),
			"renew", "TestARenewalOverBothConnectionsIsToldOnce/BothSucceed", false,
		},
		{
			"late-success-untold", "a renewal that succeeds after its second attempt has failed is in no histogram",
			one("renew/watchdog.go", "if lag := h.lag(now); lag >= 0 {", "if lag := h.lag(now); lag >= 0 && !h.failing {"),
			"renew", "TestARenewalOverBothConnectionsIsToldOnce/TheFirstAnswerIsAFailure", false,
		},
		{
			"late-renewal-stays", "a renewal that comes behind a give-back leaves the longer lease on the key",
			one("renew/watchdog.go", "if t.lease > h.Lease() ||", "if"),
			"engine", "TestARenewalOfALongerLeaseThatComesLateIsSettled", false,
		},
	}
}

// dropped: leases that nobody can release any more, and the buckets of what waits for time.
func dropped() []mutant {
	return []mutant{
		{
			"leak-is-not-looked-for", "nobody hears of a lease that was dropped",
			one("engine/loss.go", "return count >= leakWeak+leakEvery ||", "return"),
			"engine", "TestADroppedLeaseIsFoundAfterTwoLeases", false,
		},
		{
			"leak-of-what-is-never-weak", "the engine itself holds on to a lease that was dropped",
			one("engine/loss.go", "case h.lease != nil && count&^leakWeak < leakAfter:", "case h.lease != nil:"),
			"engine", "TestADroppedLeaseIsFoundAfterTwoLeases", false,
		},
		{
			"weak-pointers-all-at-once", "a million locks that are kept take a core for a while, two leases after they were taken",
			one("engine/loss.go", "if sh.weakDebt > (leakFree-1)*leakShare {", "if false {"),
			"engine", "TestAmongManyADroppedLeaseIsFoundLater", false,
		},
		{
			"weak-pointers-never-again", "a dropped lease is not found once many were looked for",
			one("engine/loss.go", "sh.weakDebt = max(sh.weakDebt-leakEvery, 0)", "_ = sh"),
			"engine", "TestAmongManyADroppedLeaseIsFoundLater", false,
		},
		{
			"leak-of-the-released", "a lease that was released counts as dropped",
			one("engine/loss.go", "if h.Held() && !h.Lingers() {", "if !h.Lingers() {"),
			"engine", "TestALeaseThatWasReleasedBeforeItsRenewalWasAnsweredIsNoLeak", false,
		},
		{
			"lag-of-the-last-attempt", "a renewal that failed first lags less than it does",
			one("renew/hold.go", "min(h.next, h.sentAt.Add(h.Lease()/3))", "h.next"),
			"renew", "TestTheLagOfARenewalCountsFromItsFirstAttempt", false,
		},
		{
			"bucket-loses-its-order", "what is due comes in another order where items have left",
			one("wheel/bucket.go", "case at == b.size-1: // what", "case p.count == 5:\n\t\tb.size = at\n\tcase at == b.size-1: // what"),
			"wheel", "TestABucketThatItemsLeaveKeepsTheOrder", false,
		},
		{
			"bucket-keeps-its-pages", "a bucket that items come to and leave grows without end",
			one("wheel/bucket.go", "case p.count == 0 && at/pageSize < b.size/pageSize:", "case false:"),
			"wheel", "TestABucketThatItemsLeaveKeepsTheOrder", false,
		},
		{
			"bucket-keeps-its-end", "the pages of locks that are given back last first stay until the bucket is due",
			one("wheel/bucket.go", "last > at/pageSize; last--", "last > at/pageSize && false; last--"),
			"wheel", "TestABucketShrinksInWhicheverOrderItemsLeave", false,
		},
		{
			"bucket-passes-over-too-much", "an item of the next page is not delivered",
			one("wheel/bucket.go", "b.taken += pageSize - 1 - b.taken%pageSize", "b.taken += pageSize"),
			"wheel", "TestABucketShrinksInWhicheverOrderItemsLeave|TestABucketThatItemsLeaveKeepsTheOrder", true,
		},
		{
			"bucket-is-never-compacted", "a bucket that is due never grows as long as the program runs",
			one("wheel/bucket.go", "if b.size >= compactFrom && b.size > 4*b.count {", "if false {"),
			"wheel", "TestABucketOfManyComingsAndGoingsStaysSmall", false,
		},
	}
}
