package main

// fairQueue: a fair lock's queue in which Redisson's clients stand, too. The scripts' twins are changed: the differential
// test holds them to the scripts.
func fairQueue() []mutant {
	const queue, fair, release = "internal/twin/fairqueue.go", "internal/twin/fair.go", "internal/twin/fairrelease.go"
	return []mutant{
		{
			"fair-lift-of-one", "waiters behind the first of ours are taken out as soon as it has been served",
			one(queue, "q.add(format0f(delta), members[f-1:])", "q.add(format0f(delta), members[f-1:f])"),
			"internal/twin", "TestFairQueueAPlaceOfOursIsWorthNothingAndRedissonsItsWait", false,
		},
		{
			"fair-place-of-its-own", "a place does not have what those in front of it take off: Redisson takes live ones of ours out",
			one(fair, "till = f.scoreOr(tail.Text, till)", "till = max(till, 0)"),
			"internal/twin", "TestFairQueueAPlaceOfOursIsWorthNothingAndRedissonsItsWait", false,
		},
		{
			"fair-comes-back-with-another-time", "one of ours that Redisson took out comes back, and those behind lose what it was away",
			one(fair, "\t\t\ttill = base\n", "\t\t\ttill = max(base, till)\n"),
			"internal/twin", "TestFairQueueWhoWasTakenOutComesBack", false,
		},
		{
			"fair-comes-back-at-the-end", "one of ours that Redisson took out is overtaken by all who came later",
			one(fair, "if f.waits && there.is(0) && f.whereabouts(field).Kind == Nil {", "f.must(\"ZREM\", f.asked, field)\n\tif false {"),
			"internal/twin", "TestFairQueueWhoWasTakenOutComesBack", false,
		},
		{
			"fair-thread-comes-again", "what is noted of a thread's last place is believed of its next: Redisson takes live ones of ours out",
			one(fair, "front = math.Min(front, f.leftAt())", "_ = math.Min"),
			"internal/twin", "TestFairQueueAThreadThatComesAgainIsAnotherPlace", false,
		},
		{
			"fair-dead-stay", "dead waiters of ours cost Redisson's their time",
			one(queue, "if m.Text != asks && !q.spent() {", "if false {"),
			"internal/twin", "TestFairQueueDeadPlacesAreTakenOutWhereverTheyStand", false,
		},
		{
			"fair-next-is-not-told", "a waiter of Redisson sleeps until the lease that it was told is over",
			one(release, "\treturn f.tell(first.Text, f.message)\n}\n\n// left", "\treturn number(0)\n}\n\n// left"),
			"internal/twin", "TestFairQueueAPlaceOfOursIsWorthNothingAndRedissonsItsWait", false,
		},
		{
			"fair-head-is-not-told", "the same, where the lock has expired",
			one(queue, "\tq.tell(field, \"0\")\n", ""),
			"internal/twin", "TestFairQueueTheHeadOfAFreeLockIsToldOnceASecond", false,
		},
	}
}

// fairOutages: the same queue where time passes, and heads change.
func fairOutages() []mutant {
	const queue, fair, release = "internal/twin/fairqueue.go", "internal/twin/fair.go", "internal/twin/fairrelease.go"
	return []mutant{
		{
			"fair-new-head-is-not-told", "who comes to the head of a free lock is not told if it was told of an earlier turn within a second",
			one(fair, "\tif head.Kind != Nil && first.Text == head.Text {", "\tif true {"),
			"internal/twin", "TestFairQueueWhoComesToTheHeadOfAFreeLockIsTold", false,
		},
		{
			"fair-outage-is-a-death", "a server that stands still for longer than places are kept puts the waiters into another order",
			one(queue, "spared = q.now-at >= 0 && q.now-at <= q.grace || q.stood(alive, asks)", "_ = at"),
			"internal/twin", "TestFairQueueAnOutageIsNobodysDeath", false,
		},
		{
			"fair-outage-is-a-death-on-a-server", "the same, in the script",
			one("resp/scripts/fragments/fairqueue.lua", "spared = ago >= 0 and ago <= grace or stood(alive, asks)", "spared = false"),
			familySuite, "TestFairWaitersKeepTheirOrderThroughAnOutage", false,
		},
		{
			"fair-thread-counts-twice", "what is noted of a thread that stands in the queue twice counts twice",
			one("resp/scripts/fair.lua", "if m == edge and front and not known then", "if m == edge and front then"),
			"internal/twin", "TestDifferentialAThreadThatStandsInTheQueueTwice", false,
		},
		{
			"fair-front-is-as-young-as-its-end", "what was noted of the last in front is believed of the first: Redisson takes live ones of ours out",
			one(fair, "front = math.Min(front, older)", "_ = older"),
			"internal/twin", "TestFairQueueWhoStoodInFrontIsOlder", false,
		},
		{
			"fair-outages-without-end", "who asks too seldom keeps the places of the dead for ever",
			one(queue, "if at, _ := q.note(\"stood\"); q.now-at < fairKept {", "if false {"),
			"internal/twin", "TestFairQueueAnOutageIsNobodysDeath", false,
		},
		{
			"fair-heirs-are-no-witnesses", "the same where a release comes first after it",
			one(release, "f.alive[ARGV.at(h)] = ARGV.at(h + 1)", "_ = h"),
			"internal/twin", "TestFairQueueAnOutageIsNobodysDeath", false,
		},
		{
			"fair-listener-is-not-told", "a live waiter of Redisson behind a long hold is taken out by the release, and sleeps",
			one(queue, "(released || q.must(\"EXISTS\", q.lock).is(1))", "q.must(\"EXISTS\", q.lock).is(1)"),
			"internal/twin", "TestFairQueueWhoListensIsToldWhateverItsTime", false,
		},
		{
			"fair-front-is-guessed-again", "each waiter of ours that comes behind one of Redisson's adds minutes to all places: dead ones cost Redisson's that much",
			one(fair, "if slices.ContainsFunc(all, func(m Reply) bool { return ours(m.Text) }) {", "if slices.ContainsFunc(all[:min(1, len(all))], func(m Reply) bool { return ours(m.Text) }) {"),
			"internal/twin", "TestFairQueueAFrontIsGuessedOnce", false,
		},
		{
			"fair-listener-is-taken-out", "a live waiter of Redisson loses its place while somebody holds the lock for long",
			one(queue, "listens.Array[1].Int > 0", "listens.Array[1].Int > 1"),
			"internal/twin", "TestFairQueueRedissonsWaiterThatListensIsAlive", false,
		},
	}
}
