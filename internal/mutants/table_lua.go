package main

// bounded: what a script does has a bound, and what is refused to it ends it.
func bounded() []mutant {
	const queue, longest = "resp/scripts/fragments/fairqueue.lua", "resp/scripts/fragments/longest.lua"
	return []mutant{
		{
			"lua-endless", "a loop over what stands under a key never ends, and the server answers nobody any more",
			one(queue, "for _ = 1, OUT do", "while true do"),
			"internal/house", "TestScriptsAreBoundedAndSeeEveryRefusal", false,
		},
		{
			"lua-refusal-unseen", "a command that is refused is believed to have been run",
			one(queue, "  must('ZREM', timeouts, field)\n  if", "  call('ZREM', timeouts, field)\n  if"),
			"internal/house", "TestScriptsAreBoundedAndSeeEveryRefusal", false,
		},
		{
			"lua-count-of-a-field", "a loop counts down from what somebody wrote into a field",
			one(longest, "math.min(count, HOLDS)", "count"),
			"internal/house", "TestScriptsAreBoundedAndSeeEveryRefusal", false,
		},
		{
			"lua-long-name", "a read release spells out a name of a megabyte, a thousand times",
			one(longest, " or #name > NAME then", " then"),
			"resp", "TestAReadHoldUnderALongNameIsNotLookedAt", false,
		},
		{
			"lua-hash-read-whole", "a hash of a million fields keeps the server busy for seconds",
			one(longest, " or size > looks then", " then"),
			"resp", "TestAHashOfManyFieldsIsNotReadWhole", false,
		},
		{
			"lua-inspect-whole", "the same with an Inspect",
			one("resp/scripts/inspect.lua", "if size <= MOST then", "if true then"),
			"resp", "TestAHashOfManyFieldsIsNotReadWhole|TestAnInspectIsToldThatTheHashWasNotRead", false,
		},
		{
			"lua-holds-are-not-summed", "many readers of many holds keep the server busy for seconds",
			one(longest, " or count > looks or", " or"),
			"resp", "TestTheReadHoldsThatACallLooksAtAreCounted", false,
		},
		{
			"lua-size-after-the-write", "a read hold is given back whose key may not be counted: nobody has the lock, and nobody gets it",
			one("resp/scripts/readrelease.lua", "  if type(size) == 'table' then\n    return size\n  end\n", "  if type(size) == 'table' then\n    size = math.huge\n  end\n"),
			"resp", "TestARefusalEndsItsScriptAndLeavesNothingHalfDone", false,
		},
		{
			"lua-goes-on", "a script of the fair lock calculates with a refusal, and ends in the middle of its work",
			one(queue, "if type(v) == 'table' and v.err then", "if false then"),
			"resp", "TestNoScriptBreaksOffBecauseAKeyIsOfAnotherType", false,
		},
		{
			"lua-token-repeats", "above 2^53 two grants get one token",
			one("resp/scripts/fenced.lua", " or value >= most then", " then"),
			"resp", "TestACounterThatCannotRiseIsRefused", false,
		},
	}
}

// boundedQueues: the same of long queues.
func boundedQueues() []mutant {
	const queue = "resp/scripts/fragments/fairqueue.lua"
	return []mutant{
		{
			"lua-long-queue-searched", "dead places in the midst of a long queue keep the server busy for half a second with each question",
			one(queue, "not spared and not must('LINDEX', queue, LONG) then", "#dead > 0 then"),
			"resp", "TestAQueueOfManyDeadPlacesKeepsTheServerBusyForNobody", false,
		},
		{
			"lua-dead-head-of-a-long-queue", "a dead head of a long queue stays, and whoever waits behind it waits for ever",
			one(queue, "tonumber(asked_last) <= now - grace", "false"),
			"resp", "TestAQueueOfManyDeadPlacesKeepsTheServerBusyForNobody", false,
		},
		{
			"lua-place-behind-a-long-queue", "who waits behind a long queue has another place with each question",
			one(queue, " and must('ZSCORE', timeouts, field) then\n    return LONG", " and false then\n    return LONG"),
			"resp", "TestAQueueOfManyDeadPlacesKeepsTheServerBusyForNobody", false,
		},
		{
			"lua-every-queue-at-once", "a call for many keys with long queues keeps the server busy for a fifth of a second",
			one(queue, "local function lift()\n  if lifts <= 0 then", "local function lift()\n  if false then"),
			"resp", "TestTheQueuesOfOneCallAreKeptAFewAtATime", false,
		},
		{
			"lua-queue-listed-whole", "a list of who waits keeps the server busy for seconds",
			one("resp/scripts/queue.lua", "MOST, PAGE, BYTES = 9999,", "MOST, PAGE, BYTES = 999999,"),
			"resp", "TestTheListOfAQueueHasABound", false,
		},
	}
}
