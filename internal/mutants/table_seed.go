package main

// fairAges: what is known of Redisson's waiters behind one of ours that was taken out, and has not come back.
func fairAges() []mutant {
	const queue, fair = "internal/twin/fairqueue.go", "internal/twin/fair.go"
	const onServer = "TestWhoComesBackHasTheOldestTimeOfThoseBehind"
	const back = "TestFairQueueWhoComesBackDoesNotHaveWhatOthersHadLifted"
	return []mutant{
		{
			"fair-behind-the-dead-is-young", "those behind one that Redisson took out are believed to have what another of ours asked for: Redisson takes live ones of ours out",
			one(queue, "base = min(base, b.oldest) + by", "base += by"),
			"internal/twin", "TestFairQueueWhoStoodBehindADeadOneIsAsOldAsItsLastQuestion|TestFairQueueWhoCameBehindNobodyIsNoYoungerThanTheLease", false,
		},
		{
			"fair-outage-is-a-question", "the same, where what an outage has noted of it is believed to be its question",
			one(queue, "if stood, is := q.note(\"stood\"); !is || at != stood {", "if at > 0 {"),
			"internal/twin", "TestFairQueueAnOutageIsNobodysQuestion", false,
		},
		{
			"fair-nobody-older-than-now", "the same for those of Redisson's who come when nobody of ours is there any more",
			one(queue, "since = min(q.now, base)", "_ = since"),
			"internal/twin", "TestFairQueueNobodyIsYoungerForALateDeath", false,
		},
		in("fair", "fair-comes-back-with-what-others-had-on-a-server", "who comes back has what others of ours asked for while it was away",
			"more > 0 or more == 0", "more == 0", onServer),
		in("fair", "fair-comes-back-from-an-outage-on-a-server", "the same after an outage",
			" or more == 0 and at == note('stood') then", " then", onServer),
		in("fair", "fair-comes-back-in-front-of-nobody-on-a-server", "the same for those of Redisson's that stood in front of those others",
			"till = math.min(at, note('front') or at)", "till = at", onServer),
		{
			"fair-comes-back-with-what-others-had", "who comes back has what others of ours asked for while it was away: Redisson takes live ones of ours out",
			one(fair, "more < 0 || more == 0 && at != stood {", "more < 0 || at != stood {"), "internal/twin", back, false,
		},
		{
			"fair-comes-back-from-an-outage", "the same after an outage",
			one(fair, "more < 0 || more == 0 && at != stood {", "more < 0 || more == 0 && at != -stood {"), "internal/twin", back, false,
		},
		{
			"fair-comes-back-in-front-of-nobody", "the same for those of Redisson's that stood in front of those others",
			one(fair, "\t\treturn min(front, at)\n", "\t\t_ = front\n"), "internal/twin", back, false,
		},
	}
}
