// Package topology is the servers of a run: those that --addr names, or loadgen's own (one server, a cluster, a master
// under sentinels), with a client that looks at them past the engine and reads their counters.
package topology
