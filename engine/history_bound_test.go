package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// The bound of belief after a deletion by somebody else has two halves. Histories check the later one on
// every grant; here each is met on its own.

func TestBeliefAfterADeletionEndsWithTheNextAnsweredRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ls := testkit.Acquire(t, e.Lock("hot", engine.WatchdogLease(9*time.Second)))
	held := p.Hold(testkit.ScriptCall("renew"), -1)
	ended := ls.Context().Done()
	testkit.Await(t, held.C(), "a renewal on its way")
	s.Do(t, "DEL", "hot")
	require.False(t, ls.Lost(), "nobody has told it")
	p.ReleaseCommands()
	testkit.Await(t, ended, "the end of belief")
	require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
	require.Greater(t, engine.DeadlineOf(ls).Sub(clock.System().Now()), time.Second, "the answer ended it, not the deadline")
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Finish(t, s, e)
}

func TestBeliefAfterADeletionEndsByTheTrustDeadlineIfNoRenewalIsAnswered(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ls := testkit.Acquire(t, e.Lock("hot", engine.WatchdogLease(time.Second)))
	unanswered := p.DropReply(testkit.ScriptCall("renew"), -1)
	s.Do(t, "DEL", "hot")
	deadline := engine.DeadlineOf(ls)
	now := clock.System().Now
	believed := now()
	for at := believed; !ls.Lost(); at = now() {
		believed = at
		testkit.LastUntil(time.Now().Add(time.Millisecond))
	}
	require.Less(t, believed, deadline)
	require.Equal(t, deadline, engine.DeadlineOf(ls), "no renewal of what is gone earns another one")
	require.Positive(t, unanswered.Hits())
	unanswered.Remove()
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Finish(t, s, e)
}

func TestBeliefAfterADeletionIsInheritedByHandOff(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for i := range 200 { // until a turn lasts for as long as three commands take
		l := e.Lock(testkit.Numbered("hot", i), engine.WatchdogLease(3*time.Second))
		first := testkit.Acquire(t, l)
		next := l.AcquireAsync(testkit.Limited(t))
		s.Do(t, "DEL", l.Name())
		_ = first.Release(testkit.Limited(t)) // ErrLost where it was not handed over
		second, err := next.Await(testkit.Limited(t))
		require.NoError(t, err)
		if second.OwnerID() != first.OwnerID() {
			testkit.Release(t, second)
			continue
		}
		require.Equal(t, engine.DeadlineOf(first), engine.DeadlineOf(second), "the deadline is inherited")
		require.False(t, second.Lost())
		testkit.Await(t, second.Context().Done(), "the next answered renewal")
		require.Greater(t, engine.DeadlineOf(second).Sub(clock.System().Now()), time.Second/2, "the answer ended it, not the deadline")
		require.ErrorIs(t, second.Release(testkit.Limited(t)), engine.ErrLost)
		testkit.Finish(t, s, e)
		return
	}
	require.Fail(t, "no lock was ever handed over")
}
