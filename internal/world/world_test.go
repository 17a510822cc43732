package world_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// start is what the clock of a simulated world shows when it begins.
const start = clock.Instant(time.Hour)

func never() bool { return false }

// simulate makes a world, has setUp started in it, and runs it until nothing is left to do.
func simulate(t *testing.T, seed uint64, setUp func(w *world.World)) *world.World {
	t.Helper()
	w := world.New(seed, 0)
	t.Cleanup(w.Close)
	w.Go("test", func() { setUp(w) })
	require.NoError(t, w.Run(never))
	return w
}

// order is the order in which ten goroutines pass three yield points each.
func order(t *testing.T, seed uint64) (string, uint64) {
	t.Helper()
	w := world.New(seed, 500)
	defer w.Close()
	var b strings.Builder
	for i := range 10 {
		w.Go(fmt.Sprint(i), func() {
			for range 3 {
				w.Yield("here")
				b.WriteByte(byte('0' + i))
			}
		})
	}
	require.NoError(t, w.Run(never))
	require.Len(t, b.String(), 30)
	return b.String(), w.Hash()
}

func TestTheOrderIsDrawnFromTheSeedAndRepeats(t *testing.T) {
	t.Parallel()
	one, hash := order(t, 1)
	again, same := order(t, 1)
	require.Equal(t, one, again)
	require.Equal(t, hash, same)
	other, differs := order(t, 2)
	require.NotEqual(t, one, other)
	require.NotEqual(t, hash, differs)
}

func TestBytesAreDrawnFromTheSeedToTheLast(t *testing.T) {
	t.Parallel()
	read := func(seed uint64, n int) []byte {
		w := world.New(seed, 0)
		defer w.Close()
		b := make([]byte, n)
		got, err := w.Read(b)
		require.NoError(t, err)
		require.Equal(t, n, got)
		return b
	}
	all := read(1, 24)
	require.NotContains(t, string(all), "\x00\x00", "with this seed")
	require.NotEqual(t, all, read(2, 24))
	for n := range all {
		require.Equal(t, all[:n], read(1, n))
	}
}

// What a crew hands on changes nothing: neither the story nor who is unwound when a world is closed.
func TestACrewServesOneWorldAfterTheOther(t *testing.T) {
	t.Parallel()
	var crew world.Crew
	defer crew.Close()
	run := func(w *world.World) (uint64, int) {
		unwound := 0
		for i := range 5 {
			w.Go(fmt.Sprint(i), func() { w.Yield("here"); w.Sleep(time.Duration(i)) })
			w.Go("waits", func() {
				defer func() { unwound++ }()
				w.NewBell().Wait()
			})
		}
		require.NoError(t, w.Run(never))
		hash := w.Hash()
		w.Close()
		return hash, unwound
	}
	want, _ := run(world.New(1, 500))
	for range 3 {
		hash, unwound := run(crew.New(1, 500))
		require.Equal(t, want, hash)
		require.Equal(t, 5, unwound)
	}
}

// Who is unwound when a world is closed may start others, which never run. Their coroutines stay the crew's.
func TestNobodyIsStartedInAClosedWorld(t *testing.T) { // not beside others: it counts goroutines
	var crew world.Crew
	run := func() {
		w := crew.New(1, 0)
		w.Go("idles", func() {}) // the crew's before the other is unwound
		w.Go("waits", func() {
			defer func() {
				for range 3 {
					w.Go("late", func() { t.Error("it runs in a closed world") })
				}
			}()
			w.NewBell().Wait()
		})
		require.NoError(t, w.Run(never))
		w.Close()
	}
	before := runtime.NumGoroutine()
	for range 50 {
		run()
	}
	crew.Close()
	require.Less(t, runtime.NumGoroutine(), before+50, "a coroutine is left of each world")
}

func TestNumbersAreDrawnFromTheSeed(t *testing.T) {
	t.Parallel()
	one, two := world.New(7, 0), world.New(7, 0)
	for range 20 {
		require.Equal(t, one.N(time.Minute), two.N(time.Minute))
		require.Equal(t, one.Int64N(1000), two.Int64N(1000))
		require.Equal(t, one.Int64(), two.Int64())
	}
}

func TestTimeMovesOnlyWhenNobodyCanGoOn(t *testing.T) {
	t.Parallel()
	var fired []string
	w := simulate(t, 1, func(w *world.World) {
		at := w.Now()
		w.After(time.Minute, func() { fired = append(fired, "second"); require.Equal(t, at.Add(time.Minute), w.Now()) })
		w.After(time.Second, func() { fired = append(fired, "first"); require.Equal(t, at.Add(time.Second), w.Now()) })
		w.After(time.Second, func() { fired = append(fired, "of that instant, too") })
		require.True(t, w.After(time.Second, func() { fired = append(fired, "stopped") }).Stop())
		for range 5 {
			w.Go("busy", func() {
				w.Yield("here")
				require.Equal(t, at, w.Now())
				require.Empty(t, fired)
			})
		}
		w.Sleep(time.Hour)
		require.Equal(t, at.Add(time.Hour), w.Now())
	})
	require.Equal(t, []string{"first", "of that instant, too", "second"}, fired)
	require.Equal(t, start.Add(time.Hour), w.Now())
	require.Equal(t, time.Hour, w.Wall(w.Now()).Sub(w.Wall(start)))
	require.True(t, w.Wall(0).IsZero())
}

func TestAStoppedTimerSaysSoOnce(t *testing.T) {
	t.Parallel()
	simulate(t, 1, func(w *world.World) {
		fired := false
		timer := w.After(time.Second, func() { fired = true })
		require.True(t, timer.Stop())
		require.False(t, timer.Stop())
		done := w.After(time.Second, func() {})
		w.Sleep(2 * time.Second)
		require.False(t, fired)
		require.False(t, done.Stop(), "it has fired")
	})
}

// Most timers are stopped before their time: those that are left fire as if the others had never been.
func TestTimersFireInOrderWhateverIsStopped(t *testing.T) {
	t.Parallel()
	type one struct{ at, n int }
	var want, fired []one
	simulate(t, 1, func(w *world.World) {
		timers := make(map[one]*world.Timer)
		for n := range 2000 {
			o := one{int(w.Int64N(100)), n}
			timers[o] = w.After(time.Duration(o.at)*time.Second, func() { fired = append(fired, o) })
			want = append(want, o)
			if w.Int64N(3) > 0 {
				i := w.Int64N(int64(len(want)))
				require.True(t, timers[want[i]].Stop())
				want = slices.Delete(want, int(i), int(i)+1)
			}
		}
		w.Sleep(time.Hour)
	})
	slices.SortFunc(want, func(a, b one) int { return cmp.Or(a.at-b.at, a.n-b.n) })
	require.NotEmpty(t, want)
	require.Equal(t, want, fired)
}

func TestAnAlarmFiresAtItsLastArming(t *testing.T) {
	t.Parallel()
	var at []clock.Instant
	simulate(t, 1, func(w *world.World) {
		require.Same(t, w, world.Of(w))
		a, err := w.NewAlarm(func() { at = append(at, w.Now()) })
		require.NoError(t, err)
		a.Arm(start.Add(time.Second))
		a.Arm(start.Add(2 * time.Second))
		w.Sleep(3 * time.Second)
		a.Arm(start.Add(4 * time.Second))
		a.Disarm()
		a.Arm(start.Add(5 * time.Second))
		require.NoError(t, a.Close())
		w.Sleep(time.Minute)
	})
	require.Equal(t, []clock.Instant{start.Add(2 * time.Second)}, at)
}

// Both worlds keep what these tests say.
func inBothWorlds(t *testing.T, test func(t *testing.T, w *world.World)) {
	t.Helper()
	t.Run("real", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("simulated", func(t *testing.T) {
		t.Parallel()
		done := false
		simulate(t, 3, func(w *world.World) { test(t, w); done = true })
		require.True(t, done, "everybody waits for ever")
	})
}

func TestABellKeepsOneRing(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		b := w.NewBell()
		b.Ring()
		b.Ring()
		b.Wait()
		over, cancel := w.WithCancel(context.Background())
		cancel()
		require.False(t, b.WaitIn(over), "two rings are one")

		w.Go("ring", b.Ring)
		require.True(t, b.WaitIn(context.Background()))
		soon, cancel := w.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		require.False(t, b.WaitIn(soon))
		require.ErrorIs(t, soon.Err(), context.DeadlineExceeded)
	})
}

func TestABellWakesOneOfThoseThatWait(t *testing.T) {
	t.Parallel()
	simulate(t, 1, func(w *world.World) {
		b, woken := w.NewBell(), 0
		for range 3 {
			w.Go("wait", func() { b.Wait(); woken++ })
		}
		for i := range 3 {
			w.Sleep(time.Second)
			require.Equal(t, i, woken)
			b.Ring()
		}
		w.Sleep(time.Second)
		require.Equal(t, 3, woken)
	})
}

func TestAWaitEndsAtItsInstantAndLeavesTheOthersWaiting(t *testing.T) {
	t.Parallel()
	simulate(t, 1, func(w *world.World) {
		l, b := w.NewLatch(), w.NewBell()
		var all world.Group
		all.Init(w)
		until := make([]time.Duration, 0, 3)
		for _, d := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second, time.Minute} {
			all.Go("wait", func() {
				opened := l.WaitUntil(start.Add(d))
				require.Equal(t, d == time.Minute, opened)
				until = append(until, w.Now().Sub(start))
			})
		}
		soon, cancel := w.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		require.False(t, l.WaitIn(soon))
		require.False(t, b.WaitUntil(start.Add(4*time.Second)))
		require.Equal(t, start.Add(4*time.Second), w.Now())
		l.Open()
		all.Wait()
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}, until)
		require.True(t, l.WaitUntil(start), "it is open, whatever the time")
		require.False(t, b.WaitUntil(w.Now()))
		b.Ring()
		require.True(t, b.WaitUntil(start), "it has rung, whatever the time")
		w.Go("ring", b.Ring)
		require.True(t, b.WaitUntil(w.Now().Add(time.Second)))
		w.Sleep(time.Minute) // what was set for the wait must not end another
		require.Equal(t, start.Add(64*time.Second), w.Now())
	})
}

func TestALatchLetsEverybodyGoOn(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		l := w.NewLatch()
		require.False(t, l.IsOpen())
		soon, cancel := w.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		require.False(t, l.WaitIn(soon))
		var all world.Group
		all.Init(w)
		for range 3 {
			all.Go("wait", func() { assert.True(t, l.WaitIn(context.Background())) })
		}
		l.Open()
		l.Open()
		all.Wait()
		require.True(t, l.IsOpen())
		require.True(t, l.WaitIn(soon), "it is open, whatever ctx says")
	})
}

func TestAGroupWaitsForAll(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		var g world.Group
		g.Init(w)
		g.Wait()
		ended := make(chan struct{}, 5)
		for range 4 {
			g.Go("one", func() { w.Sleep(time.Millisecond); ended <- struct{}{} })
		}
		g.Add(1)
		w.Go("another", func() { ended <- struct{}{}; g.Done() })
		g.Wait()
		require.Len(t, ended, 5)
	})
}

type key struct{}

func TestAContextEndsOnceAndWithItsParent(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		parent, cancel := w.WithCancel(context.WithValue(context.Background(), key{}, "value"))
		_, limited := parent.Deadline()
		require.False(t, limited)
		child, stop := w.WithTimeout(parent, time.Hour)
		defer stop()
		_, limited = child.Deadline()
		require.True(t, limited)
		require.Equal(t, "value", child.Value(key{}))
		require.NoError(t, child.Err())
		kept := context.WithoutCancel(child)
		cancel()
		require.ErrorIs(t, child.Err(), context.Canceled)
		<-child.Done()
		require.NoError(t, kept.Err())
		require.True(t, w.AfterFunc(kept, func() { t.Error("a context without cancel has ended") })())

		late, stop := w.WithTimeout(child, time.Hour)
		defer stop()
		require.ErrorIs(t, late.Err(), context.Canceled, "made of one that has ended")
		short, stop := w.WithTimeout(context.Background(), time.Millisecond)
		defer stop()
		require.False(t, w.NewLatch().WaitIn(short))
		stop()
		require.ErrorIs(t, short.Err(), context.DeadlineExceeded, "it ended before")
	})
}

func TestAContextEndsAtItsInstant(t *testing.T) {
	t.Parallel()
	simulate(t, 1, func(w *world.World) {
		ctx, cancel := w.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.Equal(t, start.Add(time.Minute), w.EndsAt(ctx))
		require.Zero(t, w.EndsAt(context.Background()))
		w.Sleep(time.Minute - 1)
		require.NoError(t, ctx.Err())
		w.Sleep(2)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}

func TestAfterFuncRunsOnceUnlessItIsStopped(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		ctx, cancel := w.WithCancel(context.Background())
		stopped := w.AfterFunc(ctx, func() { t.Error("it was stopped") })
		l := w.NewLatch()
		runs := w.AfterFunc(ctx, l.Open)
		require.True(t, stopped())
		require.False(t, stopped(), "once")
		cancel()
		require.True(t, l.WaitIn(context.Background()))
		require.False(t, runs(), "it has run")

		late := w.NewLatch()
		require.False(t, w.AfterFunc(ctx, late.Open)(), "ctx had ended")
		require.True(t, late.WaitIn(context.Background()))
	})
}

// The standard library's contexts end with a simulated one, too.
func TestAContextOfTheStandardLibraryEndsWithItsSimulatedParent(t *testing.T) {
	t.Parallel()
	simulate(t, 1, func(w *world.World) {
		parent, cancel := w.WithCancel(context.Background())
		child, stop := context.WithCancelCause(parent)
		defer stop(nil)
		cancel()
		w.Sleep(time.Second)
		require.ErrorIs(t, child.Err(), context.Canceled)
	})
}

func TestAnAwaitedChannelStartsItsFunction(t *testing.T) {
	t.Parallel()
	inBothWorlds(t, func(t *testing.T, w *world.World) {
		c, l := make(chan error), w.NewLatch()
		w.Await("end", c, l.Open)
		require.False(t, l.IsOpen())
		close(c)
		if w != nil {
			w.Closed(c)
			w.Closed(c) // nobody awaits it any more
		}
		require.True(t, l.WaitIn(context.Background()))
	})
}

func TestTheNilWorldIsTheRealOne(t *testing.T) {
	t.Parallel()
	var w *world.World
	require.Nil(t, world.Of(clock.System()))
	w.Yield("nothing happens")
	began := time.Now()
	w.Sleep(2 * time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 2*time.Millisecond)
	require.Less(t, w.N(time.Second), time.Second)
	require.Less(t, w.Int64N(10), int64(10))
	require.GreaterOrEqual(t, w.Int64(), int64(0))
	done := make(chan struct{})
	w.Go("real", func() { close(done) })
	<-done
}

func spoil() { panic("spoilt") }

func TestAPanicFailsTheRunWithItsStack(t *testing.T) {
	t.Parallel()
	w := world.New(1, 0)
	defer w.Close()
	goesOn := false
	w.Go("careless", spoil)
	w.After(time.Second, func() { goesOn = true })
	err := w.Run(never)
	require.ErrorContains(t, err, "panic in careless: spoilt")
	require.ErrorContains(t, err, "world_test.spoil")
	require.Same(t, err, w.Failed())
	require.False(t, goesOn, "a run that has failed goes on")
	w.Fail(errors.New("another"))
	require.Equal(t, err, w.Failed(), "the first counts")
}

func TestCloseUnwindsWhoStillWaits(t *testing.T) {
	t.Parallel()
	w := world.New(1, 0)
	unwound, proc := 0, new(world.Process)
	for range 3 {
		w.In(proc, "waits", func() {
			defer func() { unwound++ }()
			w.NewBell().Wait()
			t.Error("somebody rang")
		})
	}
	w.In(proc, "ends", func() { w.Sleep(time.Second) })
	require.NoError(t, w.Run(never))
	require.Equal(t, 3, proc.Live())
	require.Len(t, w.Alive(proc), 3)
	require.Zero(t, unwound)
	w.Close()
	require.Equal(t, 3, unwound)
	require.NoError(t, w.Failed(), "an end is no panic")
}

func TestASuspendedProcessGoesOnLater(t *testing.T) {
	t.Parallel()
	w := world.New(1, 0)
	defer w.Close()
	proc := new(world.Process)
	var mine, timer, others clock.Instant
	w.In(proc, "suspended", func() {
		w.After(time.Second, func() { timer = w.Now() })
		w.Go("its own", func() { w.Sleep(time.Second); mine = w.Now() })
	})
	w.Go("other", func() {
		w.Sleep(500 * time.Millisecond)
		w.Suspend(proc, time.Minute)
		w.Sleep(time.Second)
		others = w.Now()
	})
	require.NoError(t, w.Run(never))
	until := start.Add(500*time.Millisecond + time.Minute)
	require.Equal(t, until, mine)
	require.Equal(t, until, timer)
	require.Equal(t, start.Add(1500*time.Millisecond), others)
	require.Zero(t, proc.Live())
}

func TestAKilledProcessDoesNothingAnyMore(t *testing.T) {
	t.Parallel()
	w := world.New(1, 0)
	defer w.Close()
	proc := new(world.Process)
	outside := false
	w.In(proc, "killed", func() {
		w.After(time.Second, func() { t.Error("its timer fires") })
		w.Outside(w.Now().Add(time.Second), func() { outside = true })
		w.Go("its own", func() { w.Sleep(time.Second); t.Error("its goroutine goes on") })
	})
	w.Go("killer", func() { w.Sleep(time.Millisecond); w.Kill(proc) })
	require.NoError(t, w.Run(never))
	require.True(t, outside, "what it sent arrives")
	require.Equal(t, 1, proc.Live())
}

func TestDoneAndOnStepAreAskedBetweenSteps(t *testing.T) {
	t.Parallel()
	w := world.New(1, 0)
	defer w.Close()
	steps := uint64(0)
	w.OnStep(func() { steps++ })
	w.Go("for ever", func() {
		for {
			w.Sleep(time.Second)
		}
	})
	require.NoError(t, w.Run(func() bool { return steps == 10 }))
	require.Equal(t, w.Steps(), steps)
	hash := w.Hash()
	w.Note("something", 1)
	require.NotEqual(t, hash, w.Hash())
}
