package main

// moves: acquires that wait elsewhere than they began, and what only the simulation has found. The corpus has a seed
// for each.
func moves() []mutant {
	return []mutant{
		{
			"attempt-moves-with-its-op", "a queue waits for an answer that goes to another: for ever",
			one("engine/acquire.go", "if at := op.att.ent; at != nil && at != ent && at.Attempt() == &op.att {", "if at := op.att.ent; at == ent && ent == nil {"),
			"engine", "TestSimCorpus", false,
		},
		{
			"fair-parks-without-a-place", "a waiter that nobody has taken in waits to be told, and crashes",
			one("engine/internal/lockstate/queue.go", "case q.hinted, !q.asks() && q.terms().Family.Mark == MarkPlace:", "case q.hinted:"),
			"engine/internal/lockstate", "TestMachineQueueGoesOnAfterBusy", false,
		},
		{
			"passed-on-stays-parked", "a fair waiter whose grant was force-released listens as one it is no more, and crashes",
			one("engine/release.go", "sc.unpark(child) // if it cannot", "_ = child // if it cannot"),
			"engine", "TestSimCorpus", false,
		},
		{
			"resting-is-not-watched", "MaxWait and ctx do not end an acquire that rests behind a release",
			one("engine/acquire.go", "if ent.First() != nil && !ent.InFlight() {", "if ent.First() != nil && !ent.InFlight() && ent.Asked() {"),
			"engine", "TestSimCorpus", false,
		},
		{
			"left-is-not-passed-over", "a late copy of a lowering takes what a longer entry behind one that has left is trusted for",
			one("engine/internal/lockstate/changes.go", "for len(n.queue) > 0 && n.queue[0].Left() {", "for len(n.queue) > 0 && n.queue[0].Left() && n.busy {"),
			"engine/internal/lockstate", "TestMachineRaisingWaitsForCopiesThatLower", false,
		},
	}
}
