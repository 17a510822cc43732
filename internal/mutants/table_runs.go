package main

// runs: the edges of a run of the load generator: what it is refused, what fails it, what it shows.
func runs() []mutant {
	const (
		lg    = "cmd/loadgen/"
		parts = lg + "internal/"
		wrong = "TestEachThingThatIsWrongIsEnough"
	)
	m := func(id, why string, edits []edit, in, tests string) mutant {
		return mutant{"run-" + id, why, edits, in, tests, false}
	}
	return []mutant{
		m("rate-not-judged", "a rate that was not reached is a run without a fault",
			one(parts+"report/report.go", "\tr.judgeRate(cfg, len(rounds))\n", ""), parts+"report", wrong),
		m("rate-judged-too-early", "a stall at the end of a run looks like a rate that nobody can reach",
			one(parts+"pace/pacer.go", "p.length + lateStarts - p.Elapsed()", "p.length - p.Elapsed()"), parts+"pace", "TestAStallAtTheEndSkipsNoStart"),
		m("servers-without-processor", "a load takes the processors of its own servers, and measures that",
			one(lg+"processors.go", "runtime.GOMAXPROCS(all - own)", "runtime.GOMAXPROCS(all)"), "cmd/loadgen", "TestServersOfItsOwnAreLeftAProcessorEach"),
		m("greetings-of-others", "what sentinels of others publish looks like releases that nobody made",
			one(parts+"topology/server.go", "n.sentinels = max(n.sentinels, sentinels)", "_ = sentinels"), "cmd/loadgen", "TestARunBySentinels"),
		m("sentinels-are-foreign", "sentinels look like clients, and nothing is compared",
			one(parts+"topology/server.go", `if is, ok := strings.CutPrefix(field, "name=sentinel-"); ok {`, `if is, ok := strings.CutPrefix(field, "name=-"); ok {`),
			parts+"topology", "TestPeerOf"),
		m("forgotten-is-blamed", "a lease that Redis lost with a master is the engine's fault",
			one(parts+"report/report.go", "\t\tr.mayForget = true\n", ""), parts+"report", wrong),
		m("cluster-may-forget", "a lease that is lost in a failover that waits for the replica is nobody's fault",
			one(parts+"config/chaos.go", "c.Sentinel && slices.Contains(c.Chaos, ChaosFailover)", "slices.Contains(c.Chaos, ChaosFailover)"), parts+"report", wrong),
		m("tls-without-authority", "--tls-ca is not looked at",
			one(lg+"flags_server.go", "if !t.Config.RootCAs.AppendCertsFromPEM(text) {", "if len(text) == 0 {"), "cmd/loadgen", "TestARunOverTLS"),
		m("tls-without-certificate", "the client's certificate is not shown",
			one(lg+"flags_server.go", "\t\tt.Config.Certificates = []tls.Certificate{pair}\n", "\t\t_ = pair\n"), "cmd/loadgen", "TestARunOverTLS"),
		m("tls-engines-only", "loadgen's own client speaks plain text",
			one(parts+"topology/server.go", "o.Password, o.TLSConfig = s.login.Password, s.login.TLS.Config", "o.Password = s.login.Password"), "cmd/loadgen", "TestARunOverTLS"),
		m("replica-accepted", "a replica is loaded, and refuses every operation",
			one(parts+"topology/preflight.go", `case info["role"] == "slave":`, `case info["role"] == "nobody":`), parts+"topology", "TestUnfit"),
		m("full-accepted", "a full server is loaded, and refuses every operation",
			one(parts+"topology/preflight.go", "most > 0 && used >= most", "most > 0 && used > most"), parts+"topology", "TestUnfit"),
		m("wrong-kind-tried-again", "a server of another kind is asked for ten seconds",
			one(parts+"topology/preflight.go", "if s.Ours() || len(o.InitAddress) == 0 || o.DialCtxFn != nil {", "if true {"), "cmd/loadgen", "TestWhoCannotHoldLocksIsRefusedAtOnce"),
		m("one-silent-is-enough", "a cluster of which one node is silent is refused",
			one(parts+"topology/preflight.go", "\t\tif err == nil {\n\t\t\treturn nil\n\t\t}\n\t\tif first == nil {", "\t\tif first == nil {"),
			parts+"topology", "TestOneAddressThatAnswersIsEnough"),
		m("table-too-wide", "a long value breaks the table on a terminal",
			one(parts+"report/table.go", "w.columns - borders(2) - names", "w.columns"), parts+"report", "TestTheTableFitsItsColumns"),
		m("latency-too-wide", "a latency of seconds breaks the table on a terminal",
			one(parts+"report/table.go", "if w.columns > 0 && text.LongestLineLen(whole) > w.columns {", "if false {"), parts+"report", "TestTheTableFitsItsColumns"),
		m("profiles-cut", "who asks --pprof cuts a piece out of --cpuprofile",
			one(lg+"profile.go", "\tfor t := range p.takes {\n\t\tt.pieces = append(t.pieces, piece)\n\t}\n",
				"\tfor t := range p.takes {\n\t\tif len(t.pieces) == 0 {\n\t\t\tt.pieces = append(t.pieces, piece)\n\t\t}\n\t}\n"), "cmd/loadgen", "TestPprofBesideCPUProfile"),
		m("lane-unlabelled", "the profiler shows lanes under who started them",
			one("resp/lane.go", "\tworld.NewPart(\"lane\").Label()\n", ""), "engine/internal/suite/api", "TestTheProfilerSeesWhatAGoroutineWorksAt"),
		m("callbacks-unlabelled", "the profiler shows callbacks under who caused them",
			one("internal/callback/pool.go", "\tp.part.Label() // once more where a callback has changed it\n", ""),
			"engine/internal/suite/api", "TestTheProfilerSeesWhatAGoroutineWorksAt"),
	}
}
