package main

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestTwoProcessesTogetherStayBelowTheLimit(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	const permits, callers = 3, 10
	var mu sync.Mutex
	inside, most, calls := 0, 0, 0
	full := make(chan struct{}) // closed when as many are in as there are permits
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		inside += by
		calls += max(by, 0)
		if inside > most {
			most = inside
			if most == permits {
				close(full)
			}
		}
	}
	call := func(ctx context.Context, _ int) error {
		count(1)
		defer count(-1)
		select {
		case <-full: // who came first waits for the others: the limit is reached, and not only kept
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- run(testkit.Limited(t), s.Addr(), permits, callers, call) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Equal(t, permits, most)
	require.Equal(t, 2*callers, calls)
}

func TestACallStopsWhenItsPermitIsLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	failed := errors.New("told to stop")
	err := run(testkit.Limited(t), s.Addr(), 1, 1, func(ctx context.Context, _ int) error {
		s.Do(t, "FLUSHALL") // the next renewal finds nothing
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, err, engine.ErrLost)
}

// Who is told to stop has failed at nothing: neither those inside nor those that wait.
func TestAProgramThatIsToldToStopEndsInPeace(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ctx, cancel := context.WithCancelCause(testkit.Limited(t))
	require.NoError(t, run(ctx, s.Addr(), 1, 3, func(ctx context.Context, _ int) error {
		cancel(errors.New("interrupt signal received"))
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	left, err := testkit.Open(t, s.Addr()).PermitSemaphore("service").AvailablePermits(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, 1, left, "it is given back")
}
