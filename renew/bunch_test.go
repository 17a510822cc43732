package renew

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// Those of one bunch come in one call, one behind the other, each time.
func TestThoseGrantedTogetherAreRenewedTogetherForEver(t *testing.T) {
	const lease, n = 30 * time.Second, 5 * bunchMost
	r := newRig(t)
	for i := range n {
		r.watch(fmt.Sprintf("%04d", i), lease)
		r.subjects[i].Field = "field"
	}
	times := make(map[string]int, n)
	for all := 0; all < 10*n; {
		c := r.next(lease)
		keys := c.keys()
		for some := range slices.Chunk(keys, bunchMost) {
			require.Len(t, some, bunchMost)
			require.True(t, slices.IsSorted(some), "%v", some)
			require.Zero(t, bunchOf(t, some[0])-bunchOf(t, some[bunchMost-1]))
		}
		for _, key := range keys {
			times[key]++
		}
		all += len(keys)
		r.renewed(c)
	}
	require.Len(t, times, n)
	for key, some := range times {
		require.GreaterOrEqual(t, some, 7, key)
	}
	require.Empty(t, r.heard("jeopardy"))
}

// bunchOf says of which bunch a key is, in the order of their watching.
func bunchOf(t *testing.T, key string) int {
	t.Helper()
	var i int
	_, err := fmt.Sscanf(key, "%d", &i)
	require.NoError(t, err)
	return i / bunchMost
}

// A sizedNode is a loaded node that looks whether all of an owner id come in one call.
type sizedNode struct {
	loadedNode
	t    *testing.T
	size int
	full int // calls that could have renewed no more
	all  int
}

func (n *sizedNode) Renew(retry bool, limit time.Duration, batch []resp.Renewal) {
	require.LessOrEqual(n.t, len(batch), resp.MaxRenewWork)
	if len(batch) > resp.MaxRenewWork-2*n.size {
		n.full++
	}
	for some := range slices.Chunk(batch, n.size) {
		require.Len(n.t, some, n.size)
		require.Equal(n.t, some[0].Field, some[n.size-1].Field)
	}
	if n.all++; n.all%20 == 0 { // it stands still for a moment, and more comes due than a call renews
		n.busy = max(n.busy, n.w.Now()).Add(250 * time.Millisecond)
	}
	n.loadedNode.Renew(retry, limit, batch)
}

// More is due in one moment than a call renews.
func TestTheEndOfACallPartsNoBunch(t *testing.T) {
	const lease, size, owners = 3 * time.Second, 24, 800
	n := &sizedNode{t: t, size: size, loadedNode: loadedNode{w: world.New(1, 0), perSecond: 60_000, renewed: make(map[time.Duration]int)}}
	over := n.w.Now().Add(5 * lease)
	n.w.Go("test", func() {
		timers, err := wheel.New(wheel.Config{Clock: n.w, NoTimingWheel: true})
		require.NoError(t, err)
		k := New(n.w, timers, func(Subject) Renewer { return n }, n)
		for i := range owners * size {
			s := &subject{name: fmt.Sprint(i)}
			s.Field = fmt.Sprint("field ", i/size)
			k.Watch(s, Terms{Lease: lease, Renew: true, SentAt: n.w.Now()})
		}
	})
	require.NoError(t, n.w.Run(func() bool { return !n.w.Now().Before(over) }))
	n.w.Close()
	require.Greater(t, n.full, 10)
	require.Greater(t, n.renewed[lease], 10*owners*size)
}

// What fails together was not granted together.
func TestAnOutageMakesNoBunches(t *testing.T) {
	const lease, n = 30 * time.Second, 200
	r := newRig(t)
	for i := range n {
		r.watch(fmt.Sprint(i), lease)
	}
	r.pass(lease / 3)
	for r.due() > 0 {
		r.answer(r.take(), resp.CodeError, &resp.ServerError{Class: resp.ClassOther})
	}
	for seen := 0; seen < n; {
		c := r.next(lease / 3)
		seen += len(c.batch)
		r.renewed(c)
	}
	dues := make(map[clock.Instant]bool, n)
	for _, s := range r.subjects {
		dues[s.next] = true
	}
	require.Len(t, dues, n)
}

func TestABunchHasOneLease(t *testing.T) {
	var f bunch
	h := &Hold{Field: "field"}
	require.False(t, f.joins(h, start, time.Second))
	require.True(t, f.joins(h, start, time.Second))
	require.False(t, f.joins(h, start, 2*time.Second))
	require.False(t, f.joins(h, start+1, 2*time.Second))
	require.True(t, f.joins(h, start+1, 2*time.Second))
	require.False(t, f.joins(&Hold{Field: "another"}, start+1, 2*time.Second))
}
