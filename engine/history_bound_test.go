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
)

// The bound of belief after a deletion by somebody else has two halves. Histories check the later one on
// every grant; here each is met on its own.

func TestBeliefAfterADeletionEndsWithTheNextAnsweredRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	ls := acquire(t, e.Lock("hot", engine.WatchdogLease(9*time.Second)))
	held := p.Hold(scriptCall("renew"), -1)
	ended := ls.Context().Done()
	await(t, held.C(), "a renewal on its way")
	s.Do(t, "DEL", "hot")
	require.False(t, ls.Lost(), "nobody has told it")
	p.ReleaseCommands()
	await(t, ended, "the end of belief")
	require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
	require.Greater(t, engine.DeadlineOf(ls).Sub(clock.System().Now()), time.Second, "the answer ended it, not the deadline")
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	finish(t, s, e)
}

func TestBeliefAfterADeletionEndsByTheTrustDeadlineIfNoRenewalIsAnswered(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	ls := acquire(t, e.Lock("hot", engine.WatchdogLease(time.Second)))
	unanswered := p.DropReply(scriptCall("renew"), -1)
	s.Do(t, "DEL", "hot")
	deadline := engine.DeadlineOf(ls)
	now := clock.System().Now
	believed := now()
	for at := believed; !ls.Lost(); at = now() {
		believed = at
		lastUntil(time.Now().Add(time.Millisecond))
	}
	require.Less(t, believed, deadline)
	require.Equal(t, deadline, engine.DeadlineOf(ls), "no renewal of what is gone earns another one")
	require.Positive(t, unanswered.Hits())
	unanswered.Remove()
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	finish(t, s, e)
}

func TestBeliefAfterADeletionIsInheritedByHandOff(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	for i := range 200 { // until a turn lasts for as long as three commands take
		l := e.Lock(numbered("hot", i), engine.WatchdogLease(3*time.Second))
		first := acquire(t, l)
		next := l.AcquireAsync(limited(t))
		s.Do(t, "DEL", l.Name())
		_ = first.Release(limited(t)) // ErrLost where it was not handed over
		second, err := next.Await(limited(t))
		require.NoError(t, err)
		if second.OwnerID() != first.OwnerID() {
			release(t, second)
			continue
		}
		require.Equal(t, engine.DeadlineOf(first), engine.DeadlineOf(second), "the deadline is inherited")
		require.False(t, second.Lost())
		await(t, second.Context().Done(), "the next answered renewal")
		require.Greater(t, engine.DeadlineOf(second).Sub(clock.System().Now()), time.Second/2, "the answer ended it, not the deadline")
		require.ErrorIs(t, second.Release(limited(t)), engine.ErrLost)
		finish(t, s, e)
		return
	}
	require.Fail(t, "no lock was ever handed over")
}
