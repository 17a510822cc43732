package fault_test

import (
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// holdMany takes n locks at once.
func holdMany(tb testing.TB, e *engine.Engine, n int, opts ...engine.Option) []*engine.Lease {
	tb.Helper()
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("many", i), opts...).AcquireAsync(tb.Context())
	}
	held := make([]*engine.Lease, n)
	for i, f := range futures {
		ls, err := f.Await(testkit.Limited(tb))
		require.NoError(tb, err)
		held[i] = ls
	}
	return held
}

// releaseMany gives back what is left of them.
func releaseMany(tb testing.TB, held []*engine.Lease) {
	tb.Helper()
	futures := make([]*engine.Future[struct{}], len(held))
	for i, ls := range held {
		futures[i] = ls.ReleaseAsync()
	}
	for i, f := range futures {
		if _, err := f.Await(testkit.Limited(tb)); err != nil {
			require.ErrorIs(tb, err, engine.ErrLost)
			require.True(tb, held[i].Lost())
		}
	}
}

// TestC164_ManyHeldLocksCostNoGoroutineAndFewCommands: the same as a million, as far as a test can go: a
// held lock is a place in a batch, and nothing of its own.
func TestC164_ManyHeldLocksCostNoGoroutineAndFewCommands(t *testing.T) {
	const n, lease = 20_000, 6 * time.Second
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	first := testkit.Acquire(t, e.Lock("first", engine.WatchdogLease(3*time.Second)))
	renewed := e.Stats().Renewals.Sent
	testkit.Eventually(t, "the sender runs", func() bool { return e.Stats().Renewals.Sent > renewed })
	goroutines := runtime.NumGoroutine()
	held := holdMany(t, e, n, engine.WatchdogLease(lease))
	before, from := testkit.CallsOf(t, s, "evalsha"), time.Now()
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "three renewals each", func() bool { return e.Stats().Renewals.Sent > sent+3*n })
	periods := int64(time.Since(from)/(lease/3)) + 1
	require.Zero(t, testkit.LostOf(held))
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+10)
	require.Less(t, testkit.CallsOf(t, s, "evalsha")-before, periods*n/40, "renewals travel many in a command")
	testkit.Release(t, first)
	releaseMany(t, held)
	testkit.Finish(t, s, e)
}

// TestC172_MemoryIsTightAndTheCollectorThrashes: the collector runs without a pause. Locks are renewed
// in time, and granted.
func TestC172_MemoryIsTightAndTheCollectorThrashes(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	const lease = 6 * time.Second
	held := holdMany(t, e, 2000, engine.WatchdogLease(lease))
	was := debug.SetMemoryLimit(1)
	defer debug.SetMemoryLimit(was)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	collections, sent := m.NumGC, e.Stats().Renewals.Sent
	for i := 0; e.Stats().Renewals.Sent < sent+3*int64(len(held)); i++ {
		testkit.Release(t, testkit.Acquire(t, e.Lock(testkit.Numbered("load", i%100))))
	}
	runtime.ReadMemStats(&m)
	require.Greater(t, m.NumGC, collections+20, "it runs all the time")
	require.Zero(t, testkit.LostOf(held))
	debug.SetMemoryLimit(was)
	releaseMany(t, held)
	testkit.Finish(t, s, e)
}

// A narrow link forwards so many bytes a second towards the server, over all its connections together:
// were it so many on each, an engine that dials anew would widen it.
type narrowLink struct {
	listener net.Listener
	running  sync.WaitGroup

	mu   sync.Mutex
	rate int64 // 0: all
	free time.Time
}

func (p *narrowLink) narrow(bytesPerSecond int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate, p.free = bytesPerSecond, time.Now()
}

// passed says when n bytes have passed that now wait at the link.
func (p *narrowLink) passed(n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.rate == 0 {
		return now
	}
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	return p.free
}

func runNarrow(tb testing.TB, backend string) *narrowLink {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &narrowLink{listener: l}
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", backend)
			if err != nil {
				_ = client.Close()
				continue
			}
			_ = client.(*net.TCPConn).SetReadBuffer(4096)
			p.running.Go(func() { p.copy(server, client, true) })
			p.running.Go(func() { p.copy(client, server, false) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

// copy forwards until one side ends.
func (p *narrowLink) copy(to, from net.Conn, narrow bool) {
	buf := make([]byte, 2048)
	for {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
		if narrow {
			testkit.LastUntil(p.passed(n))
		}
	}
}

// TestC170_ALinkTooNarrowForItsLocks: more is held than can be renewed over the link. Whoever loses is
// told before the server lets go, and when the link is wide again everything works.
func TestC170_ALinkTooNarrowForItsLocks(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := redistest.Run(t, redistest.Options{})
	p := runNarrow(t, s.Addr())
	e := testkit.Open(t, p.listener.Addr().String())
	held := holdMany(t, e, n, engine.WatchdogLease(3*time.Second))
	// A renewal takes some 25 bytes: 400 a second pass, thus 1,200 in a lease, of 5,000.
	p.narrow(10_000)
	deadline := time.Now().Add(testkit.TooLong)
	for testkit.LostOf(held) < n/2 && time.Now().Before(deadline) {
		ls := held[rand.N(n)]
		if !testkit.Exists(t, s, ls.Name()) {
			require.True(t, ls.Lost(), "believed, and the server has let go")
		}
	}
	require.GreaterOrEqual(t, testkit.LostOf(held), n/2, "it cannot go on")
	t.Logf("%d of %d lost", testkit.LostOf(held), n)
	p.narrow(0)
	testkit.Eventually(t, "locks are granted", func() bool {
		ls, err := e.Lock("fresh").Acquire(testkit.Limited(t))
		return err == nil && ls.Release(testkit.Limited(t)) == nil
	})
	releaseMany(t, held)
	testkit.Finish(t, s, e)
}
