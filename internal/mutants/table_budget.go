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
			one(queue, "  if adopts <= 0 then\n    later = true\n", "  if adopts <= 0 then\n"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
		{
			"budget-lift-before-adoption", "queues that are still to be adopted take up what is left for those that need it",
			one(queue, "        if not later then\n          lift()\n        end", "        lift()"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
		{
			"budget-adopted-for-ever", "what begins to hear of a queue again stands on the server for ever",
			one(queue, "      if not kept then\n        keep(heard, KEPT)\n", "      if not kept then\n"),
			"resp", "TestTheQueuesOfOneCallAreAdoptedAFewAtATime", false,
		},
	}
}
