package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// traced notes what the tracer of a scene is told.
func (sc *scene) traced() *[]Span {
	all := &[]Span{}
	sc.e.cfg.Trace = func(ctx context.Context, s Span) {
		if ctx == nil {
			sc.t.Errorf("%v of %q without its ctx", s.Kind, s.Name)
		}
		*all = append(*all, s)
	}
	return all
}

// spans are those of one kind, when everything that is to be told was told.
func (sc *scene) spans(all *[]Span, kind SpanKind) []Span {
	sc.w.Sleep(10 * time.Millisecond)
	return slices.DeleteFunc(slices.Clone(*all), func(s Span) bool { return s.Kind != kind })
}

func TestATracerIsToldOfTheWaitTheHolderAndTheHold(t *testing.T) {
	play(t, func(sc *scene) {
		all := sc.traced()
		start := sc.w.Now()
		first := sc.acquire(sc.e.Lock("a"))
		f := sc.e.Lock("a").AcquireAsync(context.Background())
		sc.w.Sleep(100 * time.Millisecond)
		sc.release(first)
		second, err := result(sc, f)
		sc.wants(nil, err, "the first has released")
		_, err = result(sc, sc.e.Lock("a").TryAcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "it is held")
		sc.w.Sleep(time.Second)
		sc.release(second)

		acquires := sc.spans(all, SpanAcquire)
		require.Len(t, acquires, 3)
		one, two, try := acquires[0], acquires[1], acquires[2]
		require.Equal(t, "a", one.Name)
		require.Equal(t, first.OwnerID(), one.OwnerID)
		require.True(t, one.Busy.IsZero() && one.Holder == "" && one.Err == nil)
		require.WithinDuration(t, sc.w.Wall(start), one.Began, 5*time.Millisecond)
		require.Less(t, one.Ended.Sub(one.Began), 5*time.Millisecond)

		require.Equal(t, first.OwnerID(), two.Holder)
		require.WithinDuration(t, two.Began, two.Busy, 5*time.Millisecond)
		require.InDelta(t, float64(100*time.Millisecond), float64(two.Ended.Sub(two.Began)), float64(5*time.Millisecond))
		require.Equal(t, second.OwnerID(), two.OwnerID)
		require.True(t, errors.Is(try.Err, ErrHeld) && try.OwnerID == "")

		holds := sc.spans(all, SpanHold)
		require.Len(t, holds, 2)
		require.Equal(t, []string{first.OwnerID(), second.OwnerID()}, []string{holds[0].OwnerID, holds[1].OwnerID})
		require.InDelta(t, float64(100*time.Millisecond), float64(holds[0].Ended.Sub(holds[0].Began)), float64(5*time.Millisecond))
		require.InDelta(t, float64(time.Second), float64(holds[1].Ended.Sub(holds[1].Began)), float64(5*time.Millisecond))
		require.True(t, holds[0].Err == nil && holds[1].Err == nil)
	})
}

func TestATracerIsToldOfALossOnceAndWhy(t *testing.T) {
	play(t, func(sc *scene) {
		all := sc.traced()
		ls := sc.acquire(sc.e.Lock("a", WatchdogLease(time.Second)))
		sc.server.twin.Delete("a")
		sc.w.Sleep(time.Second) // a renewal finds that out
		require.True(t, ls.Lost())
		_, err := result(sc, ls.ReleaseAsync())
		sc.wants(ErrLost, err, "it is lost")
		holds := sc.spans(all, SpanHold)
		require.Len(t, holds, 1)
		require.ErrorIs(t, holds[0].Err, ErrLost)
		require.ErrorContains(t, holds[0].Err, "the server says it is not ours")
	})
}

// The release finds out, before any renewal.
func TestATracerIsToldOfALossThatTheReleaseMeets(t *testing.T) {
	play(t, func(sc *scene) {
		all := sc.traced()
		ls := sc.acquire(sc.e.Lock("a"))
		sc.server.twin.Delete("a")
		_, err := result(sc, ls.ReleaseAsync())
		sc.wants(ErrLost, err, "it was deleted")
		holds := sc.spans(all, SpanHold)
		require.Len(t, holds, 1)
		require.ErrorIs(t, holds[0].Err, ErrLost)
	})
}

func TestATracerIsToldOfAnotherClientThatHasTheLock(t *testing.T) {
	play(t, func(sc *scene) {
		all := sc.traced()
		sc.server.twin.Do([]string{"HSET", "a", "another:1", "1"})
		_, err := result(sc, sc.e.Lock("a", MaxWait(time.Second)).AcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "another client has it")
		acquires := sc.spans(all, SpanAcquire)
		require.Len(t, acquires, 1)
		require.True(t, !acquires[0].Busy.IsZero() && acquires[0].Holder == "")
		require.ErrorIs(t, acquires[0].Err, ErrHeld)
		require.Empty(t, sc.spans(all, SpanHold))
	})
}

func TestATracerIsToldOfWhatCloseReleases(t *testing.T) {
	play(t, func(sc *scene) {
		all := sc.traced()
		ls := sc.acquire(sc.e.Lock("a"))
		require.NoError(t, sc.e.Close(context.Background()))
		holds := sc.spans(all, SpanHold)
		require.Len(t, holds, 1)
		require.Equal(t, ls.OwnerID(), holds[0].OwnerID)
		require.NoError(t, holds[0].Err)
	})
}
