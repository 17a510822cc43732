package yardstick

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

// Node is a server: a client that speaks to it alone, and which slots it serves; nil for all.
type Node struct {
	Client rueidis.Client
	Serves func(slot uint16) bool
}

// One is the only node of a deployment.
func One(client rueidis.Client) []Node { return []Node{{Client: client}} }

// Masters asks the first address of option who serves which slot, and connects to each master. Close
// them with [CloseAll].
//
// Errors: the server is not in a cluster, or one of the masters cannot be reached.
func Masters(ctx context.Context, option rueidis.ClientOption) (nodes []Node, err error) {
	option.ForceSingleClient = true
	option.InitAddress = option.InitAddress[:1]
	first, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	ranges, err := readRanges(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("CLUSTER SLOTS: %w", err)
	}
	defer func() {
		if err != nil {
			CloseAll(nodes)
		}
	}()
	byAddr := make(map[string]*[slots]bool)
	for _, r := range ranges {
		serves := byAddr[r.addr]
		if serves == nil {
			serves = new([slots]bool)
			byAddr[r.addr] = serves
			option.InitAddress = []string{r.addr}
			client, err := rueidis.NewClient(option)
			if err != nil {
				return nodes, fmt.Errorf("connect to %s: %w", r.addr, err)
			}
			nodes = append(nodes, Node{client, func(slot uint16) bool { return serves[slot%slots] }})
		}
		for s := r.first; s <= r.last && s < slots; s++ {
			serves[s] = true
		}
	}
	return nodes, nil
}

// CloseAll closes the clients of nodes.
func CloseAll(nodes []Node) {
	for _, n := range nodes {
		n.Client.Close()
	}
}

const slots = 16384

type slotRange struct {
	first, last int64
	addr        string
}

func readRanges(ctx context.Context, client rueidis.Client) (ranges []slotRange, err error) {
	answer, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for _, one := range answer {
		parts, err := one.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, errors.Join(errShape, err)
		}
		first, err1 := parts[0].AsInt64()
		last, err2 := parts[1].AsInt64()
		master, err3 := parts[2].ToArray()
		if err := errors.Join(err1, err2, err3); err != nil || len(master) < 2 || first < 0 {
			return nil, errors.Join(errShape, err)
		}
		host, err1 := master[0].ToString()
		port, err2 := master[1].AsInt64()
		if err := errors.Join(err1, err2); err != nil {
			return nil, errors.Join(errShape, err)
		}
		ranges = append(ranges, slotRange{first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	if len(ranges) == 0 {
		return nil, errors.New("no slot is served")
	}
	return ranges, nil
}

var errShape = errors.New("the answer has an unknown shape")
