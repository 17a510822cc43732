package redisproc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MoveSlot moves a slot with its keys to another master, as redis-cli --cluster reshard does, and
// returns when every master knows.
func (c *Cluster) MoveSlot(ctx context.Context, slot uint16, to *Server) error {
	move, err := c.BeginMove(ctx, slot, to)
	if err != nil {
		return err
	}
	return move.Finish(ctx)
}

// A Move is a slot on its way: the source is MIGRATING, the target IMPORTING.
type Move struct {
	cluster  *Cluster
	slot     string
	from, to *Server
	fromID   string
	toID     string
}

// BeginMove marks a slot as moving. Keys stay where they are until Keys; new ones go to the target.
// To the present owner it does nothing, and neither does Finish then.
func (c *Cluster) BeginMove(ctx context.Context, slot uint16, to *Server) (*Move, error) {
	from, err := c.Claimant(ctx, slot)
	if err != nil {
		return nil, err
	}
	m := &Move{cluster: c, slot: strconv.Itoa(int(slot)), from: from, to: to}
	if from == to {
		return m, nil
	}
	fromID, err := from.Command(ctx, "CLUSTER", "MYID")
	if err != nil {
		return nil, err
	}
	toID, err := to.Command(ctx, "CLUSTER", "MYID")
	if err != nil {
		return nil, err
	}
	m.fromID, m.toID = Text(fromID), Text(toID)
	if _, err := to.Command(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", Text(fromID)); err != nil {
		return nil, fmt.Errorf("redisproc: importing slot %s: %w", m.slot, err)
	}
	if _, err := from.Command(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.toID); err != nil {
		return nil, fmt.Errorf("redisproc: migrating slot %s: %w", m.slot, err)
	}
	return m, nil
}

// Keys moves the keys that the source has.
func (m *Move) Keys(ctx context.Context) error {
	for m.from != m.to {
		v, err := m.from.Command(ctx, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
		if err != nil {
			return err
		}
		keys, _ := v.([]any)
		if len(keys) == 0 {
			return nil
		}
		args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), "", "0", "5000", "KEYS"}
		for _, key := range keys {
			args = append(args, Text(key))
		}
		if _, err := m.from.Command(ctx, args...); err != nil {
			return fmt.Errorf("redisproc: MIGRATE: %w", err)
		}
	}
	return nil
}

// Finish moves what is left and gives the slot to the target. The target is told first: the source
// would have nobody to name otherwise. One move finishes after the other: two that make an epoch at the same
// time may make the same one, and whoever then takes a greater one takes back what it gave away.
func (m *Move) Finish(ctx context.Context) error {
	if m.from == m.to {
		return nil
	}
	m.cluster.finishing.Lock()
	defer m.cluster.finishing.Unlock()
	if err := m.Keys(ctx); err != nil {
		return err
	}
	if err := m.awaitEpoch(ctx); err != nil {
		return err
	}
	tell := []*Server{m.to, m.from}
	for _, n := range m.cluster.Nodes() {
		if n != m.to && n != m.from {
			tell = append(tell, n)
		}
	}
	for i, n := range tell {
		_, err := n.Command(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
		// The others hear of it by gossip; replicas refuse, and so does a source that has lost its last slot
		// and follows the target already; dead ones do not answer.
		if err != nil && i < 2 && !strings.Contains(err.Error(), "only with masters") {
			return fmt.Errorf("redisproc: SETSLOT NODE: %w", err)
		}
	}
	return m.agreed(ctx)
}

// agreeTimes is how often in a row the masters must have agreed before a move counts as over.
const agreeTimes = 3

// agreed waits until every master that answers sees the slot on the target, and knows the epoch of that
// claim; it tells those again that do not see it. A claim of the source that was on its way when the target
// was told may be newer than what the target knew, and win: then they would disagree for ever.
//
// A master that was told of the target and does not know its epoch yet believes the next message of a former
// owner that is late. If that owner has got a newer epoch meanwhile, for another slot, the master tells the
// target, when that claims the slot, that it is the former owner's: and the target, which did not know that
// epoch, deletes all keys of the slot. So the next move must not make an epoch before this one is known.
func (m *Move) agreed(ctx context.Context) error {
	slot, err := strconv.Atoi(m.slot)
	if err != nil {
		return err
	}
	inARow := 0
	return poll(ctx, func() error {
		epoch, err := m.to.epochOf(ctx, m.toID)
		if err != nil {
			return err
		}
		for _, n := range m.cluster.Masters {
			v, err := n.Command(ctx, "CLUSTER", "SLOTS")
			if err != nil {
				continue // it is dead, or stands still
			}
			if seen := m.cluster.byPort(portOfSlot(v, int64(slot))); seen != m.to {
				inARow = 0
				_, told := n.Command(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
				return fmt.Errorf("redisproc: %s sees slot %s elsewhere: %w", n.Addr(), m.slot, told)
			}
			if heard, err := n.epochOf(ctx, m.toID); err == nil && heard < epoch {
				inARow = 0
				return fmt.Errorf("redisproc: %s knows of epoch %d of %s, which has %d", n.Addr(), heard, m.to.Addr(), epoch)
			}
		}
		if inARow++; inARow < agreeTimes {
			return errors.New("redisproc: agreed just now")
		}
		return nil
	})
}

// awaitEpoch returns when the target has heard of the source's epoch. It makes one for its claim, a greater
// one than all that it knows; with a smaller one than the source's it would lose the slot again, at any
// time later, to the first node that has heard only of the source's claim.
func (m *Move) awaitEpoch(ctx context.Context) error {
	return poll(ctx, func() error {
		own, err := m.from.epochOf(ctx, m.fromID)
		if err != nil {
			return err
		}
		heard, err := m.to.epochOf(ctx, m.fromID)
		if err == nil && heard < own {
			err = fmt.Errorf("redisproc: %s knows of epoch %d of %s, which has %d", m.to.Addr(), heard, m.from.Addr(), own)
		}
		return err
	})
}

// epochOf returns the epoch of a node's claims as s knows it.
func (s *Server) epochOf(ctx context.Context, id string) (int, error) {
	const field = 6
	v, err := s.Command(ctx, "CLUSTER", "NODES")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(Text(v)) {
		if words := strings.Fields(line); len(words) > field && words[0] == id {
			return strconv.Atoi(words[field])
		}
	}
	return 0, fmt.Errorf("redisproc: %s does not know node %s", s.Addr(), id)
}

// Add introduces a cluster-enabled server as a further master, without slots. The caller stops it.
func (c *Cluster) Add(ctx context.Context, s *Server) error {
	if _, err := c.Masters[0].Command(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.port)); err != nil {
		return err
	}
	c.Masters = append(c.Masters, s)
	return c.AwaitOK(ctx)
}

// AwaitAgreement returns when every node that answers sees the same owner of every slot. Replicas learn
// of a move by gossip only, and claim what they know of when they are promoted.
func (c *Cluster) AwaitAgreement(ctx context.Context) error {
	return poll(ctx, func() error {
		first := ""
		for _, n := range c.Nodes() {
			v, err := n.Command(ctx, "CLUSTER", "NODES")
			if err != nil {
				continue
			}
			switch owners := slotOwners(Text(v)); {
			case first == "":
				first = owners
			case owners != first:
				return fmt.Errorf("redisproc: nodes disagree:\n%s\n%s", first, owners)
			}
		}
		return nil
	})
}

// slotOwners renders who serves what by an answer of CLUSTER NODES: ids with their ranges, sorted. A slot
// on its way, in brackets, is known to its source and target only.
func slotOwners(nodes string) string {
	const fields = 8 // before the ranges
	var owners []string
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) <= fields {
			continue
		}
		ranges := slices.DeleteFunc(words[fields:], func(w string) bool { return strings.HasPrefix(w, "[") })
		owners = append(owners, words[0]+" "+strings.Join(ranges, " "))
	}
	slices.Sort(owners)
	return strings.Join(owners, "\n")
}
