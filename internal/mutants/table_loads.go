package main

// loading breaks when a server is given which scripts.
func loading() []mutant {
	const link, lane, node, renewal = "resp/link.go", "resp/lane.go", "resp/node.go", "resp/renewal.go"
	const firstUse, refused = "TestWhateverIsAskedForFirstIsLoadedInTheSameWrite", "TestAScriptThatMayNotBeLoadedIsTriedOnce"
	return []mutant{
		{
			"every-script-with-each-connection", "a narrow link takes seconds for 190 KB before the first renewal",
			one(node, "return n.used() | usualScripts()", "return ^scriptSet(0)"),
			"resp", "TestANewConnectionSendsLittle", false,
		},
		{
			"first-use-is-not-loaded", "the first use of each kind costs a failed round",
			one("resp/round.go", "\tloads = w.stock.lacks(loads)\n", "\tloads = 0\n"), "resp", firstUse, false,
		},
		{
			"first-renewal-is-not-loaded", "the first renewal of a kind costs a failed round, and has little time",
			one(renewal, "\t\tloads |= n.loadsFor(w, part[:1])\n", "\t\tn.loadsFor(w, part[:1])\n"), "resp", firstUse, false,
		},
		{
			"first-renewal-elsewhere-is-not-loaded", "a lease that moves with its slot is not renewed at first",
			one(renewal, "loads := n.loadsFor(w, hashes)", "loads := n.loadsFor(w, hashes[:0])"),
			"resp", "TestARenewalElsewhereBringsItsScript", false,
		},
		{
			"loaded-with-each-use", "each command brings kilobytes along",
			one(link, "\ts.given.Or(uint64(given))\n", ""), "resp", firstUse, false,
		},
		{
			"refused-load-is-repeated", "an engine that may not load scripts sends them with each command, and fills the ACL log",
			one(link, "\t\tif err == nil || !err.Class.Transient() {", "\t\tif err == nil {"), "resp", refused, false,
		},
		{
			"refused-load-is-not-told", "an engine that may not load scripts says NOSCRIPT, and not why",
			one(link, "if err != nil && !err.Class.Transient() {", "if false {"), "resp", refused, false,
		},
		{
			"refused-load-is-of-all", "a lock is refused because another kind's script is",
			one(link, "if u.which&(1<<s.at) == 0 {", "if u.err == nil {"), "resp", "TestAScriptThatIsRefusedIsNoTroubleOfAnother", false,
		},
		{
			"busy-load-counts", "a script that could not be loaded costs a failed round later",
			one(link, "\t\tif err == nil || !err.Class.Transient() {", "\t\tif true {"),
			"resp", "TestAScriptThatCouldNotBeLoadedIsLoadedWithTheNextCommand", false,
		},
		{
			"each-connection-has-a-stock", "each of a node's connections loads each script",
			one(node, "last != nil && last.run == run", "false"), "resp", "TestConnectionsToOneServerShareItsScripts", false,
		},
		{
			"all-servers-have-one-stock", "what one server was given is missing at the next",
			one(node, "last != nil && last.run == run", "last != nil"), "resp", "TestConnectionsToOneServerShareItsScripts", false,
		},
		{
			"reconnect-forgets-what-is-used", "a server that was started anew is told of each script when it is missing",
			one(node, "return n.used() | usualScripts()", "return usualScripts()"), "resp", "TestANewConnectionLoadsWhatWasUsed", false,
		},
	}
}
