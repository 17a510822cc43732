package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A storm is mixed load of several engines on few names, with a witness for each name.
type storm struct {
	t         *testing.T
	s         *redistest.Server
	engines   []*engine.Engine
	names     int
	witnesses []witness
	stop      chan struct{}
	wg        sync.WaitGroup

	grants, held, cancelled, checked, complaints atomic.Int64
}

func newStorm(t *testing.T, s *redistest.Server, names int, engines ...*engine.Engine) *storm {
	t.Helper()
	return &storm{t: t, s: s, engines: engines, names: names, witnesses: make([]witness, names), stop: make(chan struct{})}
}

// start starts workers for each engine.
func (st *storm) start(workers int) {
	for i, e := range st.engines {
		for w := range workers {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(w)))
			st.wg.Go(func() {
				for {
					select {
					case <-st.stop:
						return
					default:
						st.one(e, rng)
					}
				}
			})
		}
	}
}

func (st *storm) end() {
	close(st.stop)
	st.wg.Wait()
}

func (st *storm) complain(format string, args ...any) {
	if st.complaints.Add(1) < 20 {
		st.t.Errorf(format, args...)
	}
}

// one takes a lock in one of the ways there are, looks whether it is alone with it, here and on the
// server, and gives it back.
func (st *storm) one(e *engine.Engine, rng *rand.Rand) {
	n := rng.IntN(st.names)
	l := e.Lock(numbered("storm", n))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(5000))*time.Millisecond)
	defer cancel()
	var ls *engine.Lease
	var err error
	switch rng.IntN(4) {
	case 0:
		ls, err = l.TryAcquire(ctx)
	case 1:
		ls, err = l.Acquire(ctx)
	case 2:
		ls, err = l.AcquireAsync(ctx).Await(context.Background())
	default:
		ls, err = l.With(engine.MaxWait(50 * time.Millisecond)).AcquireAsync(ctx).Await(context.Background())
	}
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrHeld):
		st.held.Add(1)
		return
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		st.cancelled.Add(1)
		return
	default:
		st.complain("acquire %s: %v", l.Name(), err)
		return
	}
	st.grants.Add(1)
	w := &st.witnesses[n]
	w.enter()
	if rng.IntN(16) == 0 {
		st.look(ls)
	}
	if ls.Lost() {
		st.complain("%s was lost", l.Name())
	}
	w.leave()
	if err := ls.Release(context.Background()); err != nil {
		st.complain("release %s: %v", l.Name(), err)
	}
}

// look asks the server who holds the lock. A connection that was killed gives no answer.
func (st *storm) look(ls *engine.Lease) {
	v, err := st.s.Command(context.Background(), "HGETALL", ls.Name())
	if err != nil {
		return
	}
	st.checked.Add(1)
	if got := redistest.Text(v); got != ls.OwnerID()+"\n1" {
		st.complain("%s is held by %s, on the server is %q", ls.Name(), ls.OwnerID(), strings.ReplaceAll(got, "\n", " "))
	}
}

func (st *storm) requireExclusion() {
	st.t.Helper()
	for i := range st.witnesses {
		require.Zero(st.t, st.witnesses[i].violations.Load(), "two holders of storm:%d at once", i)
	}
}

// TestFault_C072_ConnectionsAreKilled: every connection dies again and again under mixed load of two
// engines. Nobody holds what another holds, no operation fails, nothing stays behind.
func TestFault_C072_ConnectionsAreKilled(t *testing.T) {
	const lasts = 5 * time.Second
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	// Held all the time, and renewed over connections that die.
	held := acquire(t, e.Lock("held", engine.WatchdogLease(2*time.Second)))
	st := newStorm(t, s, 12, e, other)
	st.start(12)
	admin, err := s.Dial(limited(t))
	require.NoError(t, err)
	defer admin.Close()
	rng := rand.New(rand.NewPCG(72, 0))
	kills := 0
	for begun := time.Now(); time.Since(begun) < lasts; {
		lastUntil(time.Now().Add(50*time.Millisecond + time.Duration(rng.Int64N(int64(50*time.Millisecond)))))
		kind := "normal"
		if rng.IntN(2) == 0 {
			kind = "pubsub"
		}
		n, err := admin.Do(limited(t), "CLIENT", "KILL", "TYPE", kind)
		require.NoError(t, err)
		kills += int(n.(int64))
	}
	st.end()
	t.Logf("%d grants, %d busy, %d ctx ended, %d looked at, %d connections killed, reconnects %d and %d",
		st.grants.Load(), st.held.Load(), st.cancelled.Load(), st.checked.Load(), kills,
		e.Stats().Nodes[0].Reconnects, other.Stats().Nodes[0].Reconnects)
	st.requireExclusion()
	require.Greater(t, kills, 100)
	require.Greater(t, st.grants.Load(), int64(1000))
	require.Greater(t, st.checked.Load(), int64(20))
	requireHeldOnce(t, s, held)
	release(t, held)
	for _, e := range st.engines {
		eventually(t, "nobody is in a queue", func() bool { return e.Stats().Waiting == 0 })
		require.Zero(t, e.Stats().Lost)
	}
	finish(t, s, e, other)
}

// TestFault_C165_NamesUsedOnce: ten thousand names are fought over by two engines once and never seen
// again. Nothing of them stays: no entry, no subscription, no goroutine, no memory to speak of.
func TestFault_C165_NamesUsedOnce(t *testing.T) {
	const n = 10_000
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	round := func(of string) {
		mine, theirs := make([]*engine.Future[*engine.Lease], n), make([]*engine.Future[*engine.Lease], n)
		for i := range n {
			mine[i] = e.Lock(fmt.Sprintf("%s:%d", of, i)).AcquireAsync(context.Background())
		}
		leases, err := engine.AllLeases(mine...).Await(limited(t))
		require.NoError(t, err)
		for i := range n {
			theirs[i] = other.Lock(fmt.Sprintf("%s:%d", of, i)).AcquireAsync(context.Background())
		}
		eventually(t, "every name is waited for", func() bool { return other.Stats().Waiting == n && other.Stats().Nodes[0].Subscriptions.Confirmed == n })
		for _, ls := range leases {
			ls.ReleaseAsync()
		}
		leases, err = engine.AllLeases(theirs...).Await(limited(t))
		require.NoError(t, err)
		releases := make([]*engine.Future[struct{}], n)
		for i, ls := range leases {
			releases[i] = ls.ReleaseAsync()
		}
		_, err = engine.All(releases...).Await(limited(t))
		require.NoError(t, err)
	}
	settled := func() (heap uint64, goroutines int) {
		for _, e := range []*engine.Engine{e, other} {
			eventually(t, "nothing is left", func() bool {
				stats := e.Stats()
				subs := stats.Nodes[0].Subscriptions
				return stats.Names == 0 && stats.Held == 0 && stats.Waiting == 0 && stats.Renewals.Watched == 0 &&
					subs.Channels == 0 && subs.Refs == 0 && stats.Nodes[0].Queued == 0
			})
		}
		require.Empty(t, s.Do(t, "PUBSUB", "CHANNELS"))
		require.Equal(t, "0", s.Do(t, "DBSIZE"))
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	round("warm") // buffers, pools and tables have their size
	heap, goroutines := settled()
	round("once")
	heapAfter, goroutinesAfter := settled()
	t.Logf("heap %d kB, then %d kB; goroutines %d, then %d", heap>>10, heapAfter>>10, goroutines, goroutinesAfter)
	require.Less(t, heapAfter, heap+heap/5+n*30, "bytes for names that nobody uses any more")
	require.LessOrEqual(t, goroutinesAfter, goroutines+2)
	finish(t, s, e, other)
}
