package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// sentinels is how many watch a master of --sentinel.
const sentinels = 3

// Shape is how many servers a deployment has; zero where that is not known, or one.
type Shape struct{ Masters, Replicas int }

// startOwn starts what the flags ask for, if no address is given. The children die with this
// process, however it ends.
func (s *Server) startOwn(ctx context.Context, cfg *config.Config) error {
	switch {
	case len(s.Addrs) > 0:
		return nil
	case cfg.Cluster > 0:
		// A master that dies is to be missed by its own slots only, not by all.
		c, err := redisproc.StartCluster(ctx, cfg.Cluster, cfg.Replicas, "--cluster-require-full-coverage", "no")
		if err != nil {
			return startError("cluster", err)
		}
		s.Cluster, s.Addrs = c, c.Addrs()
		return nil
	case cfg.Sentinel:
		g, err := redisproc.StartSentinel(ctx, cfg.Replicas, sentinels)
		if err != nil {
			return startError("sentinel", err)
		}
		s.Sentinel, s.Addrs, s.Topology = g, g.Addrs(), "sentinel"
		s.Shape = Shape{Masters: 1, Replicas: cfg.Replicas}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	own, err := embedded.Start(ctx)
	if err != nil {
		return err
	}
	s.Embedded, s.Addrs = own, []string{own.Addr()}
	if len(cfg.Chaos) > 0 && own.InProcess {
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
func (s *Server) stopOwn() {
	if s.Embedded != nil {
		s.Embedded.Stop()
	}
	if s.Cluster != nil {
		s.Cluster.Stop()
	}
	if s.Sentinel != nil {
		s.Sentinel.Stop()
	}
}

// Ours reports whether the servers were started by this run.
func (s *Server) Ours() bool { return s.Embedded != nil || s.Cluster != nil || s.Sentinel != nil }

// Processes is how many servers of this run's own are busy under a load, each of them with a process and most of its
// work in one thread. Sentinels are not.
func (s *Server) Processes() int {
	switch {
	case s.Embedded != nil:
		if s.Embedded.InProcess {
			return 0
		}
		return 1
	case s.Cluster != nil, s.Sentinel != nil:
		return s.Shape.Masters + s.Shape.Replicas
	}
	return 0
}

// origin says what was started, and where it listens.
func (s *Server) origin() string {
	switch {
	case s.Sentinel != nil:
		return fmt.Sprintf("%s of its own, sentinels on %s (%s)", Describe(s.Topology, s.Shape), s.Where(), s.Product)
	case s.Cluster != nil:
		return fmt.Sprintf("a %s of its own on %s (%s)", Describe("cluster", s.Shape), s.Where(), s.Product)
	}
	return fmt.Sprintf("%s of its own on %s (%s), as no --addr was given", s.Embedded.Kind, s.Where(), s.Product)
}

// Describe names a deployment of more than one server.
func Describe(topology string, sh Shape) string {
	if sh.Masters == 0 {
		return topology
	}
	if topology == "sentinel" {
		return fmt.Sprintf("%s with %s under %d sentinels", format.Plural(sh.Masters, "master"), format.Plural(sh.Replicas, "replica"), sentinels)
	}
	text := topology + " of " + format.Plural(sh.Masters, "master")
	if sh.Replicas > 0 {
		text += " and " + format.Plural(sh.Replicas, "replica")
	}
	return text
}

// Homes says which master of loadgen's own cluster a name belongs to.
func (s *Server) Homes(ctx context.Context) (Homes, error) {
	if s.Cluster == nil {
		return Homes{}, nil
	}
	owners, err := s.Cluster.Owners(ctx)
	if err != nil {
		return Homes{}, err
	}
	number := make(map[*redisproc.Server]int)
	for _, owner := range owners {
		if _, known := number[owner]; !known {
			number[owner] = len(number)
		}
	}
	return Homes{len(number), func(name string) int { return number[owners[slot.Of(name)]] }}, nil
}

// readShape counts the servers of a cluster; the zero shape if it will not say.
func (s *Server) readShape(ctx context.Context) (sh Shape) {
	text, err := s.Client.Do(ctx, s.Client.B().ClusterNodes().Build()).ToString()
	if err != nil {
		return Shape{}
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 3 || strings.Contains(fields[2], "fail"):
		case strings.Contains(fields[2], "slave"):
			sh.Replicas++
		case len(fields) > 8: // it serves slots
			sh.Masters++
		}
	}
	return sh
}

// masters returns a client for every node that is no replica: a replica counts the writes of its
// master as its own.
func (s *Server) masters(ctx context.Context) []rueidis.Client {
	nodes := s.nodes()
	if s.Topology == "single" {
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

// Homes are the masters of a cluster, and which of them a name belongs to. The zero value knows of none.
type Homes struct {
	N  int
	Of func(name string) int
}
