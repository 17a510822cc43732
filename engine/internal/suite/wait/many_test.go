package wait_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// apiExclusive finds two holders of one lock at once, and measures how long it was free.
type apiExclusive struct {
	grants, violations atomic.Int32

	mu     sync.Mutex
	inside int
	freed  time.Time
	worst  time.Duration // the longest time between leave and enter
}

func (x *apiExclusive) enter() {
	x.grants.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inside++; x.inside != 1 {
		x.violations.Add(1)
	}
	if !x.freed.IsZero() {
		x.worst = max(x.worst, time.Since(x.freed))
	}
}

func (x *apiExclusive) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inside--
	x.freed = time.Now()
}

// apiBothWays runs a test with hand-off inside the process and without.
func apiBothWays(t *testing.T, test func(t *testing.T, way func(*engine.Config))) {
	t.Run("WithHandOff", func(t *testing.T) { test(t, func(*engine.Config) {}) })
	t.Run("WithoutHandOff", func(t *testing.T) { test(t, func(cfg *engine.Config) { cfg.NoHandOff = true }) })
}

func TestThousandAcquiresAndTrysOfOneNameInOneEngineAreGrantedOneByOneInOrder(t *testing.T) {
	apiBothWays(t, apiThousandInOneEngine)
}

func apiThousandInOneEngine(t *testing.T, way func(*engine.Config)) {
	const n = 500
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr(), way)
	l := e.Lock("name")
	var x apiExclusive
	var order []int // guarded by the lock itself
	acquires, trys := make([]*engine.Future[*engine.Lease], n), make([]*engine.Future[*engine.Lease], n)
	p.Hold(faultproxy.Command("EVALSHA"), -1) // the first is in flight while the others come
	for i := range n {
		acquires[i], trys[i] = l.AcquireAsync(context.Background()), l.TryAcquireAsync(context.Background())
	}
	var wg sync.WaitGroup
	for i, f := range acquires {
		wg.Go(func() {
			ls, err := f.Await(context.Background())
			if err != nil {
				t.Errorf("acquire %d: %v", i, err)
				return
			}
			x.enter()
			order = append(order, i)
			x.leave()
			if err := ls.Release(context.Background()); err != nil {
				t.Errorf("release %d: %v", i, err)
			}
		})
	}
	p.ReleaseCommands()
	wg.Wait()
	for _, f := range trys {
		err := testkit.GetError(t, f)
		require.ErrorIs(t, err, engine.ErrHeld, "somebody had it, or others waited")
	}
	require.Zero(t, x.violations.Load())
	require.Len(t, order, n)
	require.True(t, slices.IsSorted(order), "first come, first served: %v", order)
	calls := testkit.Calls(t, s)
	require.LessOrEqual(t, calls["hset"]+calls["copy"], int64(n), "one acquire a grant at most, and none for a Try")
	require.Equal(t, calls["hset"]+calls["copy"], calls["hdel"], "what was taken was given back")
	require.LessOrEqual(t, calls["evalsha"], 2*calls["hdel"]+4)
	require.Empty(t, s.Keys(t))
	testkit.Idle(t, e)
}

func TestThousandAcquiresAndTrysOfOneNameInFourEnginesExcludeEachOther(t *testing.T) {
	apiBothWays(t, apiThousandInFourEngines)
}

func apiThousandInFourEngines(t *testing.T, way func(*engine.Config)) {
	const n = 250
	s := redistest.Run(t, redistest.Options{})
	var x apiExclusive
	var trysGranted, trysHeld atomic.Int32
	var wg sync.WaitGroup
	var engines []*engine.Engine
	for range 4 {
		engines = append(engines, testkit.OpenChecked(t, s.Addr(), way))
	}
	for g, e := range engines {
		l := e.Lock("name")
		for i := range 2 * n {
			try := i%2 == 1
			begin := l.AcquireAsync
			if try {
				begin = l.TryAcquireAsync
			}
			f := begin(context.Background())
			wg.Go(func() {
				ls, err := f.Await(context.Background())
				if try && errors.Is(err, engine.ErrHeld) {
					trysHeld.Add(1)
					return
				}
				if err != nil {
					t.Errorf("engine %d, op %d: %v", g, i, err)
					return
				}
				if try {
					trysGranted.Add(1)
				}
				x.enter()
				x.leave()
				if err := ls.Release(context.Background()); err != nil {
					t.Errorf("engine %d, release %d: %v", g, i, err)
				}
			})
		}
	}
	start := time.Now()
	wg.Wait()
	require.Less(t, testkit.Ran(start), 15*time.Second)
	require.Zero(t, x.violations.Load())
	require.EqualValues(t, 4*n+int(trysGranted.Load()), x.grants.Load())
	require.NotZero(t, trysHeld.Load())
	require.Empty(t, s.Keys(t))
	for _, e := range engines { // after a courtesy to others it thinks are waiting
		testkit.Idle(t, e)
	}
}

func TestC118_OneUnlockCostsAFewCommandsAnEngineHoweverManyWait(t *testing.T) {
	const engines, waiters = 4, 250
	s := redistest.Run(t, redistest.Options{})
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	var all []*engine.Engine
	polls := make(map[*engine.Engine]int64)
	granted := make(chan *engine.Lease, engines*waiters)
	for range engines {
		e := testkit.OpenChecked(t, s.Addr())
		all = append(all, e)
		for range waiters {
			e.Lock("name").AcquireAsync(context.Background()).OnComplete(func(ls *engine.Lease, err error) {
				if err == nil {
					granted <- ls
				}
			})
		}
	}
	testkit.Parked(t, s, "name", engines, engines*waiters, all...)
	woken := func() bool { // by the message, or by its poll at the same moment
		return !slices.ContainsFunc(all, func(e *engine.Engine) bool {
			return e.Stats().WokenByMessage == 0 && e.Stats().WokenByPoll == polls[e]
		})
	}
	polled := func() (n int64) {
		for _, e := range all {
			n += e.Stats().WokenByPoll
		}
		return n
	}
	before := polled()
	for _, e := range all {
		polls[e] = e.Stats().WokenByPoll
	}
	testkit.ResetCalls(t, s)
	foreign.Unlock("name")
	testkit.Within(t, granted, 2*time.Second, "one waiter has the lock")
	testkit.Eventually(t, "every engine has heard the message", woken)
	calls := testkit.Calls(t, s)
	require.LessOrEqual(t, calls["evalsha"], engines+polled()-before+1, "one try an engine, whatever the number of waiters")
	require.NotZero(t, calls["evalsha"])
	require.EqualValues(t, 1, calls["hset"], "one was granted")
	require.Empty(t, granted)
}

// Issue 3, point 5.
func TestTenThousandWaitersInFourEnginesMostCancelledAndMessagesDroppedAreServed(t *testing.T) {
	t.Parallel()
	callers := 10_000
	if testkit.Race {
		callers = 2_000
	}
	t.Run("WithHandOff", func(t *testing.T) {
		t.Parallel()
		apiCrowd(t, callers, func(*engine.Config) {})
	})
	t.Run("WithoutHandOff", func(t *testing.T) { // fewer: each grant is a round trip, or two
		t.Parallel()
		apiCrowd(t, callers/5, func(cfg *engine.Config) { cfg.NoHandOff = true })
	})
}

// apiCrowd lets callers wait for one lock in four engines. Four of five are cancelled at random, half
// the messages are dropped, a foreign client takes turns. It measures how long the lock was free.
func apiCrowd(t *testing.T, callers int, way func(*engine.Config)) {
	const engines, limit = 4, 35 * time.Second
	window := max(time.Duration(callers)*100*time.Microsecond, 200*time.Millisecond) // in which they are cancelled
	s := redistest.Run(t, redistest.Options{})
	foreign, ear := testkit.NewForeign(t, s), testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	ear.Do("SUBSCRIBE", testkit.Channel("name"))
	released := make(chan struct{}, 1)
	go func() { // ends with the connection
		for {
			if _, err := ear.Conn.Receive(context.Background()); err != nil {
				return
			}
			select {
			case released <- struct{}{}:
			default:
			}
		}
	}()
	var all []*engine.Engine
	var drops []*faultproxy.Rule
	for i := range engines {
		p := faultproxy.Run(t, s.Addr())
		drops = append(drops, p.DropMessages(faultproxy.Probability(0.5, uint64(i))))
		all = append(all, testkit.OpenChecked(t, p.Addr(), way))
	}
	bg, stop := context.WithTimeout(context.Background(), limit)
	defer stop()

	var x apiExclusive
	var served, cancelled, lucky atomic.Int32
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	begin := make(chan struct{}) // cancelling begins when all wait
	var wg sync.WaitGroup
	for i := range callers {
		ctx, cancel := context.WithCancel(bg)
		stays := i%5 == 0
		after := time.Duration(random.Int64N(int64(window)))
		wg.Go(func() {
			defer cancel()
			if !stays {
				wg.Go(func() {
					<-begin
					select {
					case <-time.After(after):
						cancel()
					case <-ctx.Done():
					}
				})
			}
			ls, err := all[i%engines].Lock("name").Acquire(ctx)
			switch {
			case err == nil:
				x.enter()
				if stays {
					served.Add(1)
				} else {
					lucky.Add(1)
				}
				<-time.After(time.Millisecond) // the work
				x.leave()
				if err := ls.Release(context.Background()); err != nil {
					t.Errorf("release: %v", err)
				}
			case stays:
				t.Errorf("caller %d, who was not cancelled: %v", i, err)
			case errors.Is(err, context.Canceled):
				cancelled.Add(1)
			default:
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	testkit.Parked(t, s, "name", engines+1, int64(callers), all...)
	close(begin)
	start := time.Now()
	x.enter()
	x.leave()
	foreign.Unlock("name")
	// A foreign client takes its turns, too, as Redisson would: it hears a release and tries. What it
	// releases the engines learn by message, or not.
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	turns, next := 0, int32(0)
	for over := false; !over; {
		select {
		case <-done:
			over = true
			continue
		case <-released:
		}
		if x.grants.Load() < next || !foreign.TryLock("name", time.Minute) {
			continue
		}
		turns++
		x.enter()
		next = x.grants.Load() + 10        // it does not take again what it has just released
		<-time.After(5 * time.Millisecond) // long enough for every engine to find it held
		x.leave()
		foreign.Unlock("name")
	}
	took := time.Since(start)
	hits := 0
	for _, d := range drops {
		hits += d.Hits()
	}
	t.Logf("%d callers: %d served, %d granted before their cancel, %d cancelled in %v; longest free time %v, %d messages dropped, %d turns of a foreign client",
		callers, served.Load(), lucky.Load(), cancelled.Load(), took, x.worst, hits, turns)
	require.Zero(t, x.violations.Load())
	require.EqualValues(t, callers/5, served.Load())
	require.Greater(t, int(cancelled.Load()), callers*2/5, "the test wants many cancelled")
	require.NotZero(t, hits, "the test wants messages dropped")
	require.Greater(t, turns, 3)
	require.LessOrEqual(t, x.worst, 2*time.Second, "nobody waits longer than that while the lock is free")
	testkit.NoKeys(t, s)
	for _, e := range all {
		testkit.Idle(t, e)
		stats := e.Stats()
		require.Zero(t, stats.Waiting)
		require.Zero(t, stats.Held)
		require.Zero(t, stats.Lost)
		require.Zero(t, stats.Nodes[0].Subscriptions.Refs)
	}
}

// Many names, many waiters: nobody's queue depends on another's.
func TestManyContendedNamesAllMakeProgress(t *testing.T) {
	names, rounds := 300, 4
	if testkit.Race {
		names = 60
	}
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())}
	exclusive := make([]apiExclusive, names)
	var wg sync.WaitGroup
	for i := range names {
		for _, e := range engines {
			for range rounds {
				f := e.Lock(fmt.Sprint("name:", i)).AcquireAsync(context.Background())
				wg.Go(func() {
					ls, err := f.Await(context.Background())
					if err != nil {
						t.Errorf("name %d: %v", i, err)
						return
					}
					exclusive[i].enter()
					exclusive[i].leave()
					if err := ls.Release(context.Background()); err != nil {
						t.Errorf("name %d: %v", i, err)
					}
				})
			}
		}
	}
	start := time.Now()
	wg.Wait()
	require.Less(t, testkit.Ran(start), 10*time.Second)
	for i := range exclusive {
		require.Zero(t, exclusive[i].violations.Load())
		require.EqualValues(t, 2*rounds, exclusive[i].grants.Load())
	}
	require.Empty(t, s.Keys(t))
}
