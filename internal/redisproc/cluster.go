package redisproc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Slots is how many slots a cluster has.
const Slots = 16384

const (
	clusterTimeout = 60 * time.Second // for a cluster or sentinel group to agree
)

// Cluster is a Redis Cluster of real servers. Masters and Replicas tell the roles at
// the start; after a failover ask [Cluster.Owner].
type Cluster struct {
	Masters  []*Server // Masters[i] serves the i-th share of the slots
	Replicas []*Server // Replicas[i] follows Masters[i/replicasPer]

	finishing sync.Mutex // a move makes an epoch
}

// StartCluster starts masters×(1+replicasPer) servers, joins them and returns when
// every node sees the whole cluster and every replica is in step. args go to every
// server.
//
// Errors: ErrNoServer; on any error no server is left.
func StartCluster(ctx context.Context, masters, replicasPer int, args ...string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	args = append([]string{"--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}, args...)
	servers, err := startAll(ctx, slices.Repeat([]Options{{Cluster: true, Args: args}}, masters*(1+replicasPer)))
	if err != nil {
		return nil, err
	}
	c := &Cluster{Masters: servers[:masters:masters], Replicas: servers[masters:]}
	if err := c.join(ctx, replicasPer); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// join makes one cluster of the single nodes.
func (c *Cluster) join(ctx context.Context, replicasPer int) error {
	if err := c.meet(ctx); err != nil {
		return err
	}
	for i, m := range c.Masters {
		first, last := i*Slots/len(c.Masters), (i+1)*Slots/len(c.Masters)-1
		if _, err := m.Command(ctx, addSlots(first, last)...); err != nil {
			return fmt.Errorf("redisproc: CLUSTER ADDSLOTS: %w", err)
		}
	}
	for i, r := range c.Replicas {
		if err := replicate(ctx, r, c.Masters[i/replicasPer]); err != nil {
			return err
		}
	}
	return c.AwaitOK(ctx)
}

// meet introduces every node to every other. Gossip would do that with fewer words
// and more time. Distinct epochs, allowed only while a node knows nobody, save the
// nodes an election about equal ones.
func (c *Cluster) meet(ctx context.Context) error {
	nodes := c.Nodes()
	for i, n := range nodes {
		if _, err := n.Command(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return fmt.Errorf("redisproc: CLUSTER SET-CONFIG-EPOCH: %w", err)
		}
	}
	for i, n := range nodes {
		for _, other := range nodes[i+1:] {
			if _, err := n.Command(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port)); err != nil {
				return fmt.Errorf("redisproc: CLUSTER MEET: %w", err)
			}
		}
	}
	return nil
}

// addSlots is CLUSTER ADDSLOTSRANGE for servers older than that (7.0) as well.
func addSlots(first, last int) []string {
	args := []string{"CLUSTER", "ADDSLOTS"}
	for s := first; s <= last; s++ {
		args = append(args, strconv.Itoa(s))
	}
	return args
}

// replicate makes r follow m, as soon as r has heard of m.
func replicate(ctx context.Context, r, m *Server) error {
	id, err := m.Command(ctx, "CLUSTER", "MYID")
	if err != nil {
		return err
	}
	return poll(ctx, func() error {
		_, err := r.Command(ctx, "CLUSTER", "REPLICATE", Text(id))
		return err
	})
}

// Nodes returns all servers, the masters of the start first.
func (c *Cluster) Nodes() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// Addrs returns the addresses of all servers.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Stop stops every server. Stopping twice does nothing.
func (c *Cluster) Stop() { stopAll(c.Nodes()) }

// AwaitOK returns when every node of the start answers, sees all others and all
// slots served, and every replica is in step with its master.
func (c *Cluster) AwaitOK(ctx context.Context) error {
	nodes := c.Nodes()
	for _, n := range nodes {
		if err := poll(ctx, func() error { return c.nodeOK(ctx, n) }); err != nil {
			return fmt.Errorf("redisproc: cluster node %s: %w", n.Addr(), err)
		}
	}
	return nil
}

// nodeOK returns what node n still misses.
func (c *Cluster) nodeOK(ctx context.Context, n *Server) error {
	info, err := n.infoContext(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(Slots) {
		return fmt.Errorf("cluster_state is %s with %s slots", info["cluster_state"], info["cluster_slots_ok"])
	}
	v, err := n.Command(ctx, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	replicas := 0
	lines := strings.Split(strings.TrimSpace(Text(v)), "\n")
	for _, line := range lines {
		flags := strings.Fields(line)[2]
		if strings.Contains(flags, "handshake") || strings.Contains(flags, "fail") {
			return fmt.Errorf("a peer is %s", flags)
		}
		if strings.Contains(flags, "slave") {
			replicas++
		}
	}
	if len(lines) != len(c.Nodes()) || replicas != len(c.Replicas) {
		return fmt.Errorf("it knows %d nodes and %d replicas", len(lines), replicas)
	}
	return linkUp(ctx, n)
}

// linkUp returns an error while n is a replica that is not in step, or has one.
func linkUp(ctx context.Context, n *Server) error {
	info, err := n.infoContext(ctx, "INFO", "replication")
	if err != nil {
		return err
	}
	if info["role"] == "slave" && info["master_link_status"] != "up" {
		return errors.New("its link to the master is " + info["master_link_status"])
	}
	if info["role"] == "master" && info["connected_slaves"] != "0" {
		return acknowledged(ctx, n, info["connected_slaves"])
	}
	return nil
}

// acknowledged returns an error while not all replicas of n answer for what they have received: a link
// that is up does so only after about a second. A message is the write that leaves no key.
func acknowledged(ctx context.Context, n *Server, replicas string) error {
	conn, err := n.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Do(ctx, "PUBLISH", "holdfast:redisproc", ""); err != nil {
		return err
	}
	v, err := conn.Do(ctx, "WAIT", replicas, "100")
	if err == nil && Text(v) != replicas {
		err = fmt.Errorf("%s of its %s replicas answer for what they received", Text(v), replicas)
	}
	return err
}

// Owner returns the server that is master of slot now, as the first server that
// answers sees it.
func (c *Cluster) Owner(ctx context.Context, slot uint16) (*Server, error) {
	var last error
	for _, n := range c.Nodes() {
		owner, err := c.OwnerSeenBy(ctx, n, slot)
		if err == nil {
			return owner, nil
		}
		last = err
	}
	return nil, last
}

// Claimant returns the server that itself says that it is master of slot: it follows what servers say from
// one to the next. The first one may be behind, above all a replica, which hears of moves by gossip only.
func (c *Cluster) Claimant(ctx context.Context, slot uint16) (*Server, error) {
	owner, err := c.Owner(ctx, slot)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() error {
		next, err := c.OwnerSeenBy(ctx, owner, slot)
		if err == nil && next != owner {
			err = fmt.Errorf("redisproc: %s says that slot %d is on %s", owner.Addr(), slot, next.Addr())
			owner = next
		}
		return err
	})
	return owner, err
}

// OwnerSeenBy is [Cluster.Owner] as one server sees it: for when the first one is paused, and would be
// waited for until ctx ends.
func (c *Cluster) OwnerSeenBy(ctx context.Context, n *Server, slot uint16) (*Server, error) {
	v, err := n.Command(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	if owner := c.byPort(portOfSlot(v, int64(slot))); owner != nil {
		return owner, nil
	}
	return nil, fmt.Errorf("redisproc: %s knows no owner of slot %d", n.Addr(), slot)
}

// Owners returns the master of every slot, as the first server that answers and knows all of them sees
// it.
func (c *Cluster) Owners(ctx context.Context) ([]*Server, error) {
	last := errors.New("redisproc: a cluster without servers")
	for _, n := range c.Nodes() {
		v, err := n.Command(ctx, "CLUSTER", "SLOTS")
		if err != nil {
			last = err
			continue
		}
		owners := c.ownersIn(v)
		if slot := slices.Index(owners, nil); slot >= 0 {
			last = fmt.Errorf("redisproc: %s knows no owner of slot %d", n.Addr(), slot)
			continue
		}
		return owners, nil
	}
	return nil, last
}

// ownersIn reads the reply of CLUSTER SLOTS; nil where it names nobody of ours.
func (c *Cluster) ownersIn(reply any) []*Server {
	owners := make([]*Server, Slots)
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		r, _ := r.([]any)
		if len(r) < 3 {
			continue
		}
		first, _ := r[0].(int64)
		last, _ := r[1].(int64)
		master, _ := r[2].([]any)
		if len(master) < 2 || first < 0 || last >= Slots {
			continue
		}
		port, _ := master[1].(int64)
		for slot := first; slot <= last; slot++ {
			owners[slot] = c.byPort(port)
		}
	}
	return owners
}

// portOfSlot finds the master's port in the reply of CLUSTER SLOTS, or 0.
func portOfSlot(reply any, slot int64) int64 {
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		r, _ := r.([]any)
		if len(r) < 3 {
			continue
		}
		first, _ := r[0].(int64)
		last, _ := r[1].(int64)
		master, _ := r[2].([]any)
		if slot < first || slot > last || len(master) < 2 {
			continue
		}
		port, _ := master[1].(int64)
		return port
	}
	return 0
}

func (c *Cluster) byPort(port int64) *Server {
	for _, n := range c.Nodes() {
		if int64(n.port) == port {
			return n
		}
	}
	return nil
}

// startAll starts servers side by side: all of them, or none and an error.
func startAll(ctx context.Context, options []Options) ([]*Server, error) {
	servers, errs := make([]*Server, len(options)), make([]error, len(options))
	var wg sync.WaitGroup
	for i, o := range options {
		wg.Go(func() { servers[i], errs[i] = Start(ctx, o) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		stopAll(servers)
		return nil, err
	}
	return servers, nil
}

// stopAll stops servers side by side.
func stopAll(servers []*Server) {
	var wg sync.WaitGroup
	for _, s := range servers {
		if s != nil {
			wg.Go(s.Stop)
		}
	}
	wg.Wait()
}
