package family_test

import (
	"context"
	"fmt"
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

func requireWaiting(t *testing.T, b *engine.Barrier, n int) {
	t.Helper()
	waiting, err := b.Waiting(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, n, waiting)
}

func requireBroken(t *testing.T, b *engine.Barrier, want bool) {
	t.Helper()
	broken, err := b.Broken(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, want, broken)
}

// reset begins the next generation.
func reset(t *testing.T, b *engine.Barrier) {
	t.Helper()
	done, err := b.Reset(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, done)
	requireBroken(t, b, false)
}

// barrierIsOver checks that only the barrier is left, which expires by itself.
func barrierIsOver(t *testing.T, s *redistest.Server, name string, engines ...*engine.Engine) {
	t.Helper()
	ttl := testkit.Int(t, s, "PTTL", name)
	require.Greater(t, ttl, (59 * time.Minute).Milliseconds())
	require.LessOrEqual(t, ttl, time.Hour.Milliseconds())
	s.Do(t, "DEL", name)
	testkit.Finish(t, s, engines...)
}

func TestABarrierLetsAllPassWhenAllHaveCome(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ba, bb, ctx := a.Barrier("b", 4), b.Barrier("b", 4), testkit.Limited(t)
	requireWaiting(t, ba, 0)
	requireBroken(t, ba, false)
	for range 3 { // generation by generation
		before := a.Stats().Waits
		all := []*engine.Future[struct{}]{ba.AwaitAsync(ctx), bb.AwaitAsync(ctx), ba.AwaitAsync(ctx)}
		awaitWaits(t, a, before+2)
		testkit.Eventually(t, "three wait", func() bool {
			n, err := bb.Waiting(ctx)
			return err == nil && n == 3
		})
		for _, f := range all {
			testkit.Pending(t, f)
		}
		require.NoError(t, bb.Await(ctx))
		for _, f := range all {
			testkit.Get(t, f)
		}
		requireWaiting(t, ba, 0)
	}
	require.NoError(t, a.Barrier("one", 1).Await(ctx), "who is alone does not wait")
	s.Do(t, "DEL", "one")
	barrierIsOver(t, s, "b", a, b)
}

// Rounds of parties in several engines: nobody begins a round before everybody has ended the one before.
func TestNobodyPassesABarrierBeforeItsWholeGenerationHasCome(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	const parties, rounds = 12, 30
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	ctx := testkit.Limited(t)
	var came [rounds]atomic.Int32
	var early atomic.Int32
	var all sync.WaitGroup
	for i := range parties {
		all.Go(func() {
			b := engines[i%len(engines)].Barrier("{job}b", parties)
			for r := range rounds {
				came[r].Add(1)
				if err := b.Await(ctx); err != nil {
					t.Errorf("round %d: %v", r, err)
					return
				}
				if came[r].Load() != parties {
					early.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, early.Load())
	barrierIsOver(t, s, "{job}b", engines...)
}

// Who leaves breaks the generation: the others of it are told, and who comes, until it is reset.
func TestABarrierIsBrokenByWhoLeaves(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	c, d := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ba, bb, limited := a.Barrier("b", 3), b.Barrier("b", 3), testkit.Limited(t)
	for what, leaves := range map[string]func() error{
		"its ctx is over": func() error {
			ctx, cancel := context.WithCancel(limited)
			f := bb.AwaitAsync(ctx)
			testkit.Eventually(t, "two wait", func() bool { n, err := ba.Waiting(limited); return err == nil && n == 2 })
			cancel()
			return testkit.GetError(t, f)
		},
		"its future is cancelled": func() error {
			f := bb.AwaitAsync(limited)
			testkit.Eventually(t, "two wait", func() bool { n, err := ba.Waiting(limited); return err == nil && n == 2 })
			f.Cancel()
			return testkit.GetError(t, f)
		},
		"its MaxWait is over": func() error { return bb.With(engine.MaxWait(200 * time.Millisecond)).Await(limited) },
		"its engine is closed": func() error {
			f := c.Barrier("b", 3).AwaitAsync(limited)
			testkit.Eventually(t, "two wait", func() bool { n, err := ba.Waiting(limited); return err == nil && n == 2 })
			require.NoError(t, testkit.Close(c))
			return testkit.GetError(t, f)
		},
		"it is reset": func() error {
			reset(t, bb)
			return context.Canceled
		},
		"it is lost": func() error {
			s.Do(t, "DEL", "b")
			return context.Canceled
		},
	} {
		before := a.Stats().Waits
		waits := ba.AwaitAsync(limited)
		awaitWaits(t, a, before+1)
		err := leaves()
		require.True(t, testkit.ErrorIsAny(err, context.Canceled, engine.ErrNotOpen, engine.ErrClosed), "%s: %v", what, err)
		require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrBarrierBroken, what)
		if what == "it is reset" || what == "it is lost" {
			requireBroken(t, ba, false)
			continue
		}
		requireBroken(t, ba, true)
		for _, comes := range []*engine.Barrier{ba, bb, d.Barrier("b", 3)} { // as many as it is for
			require.ErrorIs(t, comes.Await(limited), engine.ErrBarrierBroken, what)
		}
		reset(t, bb)
	}
	done, err := ba.Reset(limited)
	require.NoError(t, err)
	require.False(t, done, "there is nothing to reset")
	third := a.Barrier("b", 3)
	f := []*engine.Future[struct{}]{ba.AwaitAsync(limited), bb.AwaitAsync(limited), third.AwaitAsync(limited)}
	for _, f := range f {
		testkit.Get(t, f)
	}
	barrierIsOver(t, s, "b", a, b, d)
}

// A process that died is noticed when its engine was not heard of for the lease.
func TestABarrierIsBrokenByAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	a, dies := testkit.Open(t, s.Addr()), testkit.Open(t, p.Addr())
	lease, ctx := engine.WatchdogLease(engine.MinPartyLease), testkit.Limited(t)
	ba := a.Barrier("b", 3, lease)
	waits := ba.AwaitAsync(ctx)
	dead := dies.Barrier("b", 3, lease).AwaitAsync(ctx)
	awaitWaits(t, dies, 1)
	began := time.Now()
	p.Pause()
	require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrBarrierBroken)
	took := time.Since(began)
	require.Greater(t, took, 3*time.Second, "its lease ends first")
	require.Less(t, testkit.Ran(began), engine.MinPartyLease+2*time.Second)
	p.Resume()
	require.ErrorIs(t, testkit.GetError(t, dead), engine.ErrBarrierBroken, "it is told when it is heard of again")
	requireBroken(t, ba, true)
	barrierIsOver(t, s, "b", a, dies)
}

// An arrival whose answer is lost counts once.
func TestAnswersToThoseWhoArriveAreLost(t *testing.T) {
	t.Parallel()
	for _, after := range []faultproxy.After{faultproxy.Cut, faultproxy.Hang} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
		b, bo, ctx := e.Barrier("b", 3), other.Barrier("b", 3), testkit.Limited(t)
		lost := p.DropReply(testkit.ScriptCall("barrier"), 2, after)
		waits := b.AwaitAsync(ctx)
		testkit.Await(t, lost.C(), "the reply was dropped")
		awaitWaits(t, e, 1)
		requireWaiting(t, bo, 1)
		second := bo.AwaitAsync(ctx)
		awaitWaits(t, other, 1)
		requireWaiting(t, bo, 2)
		testkit.Pending(t, waits)
		// That of the last one, too: it is told that all have come, and does not begin the next generation.
		lost = p.DropReply(testkit.ScriptCall("barrier"), 1, after)
		last := b.AwaitAsync(ctx)
		testkit.Await(t, lost.C(), "the reply was dropped")
		for _, f := range []*engine.Future[struct{}]{waits, second, last} {
			testkit.Get(t, f)
		}
		requireWaiting(t, bo, 0)
		barrierIsOver(t, s, "b", e, other)
	}
}

func TestABarrierRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	for what, b := range map[string]*engine.Barrier{
		"no parties":        e.Barrier("b", 0),
		"too many parties":  e.Barrier("b", engine.MaxParties+1),
		"a fixed lease":     e.Barrier("b", 2, engine.FixedLease(10*time.Second)),
		"too short a lease": e.Barrier("b", 2, engine.WatchdogLease(engine.MinPartyLease-time.Second)),
		"MaxHold":           e.Barrier("b", 2, engine.MaxHold(time.Minute)),
	} {
		require.ErrorIs(t, b.Err(), engine.ErrLease, what)
		require.ErrorIs(t, b.Await(ctx), engine.ErrLease, what)
		_, err := b.Waiting(ctx)
		require.ErrorIs(t, err, engine.ErrLease, what)
	}
	b := e.Barrier("b", 2, engine.MaxWait(time.Minute), engine.WatchdogLease(time.Minute))
	require.Equal(t, 2, b.With().Parties())
	require.Equal(t, "b", b.Name())
	waits := b.AwaitAsync(ctx)
	awaitWaits(t, e, 1)
	err := e.Barrier("b", 3).Await(ctx)
	require.ErrorIs(t, err, engine.ErrParties, "the others wait for two")
	require.ErrorContains(t, err, "3 are asked for here")
	requireWaiting(t, b, 1)
	require.NoError(t, b.Await(ctx))
	testkit.Get(t, waits)
	require.NoError(t, e.Barrier("b", 1).Await(ctx), "where nobody waits it may be for another number")
	require.ErrorIs(t, e.CountDownLatch("b").Await(ctx), engine.ErrWrongKind)
	s.Do(t, "SET", "text", "no barrier")
	require.ErrorIs(t, e.Barrier("text", 2).Await(ctx), engine.ErrWrongKind)
	_, err = e.Barrier("text", 2).Reset(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind)
	s.Do(t, "DEL", "text")
	ls := testkit.Acquire(t, e.Lock("l"))
	require.ErrorIs(t, e.Barrier("l", 2).Await(ctx), engine.ErrWrongKind)
	testkit.Release(t, ls)
	barrierIsOver(t, s, "b", e)
}

// Somebody asks for a lock by a barrier's name, between two parties: the parties meet all the same, and are not asked for
// again and again.
func TestPartiesMeetThoughAnotherKindIsAskedForBetweenThem(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	b := e.Barrier("b", 2)
	first := b.AwaitAsync(testkit.Limited(t))
	testkit.Eventually(t, "one waits", func() bool { n, err := b.Waiting(testkit.Limited(t)); return err == nil && n == 1 })
	other := e.Lock("b").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it is in the queue", func() bool { return e.Stats().Waiting == 2 })
	second := b.AwaitAsync(testkit.Limited(t))
	testkit.Get(t, first)
	testkit.Get(t, second)
	require.ErrorIs(t, testkit.GetError(t, other), engine.ErrWrongKind)
	require.Less(t, testkit.CallsOf(t, s, "evalsha"), int64(30))
}

// Who has left is not told to try again: its round is broken.
func TestWhoHasLeftABarrierIsToldThatItIsBroken(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	b := testkit.Open(t, s.Addr()).Barrier("b", 2, engine.MaxWait(50*time.Millisecond))
	err := b.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotOpen)
	require.ErrorContains(t, err, "who leaves breaks it")
	require.False(t, engine.SafeToRetry(err))
	require.ErrorIs(t, b.Await(testkit.Limited(t)), engine.ErrBarrierBroken)
}

// Who leaves before the server has heard of it breaks its generation, too: its request waits behind one without an answer.
func TestWhoLeavesABarrierBeforeItIsHeardOfBreaksIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, limited := testkit.Open(t, s.Addr()), testkit.Limited(t)
	// Nothing that comes meanwhile is run.
	pause := func() { s.Do(t, "CLIENT", "PAUSE", "60000", "WRITE") }
	resume := func() { s.Do(t, "CLIENT", "UNPAUSE") }
	held := func() { // a request has come, and who is not named in it is in none until that is answered
		testkit.Eventually(t, "a request is held", func() bool {
			return !strings.Contains(s.Do(t, "INFO", "clients"), "blocked_clients:0")
		})
	}
	b := e.Barrier("b", 3)
	for what, leaves := range map[string]func() error{
		"its ctx is over": func() error {
			ctx, cancel := context.WithTimeout(limited, 50*time.Millisecond)
			defer cancel()
			return b.Await(ctx)
		},
		"its future is cancelled": func() error {
			f := b.AwaitAsync(limited)
			f.Cancel()
			return testkit.GetError(t, f)
		},
		"its MaxWait is over": func() error { return b.With(engine.MaxWait(50 * time.Millisecond)).Await(limited) },
	} {
		before := e.Stats().Waits
		first := b.AwaitAsync(limited)
		awaitWaits(t, e, before+1)
		pause()
		second := b.AwaitAsync(limited)
		held()
		err := leaves()
		resume()
		require.True(t, testkit.ErrorIsAny(err, context.DeadlineExceeded, context.Canceled, engine.ErrNotOpen), "%s: %v", what, err)
		require.ErrorIs(t, testkit.GetError(t, first), engine.ErrBarrierBroken, what)
		require.ErrorIs(t, testkit.GetError(t, second), engine.ErrBarrierBroken, what)
		reset(t, b)
	}
	// One that came for another number of parties was none of them.
	before := e.Stats().Waits
	first := b.AwaitAsync(limited)
	awaitWaits(t, e, before+1)
	pause()
	second := b.AwaitAsync(limited)
	held()
	require.ErrorIs(t, e.Barrier("b", 4, engine.MaxWait(50*time.Millisecond)).Await(limited), engine.ErrNotOpen)
	resume()
	awaitWaits(t, e, before+2)
	requireBroken(t, b, false)
	require.NoError(t, b.Await(limited))
	testkit.Get(t, first)
	testkit.Get(t, second)
	barrierIsOver(t, s, "b", e)
}

// A barrier remembers those that came and went for a while. It forgets the oldest before a change of it takes long, and
// refuses who comes before it could not be read any more.
func TestABarrierOfManyEnginesThatHaveGone(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, ctx := testkit.Open(t, s.Addr()), testkit.Limited(t)
	b := e.Barrier("b", 1)
	fill := func(length int, til time.Time) string {
		text := strings.Builder{}
		text.WriteString("barrier 100 1 0 0 0 ")
		for i := 0; text.Len() < length-100; i++ {
			fmt.Fprintf(&text, "\n0c9cf5e4-5eb2-4b84-8a7a-%012d 1 %d 1=50", i, til.UnixMilli())
		}
		for i := 2; text.Len() < length-10; i++ {
			fmt.Fprintf(&text, " %d=50", i)
		}
		s.Do(t, "SET", "b", text.String())
		return text.String()
	}
	fill(200_000, time.Now().Add(time.Minute))
	require.NoError(t, b.Await(ctx))
	require.Greater(t, testkit.Int(t, s, "STRLEN", "b"), int64(190_000), "they may ask again")
	fill(200_000, time.Now().Add(-time.Second))
	require.NoError(t, b.Await(ctx))
	require.Greater(t, testkit.Int(t, s, "STRLEN", "b"), int64(190_000), "they may ask again, though they are overdue")
	fill(200_000, time.Now().Add(-61*time.Second))
	require.NoError(t, b.Await(ctx))
	require.Less(t, testkit.Int(t, s, "STRLEN", "b"), int64(1000), "they are overdue")
	full := fill(1<<20, time.Now().Add(time.Minute))
	err := b.Await(ctx)
	var said *engine.ServerError
	require.ErrorAs(t, err, &said)
	require.ErrorContains(t, err, "too many parties came to the barrier within their lease")
	require.Equal(t, full, s.Do(t, "GET", "b"), "nothing has changed")
	requireWaiting(t, b, 0)
	fill(1<<20, time.Now().Add(-61*time.Second))
	require.NoError(t, b.Await(ctx), "they are gone")
	barrierIsOver(t, s, "b", e)
}
