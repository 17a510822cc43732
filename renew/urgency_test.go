package renew

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

func TestUrgencyGivesTheEarliestDeadlineFirst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it must repeat
	var u urgency
	var there []clock.Instant
	pop := func() {
		slices.Sort(there)
		require.Equal(t, there[0], u.pop().deadline)
		there = there[1:]
	}
	for range 1000 {
		for range rnd.IntN(4) {
			w := waiting{deadline: clock.Instant(rnd.IntN(300))}
			u.push(w)
			there = append(there, w.deadline)
		}
		if len(there) > 0 {
			pop()
		}
		require.Equal(t, len(there), u.len())
	}
	for len(there) > 0 {
		pop()
	}
	require.Zero(t, u.len())
}

func TestUrgencyGivesThoseOfOneDeadlineInTheOrderInWhichTheyCame(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // it must repeat
	var u urgency
	var there []waiting
	for came := range 200 {
		for range rnd.IntN(6) {
			w := waiting{deadline: clock.Instant(rnd.IntN(5)), work: came}
			u.push(w)
			there = append(there, w)
		}
		if rnd.IntN(3) > 0 {
			continue
		}
		slices.SortStableFunc(there, func(a, b waiting) int { return cmp.Compare(a.deadline, b.deadline) })
		for range min(5, len(there)) {
			require.Equal(t, there[0], u.pop())
			there = there[1:]
		}
	}
	require.Equal(t, len(there), u.len())
}

// What was taken is not kept from the collector.
func TestUrgencyForgetsWhatItGave(t *testing.T) {
	var u urgency
	for range 3 {
		for i := range 10 {
			u.push(waiting{subject: &subject{}, deadline: clock.Instant(i)})
		}
		u.pop()
	}
	for u.len() > 0 {
		u.pop()
	}
	for _, part := range [][]waiting{u.sorted, u.fresh, u.spare} {
		for _, w := range part[:cap(part)] {
			require.Nil(t, w.subject)
		}
	}
}

func BenchmarkUrgency(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it must repeat
	var u urgency
	const due = 5000
	for b.Loop() {
		for range due {
			u.push(waiting{deadline: clock.Instant(rnd.Int64())})
		}
		for range due {
			u.pop()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/due, "ns/each")
}

// A loaded node does so many renewals a second, one call after another, in a simulated world.
type loadedNode struct {
	w         *world.World
	perSecond int
	fails     *resp.ServerError
	busy      clock.Instant // until when it works at what it has
	hangs     bool          // the first connection
	heldBack  int
	jeopardy  map[time.Duration]int // by lease
	lost      map[time.Duration]int
	renewed   map[time.Duration]int
}

func (n *loadedNode) Connect() {}

func (n *loadedNode) Renew(retry bool, limit time.Duration, batch []resp.Renewal) {
	at := n.w.Now()
	if n.hangs && !retry {
		n.w.Sleep(limit)
		for i := range batch {
			batch[i].Code, batch[i].Err = resp.CodeError, &resp.ServerError{Class: resp.ClassUnknown}
		}
		return
	}
	n.busy = max(n.busy, at).Add(time.Duration(len(batch)) * time.Second / time.Duration(n.perSecond))
	n.w.Sleep(n.busy.Sub(at))
	for i := range batch {
		batch[i].Code, batch[i].SentAt = resp.CodeRenewed, at
		if n.fails != nil {
			batch[i].Code, batch[i].Err = resp.CodeError, n.fails
		}
	}
}

func (n *loadedNode) HoldBack(until clock.Instant) {
	if until.After(n.w.Now()) {
		n.heldBack++
	}
}

func (n *loadedNode) Lost(s Subject, _ Cause) { n.lost[s.Watched().Lease()]++ }
func (n *loadedNode) Jeopardy(s Subject)      { n.jeopardy[s.Watched().Lease()]++ }
func (n *loadedNode) Renewed(all []Success) {
	for _, one := range all {
		n.renewed[one.Subject.Watched().Lease()]++
	}
}

func (n *loadedNode) Ended(Subject)     {}
func (n *loadedNode) Outlasted(Subject) {}

// hold has so many locks of each lease renewed for a while.
func (n *loadedNode) hold(t *testing.T, each map[time.Duration]int, leases []time.Duration, takes time.Duration) {
	t.Helper()
	n.w = world.New(1, 0)
	n.jeopardy, n.lost, n.renewed = make(map[time.Duration]int), make(map[time.Duration]int), make(map[time.Duration]int)
	over := n.w.Now().Add(takes)
	n.w.Go("test", func() {
		timers, err := wheel.New(wheel.Config{Clock: n.w, NoTimingWheel: true})
		require.NoError(t, err)
		k := New(n.w, timers, func(Subject) Renewer { return n }, n)
		for _, lease := range leases {
			for i := range each[lease] {
				s := &subject{name: fmt.Sprint(lease, i)}
				s.Field = "field of " + s.name
				k.Watch(s, Terms{Lease: lease, Renew: true, SentAt: n.w.Now()})
			}
		}
	})
	require.NoError(t, n.w.Run(func() bool { return !n.w.Now().Before(over) }))
	n.w.Close()
}

// Two hundred thousand renewals are due in each ten seconds, and the server does a little less: they come late. A few
// with short leases have no time for that.
func TestShortLeasesDoNotWaitBehindLongOnes(t *testing.T) {
	const short, long = 2 * time.Second, 30 * time.Second
	n := &loadedNode{perSecond: 19_000}
	n.hold(t, map[time.Duration]int{short: 300, long: 200_000}, []time.Duration{long, short}, 40*time.Second)
	require.Zero(t, n.jeopardy[short])
	require.Zero(t, n.lost[short]+n.lost[long])
	require.GreaterOrEqual(t, n.renewed[short], 300*40*4/3) // in each two thirds of a second and the 0.1 s that a call takes
	require.Positive(t, n.heldBack, "nobody asks for more meanwhile")
}

func TestAcquiresAreNotHeldBackWhileRenewalsAreSentInTime(t *testing.T) {
	const lease = 6 * time.Second
	n := &loadedNode{perSecond: 20_000}
	n.hold(t, map[time.Duration]int{lease: 2000}, []time.Duration{lease}, 20*time.Second)
	require.Positive(t, n.renewed[lease])
	require.Zero(t, n.heldBack)
}

// Where renewals are refused it helps none of them to hold acquires back. Where they have no answer in time, acquires may be
// why.
func TestAcquiresAreHeldBackForRenewalsWithoutAnAnswerAndNotForThoseRefused(t *testing.T) {
	const lease = 6 * time.Second
	for _, class := range []resp.Class{resp.ClassOther, resp.ClassUnknown} {
		n := &loadedNode{perSecond: 1000, fails: &resp.ServerError{Class: class}}
		n.hold(t, map[time.Duration]int{lease: 20_000}, []time.Duration{lease}, 20*time.Second)
		require.Equal(t, 20_000, n.lost[lease])
		require.Equal(t, class == resp.ClassUnknown, n.heldBack > 0, "%v", class)
	}
}

// One connection that hangs is no server that has too much to do: the other one renews, and nobody waits.
func TestAcquiresAreNotHeldBackForOneConnectionThatHangs(t *testing.T) {
	const lease = 6 * time.Second
	n := &loadedNode{perSecond: 100_000, hangs: true}
	n.hold(t, map[time.Duration]int{lease: 2000}, []time.Duration{lease}, 30*time.Second)
	require.Zero(t, n.lost[lease])
	require.Positive(t, n.renewed[lease])
	require.LessOrEqual(t, n.heldBack, rounds, "before the other one was heard")
}

func TestHoldBackLastsTwiceAsLongAsTheCall(t *testing.T) {
	require.Equal(t, 100*ms, holdBack(0))
	require.Equal(t, 400*ms, holdBack(200*ms))
	require.Equal(t, 2*time.Second, holdBack(time.Minute))
}
