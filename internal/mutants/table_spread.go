package main

// spreading: few ops take one lane, many all of them, and a key's commands keep their order.
func spreading() []mutant {
	const spread = "resp/spread.go"
	return []mutant{
		{
			"spread-never-many", "four thousand ops wait for one lane",
			one(spread, "s.nodes.Add(1)", "s.nodes.Add(0)"),
			"resp", "TestSpreadTakesOneLaneForFewAndAllForMany", false,
		},
		{
			"spread-never-few", "a burst of a second costs whoever comes later a write for each op",
			one(spread, "wide && all >= s.many/2", "wide"),
			"resp", "TestSpreadTakesOneLaneForFewAndAllForMany", false,
		},
		{
			"spread-in-a-moment", "a burst that is over at once has all lanes used",
			one(spread, "s.ready >= patientRuns", "s.ready >= 1"),
			"resp", "TestSpreadTakesOneLaneForFewAndAllForMany", false,
		},
		{
			"spread-wakes-for-nothing", "64 callers that wait share one lane, and a quarter of the pairs is missing",
			one(spread, "ops + wakeCost*awaited", "ops + 0*awaited"),
			"resp", "TestALaneCountsTheCallersThatWait", false,
		},
		{
			"spread-counts-callers-twice", "who waited once counts in every later run",
			one("resp/lane.go", "\tl.awaited = 0\n", ""),
			"resp", "TestALaneCountsTheCallersThatWait", false,
		},
		{
			"spread-for-ever", "a burst that ends at once costs whoever comes later a write for each op, if they take other lanes than the first",
			one("resp/node.go", "\tn.spread.tick()\n", "\t_ = n.spread.tick\n"),
			"resp", "TestTheTicksOfANodeTakeOneLaneAgain", false,
		},
		{
			"spread-calm-in-a-moment", "a load that pauses for a moment is taken for few",
			one(spread, "s.calm >= patientTicks", "s.calm >= 1"),
			"resp", "TestSpreadTakesOneLaneAgainThoughTheFirstHasNothingToDo", false,
		},

		{
			"spread-numbers", "of two commands that set a semaphore's number the first one counts",
			one("engine/acquire.go", " && !traits(l.set.family).called()", ""),
			"engine", "TestWhatSetsANumberKeepsItsPlace", false,
		},
		{
			"spread-takes-one-lane", "the other lanes are never used",
			one("resp/node.go", "\tcase op.Wide:\n\t\tl = n.lanes[(op.Hash>>32)%uint64(n.opts.Lanes)]\n", ""),
			"resp", "TestWideOpsTakeAllLanes", false,
		},
		{
			"spread-release-changes-the-lane", "a release overtakes the acquire that it is for, in another lane",
			one("engine/release.go", "Sink: op, Wide: ent.wide,", "Sink: op, Wide: sc.eng.nodes.Wide(),"),
			"engine", "TestANameKeepsItsLanesWhileAnythingGoesOn", false,
		},
		{
			"spread-never-taken-up", "names keep to one lane whatever goes on",
			one("engine/acquire.go", "sc.eng.nodes.Wide() && !traits", "false && !traits"),
			"engine", "TestANameKeepsItsLanesWhileAnythingGoesOn", false,
		},
		{
			"spread-a-question-changes-the-lane", "who asks what has become of a lock is answered before its release is done",
			one("engine/request.go", "sc.wide(op.op.Hash, op.name)", "sc.eng.nodes.Wide()"),
			"engine", "TestANameKeepsItsLanesWhileAnythingGoesOn", false,
		},
	}
}

// givenBack: what nobody could use, and the lanes of its name.
func givenBack() []mutant {
	return []mutant{
		{
			"spread-overtakes-what-is-given-back", "a Try is told that another has a lock that only its engine's dead grant holds",
			one("engine/cleanup.go", "root != nil && c.root == nil {", "root != nil && false {"),
			"engine", "TestWhatComesAfterAGrantThatNobodyCouldUseDoesNotOvertakeItsRelease", false,
		},
		{
			"spread-overtakes-what-is-given-back-again", "the same, where giving it back has failed once",
			one("engine/cleanup.go", "if r.Err == nil { // else", "if true { // else"),
			"engine", "TestWhatComesAfterAGrantThatNobodyCouldUseDoesNotOvertakeItsRelease", false,
		},
		{
			"try-finds-who-has-left", "a Try is told of the place of one who has left, and is just being taken out",
			one("engine/acquire.go", "\t\tent.leaves()\n", ""),
			"engine/internal/suite/wait", "TestATryOfAFairLockWaitsUntilWhoLeftHasLeftTheQueue", false,
		},
		{
			"try-rests-for-ever", "a Try that waits until others have left has no answer",
			one("engine/acquire.go", "if ent.LeaveEnded() {", "if ent.LeaveEnded() && false {"),
			"engine/internal/suite/wait", "TestATryOfAFairLockWaitsUntilWhoLeftHasLeftTheQueue", false,
		},
		{
			"try-counts-who-left-twice", "a Try rests for ever",
			one("engine/acquire.go", "op.Ack == nil && !ent.children().leaves {", "op.Ack == nil {"),
			"engine", "TestATryWaitsOnceForEachWhoLeft", false,
		},
		{
			"try-is-overtaken-while-it-rests", "who asks behind a Try has the lock before it",
			one("engine/internal/lockstate/queue.go", "(q.head.Try || q.whole().resting)", "q.head.Try"),
			"engine", "TestWhoAsksBehindATryThatWaitsForLeaversStaysBehindIt", false,
		},
		{
			"try-waits-for-anothers-replicas", "a Try waits for the replicas of another name",
			one("engine/acquire.go", " && op.Ack == nil && !ent", " && !ent"),
			"engine", "TestATryDoesNotWaitForTheReplicasOfAnotherName", false,
		},
		{
			"spread-keeps-what-was-given-back", "a name stays for ever once a grant of it was given back",
			one("engine/cleanup.go", "\tsc.advanceAll(root)\n\tif rested", "\tif rested"),
			"engine", "TestWhatComesAfterAGrantThatNobodyCouldUseDoesNotOvertakeItsRelease", false,
		},
	}
}

// lostToTheirOwners: an owner that comes to what it has lost and not released.
func lostToTheirOwners() []mutant {
	const test = "TestLock/WaitsForWhoOfOneOwnerHasLostIt"
	return []mutant{
		{
			"lost-owner-tries-for-ever", "an owner is told to try again what it is told again",
			one("engine/core.go", "sc.fail(op, &nameError{op.lock.Name(), err})", "sc.fail(op, &nameError{op.lock.Name(), notTaken{err}})"),
			"engine/locker", test, false,
		},
		{
			"lost-owner-panics", "a Locker whose lease was lost panics in who waits for its Unlock",
			one("engine/locker/locker.go", " || errors.Is(err, engine.ErrLost) }", " }"), "engine/locker", test, false,
		},
		{
			"no-such-database", "a database that is not there is no bad configuration",
			one("engine/config.go", "\t\treturn fmt.Sprintf(\"%s has no database %d\", at, option.SelectDB), true\n",
				"\t\treturn \"\", false\n"),
			"engine/internal/suite/api", "TestADatabaseThatIsNotThereIsABadConfiguration", false,
		},
	}
}

// queueMaxes: how many acquires may wait for a node.
func queueMaxes() []mutant {
	return []mutant{
		{
			"spread-room-in-each-lane", "QueueMax acquires wait in each lane",
			one("resp/lane.go", "waiting += int(other.waiting.Load())", "_ = other"),
			"resp", "TestQueueMaxIsThatOfAllLanesTogether", false,
		},
		{
			"spread-crowded-for-ever", "each acquire counts those of all lanes, once one of them was full",
			one("resp/lane.go", "\t\tchange := int32(-1)\n", "\t\tchange := int32(0)\n"),
			"resp", "TestQueueMaxIsThatOfAllLanesTogether", false,
		},
		{
			"spread-room-for-its-share", "two thirds of QueueMax cannot be used while one lane is",
			one("resp/lane.go", "return waiting >= l.node.opts.QueueMax\n", "return waiting >= l.share\n"),
			"resp", "TestLaneWithAFullQueueRefusesAcquiresAndNothingElse", false,
		},
		{
			"spread-room-beside-a-full-lane", "QueueMax wait in one lane, and as many of others as are its share in the next",
			one("resp/lane.go", "waiting < l.share && l.node.crowded.Load() == 0", "waiting < l.share"),
			"resp", "TestQueueMaxIsThatOfAllLanesTogether", false,
		},
	}
}
