package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestEventsTellOfEveryLease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	events := e.Events(64)
	defer events.Stop()

	before := time.Now()
	ls := testkit.Acquire(t, e.Lock("a"))
	next := e.Lock("a").AcquireAsync(testkit.Limited(t))
	ev := testkit.Await(t, events.C(), "held")
	require.Equal(t, engine.Event{Kind: engine.EventHeld, Name: "a", OwnerID: ls.OwnerID(), At: ev.At}, ev)
	require.WithinDuration(t, before, ev.At, 5*time.Second)
	testkit.Release(t, ls) // handed over
	second, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	kinds, _ := testkit.KindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventReleased, engine.EventHeld}, kinds)
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, second.Release(testkit.Limited(t)), engine.ErrLost)
	kinds, ev = testkit.KindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventReleased, engine.EventLost}, kinds, "its holder gave back what was gone")
	require.Equal(t, "the server says it is not ours", ev.Cause)

	lost := testkit.Acquire(t, e.Lock("b"))
	_, err = e.Lock("b").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	kinds, ev = testkit.KindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventLost}, kinds)
	require.Equal(t, "b", ev.Name)
	require.Equal(t, "it was force-released", ev.Cause)
	require.ErrorIs(t, lost.Release(testkit.Limited(t)), engine.ErrLost)

	held := testkit.Acquire(t, e.Lock("c"))
	require.NoError(t, e.Close(testkit.Limited(t)))
	kinds, ev = testkit.KindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventReleased}, kinds)
	require.Equal(t, held.OwnerID(), ev.OwnerID)
	_, open := <-events.C()
	require.False(t, open, "Close ends the stream")
	_, open = <-e.Events(1).C()
	require.False(t, open)
	require.Empty(t, s.Keys(t))
}

func TestEventsTellOfJeopardyBeforeTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	events := e.Events(64)
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(4*time.Second)))
	p.Pause()
	kinds, ev := testkit.KindsOf(t, events, 3)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventJeopardy, engine.EventLost}, kinds)
	require.NotEmpty(t, ev.Cause)
	p.Resume()
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	events.Stop()
	events.Stop()
	testkit.Finish(t, s, e)
}

// Nobody reads: the engine goes on, and the reader who comes late is told how much it has missed.
func TestEventsNobodyReadsStopNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	full, other := e.Events(2), e.Events(1000)
	const pairs = 50
	for range pairs {
		testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	}
	require.Equal(t, int64(2*pairs-2), full.Dropped())
	require.Zero(t, other.Dropped())
	testkit.KindsOf(t, full, 2)
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	_, ev := testkit.KindsOf(t, full, 1)
	require.Equal(t, int64(2*pairs-2), ev.Missed)
	_, ev = testkit.KindsOf(t, full, 1)
	require.Zero(t, ev.Missed)
	full.Stop()
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	_, open := <-full.C()
	require.False(t, open)
	testkit.KindsOf(t, other, 2*pairs+4)
	other.Stop()
	testkit.Finish(t, s, e)
}
