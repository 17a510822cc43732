package fault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A storm is mixed load of several engines on few names. Every holder is known, so that each new one
// can look whether somebody else still believes to hold its lock.
type storm struct {
	t        *testing.T
	s        *redistest.Server
	engines  []*engine.Engine
	opts     []engine.Option
	longest  time.Duration // of a hold
	lossy    bool          // locks may be lost, operations may fail for want of a server
	mangled  bool          // the server's replies are changed: operations may fail for any reason
	believed bool          // and some of them seem to be granted
	names    []stormName
	stop     chan struct{}
	wg       sync.WaitGroup

	grants, held, ended, failed, lost, checked, complaints atomic.Int64
}

type stormName struct {
	mu      sync.Mutex
	holders []*engine.Lease
}

func newStorm(t *testing.T, s *redistest.Server, names int, engines ...*engine.Engine) *storm {
	t.Helper()
	return &storm{t: t, s: s, engines: engines, names: make([]stormName, names), stop: make(chan struct{})}
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

// enter is called after the grant. Whoever is inside has lost its lock, or there are two holders: its
// trust ended before the server let the next one in.
func (st *storm) enter(n int, ls *engine.Lease) {
	name := &st.names[n]
	name.mu.Lock()
	defer name.mu.Unlock()
	for _, other := range name.holders {
		if !other.Lost() && !st.believed {
			st.complain("two holders of %s: %s was granted while %s believes until %v", ls.Name(), ls.OwnerID(),
				other.OwnerID(), other.Deadline())
		}
	}
	name.holders = append(name.holders, ls)
}

// leave is called before the release is asked for.
func (st *storm) leave(n int, ls *engine.Lease) {
	name := &st.names[n]
	name.mu.Lock()
	defer name.mu.Unlock()
	name.holders = slices.DeleteFunc(name.holders, func(o *engine.Lease) bool { return o == ls })
}

// one takes a lock in one of the ways there are, looks whether it is alone with it, here and on the
// server, and gives it back.
func (st *storm) one(e *engine.Engine, rng *rand.Rand) {
	n := rng.IntN(len(st.names))
	l := e.Lock(testkit.Numbered("storm", n), st.opts...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(5000))*time.Millisecond)
	defer cancel()
	how := rng.IntN(4)
	ls, err := stormTake(ctx, l, how)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		st.ended.Add(1)
		return
	case errors.Is(err, engine.ErrHeld):
		st.held.Add(1)
		return
	case st.lossy && engine.SafeToRetry(err), how == stormTry && testkit.ServerClass(err) == engine.ClassUnreachable:
		st.failed.Add(1) // a Try does not wait for a server to come back
		return
	case how == stormMaxWait && (errors.Is(err, engine.ErrUnknown) || testkit.ServerClass(err) == engine.ClassUnreachable):
		st.failed.Add(1) // its connection was killed, and its time was over before anybody had answered, or anything was sent
		return
	case st.mangled:
		st.failed.Add(1)
		return
	default:
		st.complain("acquire %s: %v", l.Name(), err)
		return
	}
	st.grants.Add(1)
	st.enter(n, ls)
	if rng.IntN(16) == 0 && !st.believed {
		st.look(ls)
	}
	if st.longest > 0 && rng.IntN(2) == 0 {
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(st.longest))))
		select {
		case <-timer.C:
		case <-ls.Context().Done():
		}
		timer.Stop()
	}
	lost := ls.Lost()
	st.leave(n, ls)
	err = ls.Release(context.Background())
	switch {
	case st.mangled && (lost || err != nil):
		st.lost.Add(1)
	case lost && !st.lossy:
		st.complain("%s was lost", l.Name())
	case lost && !errors.Is(err, engine.ErrLost):
		st.complain("release of %s, which is lost: %v", l.Name(), err)
	case errors.Is(err, engine.ErrLost) && st.lossy:
		st.lost.Add(1)
	case errors.Is(err, engine.ErrUnknown) && st.lossy, testkit.ServerClass(err) == engine.ClassUnreachable && st.lossy:
		st.failed.Add(1)
	case err != nil:
		st.complain("release %s: %v", l.Name(), err)
	}
}

const (
	stormTry     = 0
	stormMaxWait = 3
)

func stormTake(ctx context.Context, l *engine.Lock, how int) (*engine.Lease, error) {
	switch how {
	case stormTry:
		return l.TryAcquire(ctx)
	case 1:
		return l.Acquire(ctx)
	case 2:
		return l.AcquireAsync(ctx).Await(context.Background())
	default:
		return l.With(engine.MaxWait(50 * time.Millisecond)).AcquireAsync(ctx).Await(context.Background())
	}
}

// look asks the server who holds the lock. A connection that was killed gives no answer, a lock that was
// lost before the answer none of interest.
func (st *storm) look(ls *engine.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	v, err := st.s.Command(ctx, "HGETALL", ls.Name())
	if err != nil || ls.Lost() {
		return
	}
	st.checked.Add(1)
	if got := redistest.Text(v); got != ls.OwnerID()+"\n1" {
		st.complain("%s is held by %s, on the server is %q", ls.Name(), ls.OwnerID(), strings.ReplaceAll(got, "\n", " "))
	}
}

func (st *storm) log(format string, args ...any) {
	st.t.Helper()
	st.t.Logf("%d grants, %d by hand-off, %d busy, %d ctx ended, %d failed, %d lost, %d looked at; %s", st.grants.Load(),
		st.engines[0].Stats().GrantsByHandOff+st.engines[1].Stats().GrantsByHandOff,
		st.held.Load(), st.ended.Load(), st.failed.Load(), st.lost.Load(), st.checked.Load(), fmt.Sprintf(format, args...))
}

// TestC072_ConnectionsAreKilled: every connection dies again and again under mixed load of two
// engines. Nobody holds what another holds, no operation fails, nothing stays behind.
func TestC072_ConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	const lasts = 3 * time.Second
	for _, how := range []struct {
		name  string
		alone bool
	}{{"WithHandOff", false}, {"WithoutHandOff", true}} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			change := func(cfg *engine.Config) { cfg.NoHandOff = how.alone }
			e, other := testkit.Open(t, s.Addr(), change), testkit.Open(t, s.Addr(), change)
			// Held all the time, and renewed over connections that die.
			held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(3*time.Second)))
			st := newStorm(t, s, 12, e, other)
			st.start(12)
			kills := stormKills(t, s, lasts)
			st.end()
			st.log("%d connections killed, reconnects %d and %d", kills, e.Stats().Nodes[0].Reconnects, other.Stats().Nodes[0].Reconnects)
			require.Greater(t, kills, 50)
			require.Greater(t, st.grants.Load(), int64(1000))
			require.Greater(t, st.checked.Load(), int64(20))
			require.Equal(t, !how.alone, e.Stats().GrantsByHandOff > 0)
			testkit.RequireHeldOnce(t, s, held)
			testkit.Release(t, held)
			require.Zero(t, e.Stats().Lost)
			require.Zero(t, other.Stats().Lost)
			testkit.Finish(t, s, e, other)
		})
	}
}

// stormKills kills connections for a while and says how many.
func stormKills(t *testing.T, s *redistest.Server, lasts time.Duration) (kills int) {
	t.Helper()
	admin, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer admin.Close()
	rng := rand.New(rand.NewPCG(72, 0))
	for begun := time.Now(); time.Since(begun) < lasts; {
		testkit.LastUntil(time.Now().Add(50*time.Millisecond + time.Duration(rng.Int64N(int64(50*time.Millisecond)))))
		kind := "normal"
		if rng.IntN(2) == 0 {
			kind = "pubsub"
		}
		n, err := admin.Do(testkit.Limited(t), "CLIENT", "KILL", "TYPE", kind)
		require.NoError(t, err)
		kills += int(n.(int64))
	}
	return kills
}

// TestC179_MixedFaults: two engines with short leases on few names while everything goes wrong in
// turn: silence on the one's path or the other's, a stopped server, cut connections, lost answers, lost
// messages, forgotten scripts. A lock may be lost; two may never believe in it at once.
func TestC179_MixedFaults(t *testing.T) {
	t.Parallel()
	const lasts = 8 * time.Second
	s := redistest.Run(t, redistest.Options{})
	proxies := []*faultproxy.Proxy{faultproxy.Run(t, s.Addr()), faultproxy.Run(t, s.Addr())}
	e, other := testkit.Open(t, proxies[0].Addr()), testkit.Open(t, proxies[1].Addr())
	st := newStorm(t, s, 8, e, other)
	st.lossy, st.longest = true, 2*time.Second
	st.opts = []engine.Option{engine.WatchdogLease(time.Second)}
	st.start(16)
	rng := rand.New(rand.NewPCG(179, 0))
	last := func(least, most time.Duration) {
		testkit.LastUntil(time.Now().Add(least + time.Duration(rng.Int64N(int64(most-least)))))
	}
	faults := 0
	for begun := time.Now(); time.Since(begun) < lasts; faults++ {
		p := proxies[rng.IntN(2)]
		switch faults % 8 {
		case 0, 4: // the other engine can take what this one cannot renew
			p.Pause()
			last(800*time.Millisecond, 1800*time.Millisecond)
			p.Resume()
		case 1:
			s.Pause()
			last(300*time.Millisecond, 1500*time.Millisecond)
			s.Resume()
		case 2:
			p.CutAll()
		case 3:
			p.DropReply(testkit.ScriptCall("acquire", "reacquire"), 3)
			p.DropReply(testkit.ScriptCall("release"), 2, faultproxy.Hang)
		case 5:
			p.DropReply(testkit.ScriptCall("renew"), 2)
		case 6:
			s.Do(t, "SCRIPT", "FLUSH")
		case 7:
			rule := p.DropMessages(faultproxy.Probability(0.5, uint64(faults)))
			last(100*time.Millisecond, 300*time.Millisecond)
			rule.Remove()
		}
		last(20*time.Millisecond, 200*time.Millisecond)
	}
	st.end()
	st.log("%d faults, Lost %d and %d, Ghosts %d and %d", faults, e.Stats().Lost, other.Stats().Lost, e.Stats().Ghosts, other.Stats().Ghosts)
	require.Greater(t, st.grants.Load(), int64(50))
	// Which harm is luck: whether somebody has a lock just then.
	require.Positive(t, e.Stats().Lost+other.Stats().Lost+st.lost.Load()+st.failed.Load(), "the faults did no harm")
	require.Positive(t, st.checked.Load())
	testkit.Finish(t, s, e, other)
}

// TestC165_NamesUsedOnce: tens of thousands of names are fought over by two engines once and never
// seen again. Nothing of them stays: no entry, no subscription, no goroutine, no memory to speak of.
func TestC165_NamesUsedOnce(t *testing.T) {
	const n, rounds = 10_000, 3
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	use := func(of string) {
		for i := range rounds {
			onceEach(t, testkit.Numbered(of, i), n, e, other)
		}
	}
	settled := func() (heap int64) {
		for _, e := range []*engine.Engine{e, other} {
			testkit.Eventually(t, "nothing is left", func() bool {
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
		return int64(m.HeapAlloc)
	}
	use("warm") // buffers, pools and tables find their size
	conns := func() int { return strings.Count(s.Do(t, "CLIENT", "LIST"), "name=holdfast") }
	heap, goroutines, connected := settled(), runtime.NumGoroutine(), conns()
	// What leaks grows with every block; a buffer that finds its size grows by chance, once. An entry
	// alone is 300 bytes.
	const limit = int64(n * rounds * 120)
	grown := limit
	for block := 0; block < 3 && grown >= limit; block++ {
		use(testkit.Numbered("once", block))
		now := settled()
		grown, heap = now-heap, now
		t.Logf("heap %d kB, grown by %d kB; goroutines %d, then %d", heap>>10, grown>>10, goroutines, runtime.NumGoroutine())
	}
	// The second lane of an engine dials when there is much to do for a while. A connection has its client's goroutines.
	const each, two = 4, 2
	more := conns() - connected
	require.LessOrEqual(t, more, two)
	testkit.Eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines+2+each*more })
	require.Less(t, grown, limit, "bytes for names that nobody uses any more")
	testkit.Finish(t, s, e, other)
}

// onceEach takes n locks with one engine, waits for each with the other, and lets them go.
func onceEach(t *testing.T, of string, n int, e, other *engine.Engine) {
	t.Helper()
	mine, theirs := make([]*engine.Future[*engine.Lease], n), make([]*engine.Future[*engine.Lease], n)
	for i := range n {
		mine[i] = e.Lock(testkit.Numbered(of, i)).AcquireAsync(context.Background())
	}
	leases, err := engine.AllLeases(mine...).Await(testkit.Limited(t))
	require.NoError(t, err)
	for i := range n {
		theirs[i] = other.Lock(testkit.Numbered(of, i)).AcquireAsync(context.Background())
	}
	testkit.Eventually(t, "every name is waited for", func() bool {
		stats := other.Stats()
		return stats.Waiting == int64(n) && stats.Nodes[0].Subscriptions.Refs == int64(n)
	})
	for _, ls := range leases {
		ls.ReleaseAsync()
	}
	leases, err = engine.AllLeases(theirs...).Await(testkit.Limited(t))
	require.NoError(t, err)
	releases := make([]*engine.Future[struct{}], n)
	for i, ls := range leases {
		releases[i] = ls.ReleaseAsync()
	}
	_, err = engine.All(releases...).Await(testkit.Limited(t))
	require.NoError(t, err)
}
