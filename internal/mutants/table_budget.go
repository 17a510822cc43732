package main

// budgets: what a script does for one call has a bound over all its keys, and the bytes of what it reads have one.
func budgets() []mutant {
	const queue = "resp/scripts/fragments/fairqueue.lua"
	return []mutant{
		{
			"budget-all-adopted", "a call for many keys, of whose queues nobody has heard, keeps the server busy for a second",
			one(queue, "if adopts <= 0 then", "if false then"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
		{
			"budget-adoption-forgotten", "who waits behind a queue that is still to be adopted is told to come again in seconds, not in a moment",
			one(queue, "later, untouched = true, head_asks", "later, untouched = false, head_asks"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
		{
			"budget-head-is-heard", "the head of a queue that is still to be adopted is heard of: nobody looks behind it any more",
			one(queue, "later, untouched = true, head_asks", "later = true"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
		{
			"budget-adoption-forgets", "a live waiter that had asked is heard of as if it had asked just now, and keeps a dead one's place",
			one(queue, "must('ZADD', heard, 'NX', unpack(times))", "must('ZADD', heard, unpack(times))"),
			"resp", "TestAnAdoptionLeavesWhatIsKnown", false,
		},
	}
}

// budgetsOfBytes: how much of a hash, or of a queue, is read.
func budgetsOfBytes() []mutant {
	const contents, queue = "resp/scripts/fragments/contents.lua", "resp/scripts/queue.lua"
	return []mutant{
		{
			"budget-hash-at-once", "a few hundred megabytes in a hash keep the server busy for a second with each Inspect",
			one(contents, "size > 2 and call('HSCAN'", "false and call('HSCAN'"),
			"resp", "TestAHashOfLargeFieldsIsNotReadWhole", false,
		},
		{
			"budget-of-each-hash", "a release of many read holds reads a megabyte of each",
			one(contents, "local call, out, cursor = redis.pcall, {}, '0'\n", "local call, out, cursor = redis.pcall, {}, '0'\n  room = BYTES\n"),
			"resp", "TestTheBytesThatACallReadsAreCounted", false,
		},
		{
			"budget-needs-hscan", "whoever has not granted HSCAN yet has no Inspect of a read-write lock any more",
			one(contents, "if not page or page.err then", "if not page then"),
			"resp", "TestAHashIsReadWithoutTheRightToHSCAN", false,
		},
		{
			"budget-hash-is-sent", "what was read at once is sent, however much it is, and ends the connection",
			one(contents, "return room >= 0 and out or nil", "return out"),
			"resp", "TestAHashIsReadWithoutTheRightToHSCAN", false,
		},
		{
			"budget-one-page", "of the readers of a lock only the first are seen",
			one(contents, "    if cursor == '0' then\n", "    if cursor then\n"),
			"resp", "TestAHashOfUpToAMegabyteIsReadWhole", false,
		},
		{
			"budget-queue-at-once", "a gigabyte in a queue keeps the server busy for seconds with each list of it",
			one(queue, "local MOST, PAGE, BYTES = 9999, 2,", "local MOST, PAGE, BYTES = 9999, 10000,"),
			"resp", "TestTheListOfAQueueHasABound", false,
		},
		{
			"budget-queue-one-by-one", "a list of a scattered queue goes past each place twice as often",
			one(queue, "local MOST, PAGE, BYTES = 9999, 2,", "local MOST, PAGE, BYTES = 9999, 1,"),
			"resp", "TestTheListOfAScatteredQueueHasABound", false,
		},
	}
}

// budgetsOfQueues: what else long queues need.
func budgetsOfQueues() []mutant {
	const queue, fair = "resp/scripts/fragments/fairqueue.lua", "resp/scripts/fair.lua"
	const work = "TestTheWorkOfACallIsCountedOverItsQueues"
	return []mutant{
		{
			"budget-still-all", "a call behind a pause of the server hears of a hundred thousand places at once",
			one(queue, "if lifts <= 0 then -- who asks", "if false then -- who asks"),
			"resp", work, false,
		},
		{
			"budget-still-forgotten", "who asks behind a pause of the server is heard of, those before it are not: they are taken for dead",
			one(queue, "    untouched = true\n    return true", "    later = true\n    return true"),
			"resp", work, false,
		},
		{
			"budget-last-for-nothing", "whoever is the last of ours in many queues has all others moved at once",
			one(queue, "      lifts = lifts - 2 * #rest\n", ""),
			"resp", work, false,
		},
		{
			"budget-dead-for-nothing", "the same: the dead are taken out, whatever it costs",
			one(queue, "return budget <= 0 or lifts <= 0", "return budget <= 0"),
			"resp", work, false,
		},
		{
			"budget-grants-for-nothing", "whoever has the lock next, as the last of ours in many queues, moves all others at once",
			one(fair, "first == field and lifts <= 0 then", "false then"),
			"resp", work, false,
		},
		{
			"budget-passed-for-nothing", "the same, where the lock is passed on",
			one("resp/scripts/fairrelease.lua", "if lease and lifts > 0 and", "if lease and"),
			"resp", "TestTheLocksThatAReleasePassesOnAreCounted", false,
		},
		{
			"budget-old-places", "who comes again has its place looked for in all queues at once",
			one(fair, "if since and lifts <= 0 or short then", "if short then"),
			"resp", work, false,
		},
		{
			"budget-long-names", "a queue of long names is read whole",
			one(queue, "mine = mine - math.max(0, #m - NAME)", "mine = mine - 0"),
			"resp", "TestAQueueOfLongNamesIsNotReadWhole", false,
		},
		{
			"budget-first-again-and-again", "who asks slowly, for many long queues, raises the first ones with each question, and never comes to the last",
			one(queue, "(lifts > 8 * PAGE and SLACK or LATE)", "SLACK"),
			"resp", "TestWhoAsksSlowlyComesToTheLastQueue", false,
		},
		{
			"budget-of-another-queue", "a name of megabytes in one queue spoils the places of those that are asked for with it",
			one(queue, "room - math.min(SHARE, SHARE - mine), SHARE", "room - SHARE + mine, SHARE"),
			"resp", "TestALongNameInOneQueueSpoilsNoOther", false,
		},
	}
}
