package main

// refused: who waits for a give-back that the server refuses.
func refused() []mutant {
	const (
		counted = "engine/counted.go"
		scenes  = "TestWhoAsksForReplicasGoesOnBehindAReleaseOfPermits|TestATryForReplicasWaitsForNoRefusedGiveBack|" +
			"TestATryForReplicasWaitsForNoUndoingThatALockStandsBefore|TestTheRestOfAReleaseIsGivenBackThoughItIsRefused"
	)
	scene := func(id, why, file, from, to string) mutant {
		return mutant{id, why, one(file, from, to), "engine", scenes, false}
	}
	return []mutant{
		scene("permits-answered-and-nobody-told", "who asks for replicas waits for ever behind a release of permits",
			counted, "\tif rested { // of another kind, on another connection\n", "\tif false && rested {\n"),
		scene("refused-give-back-is-under-way", "a Try for replicas waits for as long as a give-back is refused",
			"engine/cleanup.go", "\t\tsc.rest(c)\n", ""),
		scene("refused-give-back-wakes-nobody", "a Try for replicas that has rested is not sent when the give-back is refused",
			"engine/cleanup.go", "\tif c.root.GivenBackLater() {\n", "\tif c.root.GivenBackLater(); false {\n"),
		scene("refused-permits-are-under-way", "a Try for replicas waits for permits whose release is refused",
			"engine/internal/lockstate/giveback.go", "\tq.ensureExtra().refused++\n\trested", "\tq.ensureExtra().refused += 0\n\trested"),
		scene("rest-of-a-release-is-dropped", "permits are lost: a part was handed out, and the rest refused",
			counted, "\t\t\tg.sent.owed += op.part\n", "\t\t\t_ = op\n"),
		scene("release-waits-behind-a-refused-rest", "who gives permits back is not told that the server refuses them",
			counted, "\t\tg.sent.add(g.next)\n\t\tg.next = pendingUnits{}\n", ""),
	}
}
