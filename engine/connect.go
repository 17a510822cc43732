package engine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// connect finds the servers of a configuration.
func connect(cfg Config, o resp.Options) (*resp.Nodes, error) {
	o.Crowd = new(atomic.Int32)
	var nodes *resp.Nodes
	var err error
	switch {
	case cfg.Client != nil:
		nodes, err = borrow(cfg.Client, o)
	case cfg.masterName() != "":
		nodes, err = resp.Follow(resp.Sentinels{
			Master: cfg.masterName(), Addrs: options(cfg).InitAddress, Ask: asker(cfg), Dial: dialer(cfg, o.Crowd),
		}, o)
	default:
		nodes, err = resp.Open(options(cfg).InitAddress, dialer(cfg, o.Crowd), false, o)
	}
	switch {
	case cfg.Topology == TopologySentinel && cfg.Client != nil && cfg.Client.Mode() != rueidis.ClientModeSentinel:
		if err == nil {
			nodes.Close()
		}
		return nil, fmt.Errorf("%w: the given Client was not made for sentinels", ErrConfig)
	case errors.Is(err, resp.ErrIsSentinel):
		return nil, fmt.Errorf("%w: no MasterName, and %w", ErrConfig, err)
	case errors.Is(err, resp.ErrNoSuchMaster), errors.Is(err, resp.ErrNotSentinel):
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case err != nil:
		return nil, err
	}
	if want := cfg.Topology; want == TopologySingle && nodes.Cluster() || want == TopologyCluster && !nodes.Cluster() {
		nodes.Close()
		return nil, fmt.Errorf("%w: the server says it is %s", ErrConfig, map[bool]string{true: "a node of a cluster", false: "not a cluster"}[nodes.Cluster()])
	}
	return nodes, nil
}

// The client's ring of a connection has 1,024 places, which take 400 KB, and a small one costs a busy connection a tenth of
// its throughput. Where there are many nodes each has little to say, and whoever names them may have made them up.
const (
	crowdOf     = 64
	crowdRing   = 5
	crowdBuffer = 16 << 10
)

// dialer makes the client of one node.
func dialer(cfg Config, crowd *atomic.Int32) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) { return rueidis.NewClient(nodeOption(cfg, crowd, addr)) }
}

// nodeOption is what the client of one node is made with: the same for all, but for the address.
func nodeOption(cfg Config, crowd *atomic.Int32, addr string) rueidis.ClientOption {
	option := options(cfg)
	if crowd.Load() > crowdOf {
		option.RingScaleEachConn = crowdRing
		option.ReadBufferEachConn, option.WriteBufferEachConn = crowdBuffer, crowdBuffer
	}
	option.InitAddress = []string{addr}
	option.ForceSingleClient = true
	option.Sentinel = rueidis.SentinelOption{}
	return option
}

// asker makes the client of one sentinel.
func asker(cfg Config) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) { return rueidis.NewClient(sentinelOption(cfg, addr)) }
}

// sentinelOption is what the client of one sentinel is made with.
func sentinelOption(cfg Config, addr string) rueidis.ClientOption {
	option := options(cfg)
	option.RingScaleEachConn = crowdRing
	option.ReadBufferEachConn, option.WriteBufferEachConn = crowdBuffer, crowdBuffer
	option.DialCtxFn = cfg.guard.Sentinels(option.DialCtxFn)
	of := option.Sentinel
	option.InitAddress, option.SelectDB = []string{addr}, 0
	option.Username, option.Password, option.TLSConfig = of.Username, of.Password, of.TLSConfig
	option.ForceSingleClient = true
	option.Sentinel = rueidis.SentinelOption{}
	return option
}

// borrow uses the connections of a client that somebody else has made.
func borrow(client rueidis.Client, o resp.Options) (*resp.Nodes, error) {
	find := func(addr string) (rueidis.Client, error) {
		if n := client.Nodes()[addr]; n != nil {
			return n, nil
		}
		return nil, fmt.Errorf("the given client knows no node %s", addr)
	}
	if client.Mode() != rueidis.ClientModeCluster {
		find = func(string) (rueidis.Client, error) { return client, nil }
	}
	var addrs []string
	for addr := range client.Nodes() {
		addrs = append(addrs, addr)
	}
	if client.Mode() == rueidis.ClientModeSentinel { // it follows the master by itself
		addrs, o.Follows = addrs[:1], true
	}
	return resp.Open(addrs, find, true, o)
}
