package main

// network breaks how servers are left that are demoted or out of date, and how waiters follow their slots.
func network() []mutant {
	return []mutant{
		{
			"network-never-leaves-a-demoted-master", "behind one address a demoted master that keeps its connections is never left",
			one("resp/node.go", "err != nil && n.nodes == nil && (err", "err != nil && n.opts.Follows && (err"),
			clusterSuite, "TestAMasterThatIsDemotedBehindItsAddressIsLeft", false,
		},
		{
			"network-leaves-without-a-pause", "an address that leads to a replica for good is dialled with every refusal",
			one("resp/link.go", "if now.Before(next) || l.cur.Load() != w {", "if l.cur.Load() != w {"),
			clusterSuite, "TestAnAddressThatLeadsToAReplicaIsDialledWithAPause", false,
		},
		{
			"network-first-seed-decides", "Open fails at the first address that knows no slots",
			one("resp/nodes.go", "		ns.closeEndpoints() // a node", "		ns.closeEndpoints()\n		return nil, err\n		// a node"),
			clusterSuite, "TestClusterIsFoundBehindASeedThatKnowsNoSlots", false,
		},
		{
			"network-nobody-hears-of-what-was-learnt", "a waiter stays subscribed at the old owner when other traffic met the MOVED first",
			one("resp/slots.go", "		ns.learned.Store(true)", "		//"),
			clusterSuite, "TestClusterWaiterFollowsItsSlotThoughOthersLearnFirst", false,
		},
		{
			"network-batches-for-ever", "a server that wants every key declared refuses every batch first",
			one("resp/lane.go", "l.node.declares.Store(true)", "l.node.declares.Store(false)"),
			"resp", "TestClusterThatWantsEveryKeyDeclaredIsAskedOneAtATime", false,
		},
		{
			"network-undeclared-is-the-last-word", "a server that wants every key declared refuses batches for ever",
			one("resp/redirect.go", "if op.among && !op.alone {", "if false {"),
			"resp", "TestClusterThatWantsEveryKeyDeclaredIsAskedOneAtATime", false,
		},
		{
			"network-mode-of-redis-only", "a Valkey cluster is taken for a single server, and a Valkey sentinel for a master",
			one("resp/link.go", `case "redis_mode", "server_mode":`, `case "redis_mode":`),
			"resp", "TestParseInfoKnowsWhatAVersionPromises", false,
		},
		{
			"network-believes-anybody", "a node that is cut off makes its old owners the table",
			one("resp/slots.go", "a.view.epoch >= ns.epoch.Load():", "true:"),
			"resp", "TestClusterNodeWithAnOlderConfigurationIsNotBelieved", false,
		},
	}
}
