package testkit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Soon is how long "at once" may take on a machine that is busy with other tests.
const Soon = 500 * time.Millisecond

// Within fails the test unless c is closed or sends within the limit, stalls left out, and says how long it took.
func Within[T any](t testing.TB, c <-chan T, limit time.Duration, what string) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-c:
	case <-time.After(TooLong):
		require.FailNow(t, "never: "+what)
	}
	took := time.Since(start)
	require.LessOrEqual(t, Ran(start), limit, what)
	return took
}

// Eventually asks until ok says yes. What it waits for has no signal: a server's or an engine's state.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(TooLong)
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for !ok() {
		require.True(t, time.Now().Before(deadline), "never: %s", what)
		<-pause.C
	}
}

// TooLong is how long a test waits for what must happen: whoever waits that long has failed.
const TooLong = 20 * time.Second

// Limited returns a context for what must not block for ever.
func Limited(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	tb.Cleanup(cancel)
	return ctx
}

// Await receives from c or fails the test.
func Await[T any](tb testing.TB, c <-chan T, what string) T {
	tb.Helper()
	timer := time.NewTimer(TooLong)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		require.FailNow(tb, "waited in vain", what)
		panic("unreachable")
	}
}

// LastUntil lets a fault last. It is no way to wait for anything to happen.
func LastUntil(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// WatchScheduler measures how long this process was not scheduled: the function it returns says by how
// much a timer of 5 ms was late at worst, four times over, for a loss is told by the alarm's goroutine to the wheel's, to
// the watchdog's and to who waits, and each has to be scheduled. A holder can be told before its deadline only if all of
// them run; on a machine that leaves them time this is next to nothing.
func WatchScheduler(tb testing.TB) (worst func() time.Duration) {
	tb.Helper()
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const pause = 5 * time.Millisecond
		timer := time.NewTimer(pause)
		defer timer.Stop()
		for {
			at := time.Now().Add(pause)
			timer.Reset(pause)
			select {
			case <-stop:
				return
			case <-timer.C:
				most.Store(max(most.Load(), int64(time.Since(at))))
			}
		}
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return func() time.Duration { return 4 * time.Duration(most.Load()) }
}
