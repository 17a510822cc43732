// Loadgen drives a Holdfast engine against a Redis server and says what it saw: how many
// locks a second, how long each took, what it cost, and whether two holders ever had one
// lock at once.
//
//	loadgen run                                       a server of its own, ten seconds
//	loadgen run --addr localhost:6379 --json -        a server that is there, for a script
//	loadgen run --scenario hold --locks 100000        what the watchdog keeps, and its cost
//	loadgen run --scenario contend --mutex            one lock that 64 callers want
//	loadgen run --scenario rw --read-share 0.9        readers that share and writers that do not
//	loadgen run --scenario semaphore --permits 8      permits: never too many held, none lost
//	loadgen run --scenario permits --lease 3s         the same, and each permit is leased
//	loadgen run --scenario latch --count 8            latches: nobody let in early, nobody left waiting
//	loadgen run --scenario multi --multi-names 4      several locks at once, all or none
//	loadgen run --cluster 3 --inflight 4096           a private cluster of real servers
//
// The way of a run (session.go): the commands (commands.go) have the flags read and checked (flags*.go); a server is found or
// started, and a client of loadgen's own connects to it (internal/topology); the engines open; the
// scenario prepares, warms up, measures and finishes (internal/scenario); what
// it saw becomes one report (internal/report), printed as a table or as JSON.
//
// Several processes may run the scenarios contend, fenced, fair, semaphore and permits over one witness file (internal/witness): they
// begin together, exclusion is checked across them, and each reports what all did.
//
// This package has the commands, the flags and the outputs. The parts of a run are packages below internal, and each
// imports only those before it, which a test of internal/house keeps:
//
//	format, config, meter, pace    words and figures; what was asked for; what was seen; when load begins
//	topology, report               the servers; the document and its verdict
//	witness, load, contest         other processes; locks that nobody else wants; locks that many want
//	chaos, rival, scenario         disturbances; what is measured beside; the ways of using locks
//
// What counts as an operation is one pair: a lock taken and freed. Each phase ends when
// its last answer has come, so that the server's counters, read before and after, belong
// to it alone; throughput is pairs over that whole time.
package main
