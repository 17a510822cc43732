package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestTryOfAShortLeaseOverASlowLink(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.Delay(0, 75*time.Millisecond)
	before := p.Count("EVALSHA")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	begun := time.Now()
	_, err := e.Lock("a", engine.FixedLease(100*time.Millisecond)).TryAcquire(ctx)
	t.Log("Try ended after", time.Since(begun), err, "commands:", p.Count("EVALSHA")-before, "too late:", e.Stats().TooLate)
	require.Less(t, time.Since(begun), 2*time.Second)
}

func TestLostAfterReleaseSaidLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	ls := acquire(t, e.Lock("a"))
	ctx := ls.Context()
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	t.Log("Lost:", ls.Lost(), "cause:", context.Cause(ctx), "Stats.Lost:", e.Stats().Lost)
	require.True(t, ls.Lost())
}

// A lapsed lease whose loss the watchdog has not yet seen: Lost goes from true to false.
func TestClassesOfRedis6(t *testing.T) {}
