package engine

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// connect finds the servers of a configuration.
func connect(cfg Config, o resp.Options) (*resp.Nodes, error) {
	var nodes *resp.Nodes
	var err error
	if cfg.Client != nil {
		nodes, err = borrow(cfg.Client, o)
	} else {
		nodes, err = resp.Open(ClientOption(cfg).InitAddress, dialer(cfg), false, o)
	}
	if err != nil {
		return nil, err
	}
	if want := cfg.Topology; want == TopologySingle && nodes.Cluster() || want == TopologyCluster && !nodes.Cluster() {
		nodes.Close()
		return nil, fmt.Errorf("%w: the server says it is %s", ErrConfig, map[bool]string{true: "a node of a cluster", false: "not a cluster"}[nodes.Cluster()])
	}
	return nodes, nil
}

// dialer makes the client of one node: the same for all, but for the address.
func dialer(cfg Config) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) {
		option := ClientOption(cfg)
		option.InitAddress = []string{addr}
		option.ForceSingleClient = true
		return rueidis.NewClient(option)
	}
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
	return resp.Open(addrs, find, true, o)
}
