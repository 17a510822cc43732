package main

// fairAges: what is known of Redisson's waiters behind one of ours that was taken out, and has not come back.
func fairAges() []mutant {
	const queue = "internal/twin/fairqueue.go"
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
	}
}
