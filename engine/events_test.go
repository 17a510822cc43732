package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// kindsOf reads n events.
func kindsOf(t *testing.T, s *engine.Events, n int) (kinds []engine.EventKind, last engine.Event) {
	t.Helper()
	for range n {
		last = await(t, s.C(), "an event")
		kinds = append(kinds, last.Kind)
	}
	return kinds, last
}

func TestEventsTellOfEveryLease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	events := e.Events(64)
	defer events.Stop()

	before := time.Now()
	ls := acquire(t, e.Lock("a"))
	next := e.Lock("a").AcquireAsync(limited(t))
	ev := await(t, events.C(), "held")
	require.Equal(t, engine.Event{Kind: engine.EventHeld, Name: "a", OwnerID: ls.OwnerID(), At: ev.At}, ev)
	require.WithinDuration(t, before, ev.At, 5*time.Second)
	release(t, ls) // handed over
	second, err := next.Await(limited(t))
	require.NoError(t, err)
	kinds, _ := kindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventReleased, engine.EventHeld}, kinds)
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, second.Release(limited(t)), engine.ErrLost)
	_, ev = kindsOf(t, events, 1)
	require.Equal(t, engine.EventReleased, ev.Kind, "its holder gave it back; that it was gone is the error's business")

	lost := acquire(t, e.Lock("b"))
	_, err = e.Lock("b").ForceRelease(limited(t))
	require.NoError(t, err)
	kinds, ev = kindsOf(t, events, 2)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventLost}, kinds)
	require.Equal(t, "b", ev.Name)
	require.Equal(t, "it was force-released", ev.Cause)
	require.ErrorIs(t, lost.Release(limited(t)), engine.ErrLost)

	held := acquire(t, e.Lock("c"))
	require.NoError(t, e.Close(limited(t)))
	kinds, ev = kindsOf(t, events, 2)
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
	e := openEngine(t, p.Addr())
	events := e.Events(64)
	ls := acquire(t, e.Lock("a", engine.WatchdogLease(2*time.Second)))
	p.Pause()
	kinds, ev := kindsOf(t, events, 3)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventJeopardy, engine.EventLost}, kinds)
	require.NotEmpty(t, ev.Cause)
	p.Resume()
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	events.Stop()
	events.Stop()
	finish(t, s, e)
}

// Nobody reads: the engine goes on, and the reader who comes late is told how much it has missed.
func TestEventsNobodyReadsStopNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	full, other := e.Events(2), e.Events(1000)
	const pairs = 50
	for range pairs {
		release(t, acquire(t, e.Lock("a")))
	}
	require.Equal(t, int64(2*pairs-2), full.Dropped())
	require.Zero(t, other.Dropped())
	kindsOf(t, full, 2)
	release(t, acquire(t, e.Lock("a")))
	_, ev := kindsOf(t, full, 1)
	require.Equal(t, int64(2*pairs-2), ev.Missed)
	_, ev = kindsOf(t, full, 1)
	require.Zero(t, ev.Missed)
	full.Stop()
	release(t, acquire(t, e.Lock("a")))
	_, open := <-full.C()
	require.False(t, open)
	kindsOf(t, other, 2*pairs+4)
	other.Stop()
	finish(t, s, e)
}
