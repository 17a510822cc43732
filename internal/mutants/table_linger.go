package main

// lingering: a lock that was given back and stays is nobody's, ends in time, and keeps out nobody who is known to want it.
func lingering() []mutant {
	const release, tenure = "engine/release.go", "engine/internal/lockstate/tenure.go"
	return []mutant{
		{
			"linger-has-no-end", "what nobody asks for again stays until the engine closes",
			one(release, "\tdefault:\n\t\tsc.endLinger(h)\n", "\tdefault:\n"),
			"engine", "TestLingeringEndsInTime", false,
		},
		{
			"linger-ends-with-its-first-timer", "a lock that is used all the time is given back all the time",
			one(release, "case now.Before(l.until): // it", "case false: // it"),
			"engine", "TestLingeringEndsInTime", false,
		},
		{
			"linger-as-long-as-the-longest", "a short lingering waits for the timer of a longer one",
			one(release, "if l.at == 0 || l.until.Before(l.at) {", "if l.at == 0 {"),
			"engine", "TestAShorterLingeringEndsBeforeALongerOneWouldHave", false,
		},
		{
			"linger-for-any-terms", "who asks for a longer lease has the shorter one that lingers",
			one(release, "|| !t.Compatible(h.Terms()) || t.Replicas()", "|| t.Replicas()"),
			"engine", "TestWhoWantsAnotherLockThanTheOneThatLingersDoesNotWaitForIt", false,
		},
		{
			"linger-without-trust", "a process that slept grants what it does not have any more",
			one(release, "\tif h.MayHandOff(with) != lockstate.HandOffSafe || !t.", "\tif !t."),
			"engine", "TestWhatLingeredIsNotGrantedWhenItsLeaseIsHalfOver", false,
		},
		{
			"linger-when-wanted", "whoever waits elsewhere waits for the lingering in every turn",
			one(release, "given == nil || !ent.Unwanted() ||", "given == nil || ent.First() != nil ||"),
			"engine", "TestWhoWaitsElsewhereWaitsForTheTurnAndTheLingering", false,
		},
		{
			"linger-after-waiting", "two processes that take turns wait for each other's lingering",
			one(tenure, "|| q.wanted || q.wait != waitNot // that", "|| q.wanted // that"),
			"engine", "TestALockThatSomebodyElseHadDoesNotLinger", false,
		},
	}
}

// lingeringNobodys: nobody has what lingers, whatever becomes of it.
func lingeringNobodys() []mutant {
	const release, loss, grant = "engine/release.go", "engine/loss.go", "engine/internal/lockstate/grant.go"
	return []mutant{
		{
			"linger-has-its-owner", "who gave a lock back enters it again instead of taking it",
			one(release, "h.owner, h.lease, h.weak = nil, nil,", "h.lease, h.weak = nil,"),
			"engine", "TestWhatLingersIsNobodys", false,
		},
		{
			"linger-is-a-leak", "a renewal of what lingers is told as a leak",
			one(loss, "if h.Held() && !h.Lingers() {", "if h.Held() {"),
			"engine", "TestWhatLingersIsNoLeak", false,
		},
		{
			"linger-is-lost", "a loss that nobody has is told and counted",
			one(loss, "\tif h.Lingers() {\n\t\tsc.sh", "\tif false {\n\t\tsc.sh"),
			"engine", "TestALossOfWhatLingersIsToldToNobody", false,
		},
		{
			"linger-is-kept-on-close", "a lock that was given back is nobody's for a lease after Close",
			one(loss, "if h.ent.lingering() == h { // nobody", "if false { // nobody"),
			"engine", "TestCloseGivesBackWhatLingers", false,
		},
		{
			"linger-is-released-twice", "Stats counts a lease that lingered as released twice",
			one(release, "\t\tif !h.Lingers() { // else", "\t\tif true { // else"),
			"engine", "TestALockThatLingersIsGrantedWithoutACommand", false,
		},
		{
			"linger-ends-behind-the-next", "an engine that gives back what lingers has it again before others hear of that",
			one(release, "\t\th.ent.HoldBehindRelease()\n", ""),
			"engine", "TestWhoAsksWhileLingeringEndsGoesBehindItsRelease", false,
		},
		{
			"linger-for-ever-in-a-turn", "a lock that lingers is passed on in one turn for ever",
			one(grant, "w.terms, w.leak, w.lingers = terms, false, false", "w.terms, w.leak = terms, false"),
			"engine/internal/lockstate", "TestWhatLingersIsPassedOnOnceMore", false,
		},
	}
}
