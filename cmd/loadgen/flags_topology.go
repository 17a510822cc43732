package main

import (
	"errors"
	"fmt"
)

// Bounds of what --cluster starts: each of its servers is a process.
const (
	maxMasters  = 16
	maxReplicas = 3
)

// checkTopology refuses what cannot be started, or is not loadgen's to start.
func (c *flags) checkTopology(changed func(string) bool) error {
	switch {
	case changed("cluster") && (c.Cluster < 1 || c.Cluster > maxMasters):
		return fmt.Errorf("--cluster must be between 1 and %d, not %d", maxMasters, c.Cluster)
	case c.Cluster > 0 && len(c.Addrs) > 0:
		return errors.New("--cluster starts a cluster of loadgen's own and --addr names one that is there: give one of them")
	case c.Sentinel && len(c.Addrs) > 0:
		return errors.New("--sentinel starts servers of loadgen's own and --addr names some that are there: give one of them")
	case c.Sentinel && c.Cluster > 0:
		return errors.New("--sentinel and --cluster are two topologies: give one of them")
	case c.Cluster > 0 && c.Listen > 0:
		return errors.New("--listen is not for a cluster: which of its nodes has how many channels hangs on the names")
	case changed("replicas") && c.Cluster == 0 && !c.Sentinel:
		return errors.New("--replicas needs --cluster or --sentinel")
	case c.Sentinel && changed("replicas") && c.Replicas == 0:
		return errors.New("--replicas must be at least 1 with --sentinel: somebody must be there to take over")
	case c.Replicas < 0 || c.Replicas > maxReplicas:
		return fmt.Errorf("--replicas must be between 0 and %d, not %d", maxReplicas, c.Replicas)
	}
	if c.Sentinel && c.Replicas == 0 {
		c.Replicas = 1
	}
	return nil
}
