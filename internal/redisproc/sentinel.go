package redisproc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MasterName is the name under which the sentinels know their master.
const MasterName = "holdfast"

// Sentinel is a master with replicas, watched by sentinels. Master and Replicas tell
// the roles at the start; after a failover ask [Sentinel.Current].
type Sentinel struct {
	Master    *Server
	Replicas  []*Server
	Sentinels []*Server
}

// StartSentinel starts a master, its replicas and the sentinels, and returns when
// the replicas are in step and every sentinel knows everybody. A master that is
// silent for 1 s counts as down for a sentinel. args go to the master and replicas.
//
// Errors: ErrNoServer; on any error no server is left.
func StartSentinel(ctx context.Context, replicas, sentinels int, args ...string) (*Sentinel, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	master, err := Start(ctx, Options{Args: args})
	if err != nil {
		return nil, err
	}
	s := &Sentinel{Master: master}
	if err := s.startRest(ctx, replicas, sentinels, args); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// startRest starts replicas and sentinels. The replicas must be in step first: a
// sentinel asks the master for its replicas at once and then only every 10 s.
func (s *Sentinel) startRest(ctx context.Context, replicas, sentinels int, args []string) error {
	port := strconv.Itoa(s.Master.port)
	following := slices.Concat(args, []string{"--replicaof", "127.0.0.1", port})
	var err error
	if s.Replicas, err = startAll(ctx, slices.Repeat([]Options{{Args: following}}, replicas)); err != nil {
		return err
	}
	if err := s.awaitReplicas(ctx); err != nil {
		return err
	}
	conf := strings.NewReplacer("NAME", MasterName, "PORT", port, "QUORUM", strconv.Itoa(sentinels/2+1)).Replace(
		"sentinel monitor NAME 127.0.0.1 PORT QUORUM\n" +
			"sentinel down-after-milliseconds NAME 1000\n" +
			"sentinel failover-timeout NAME 3000\n" +
			"sentinel parallel-syncs NAME 1\n")
	if s.Sentinels, err = startAll(ctx, slices.Repeat([]Options{{sentinel: conf}}, sentinels)); err != nil {
		return err
	}
	return s.awaitSentinels(ctx)
}

func (s *Sentinel) awaitReplicas(ctx context.Context) error {
	for _, r := range s.Replicas {
		if err := poll(ctx, func() error { return linkUp(ctx, r) }); err != nil {
			return err
		}
	}
	return poll(ctx, func() error {
		n, err := s.Master.infoField(ctx, "replication", "connected_slaves")
		if err != nil {
			return err
		}
		if n != strconv.Itoa(len(s.Replicas)) {
			return fmt.Errorf("the master has %s replicas", n)
		}
		return linkUp(ctx, s.Master)
	})
}

func (s *Sentinel) awaitSentinels(ctx context.Context) error {
	for _, sentinel := range s.Sentinels {
		err := poll(ctx, func() error {
			v, err := sentinel.Command(ctx, "SENTINEL", "MASTER", MasterName)
			if err != nil {
				return err
			}
			fields := pairs(v)
			if fields["num-slaves"] != strconv.Itoa(len(s.Replicas)) ||
				fields["num-other-sentinels"] != strconv.Itoa(len(s.Sentinels)-1) {
				return fmt.Errorf("sentinel %s knows %s replicas and %s other sentinels",
					sentinel.Addr(), fields["num-slaves"], fields["num-other-sentinels"])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pairs reads a flat array of names and values.
func pairs(v any) map[string]string {
	items, _ := v.([]any)
	fields := make(map[string]string, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		fields[Text(items[i])] = Text(items[i+1])
	}
	return fields
}

// Addrs returns the addresses of the sentinels: what a client is configured with.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, n := range s.Sentinels {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Current returns the server that the sentinels call master now.
func (s *Sentinel) Current(ctx context.Context) (*Server, error) {
	last := errors.New("redisproc: no sentinel")
	for _, sentinel := range s.Sentinels {
		v, err := sentinel.Command(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err != nil {
			last = err
			continue
		}
		addr := strings.ReplaceAll(Text(v), "\n", ":")
		for _, n := range append([]*Server{s.Master}, s.Replicas...) {
			if n.Addr() == addr {
				return n, nil
			}
		}
		last = fmt.Errorf("redisproc: a sentinel names the master %q", addr)
	}
	return nil, last
}

// Stop stops every server, the sentinels first. Stopping twice does nothing.
func (s *Sentinel) Stop() {
	stopAll(s.Sentinels)
	stopAll(append([]*Server{s.Master}, s.Replicas...))
}
