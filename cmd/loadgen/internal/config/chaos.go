package config

import "slices"

// The disturbances of --chaos.
const (
	ChaosSlots    = "slots"        // one slot moves to another master, the next time back
	ChaosPause    = "pause"        // a master stands still for a while
	ChaosKillConn = "kill-conn"    // a master drops all its connections
	ChaosFlush    = "script-flush" // a master forgets its scripts
	ChaosFailover = "failover"     // a replica takes over, as an operator would have it
	ChaosKill     = "kill"         // one master dies, once
	ChaosClient   = "client"       // another client of the same locks dies, once
)

// CountsOthers reports whether chaos made the servers' counters say something else than what this process
// had them do.
func CountsOthers(chaos []string) bool {
	return ChangesServers(chaos) || slices.Contains(chaos, ChaosClient)
}

// ChangesServers reports whether chaos made the servers' counters useless.
func ChangesServers(chaos []string) bool {
	return slices.Contains(chaos, ChaosFailover) || slices.Contains(chaos, ChaosKill)
}

// LosesGrants reports whether Redis may forget grants: a replica takes the place of a master before it has heard of the
// last of them. A cluster that is told to fail over waits until it has.
func (c *Config) LosesGrants() bool {
	return slices.Contains(c.Chaos, ChaosKill) || c.Sentinel && slices.Contains(c.Chaos, ChaosFailover)
}

// Repeats reports whether chaos can cost answers, so that a command has to be sent again.
func Repeats(chaos []string) bool {
	return slices.Contains(chaos, ChaosPause) || slices.Contains(chaos, ChaosKillConn)
}
