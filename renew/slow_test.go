package renew

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// The promise of WatchdogLease: also when one of the two connections answers nothing at all.
func TestNoHoldIsLostWhileRoundTripsStayBelowTheirLimit(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, 1500 * ms, 3 * time.Second, 30 * time.Second} {
		for _, hung := range []bool{false, true} {
			t.Run(fmt.Sprintf("lease=%v/hung=%v", lease, hung), func(t *testing.T) {
				slowLine(t, attemptLimit(lease)-2*step, hung, Terms{Lease: lease, Renew: true})
			})
		}
	}
}

// The kinds of holds that one engine has do not wait for each other's round trips.
func TestManyKindsOfHoldsAreKeptOverASlowLine(t *testing.T) {
	var all []Terms
	for lease := 2 * time.Second; lease < 20*time.Second; lease += time.Second {
		all = append(all, Terms{Lease: lease, Renew: true})
	}
	slowLine(t, 600*ms, false, all...)
}

// FAULTS rule 5, C-074: a connection that hangs costs those who share it, not holds with a shorter
// lease that come due meanwhile: there is a second connection.
func TestC074_HungRenewalOfALongLeaseDoesNotLoseAShortOne(t *testing.T) {
	all := []Terms{{Lease: time.Second, Renew: true}}
	for range 10 { // more than have a round of their own
		all = append(all, Terms{Lease: 6 * time.Second, Renew: true})
	}
	slowLine(t, 20*ms, true, all...)
}

// slowLine renews holds over a line on which everything takes so long, and the first connection may hang. The first has
// the shortest lease.
func slowLine(t *testing.T, rtt time.Duration, hung bool, holds ...Terms) {
	for seed := range uint64(5) {
		w := world.New(seed, 0)
		line := &slowNode{w: w, rtt: rtt, hung: hung}
		over := w.Now().Add(6 * holds[0].Lease)
		w.Go("test", func() {
			timers, err := wheel.New(wheel.Config{Clock: w, NoTimingWheel: true})
			require.NoError(t, err)
			k := New(w, timers, func(Subject) Renewer { return line }, line)
			for i, terms := range holds {
				s := &subject{name: fmt.Sprint("name:", i)}
				s.Field, terms.SentAt = "field", w.Now()
				k.Watch(s, terms)
			}
		})
		require.NoError(t, w.Run(func() bool { return !w.Now().Before(over) }))
		w.Close()
		require.Zero(t, line.lost, "seed %d", seed)
		if !hung {
			require.Zero(t, line.heldBack, "seed %d: a line is slow, the server is not", seed)
		}
		require.GreaterOrEqual(t, line.renewed, 5, "seed %d", seed)
	}
}

// A slowNode answers every renewal after a while, in a simulated world, and hears what the watchdog says.
type slowNode struct {
	w             *world.World
	rtt           time.Duration
	hung          bool
	lost, renewed int
	heldBack      int // how often acquires were held back
}

func (n *slowNode) Connect() {}

func (n *slowNode) HoldBack(clock.Instant) { n.heldBack++ }

func (n *slowNode) Renew(retry bool, limit time.Duration, batch []resp.Renewal) {
	at, takes, code, err := n.w.Now(), n.rtt, resp.CodeRenewed, (*resp.ServerError)(nil)
	if n.hung && !retry {
		takes, code, err = limit, resp.CodeError, unanswered
	}
	n.w.Sleep(takes)
	for i := range batch {
		batch[i].Code, batch[i].Err, batch[i].SentAt = code, err, at
	}
}

func (n *slowNode) Lost(Subject, Cause)   { n.lost++ }
func (n *slowNode) Jeopardy(Subject)      {}
func (n *slowNode) Renewed(all []Success) { n.renewed += len(all) }
func (n *slowNode) Ended(Subject)         {}
func (n *slowNode) Outlasted(Subject)     {}

// What a renewal proves is what it asked for, and no more than the hold is renewed with by now.
func TestARenewalProvesNoMoreThanTheTermsThatChangedMeanwhile(t *testing.T) {
	r := newRig(t)
	s := r.watch("name", 30*time.Second)
	c := r.next(time.Minute)
	r.Change(s, Terms{Lease: 3 * time.Second, Renew: true})
	r.Lower(s, TrustUntil(r.clock.Now(), 3*time.Second))
	lowered := s.Deadline()
	require.Equal(t, TrustUntil(r.clock.Now(), 3*time.Second), lowered)
	r.renewed(c)
	require.Equal(t, lowered, s.Deadline())
	short := r.next(2 * time.Second)
	require.Equal(t, 3*time.Second, short.lease)
	r.Change(s, Terms{Lease: 30 * time.Second, Renew: true})
	r.renewed(short)
	require.Equal(t, TrustUntil(short.at, 3*time.Second), s.Deadline())
	c = r.next(2 * time.Second)
	require.Equal(t, 30*time.Second, c.lease)
	r.renewed(c)
	require.Equal(t, TrustUntil(c.at, 30*time.Second), s.Deadline())
	require.Empty(t, r.heard("jeopardy"))
}

func TestTheEndOfRenewalsIsToldAndMayBePutOff(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Until = start.Add(lease) })
	for r.count("ended") == 0 {
		r.pass(step)
		if r.due() > 0 {
			r.renewed(r.take())
		}
	}
	require.False(t, s.Renewing())
	r.Change(s, Terms{Lease: lease, Renew: true})
	c := r.next(step + bucket)
	require.True(t, s.Renewing(), "at once: it was due")
	r.renewed(c)
	require.Equal(t, TrustUntil(c.at, lease), s.Deadline())
	require.Len(t, r.heard("ended"), 1)
}

func TestLeaseForIsTheLeastLeaseThatIsTrustedForSoLong(t *testing.T) {
	for d := time.Duration(1); d < 24*time.Hour; d += d/7 + 1 {
		lease := LeaseFor(d)
		require.False(t, TrustUntil(0, lease).Before(clock.Instant(d)), "%v", d)
		require.True(t, TrustUntil(0, lease-3*ms).Before(clock.Instant(d)), "%v: %v is more than the least", d, lease)
		require.Zero(t, lease%ms)
	}
}
