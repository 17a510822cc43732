package resp

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// tableOf makes the Nodes of a cluster that is nowhere: every dial fails.
func tableOf(t *testing.T, c clock.Clock) *Nodes {
	t.Helper()
	o := Options{Clock: c, Lanes: 1}
	o.fill()
	ns := &Nodes{
		opts: o, dial: func(string) (rueidis.Client, error) { return nil, errors.New("nowhere") },
		members: make(map[string]*membership), endpoints: make(map[string]*endpoint),
		suspect: make(chan struct{}, 1), stop: make(chan struct{}), table: new([slotCount]atomic.Pointer[Node]),
	}
	t.Cleanup(ns.Close)
	return ns
}

// evenly is a table of so many masters.
func evenly(masters int, name string) *view {
	v := &view{epoch: unknownEpoch}
	for i := range masters {
		addr := fmt.Sprintf("%s%d:1", name, i)
		v.ranges = append(v.ranges, slotRange{i * slotCount / masters, (i+1)*slotCount/masters - 1, addr})
		v.known = append(v.known, addr)
	}
	return v
}

func TestRedirectionsLeadToSoManyStrangersAndNoMore(t *testing.T) {
	c := clock.NewFake(1)
	ns := tableOf(t, c)
	require.NoError(t, ns.adopt(evenly(3, "master")))
	followed := 0
	for i := range 10_000 {
		if ns.learn(uint16(i), fmt.Sprintf("moved%d:1", i)) != nil {
			followed++
		}
		if ns.member(fmt.Sprintf("ask%d:1", i)) != nil {
			followed++
		}
	}
	require.Equal(t, maxStrangers, followed)
	require.Len(t, ns.members, 3+maxStrangers)
	require.EqualValues(t, 20_000-maxStrangers, ns.Stats().Strangers)
	require.Len(t, ns.suspect, 1, "the table is read")
	require.NotNil(t, ns.learn(5, "master2:1"), "one of the table")
	require.NotNil(t, ns.member("moved0:1"), "one that is followed already")
	require.Len(t, ns.All(), 3+maxStrangers)

	require.NoError(t, ns.adopt(evenly(3, "master"))) // none of them serves a slot
	c.Advance(retireAfter + time.Second)
	require.NoError(t, ns.adopt(evenly(3, "master")))
	require.Len(t, ns.members, 3, "forgotten")
	require.NotNil(t, ns.learn(5, "another:1"))
}

func TestTablesThatNameOthersEachTimeMakeNoNodesWithoutEnd(t *testing.T) {
	ns := tableOf(t, clock.NewFake(1))
	for i := range 4 {
		require.NoError(t, ns.adopt(evenly(maxTableNodes, fmt.Sprintf("t%d-", i))))
		require.Len(t, ns.members, maxTableNodes)
		require.Len(t, ns.endpoints, len(ns.members))
	}
}

// A node that serves no slot any more is kept for a while, unless there are many of them.
func TestNodesWithoutASlotAreKeptUnlessTheyAreMany(t *testing.T) {
	ns := tableOf(t, clock.NewFake(1))
	crowd := new(atomic.Int32)
	ns.opts.Crowd = crowd
	require.NoError(t, ns.adopt(evenly(maxIdle, "a")))
	require.NoError(t, ns.adopt(evenly(3, "b")))
	require.Len(t, ns.members, maxIdle+3)
	require.EqualValues(t, maxIdle+3, crowd.Load(), "who makes their clients knows")
	require.NoError(t, ns.adopt(evenly(3, "c")))
	require.Len(t, ns.members, 3)
	require.EqualValues(t, 3, crowd.Load())
}

// Nodes that send an op round in circles end it: its owner is told, and comes again after a pause.
func TestAnOpIsPassedOnSoOftenAndNoMore(t *testing.T) {
	ns := tableOf(t, clock.NewFake(1))
	require.NoError(t, ns.adopt(evenly(3, "master")))
	from := ns.Owner(0)
	a := newNodeAnswers()
	redirect := func(hops uint8) (*Op, bool) {
		op := nodeOp(OpInspect, "key", a)
		op.hops = hops
		return op, ns.redirect(from, op, &Result{Code: CodeError, Err: &ServerError{Class: ClassMoved, Text: "MOVED 0 master1:1"}})
	}
	op, passed := redirect(maxHops - 1)
	require.True(t, passed)
	require.Equal(t, ClassUnreachable, a.await(t, op).Err.Class, "by a node that is nowhere")
	_, passed = redirect(maxHops)
	require.False(t, passed)
	require.EqualValues(t, 1, ns.Stats().Redirects)
}
