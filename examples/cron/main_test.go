package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// tick is one run of the job.
type tick struct {
	process int
	token   int64
}

func TestOneProcessRunsTheJobAndAnotherFollows(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ticks := make(chan tick)
	var stop [2]context.CancelFunc
	var ended [2]chan error
	for i := range 2 {
		var ctx context.Context
		ctx, stop[i] = context.WithCancel(t.Context())
		t.Cleanup(stop[i])
		ended[i] = make(chan error, 1)
		go func() {
			ended[i] <- run(ctx, s.Addr(), time.Millisecond, func(ctx context.Context, token int64) error {
				select {
				case ticks <- tick{i, token}:
				case <-ctx.Done():
				}
				return nil
			})
		}()
	}
	next := func() tick {
		t.Helper()
		select {
		case got := <-ticks:
			return got
		case <-time.After(testkit.TooLong):
			require.FailNow(t, "nobody runs the job")
			return tick{}
		}
	}
	first := next()
	for range 20 {
		require.Equal(t, first, next(), "one process, one term")
	}
	stop[first.process]()
	require.NoError(t, <-ended[first.process])
	began := time.Now()
	second := next()
	require.Less(t, time.Since(began), 8*time.Second, "it resigned: nobody waits for its lease")
	require.Equal(t, 1-first.process, second.process)
	require.Greater(t, second.token, first.token)
	stop[second.process]()
	require.NoError(t, <-ended[second.process])
}
