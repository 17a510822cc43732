package fault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestC038_CtxEndsWithTheReplyPending: the server has granted, the answer is on its way, the
// caller leaves. It is told before the answer comes; the lock is given back when that is there.
func TestC038_CtxEndsWithTheReplyPending(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		want error
		take func(ctx context.Context, l *engine.Lock, leave func()) error
	}{
		{"BlockingAcquire", context.Canceled, func(ctx context.Context, l *engine.Lock, leave func()) error {
			go leave()
			_, err := l.Acquire(ctx)
			return err
		}},
		{"BlockingTry", context.Canceled, func(ctx context.Context, l *engine.Lock, leave func()) error {
			go leave()
			_, err := l.TryAcquire(ctx)
			return err
		}},
		{"Async", context.Canceled, func(ctx context.Context, l *engine.Lock, leave func()) error {
			f := l.AcquireAsync(ctx)
			leave()
			_, err := f.Await(context.Background())
			return err
		}},
		{"Cancel", engine.ErrCancelled, func(ctx context.Context, l *engine.Lock, leave func()) error {
			f := l.AcquireAsync(context.WithoutCancel(ctx))
			leave()
			if !f.Cancel() {
				return errors.New("it had its result already")
			}
			_, err := f.Await(context.Background())
			return err
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			releases := testkit.WatchCommands(p, testkit.ScriptCall("release"))
			testkit.Release(t, testkit.Acquire(t, e.Lock("warm"))) // the connections and the scripts are there
			testkit.Await(t, releases, "its release")
			p.Delay(0, 1500*time.Millisecond)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			err := how.take(ctx, e.Lock("a"), func() {
				for !testkit.Exists(t, s, "a") {
					runtime.Gosched()
				}
				cancel()
			})
			require.ErrorIs(t, err, how.want)
			require.True(t, testkit.Exists(t, s, "a"), "the answer is still on its way")
			require.Empty(t, releases, "told before the answer came")
			testkit.Await(t, releases, "it is given back")
			testkit.Eventually(t, "it is free", func() bool { return !testkit.Exists(t, s, "a") })
			p.Delay(0, 0)
			testkit.Finish(t, s, e)
		})
	}
}

// TestC038_CtxEndsWhileTheEngineDials: the connection is dead and the new one hangs. Ops that
// come now see the end of their ctx all the same.
func TestC038_CtxEndsWhileTheEngineDials(t *testing.T) {
	t.Parallel()
	const dialLimit = 2 * time.Second // who waits for the dial is told then
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Pause()
	p.CutAll() // the next dial is accepted and never answered
	for i := range 8 {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		begun := time.Now()
		f := e.Lock(testkit.Numbered("a", i)).AcquireAsync(ctx)
		testkit.Await(t, f.Done(), "the future completes")
		require.Less(t, testkit.Ran(begun), dialLimit)
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
		begun = time.Now()
		_, err = e.Lock("b").Inspect(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, testkit.Ran(begun), dialLimit)
		cancel()
	}
	p.Resume()
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
}

// TestC039_CancelRacesWithTheGrant: each acquire ends in exactly one of two ways: granted, and
// then it is its caller's to release, or cancelled, and then the engine has released it.
func TestC039_CancelRacesWithTheGrant(t *testing.T) {
	const workers, rounds = 8, 800
	for _, how := range []struct {
		name   string
		within time.Duration // of which it is cancelled
		alone  bool          // no hand-off
		key    func(worker, round int) string
	}{
		{"OwnNames", 800 * time.Microsecond, false, func(w, r int) string { return fmt.Sprintf("own:%d:%d", w, r) }},
		{"OneNameEach", 800 * time.Microsecond, false, func(w, _ int) string { return testkit.Numbered("one", w) }},
		{"SharedNames", 2 * time.Millisecond, false, func(w, r int) string { return testkit.Numbered("shared", (w+r)%3) }},
		{"SharedNamesWithoutHandOff", 2 * time.Millisecond, true, func(w, r int) string { return testkit.Numbered("shared", (w+r)%3) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = how.alone })
			witnesses := make(map[string]*testkit.Witness)
			for w := range workers {
				for r := range rounds {
					witnesses[how.key(w, r)] = &testkit.Witness{}
				}
			}
			granted, cancelled := make([]int64, workers), make([]int64, workers)
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(39, uint64(w)))
					for r := range rounds {
						name := how.key(w, r)
						ls, err := raceWithCancel(e.Lock(name), rng, how.within)
						switch {
						case err == nil:
							granted[w]++
							witnesses[name].Enter()
							if ls.Lost() {
								t.Errorf("%s: granted and lost", name)
							}
							witnesses[name].Leave()
							if _, err := ls.ReleaseAsync().Await(context.Background()); err != nil {
								t.Errorf("%s: release: %v", name, err)
							}
						case errors.Is(err, context.Canceled):
							cancelled[w]++
						default:
							t.Errorf("%s: %v", name, err)
						}
					}
				})
			}
			wg.Wait()
			var g, c int64
			for w := range workers {
				g, c = g+granted[w], c+cancelled[w]
			}
			t.Logf("%d granted, %d cancelled, %d of those after the server's grant", g, c, e.Stats().Ghosts)
			require.EqualValues(t, workers*rounds, g+c)
			require.EqualValues(t, g, e.Stats().Grants, "a grant that nobody was given")
			require.Greater(t, g, int64(workers*rounds/100), "the race was not one")
			require.Greater(t, c, int64(workers*rounds/100), "the race was not one")
			for name, w := range witnesses {
				require.Zero(t, w.Violations.Load(), "two holders of %s", name)
			}
			testkit.Finish(t, s, e)
			if how.name == "OwnNames" { // elsewhere the next in the queue takes such a grant
				require.Positive(t, e.Stats().Ghosts, "none was cancelled behind its grant")
			}
		})
	}
}

// raceWithCancel asks for a lock and cancels, after anything from nothing to a few round trips, in one
// of the ways there are.
func raceWithCancel(l *engine.Lock, rng *rand.Rand, within time.Duration) (*engine.Lease, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	after := time.Now().Add(time.Duration(rng.Int64N(int64(within))))
	how := rng.IntN(4)
	if how == 0 {
		go func() {
			spinUntil(after)
			cancel()
		}()
		return l.Acquire(ctx)
	}
	var f *engine.Future[*engine.Lease]
	if how == 1 {
		f = l.AcquireAsync(ctx)
		spinUntil(after)
		cancel()
		return f.Await(context.Background())
	}
	f = l.AcquireAsync(context.Background())
	spinUntil(after)
	cancelled := f.Cancel()
	ls, err := f.Await(context.Background())
	if cancelled != errors.Is(err, engine.ErrCancelled) {
		return nil, fmt.Errorf("Cancel said %v, the result is %w", cancelled, err)
	}
	return ls, err
}

func spinUntil(at time.Time) {
	for time.Now().Before(at) {
		runtime.Gosched()
	}
}
