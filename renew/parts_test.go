package renew

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

func TestByKindGroupsInTheOrderOfTheKindsFirst(t *testing.T) {
	of := func(lease time.Duration, family resp.Family) Subject {
		s := &subject{name: fmt.Sprint(lease, family)}
		s.Family = family
		s.lease.Store(int64(lease))
		return s
	}
	a, b, c := of(2, resp.FamilyLock), of(1, resp.FamilyLock), of(2, resp.FamilyRead)
	require.Equal(t, []group{
		{kind{2, resp.FamilyLock}, []Subject{a, a, a}},
		{kind{1, resp.FamilyLock}, []Subject{b, b}},
		{kind{2, resp.FamilyRead}, []Subject{c}},
	}, byKind([]Subject{a, a, b, c, b, a}))
	queue := []Subject{a, a}
	groups := byKind(queue)
	require.Equal(t, []group{{kind{2, resp.FamilyLock}, []Subject{a, a}}}, groups)
	require.Same(t, &queue[0], &groups[0].subjects[0], "the common case copies nothing")
}

// The connection of a node is made when the first hold of it is looked at, well before that has to be renewed.
func TestSendersConnectBeforeTheFirstRenewal(t *testing.T) {
	const lease = 30 * time.Second
	r := newRig(t)
	for i := range 20 {
		r.watch(fmt.Sprint("name:", i), lease)
	}
	r.clock.Set(spreadAt(start, lease))
	r.wheel.Settle()
	require.Zero(t, r.due())
	require.Eventually(t, func() bool { return r.connects.Load() == rounds }, long, ms)
	r.renewed(r.next(lease))
	require.EqualValues(t, rounds, r.connects.Load(), "the second connection is made when it is needed")
}

func TestAConnectionThatIsNotMadeHoldsUpItsOwnSendersOnly(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t, func(r *rig) { r.connect = make(chan struct{}) })
	t.Cleanup(func() { close(r.connect) })
	r.watch("name", lease)
	r.pass(lease/2 + bucket + step)
	c := r.take()
	require.True(t, c.retry)
	r.renewed(c)
}

func subjectsOf(all []waiting) (subjects []Subject) {
	for _, w := range all {
		subjects = append(subjects, w.subject)
	}
	return subjects
}

func TestOneFiringHasOnePartForEachNode(t *testing.T) {
	r := newRig(t)
	other := r.secondNode()
	here, there := &subject{name: "here"}, &subject{name: "there"}
	r.Cohorts.mu.Lock()
	var out dueByNode
	for _, s := range []Subject{here, there, here, there} {
		out.of(r.Cohorts, s).add(s, false)
	}
	r.Cohorts.mu.Unlock()
	require.Len(t, out, 2)
	require.Equal(t, Renewer(r), out[0].node)
	require.Equal(t, []Subject{here, here}, subjectsOf(out[0].first))
	require.Equal(t, other, out[1].node)
	require.Equal(t, []Subject{there, there}, subjectsOf(out[1].first))
	require.NotSame(t, out[0].senders, out[1].senders)
}

// A firing may have taken out what is released before the firing looks at it, and what an answer has saved.
func TestWhatChangedAfterAFiringTookItOut(t *testing.T) {
	const lease = 500 * ms
	fixed := func(terms *Terms) { terms.Renew = false }
	r := newRig(t)
	gone := r.watch("gone", lease, func(terms *Terms) { terms.Until = start })
	alive := r.watch("alive", lease, func(terms *Terms) { terms.Until = start })
	require.True(t, r.Forget(gone))
	require.True(t, r.set.Cancel(&alive.item))
	r.fire(start, []Subject{gone, alive})
	require.Equal(t, []event{{what: "ended", name: "alive", at: start}}, r.heard(""), "the others are looked at all the same")
	require.EqualValues(t, 1, r.Stats().Watched)
	r.reschedule(gone)
	require.EqualValues(t, 1, r.Stats().Watched, "what is gone stays gone")
	r.Cohorts.mu.Lock()
	r.plan(gone)
	r.scheduleAll()
	require.Empty(t, r.plans)
	r.Cohorts.mu.Unlock()
	require.EqualValues(t, 1, r.Stats().Watched, "also where it was released between the plan and its execution")
	require.True(t, r.Forget(alive))

	saved := r.watch("saved", lease, fixed)
	require.True(t, r.set.Cancel(&saved.item))
	r.expire(saved) // its deadline is ahead
	require.Empty(t, r.heard("lost"))
	require.EqualValues(t, 1, r.Stats().Watched, "it is looked at again")
	r.clock.Set(saved.Deadline())
	r.expire(saved)
	require.Len(t, r.heard("lost"), 1)
	require.Zero(t, r.Stats().Watched)
	r.expire(saved)
	require.Len(t, r.heard("lost"), 1, "once")
	require.Zero(t, r.Stats().Watched)

	forgotten := r.watch("forgotten", lease, fixed)
	require.True(t, r.Forget(forgotten))
	r.expire(forgotten)
	require.Zero(t, r.Stats().Watched)
	require.Len(t, r.heard("lost"), 1)
}

// One batch may carry answers of every kind: none of them is in another's way.
func TestEveryAnswerOfABatchIsTaken(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	var batch []Subject
	for _, name := range []string{"released", "not ours", "wrong type", "moved", "failed", "renewed"} {
		batch = append(batch, r.watch(name, lease))
	}
	r.subjects[5].next = start
	require.True(t, r.Forget(batch[0]))
	sentAt := start.Add(100 * ms)
	r.clock.Set(start.Add(200 * ms))
	r.answered(false, lease, batch, []resp.Renewal{
		{Code: resp.CodeRenewed, SentAt: sentAt},
		{Code: resp.CodeNotOurs},
		{Code: resp.CodeError, Err: wrongType},
		{Code: resp.CodeError, Err: &resp.ServerError{Class: resp.ClassMoved}},
		{Code: resp.CodeError, Err: unanswered},
		{Code: resp.CodeRenewed, SentAt: sentAt},
	})
	now := r.clock.Now()
	require.Equal(t, []event{
		{what: "lost", name: "not ours", cause: CauseNotOurs, at: now},
		{what: "lost", name: "wrong type", cause: CauseWrongType, at: now},
		{what: "renewed", name: "renewed", at: now, lag: 200 * ms},
	}, r.heard(""))
	moved, failed, renewed := r.subjects[3], r.subjects[4], r.subjects[5]
	require.Equal(t, now, moved.next)
	require.False(t, moved.failing)
	require.Equal(t, now.Add(retryAfter(lease)), failed.next)
	require.True(t, failed.failing)
	require.Equal(t, TrustUntil(sentAt, lease), renewed.Deadline())
	got := r.Stats()
	require.Contains(t, []int64{2, 3}, got.Watched, "what has moved is due, and may be on its way again")
	require.Equal(t, Stats{Watched: got.Watched, Sent: 6, Failed: 2}, got)
}

// A renewal that asked for more than its hold's terms do now may have raised the key's expiry: whoever lowers it is told.
func TestARenewalThatOutlastedItsTermsIsTold(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct {
		name      string
		meanwhile func(r *rig, s *subject) // while a renewal is on its way
		outlasted int
		deadline  bool // it moves
	}{
		{"NothingChanged", func(*rig, *subject) {}, 0, true},
		{"ALongerLease", func(r *rig, s *subject) { r.Change(s, Terms{Lease: 2 * lease, Renew: true}) }, 0, true},
		{"AShorterLease", func(r *rig, s *subject) { r.Change(s, Terms{Lease: lease / 2, Renew: true}) }, 1, false},
		{"NoRenewalsAnyMore", func(_ *rig, s *subject) { s.StopRenewing() }, 1, false},
		{"NoneAndTrustedForLonger", func(r *rig, s *subject) {
			require.True(r.t, r.Cohorts.Extended(s, r.clock.Now(), 2*lease))
			s.StopRenewing()
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			s := r.watch("name", lease)
			call := r.next(lease)
			c.meanwhile(r, s)
			before := s.Deadline()
			r.renewed(call)
			require.Len(t, r.heard("outlasted"), c.outlasted)
			require.Equal(t, c.deadline, s.Deadline() != before)
		})
	}
}

// What is sent at once is one round trip: it is bounded by its work, and a hold of many permits is much.
func TestACallIsBoundedByItsWork(t *testing.T) {
	const lease, ids, holds = 3 * time.Second, 100, 50
	r := newRig(t)
	hung := r.occupy()
	for i := range holds {
		s := r.watch(fmt.Sprint("permits:", i), lease)
		s.Family, s.Field = resp.FamilyPermits, strings.Repeat("p", ids*resp.PermitID)
	}
	r.pass(lease/3 + bucket + step) // all are due, and wait
	r.renewed(hung[0])
	for seen := 0; seen < holds; {
		c := r.take()
		require.LessOrEqual(t, len(c.batch), resp.MaxRenewWork/ids+1)
		seen += len(c.batch)
		r.renewed(c)
	}
}

// A hold may wait for one connection while the other renews it.
func TestWhatTheOtherConnectionHasRenewedIsNotSent(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	hung := r.occupy()
	s := r.watch("name", lease)
	r.pass(hedgeAt(s.sentAt, lease).Add(bucket + step).Sub(r.clock.Now()))
	again := r.take()
	require.True(t, again.retry)
	r.renewed(again)
	r.renewed(hung[0]) // the first connection gets to it now
	c := r.next(lease)
	require.Equal(t, []string{"name"}, c.keys())
	require.False(t, c.at.Before(s.next), "it is due again")
}

// An answer that comes when the next renewal is on its way may prove more than what is known.
func TestALateAnswerProvesWhatItProves(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	c := r.next(lease)
	r.Cohorts.mu.Lock()
	s.next = c.at.Add(1) // as if it were the one before
	r.Cohorts.mu.Unlock()
	r.answer(c, resp.CodeRenewed, nil)
	require.Equal(t, TrustUntil(c.at, lease), s.Deadline())
	require.Equal(t, attemptSent, s.attempt)
}
