package main

const contentionFile = "engine/contention.go"

// contention: what is counted of waits and holds.
func contention() []mutant {
	return []mutant{
		{
			"bucket-too-low", "a duration is counted as shorter than it is",
			one(contentionFile, "bits.Len64(uint64((d-1)/shortest))", "bits.Len64(uint64(d/shortest/2))"),
			"engine", "TestADurationIsCountedByTheSmallestBoundThatIsNoShorter", false,
		},
		{
			"stamp-before-is-long-ago", "an op whose answer came before it has waited for 13 days",
			one(contentionFile, "if units > 1<<32-1<<28 {", "if units == 1<<32-1 {"),
			"engine", "TestAStampCountsOnWhereItWrapsAround", false,
		},
		{
			"waits-begin-with-the-grant", "who waits behind a holder here has not waited",
			one(contentionFile, "\tif held || at.First() != nil || at.Attempt() != nil {\n", "\tif at.First() != nil || at.Attempt() != nil {\n"),
			"engine", "TestWaitsBehindAHolderHereAndHoldsAreMeasured", false,
		},
		{
			"waits-begin-with-the-last-command", "who waits for another client has waited for one round trip",
			one(contentionFile, "\top.askedBy(sent)\n", ""),
			"engine", "TestAWaitForAnotherClientIsMeasuredFromTheFirstCommand", false,
		},
		{
			"stamps-of-long-ago", "the stamps of many are those of the first of them, until somebody is answered",
			one(contentionFile, "sh.ticked, sh.reads = ticked, 0", "sh.ticked = ticked"),
			"engine", "TestTheStampsOfManyAreRightToWithinATick", false,
		},
		{
			"a-clock-for-each-waiter", "each that queues behind a holder here reads the clock",
			one(contentionFile, "\t\tsh.reads++\n", ""),
			"engine", "TestTheStampsOfManyAreRightToWithinATick", false,
		},
		{
			"readers-keep-nobody-out", "a writer behind readers of its engine is not known to wait for them",
			one(contentionFile, "if at == root && root.standing() == nil && root.firstChild() != nil {", "if false {"),
			"engine", "TestAWriterBehindReadersHereWaitsBehindAHolderHere", false,
		},
		{
			"hand-off-ends-no-hold", "who passes a lock on has not held it",
			one("engine/release.go", "\tsc.gaveBack(given, with.Now)\n", ""),
			"engine", "TestWaitsBehindAHolderHereAndHoldsAreMeasured", false,
		},
		{
			"release-ends-no-hold", "who gives a lock back has not held it",
			one("engine/release.go", "\t\tsc.gaveBack(op.lease, r.SentAt)\n", ""),
			"engine", "TestWaitsBehindAHolderHereAndHoldsAreMeasured", false,
		},
		{
			"re-entry-ends-no-hold", "one of several handles of an owner has not been held",
			one("engine/reentry.go", "\t\tsc.gaveBack(leaving(&c).lease, r.SentAt)\n", ""),
			"engine", "TestEachGrantOfEveryKindIsCountedAsAWait", false,
		},
		{
			"reader-ends-no-hold", "one of several readers has not held the lock",
			one("engine/release.go", "\t\t\tsc.gaveBack(ls, now)\n", ""),
			"engine", "TestAWriterBehindReadersHereWaitsBehindAHolderHere", false,
		},
		{
			"permits-wait-for-nothing", "a grant of permits is not measured",
			one("engine/counted.go", "\t\tsc.sh.counts.origin(by)\n\t\tsc.waited(opOf(w), r.SentAt, r.ReceivedAt)\n", "\t\tsc.sh.counts.origin(by)\n"),
			"engine", "TestSimCorpus", false,
		},
	}
}

// givingUp: why acquires wait no more.
func givingUp() []mutant {
	return []mutant{
		{
			"max-wait-is-a-cancel", "who waits in vain for MaxWait is counted with those whose ctx has ended",
			one("engine/acquire.go", "\top.abandonBy(err, endByMaxWait)\n", "\top.abandon(err)\n"),
			"engine", "TestWaitsThatAreGivenUpAreToldApart", false,
		},
		{
			"cancel-is-a-context", "who cancels is counted with those whose ctx has ended",
			one("engine/acquire.go", "\t\tby = endByCancel\n", "\t\tby = endByContext\n"),
			"engine", "TestWaitsThatAreGivenUpAreToldApart", false,
		},
	}
}

// lateRenewals: what warns before a lock is in jeopardy.
func lateRenewals() []mutant {
	return []mutant{
		{
			"late-renewals-are-on-time", "renewals that take ever longer warn nobody",
			one("renew/watchdog.go", "\t\t\tt.late++\n", ""),
			"renew", "TestARenewalIsLateWhenHalfALeaseHasPassedSinceTheLast", false,
		},
		{
			"renewals-are-late-on-time", "renewals that come as planned count as late",
			one("renew/watchdog.go", "if now.Sub(h.sentAt) > h.Lease()/2 {", "if now.Sub(h.sentAt) > h.Lease()/4 {"),
			"renew", "TestARenewalIsLateWhenHalfALeaseHasPassedSinceTheLast", false,
		},
	}
}

// tracers: what a tracer is told.
func tracers() []mutant {
	const file = "engine/trace.go"
	return []mutant{
		{
			"span-without-holder", "a span does not say who keeps its acquire out",
			one(file, "op.watch.traced.holder = h.ownerID()", "_ = h.ownerID()"),
			"engine", "TestATracerIsToldOfTheWaitTheHolderAndTheHold", false,
		},
		{
			"hold-without-end", "a lease that is given back has no span",
			one(contentionFile, "\tsc.traceHold(ls.hold, ls, at, nil)\n", ""),
			"engine", "TestATracerIsToldOfTheWaitTheHolderAndTheHold", false,
		},
		{
			"loss-without-span", "a lease that is lost has no span",
			one("engine/loss.go", "\tsc.traceEnds(h, fmt.Errorf(\"%w: %s\", ErrLost, causeText(cause)))\n", "\t_ = fmt.Errorf(\"%w: %s\", ErrLost, causeText(cause))\n"),
			"engine", "TestATracerIsToldOfALossOnceAndWhy", false,
		},
		{
			"loss-at-release-without-span", "a lease whose release finds it lost has no span",
			one("engine/release.go", "\t\tsc.traceHold(h, op.lease, r.SentAt, err)\n", "\t\t_ = err\n"),
			"engine", "TestATracerIsToldOfALossThatTheReleaseMeets", false,
		},
		{
			"busy-elsewhere-untold", "a span does not say that another client has the lock",
			one(contentionFile, "\tsc.traceBusy(op, nil)\n", ""),
			"engine", "TestATracerIsToldOfAnotherClientThatHasTheLock", false,
		},
		{
			"close-without-span", "a lease that Close gives back has no span",
			one("engine/loss.go", "\tsc.traceEnds(h, nil)\n", ""),
			"engine", "TestATracerIsToldOfWhatCloseReleases", false,
		},
	}
}

// contentionByClass: the same for each class of names.
func contentionByClass() []mutant {
	return []mutant{
		{
			"classes-without-end", "each new class takes memory, and in the end the engine panics",
			one(contentionFile, "if len(all.number) >= MaxClasses && ", "if len(all.number) >= 2*MaxClasses && "),
			"engine", "TestClassesBeyondTheLastAreOneOther", false,
		},
		{
			"nameless-class", "names without a class are counted as one",
			one(contentionFile, "\tif label == \"\" {\n\t\treturn 0\n\t}\n", ""),
			"engine", "TestNamesAreCountedByTheirClass", false,
		},
		{
			"class-with-prefix", "the class is asked for with the prefix",
			one("engine/lock.go", "class: e.classes.numberOf(e.cfg.Class, name)}", "class: e.classes.numberOf(e.cfg.Class, key)}"),
			"engine", "TestNamesAreCountedByTheirClass", false,
		},
		{
			"losses-without-class", "a lock that is lost counts for no class",
			one("engine/acquire.go", "\t\tent.class = l.class\n", ""),
			"engine", "TestNamesAreCountedByTheirClass", false,
		},
	}
}
