package fault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// serviceEnv makes the test binary a service that ends as most do: a signal ends its context. Its value is the server's
// address.
const serviceEnv = "HOLDFAST_TEST_SERVICE"

// serviceLocks is how many locks the service has in each way: alone, as one MultiLock, and with somebody who waits.
const serviceLocks = 1000

// runService holds its locks until a signal comes.
func runService(addr string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{addr}})
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	code := 0
	func() {
		defer func() { // as "defer e.Close(ctx)", and its error is told
			if err := e.Close(ctx); err != nil {
				fmt.Println("close:", err)
				code = 1
			}
		}()
		var futures []*engine.Future[*engine.Lease]
		var several []string
		for i := range serviceLocks {
			futures = append(futures, e.Lock(testkit.Numbered("one", i)).AcquireAsync(ctx))
			several = append(several, testkit.Numbered("several", i))
		}
		_, err1 := e.MultiLock(several...).Acquire(ctx)
		_, err2 := engine.AllLeases(futures...).Await(ctx)
		if err := errors.Join(err1, err2); err != nil {
			fmt.Println("acquire:", err)
			return
		}
		for i := range serviceLocks {
			e.Lock(testkit.Numbered("one", i)).AcquireAsync(ctx)
		}
		fmt.Println("held")
		<-ctx.Done()
	}()
	return code
}

// TestASignalLeavesNoLockBehind: a service whose context a signal ends closes its engine with that context, as
// everybody writes it. Its locks are free when it has ended.
func TestASignalLeavesNoLockBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	service := exec.Command(os.Args[0], "-test.run=^$") //nolint:gosec // this very binary
	service.Env = append(os.Environ(), serviceEnv+"="+s.Addr())
	stdout, err := service.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, service.Start())
	t.Cleanup(func() { _ = service.Process.Kill() })
	said := bufio.NewScanner(stdout)
	require.True(t, said.Scan(), "it holds its locks")
	require.Equal(t, "held", said.Text())
	require.Equal(t, "2000", s.Do(t, "DBSIZE"))
	require.NoError(t, service.Process.Signal(os.Interrupt))
	require.False(t, said.Scan(), said.Text())
	require.NoError(t, service.Wait())
	require.Equal(t, "0", s.Do(t, "DBSIZE"), "locks are left")
}

// TestCloseInAnEndedContextIsBounded: where the server is silent, releases have CloseGrace, and no more.
func TestCloseInAnEndedContextIsBounded(t *testing.T) {
	t.Parallel()
	for grace, most := range map[time.Duration]time.Duration{
		-1: 500 * time.Millisecond, 0: 2 * time.Second, 700 * time.Millisecond: 1700 * time.Millisecond,
	} {
		t.Run(grace.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr(), func(c *engine.Config) { c.CloseGrace = grace })
			for i := range 20 {
				testkit.Acquire(t, e.Lock(testkit.Numbered("held", i)))
			}
			waiter := e.Lock("held:0").AcquireAsync(t.Context())
			p.Pause()
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			err := e.Close(ended)
			took := time.Since(began)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "20 commands unanswered")
			require.ErrorIs(t, testkit.GetError(t, waiter), engine.ErrClosed)
			require.Less(t, testkit.Ran(began), most)
			if grace >= 0 {
				require.GreaterOrEqual(t, took, max(grace, 700*time.Millisecond))
			}
			p.Resume()
			require.NoError(t, testkit.Close(e))
			require.Empty(t, s.Keys(t), "the rest ended by itself")
		})
	}
}

// TestCloseGraceBesideACtxThatEndsLater: a deadline that lies ahead is kept to; a ctx that is cancelled meanwhile leaves
// what is left of the grace, which is counted from the call.
func TestCloseGraceBesideACtxThatEndsLater(t *testing.T) {
	t.Parallel()
	const grace = 2 * time.Second
	for name, c := range map[string]struct {
		end         func(ctx context.Context) (context.Context, context.CancelFunc)
		least, most time.Duration
	}{
		"Deadline": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 400*time.Millisecond)
			}, 400 * time.Millisecond, grace - 200*time.Millisecond,
		},
		"Cancelled": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(1200*time.Millisecond, cancel) // counted from then it would be too late
				return ctx, cancel
			}, grace, grace + 800*time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr(), func(c *engine.Config) { c.CloseGrace = grace })
			testkit.Acquire(t, e.Lock("held"))
			p.Pause()
			ctx, cancel := c.end(t.Context())
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, e.Close(ctx), ctx.Err())
			took := time.Since(began)
			require.GreaterOrEqual(t, took, c.least)
			require.Less(t, testkit.Ran(began), c.most)
			p.Resume()
			require.NoError(t, testkit.Close(e))
			require.Empty(t, s.Keys(t))
		})
	}
}
