package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/history"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// How histories are made. Callers of some engines take and give back a few locks as fast as they can,
// while a nemesis strikes blow after blow. Each grant is recorded as its holder could know it; in the end
// internal/history checks that belief stayed within its bound, always, and that the grants have an order.
//
// The blows and all they draw come from a seed: HOLDFAST_SEED repeats a schedule (what the callers do
// meanwhile is up to the scheduler). HOLDFAST_OPS is how many grants there are at least; with more grants
// come more blows.
const (
	opsEnv = "HOLDFAST_OPS"

	historyOps     = 60_000 // in CI
	historyOpsRace = 20_000 // the race detector makes everything five to ten times slower
	grantsPerBlow  = 4_000
)

// TestHistory makes both histories side by side: each waits for its blows to pass more than it works. Nothing else
// runs beside them, since their nemeses are to be what keeps their leases from being renewed.
func TestHistory(t *testing.T) {
	t.Run("OfHandOffUnderFire", func(t *testing.T) {
		t.Parallel()
		handOffUnderFire(t)
	})
	t.Run("OfAClusterUnderFire", func(t *testing.T) {
		t.Parallel()
		clusterUnderFire(t)
	})
}

// A blow is one kind of trouble, struck and over when it returns. It draws from random only.
type blow struct {
	what   string
	strike func(random *rand.Rand)
	rare   bool // takes many seconds: struck in every fourth round
}

// A fire is one history being made.
type fire struct {
	tb      testing.TB
	seed    uint64
	ops     int64
	clock   clock.Clock
	history *history.History
	names   []history.Name
	options [][]engine.Option // by name
	members []*member
	after   func() // each blow and what follows it; nil: nothing

	running context.Context //nolint:containedctx // of all callers
	stop    context.CancelFunc
	callers sync.WaitGroup
	grants  atomic.Int64
	foreign atomic.Int64 // of the grants, those of foreigners
	ended   atomic.Int64 // attempts that brought no lease
	linger  atomic.Bool  // who is granted a lock now keeps it past its lease, or until it is lost
	staying atomic.Int64 // holders that do
	handed  int64        // grants by hand-off of the engines that were closed

	mu     sync.Mutex
	errors []error // what no caller may see; mu
}

// A member is one engine after the other, and its callers.
type member struct {
	open   func() *engine.Engine
	child  atomic.Pointer[child]
	grants atomic.Int64
}

// A child is an engine of a member until it is closed.
type child struct {
	engine   *engine.Engine
	locks    []*engine.Lock // by name
	closed   atomic.Int64   // when Close was called
	replaced chan struct{}
}

func newFire(tb testing.TB, names []history.Name, options [][]engine.Option) *fire {
	tb.Helper()
	f := &fire{
		tb: tb, clock: clock.System(), seed: rand.Uint64(), ops: historyOps,
		names: names, options: options, history: history.New(names...),
	}
	if testkit.Race {
		f.ops = historyOpsRace
	}
	if text := os.Getenv(testkit.SeedEnv); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(tb, err, testkit.SeedEnv)
		f.seed = n
	}
	if text := os.Getenv(opsEnv); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(tb, err, opsEnv)
		f.ops = n
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s=%d %s=%d repeats the schedule", testkit.SeedEnv, f.seed, opsEnv, f.ops)
		}
	})
	f.running, f.stop = context.WithCancel(context.Background())
	return f
}

// join adds a member with so many callers. They begin at once.
func (f *fire) join(callers int, open func() *engine.Engine) *member {
	m := &member{open: open}
	f.sit(m)
	f.members = append(f.members, m)
	for i := range callers {
		id := uint32(len(f.members)*1000 + i)
		log, random := f.history.Log(), rand.New(rand.NewPCG(f.seed, uint64(id)))
		f.callers.Go(func() { f.call(m, id, log, random) })
	}
	return m
}

func (f *fire) sit(m *member) {
	s := &child{engine: m.open(), replaced: make(chan struct{})}
	for i, n := range f.names {
		s.locks = append(s.locks, s.engine.Lock(n.Text, f.options[i]...))
	}
	m.child.Store(s)
}

// reopen closes a member's engine under its callers, and opens another one.
func (f *fire) reopen(m *member) {
	old := m.child.Load()
	old.closed.Store(int64(f.clock.Now()))
	if err := old.engine.Close(testkit.Limited(f.tb)); err != nil {
		f.failed(fmt.Errorf("close: %w", err))
	}
	f.handed += old.engine.Stats().GrantsByHandOff
	f.sit(m)
	close(old.replaced)
}

func (f *fire) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, err)
}

// call is one caller.
func (f *fire) call(m *member, id uint32, log *history.Log, random *rand.Rand) {
	for f.running.Err() == nil {
		s := m.child.Load()
		g := history.Grant{Name: id % uint32(len(f.names)), Caller: id, Called: f.clock.Now()}
		abroad := random.IntN(8) == 0 // else nobody would meet but neighbours; but not for long, or all would
		if abroad {
			g.Name = uint32(random.IntN(len(f.names)))
		}
		ls, err := f.acquire(s.locks[g.Name], abroad, random)
		if err != nil {
			f.ended.Add(1)
			f.refused(s, err)
			continue
		}
		f.hold(&g, ls, random)
		if closed := clock.Instant(s.closed.Load()); closed != 0 {
			g.Closed = closed
			g.End = max(g.Begin, min(g.End, closed)) // Close gives all locks back: who calls it knows that
		}
		g.Deadline, g.Sent = engine.DeadlineOf(ls), f.clock.Now()
		err = ls.Release(context.Background())
		g.Answered, g.Outcome = f.clock.Now(), f.outcome(s, err)
		log.Add(g)
		f.grants.Add(1)
		m.grants.Add(1)
	}
}

// acquire asks for a lock in one of the ways there are, with an end at a random instant now and then.
func (f *fire) acquire(l *engine.Lock, abroad bool, random *rand.Rand) (*engine.Lease, error) {
	kind := random.IntN(32)
	switch {
	case kind == 0:
		return l.TryAcquire(f.running)
	case kind <= 2, abroad:
		ctx, cancel := context.WithTimeout(f.running, time.Duration(random.IntN(3000))*time.Microsecond)
		defer cancel()
		return l.Acquire(ctx)
	case kind == 3:
		future := l.AcquireAsync(f.running)
		for range random.IntN(20) {
			runtime.Gosched()
		}
		future.Cancel()
		return future.Await(context.Background())
	default:
		return l.Acquire(f.running)
	}
}

// hold believes for a while: mostly for no time, seldom past a renewal or two, or past the lease.
func (f *fire) hold(g *history.Grant, ls *engine.Lease, random *rand.Rand) {
	g.Hold = history.ID(ls.OwnerID())
	g.Begin = f.clock.Now()
	g.End = g.Begin
	if !f.believes(g, ls) {
		return
	}
	until := g.Begin
	kind := random.IntN(4096)
	switch {
	case f.linger.Load():
		until = until.Add(f.names[g.Name].Lease * 5 / 4)
		f.staying.Add(1)
		defer f.staying.Add(-1)
	case kind == 0:
		until = until.Add(time.Duration(random.Int64N(int64(f.names[g.Name].Lease * 3 / 2))))
	case kind <= 64:
		until = until.Add(time.Duration(random.Int64N(int64(5 * time.Millisecond))))
	default:
		for range random.IntN(3) {
			runtime.Gosched()
		}
	}
	var told <-chan struct{} // half of those that hold for long listen to the context
	if until > g.Begin && random.IntN(2) == 0 {
		told = ls.Context().Done()
	}
	for f.believes(g, ls) && g.End < until && f.running.Err() == nil {
		select {
		case <-told:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// believes asks the lease, and notes until when it was believed. The clock is read before the question:
// what was still true at the answer was true at the reading.
func (f *fire) believes(g *history.Grant, ls *engine.Lease) bool {
	now := f.clock.Now()
	if ls.Lost() {
		return false
	}
	g.End = now
	return true
}

// refused checks that an acquire failed for a reason that trouble explains.
func (f *fire) refused(s *child, err error) {
	switch {
	case errors.Is(err, engine.ErrClosed):
		if s.closed.Load() == 0 {
			f.failed(fmt.Errorf("acquire on an open engine: %w", err))
			return
		}
		select {
		case <-s.replaced:
		case <-f.running.Done():
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller has left
	case !engine.SafeToRetry(err):
		f.failed(fmt.Errorf("acquire: %w", err))
	}
}

// outcome reads the answer of a release.
func (f *fire) outcome(s *child, err error) history.Outcome {
	switch {
	case err == nil:
		return history.Released
	case errors.Is(err, engine.ErrLost):
		return history.Lost
	case errors.Is(err, engine.ErrNotHeld) && s.closed.Load() != 0:
		return history.Released // by Close
	case errors.Is(err, engine.ErrNotHeld) || !errors.Is(err, engine.ErrClosed) && !engine.SafeToRetry(err):
		f.failed(fmt.Errorf("release: %w", err))
	}
	return history.Unknown
}

// takeAway records a deletion that do carries out; do says whether it is known to have happened.
func (f *fire) takeAway(name uint32, what string, do func() bool) {
	d := history.Deletion{Name: name, What: what, Sent: f.clock.Now()}
	d.Maybe = !do()
	d.Answered = f.clock.Now()
	f.history.Delete(d)
}

// forceRelease lets one member take a lock away from whoever has it.
func (f *fire) forceRelease(random *rand.Rand) {
	m, name := f.members[random.IntN(len(f.members))], uint32(random.IntN(len(f.names)))
	f.takeAway(name, "ForceRelease", func() bool {
		_, err := m.child.Load().locks[name].ForceRelease(testkit.Limited(f.tb))
		return err == nil
	})
}

// underHolders strikes while most locks have a holder that stays, past the end of its lease if it may.
func (f *fire) underHolders(strike func()) {
	f.tb.Helper()
	f.linger.Store(true)
	defer f.linger.Store(false)
	testkit.Eventually(f.tb, "holders that stay", func() bool { return f.staying.Load() >= int64(len(f.names)*3/4) })
	strike()
}

// burn strikes blows until there are enough grants, each kind at least twice but for the rare ones, in an
// order and with parameters that hang on the seed only. After each blow the callers must get on.
func (f *fire) burn(blows []blow) {
	f.tb.Helper()
	rounds := max(2, int(f.ops)/(grantsPerBlow*len(blows)))
	share := f.ops / int64(rounds*len(blows))
	for round := range rounds {
		order := rand.New(rand.NewPCG(f.seed, uint64(round))).Perm(len(blows))
		for i, b := range order {
			if f.tb.Failed() {
				return
			}
			if blows[b].rare && round%4 != 0 {
				continue
			}
			before := f.grants.Load()
			began := time.Now()
			blows[b].strike(rand.New(rand.NewPCG(f.seed, uint64(1+round*len(blows)+i)<<32)))
			took := time.Since(began)
			testkit.Eventually(f.tb, "the callers get on after "+blows[b].what, func() bool { return f.grants.Load() >= before+share })
			if f.after != nil {
				f.after()
			}
			f.tb.Logf("%-24s %8v, %d grants", blows[b].what, took.Round(time.Millisecond), f.grants.Load()-before)
		}
	}
	testkit.Eventually(f.tb, "enough grants", func() bool { return f.grants.Load() >= f.ops })
}

// out ends the callers and checks what they believed.
func (f *fire) out() {
	f.tb.Helper()
	f.stop()
	f.callers.Wait()
	for _, err := range f.errors[:min(len(f.errors), 10)] {
		f.tb.Error(err)
	}
	for i, m := range f.members {
		require.Positive(f.tb, m.grants.Load(), "grants of member %d", i)
		f.handed += m.child.Load().engine.Stats().GrantsByHandOff
	}
	began := time.Now()
	report, err := f.history.Check()
	require.NoError(f.tb, err)
	f.tb.Logf("seed %d: %v; %d by hand-off, %d of foreigners, %d attempts without a lease; checked in %v",
		f.seed, report, f.handed, f.foreign.Load(), f.ended.Load(), time.Since(began).Round(time.Millisecond))
	require.GreaterOrEqual(f.tb, int64(report.Grants), f.ops)
	require.Less(f.tb, report.Skipped, report.Slices, "most of it is judged, and not left out for a doubt")
	require.Positive(f.tb, f.handed, "hand-off was under fire, too")
}

// engines are those that are open.
func (f *fire) engines() []*engine.Engine {
	var open []*engine.Engine
	for _, m := range f.members {
		open = append(open, m.child.Load().engine)
	}
	return open
}

// letLast lets a fault last for a random time of at most most.
func letLast(random *rand.Rand, least, most time.Duration) {
	testkit.LastUntil(time.Now().Add(least + time.Duration(random.Int64N(int64(most-least)))))
}
