package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Bounds of what --cluster starts: each of its servers is a process.
const (
	maxMasters  = 16
	maxReplicas = 3
	sentinels   = 3
)

// shape is how many servers a deployment has; zero where that is not known, or one.
type shape struct{ masters, replicas int }

// checkTopology refuses what cannot be started, or is not loadgen's to start.
func (c *config) checkTopology(changed func(string) bool) error {
	switch {
	case changed("cluster") && (c.cluster < 1 || c.cluster > maxMasters):
		return fmt.Errorf("--cluster must be between 1 and %d, not %d", maxMasters, c.cluster)
	case c.cluster > 0 && len(c.addrs) > 0:
		return errors.New("--cluster starts a cluster of loadgen's own and --addr names one that is there: give one of them")
	case c.sentinel && len(c.addrs) > 0:
		return errors.New("--sentinel starts servers of loadgen's own and --addr names some that are there: give one of them")
	case c.sentinel && c.cluster > 0:
		return errors.New("--sentinel and --cluster are two topologies: give one of them")
	case changed("replicas") && c.cluster == 0 && !c.sentinel:
		return errors.New("--replicas needs --cluster or --sentinel")
	case c.sentinel && changed("replicas") && c.replicas == 0:
		return errors.New("--replicas must be at least 1 with --sentinel: somebody must be there to take over")
	case c.replicas < 0 || c.replicas > maxReplicas:
		return fmt.Errorf("--replicas must be between 0 and %d, not %d", maxReplicas, c.replicas)
	}
	if c.sentinel && c.replicas == 0 {
		c.replicas = 1
	}
	return nil
}

// startOwn starts what the flags ask for, if no address is given. The children die with this
// process, however it ends.
func (s *server) startOwn(ctx context.Context, cfg *config) error {
	switch {
	case len(s.addrs) > 0:
		return nil
	case cfg.cluster > 0:
		// A master that dies is to be missed by its own slots only, not by all.
		c, err := redisproc.StartCluster(ctx, cfg.cluster, cfg.replicas, "--cluster-require-full-coverage", "no")
		if err != nil {
			return startError("cluster", err)
		}
		s.cluster, s.addrs = c, c.Addrs()
		return nil
	case cfg.sentinel:
		g, err := redisproc.StartSentinel(ctx, cfg.replicas, sentinels)
		if err != nil {
			return startError("sentinel", err)
		}
		s.sentinel, s.addrs, s.topology = g, g.Addrs(), "sentinel"
		s.shape = shape{masters: 1, replicas: cfg.replicas}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	own, err := embedded.Start(ctx)
	if err != nil {
		return err
	}
	s.embedded, s.addrs = own, []string{own.Addr()}
	if len(cfg.chaos) > 0 && own.InProcess {
		own.Stop()
		return errors.New("--chaos needs redis-server or valkey-server on PATH")
	}
	return nil
}

func startError(flag string, err error) error {
	if errors.Is(err, redisproc.ErrNoServer) {
		return fmt.Errorf("--%s needs redis-server or valkey-server on PATH: %w", flag, err)
	}
	return fmt.Errorf("start a %s: %w", flag, err)
}

// stopOwn ends what startOwn started.
func (s *server) stopOwn() {
	if s.embedded != nil {
		s.embedded.Stop()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if s.sentinel != nil {
		s.sentinel.Stop()
	}
}

// ours reports whether the servers were started by this run.
func (s *server) ours() bool { return s.embedded != nil || s.cluster != nil || s.sentinel != nil }

// origin says what was started, and where it listens.
func (s *server) origin() string {
	switch {
	case s.sentinel != nil:
		return fmt.Sprintf("%s of its own, sentinels on %s (%s)", topologyText(s.topology, s.shape), s.where(), s.product)
	case s.cluster != nil:
		return fmt.Sprintf("a %s of its own on %s (%s)", topologyText("cluster", s.shape), s.where(), s.product)
	}
	return fmt.Sprintf("%s of its own on %s (%s), as no --addr was given", s.embedded.Kind, s.where(), s.product)
}

// topologyText names a deployment of more than one server.
func topologyText(topology string, sh shape) string {
	if sh.masters == 0 {
		return topology
	}
	if topology == "sentinel" {
		return fmt.Sprintf("%s with %s under %d sentinels", plural(sh.masters, "master"), plural(sh.replicas, "replica"), sentinels)
	}
	text := topology + " of " + plural(sh.masters, "master")
	if sh.replicas > 0 {
		text += " and " + plural(sh.replicas, "replica")
	}
	return text
}

// homes says which master of loadgen's own cluster a name belongs to.
func (s *server) homes(ctx context.Context) (homes, error) {
	if s.cluster == nil {
		return homes{}, nil
	}
	owners, err := s.cluster.Owners(ctx)
	if err != nil {
		return homes{}, err
	}
	number := make(map[*redisproc.Server]int)
	for _, owner := range owners {
		if _, known := number[owner]; !known {
			number[owner] = len(number)
		}
	}
	return homes{len(number), func(name string) int { return number[owners[slot.Of(name)]] }}, nil
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// readShape counts the servers of a cluster; the zero shape if it will not say.
func (s *server) readShape(ctx context.Context) (sh shape) {
	text, err := s.client.Do(ctx, s.client.B().ClusterNodes().Build()).ToString()
	if err != nil {
		return shape{}
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 3 || strings.Contains(fields[2], "fail"):
		case strings.Contains(fields[2], "slave"):
			sh.replicas++
		case len(fields) > 8: // it serves slots
			sh.masters++
		}
	}
	return sh
}

// masters returns a client for every node that is no replica: a replica counts the writes of its
// master as its own.
func (s *server) masters(ctx context.Context) []rueidis.Client {
	nodes := s.nodes()
	if s.topology == "single" {
		return nodes
	}
	masters := nodes[:0]
	for _, node := range nodes {
		text, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
		if err != nil || parseInfo(text)["role"] != "slave" {
			masters = append(masters, node)
		}
	}
	return masters
}
