package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// How soon something is told when the server cannot be reached, to the millisecond: in a simulated world, whose time is
// nobody else's. The tests of the same names beside real servers look at what only those show, and measure nothing.

// silences are the ways in which nothing comes from the server any more. Each is given when it is over.
//
//nolint:gochecknoglobals // a table of the tests
var silences = map[string]func(sc *scene, until clock.Instant){
	"ServerStopped": func(sc *scene, until clock.Instant) { sc.server.stopped = until },
	"BlackHole":     func(sc *scene, until clock.Instant) { sc.server.dark = until },
	"NetworkGone": func(sc *scene, until clock.Instant) {
		sc.server.dark = until
		for len(sc.server.conns) > 0 {
			sc.server.conns[0].cut()
		}
	},
	"AnswersLost": func(sc *scene, _ clock.Instant) { sc.slow = func([]string) time.Duration { return -1 } },
	"AnswersLate": func(sc *scene, _ clock.Instant) { sc.slow = func([]string) time.Duration { return 2 * time.Second } },
}

// Nothing comes from the server any more, from any moment of a lease on. Its holder's context has ended at its deadline,
// which is no later than what the last answer allows, and when it is told the server has the key still.
func TestC009_SilenceIsToldBeforeTheServerLetsGo(t *testing.T) {
	t.Parallel()
	for name, silence := range silences {
		for lease, opt := range map[time.Duration]func(time.Duration) Option{
			time.Second: WatchdogLease, 2 * time.Second: WatchdogLease, 1500 * time.Millisecond: FixedLease,
		} {
			for after := time.Duration(0); after < lease; after += lease / 16 {
				play(t, func(sc *scene) {
					what := fmt.Sprintf("%s from %v of a lease of %v on", name, after, lease)
					ls := sc.acquire(sc.e.Lock("a", opt(lease)))
					done := ls.Context().Done()
					sc.w.Sleep(after)
					silent := sc.w.Now()
					silence(sc, silent.Add(lease+3*time.Second))
					sc.awaitLoss(ls, done, silent.Add(lease), what)
					sc.slow = nil
					sc.release(sc.acquire(sc.e.Lock("a")))
				})
			}
		}
	}
}

// Passing a lock on earns nothing: its next holder is told as the last one would have been.
func TestHandOff_SilenceIsToldToTheNextHolder(t *testing.T) {
	t.Parallel()
	for name, silence := range silences {
		play(t, func(sc *scene) {
			const lease = time.Second
			sc.line = 15 * time.Millisecond // the longer the way, the longer the time in which it is passed on
			l := sc.e.Lock("a", WatchdogLease(lease))
			first := sc.acquire(l)
			waits := l.AcquireAsync(context.Background())
			silent, trusted := sc.w.Now(), first.hold.Deadline()
			silence(sc, silent.Add(lease+3*time.Second))
			sc.release(first)
			ls, err := result(sc, waits)
			if err != nil || sc.e.Stats().GrantsByHandOff != 1 || ls.hold.Deadline() != trusted {
				t.Errorf("%s: it is not passed on as it is: %v", name, err)
				return
			}
			sc.awaitLoss(ls, ls.Context().Done(), trusted, name)
			sc.slow = nil
			sc.release(sc.acquire(sc.e.Lock("a")))
		})
	}
}

// awaitLoss waits until a lease is over, which must be told in time.
func (sc *scene) awaitLoss(ls *Lease, done <-chan struct{}, most clock.Instant, what string) {
	for {
		deadline := ls.hold.Deadline()
		if deadline.After(most) {
			sc.t.Errorf("%s: trusted for %v longer than the last answer allows", what, deadline.Sub(most))
		}
		select {
		case <-done:
			if _, err := result(sc, ls.ReleaseAsync()); !ls.Lost() || !errors.Is(err, ErrLost) {
				sc.t.Errorf("%s: its release: %v", what, err)
			}
			return
		default:
		}
		if late := sc.w.Now().Sub(deadline); late > 0 {
			sc.t.Errorf("%s: not told %v after the deadline", what, late)
			return
		}
		if sc.lives("a") <= 0 {
			sc.t.Errorf("%s: the server has let go, and nobody is told", what)
			return
		}
		sc.w.Sleep(time.Millisecond)
	}
}

// tryingLasts is how long an operation that has no answer is tried, three attempts that hang, and retryGap the longest from
// one try to the next.
const tryingLasts, retryGap = 3 * simAttempt, time.Second

// The answer to an acquire is lost, and the server is never there again: its caller is told when its ctx ends, or, where
// that does not end, when trying has lasted long enough. What the script took is not renewed.
func TestC023_AnAcquireWithoutAServerEndsOnTime(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	for _, limit := range []time.Duration{time.Second, 0} {
		play(t, func(sc *scene) {
			ctx, most, want := context.Background(), tryingLasts+retryGap, ErrUnknown
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = sc.w.WithTimeout(ctx, limit)
				defer cancel()
				most, want = limit, context.DeadlineExceeded
			}
			asked := sc.w.Now()
			f := sc.e.Lock("a", WatchdogLease(lease)).AcquireAsync(ctx)
			for sc.lives("a") <= 0 {
				sc.w.Sleep(10 * time.Microsecond)
			}
			end := sc.w.Now().Add(sc.lives("a"))
			silences["NetworkGone"](sc, asked.Add(time.Minute))
			for _, _, told := f.Result(); !told; _, _, told = f.Result() {
				if sc.lives("a") > 0 && sc.w.Now().Add(sc.lives("a")).Sub(end) > time.Millisecond {
					t.Error("the ghost is renewed")
				}
				sc.w.Sleep(time.Millisecond)
			}
			_, err, _ := f.Result()
			sc.wants(want, err, "the acquire")
			took := sc.w.Now().Sub(asked)
			if took < limit || took > most+soon {
				t.Errorf("with a limit of %v it was told after %v", limit, took)
			}
			if sc.server.dark = 0; limit == 0 && took < tryingLasts {
				t.Errorf("it gave up after %v", took)
			}
		})
	}
}

// The release of a lock is lost, before or behind the server: its caller is told after a while by when the lock is free.
// The lock is not renewed, and released as soon as the server is there again.
func TestC026_AReleaseWithoutAServerIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, ran := range []bool{true, false} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("a"))
			asked := sc.w.Now()
			end := asked.Add(sc.lives("a"))
			if ran {
				sc.slowed("release", -1)
			} else {
				sc.server.dark = asked.Add(time.Minute)
			}
			f := ls.ReleaseAsync()
			sc.w.Sleep(time.Millisecond)
			silences["NetworkGone"](sc, asked.Add(time.Minute))
			sc.slow = nil
			_, err := result(sc, f)
			var unknown *UnknownError
			if !errors.Is(err, ErrUnknown) || !errors.As(err, &unknown) || !SafeToRetry(err) || unknown.Name != "a" {
				t.Errorf("the release: %v", err)
				return
			}
			if free := unknown.FreeBy; free.Before(sc.w.Wall(end)) || free.After(sc.w.Wall(sc.w.Now().Add(2*DefaultLease))) {
				t.Errorf("free by %v, it can live until %v", free, sc.w.Wall(end))
			}
			if took := sc.w.Now().Sub(asked); took < tryingLasts || took > tryingLasts+retryGap {
				t.Errorf("it gave up after %v", took)
			}
			if (sc.lives("a") <= 0) != ran || sc.w.Now().Add(sc.lives("a")).After(end.Add(time.Millisecond)) {
				t.Errorf("the key lives %v, the release had run: %v", sc.lives("a"), ran)
			}
			sc.server.dark = 0
			for back := sc.w.Now(); sc.lives("a") > 0; sc.w.Sleep(time.Millisecond) {
				if sc.w.Now().Sub(back) > simAttempt {
					t.Error("the engine does not go on releasing")
					return
				}
			}
			sc.release(sc.acquire(sc.e.Lock("a")))
		})
	}
}

// A caller that leaves is told at that very moment, or by the next look at contexts, though the server has granted already
// and the answer is on its way. The lock is given back when that is there, and not later.
func TestC038_WhoLeavesIsToldAtOnce(t *testing.T) {
	t.Parallel()
	const latency = 400 * time.Millisecond
	for what, want := range map[string]error{"ctx": context.Canceled, "try": context.Canceled, "Cancel": ErrCancelled} {
		play(t, func(sc *scene) {
			ctx, cancel := sc.w.WithCancel(context.Background())
			defer cancel()
			sc.slowed("acquire", latency)
			asked := sc.w.Now()
			ask := map[string]func(*Lock, context.Context) *Future[*Lease]{"try": (*Lock).TryAcquireAsync}[what]
			if ask == nil {
				ask = (*Lock).AcquireAsync
			}
			f := ask(sc.e.Lock("a"), ctx)
			sc.w.Sleep(10 * time.Millisecond)
			if sc.lives("a") <= 0 {
				t.Error("the server has not granted")
			}
			left := sc.w.Now()
			if what == "Cancel" {
				f.Cancel()
			} else {
				cancel()
			}
			ls, err := result(sc, f)
			sc.wants(want, err, what)
			if err == nil {
				sc.release(ls)
				return
			}
			most := tickEvery + soon
			if what == "Cancel" {
				most = 0
			}
			if took := sc.w.Now().Sub(left); took > most {
				t.Errorf("%s: told after %v", what, took)
			}
			for sc.lives("a") > 0 {
				sc.w.Sleep(time.Millisecond)
			}
			sc.slow = nil
			if took := sc.w.Now().Sub(asked); took < latency || took > latency+5*time.Millisecond {
				t.Errorf("%s: given back after %v", what, took)
			}
		})
	}
}

// A waiter that was told "busy" waits through outages that last longer than an acquire is tried that never was.
func TestC123_AWaitOutlastsALongOutage(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.server.twin.Do([]string{"HSET", "a", "somebody", "1"})
		sc.server.twin.Do([]string{"PEXPIRE", "a", "86400000"})
		waiter := sc.e.Lock("a", MaxWait(24*time.Hour)).AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		for _, name := range []string{"NetworkGone", "ServerStopped", "BlackHole"} {
			silences[name](sc, sc.w.Now().Add(10*tryingLasts))
			sc.w.Sleep(11 * tryingLasts)
			if _, err, told := waiter.Result(); told {
				t.Errorf("%s: it was told %v", name, err)
				return
			}
		}
		sc.server.twin.Do([]string{"DEL", "a"})
		sc.server.publish(slot.LockChannel("a"), "0")
		freed := sc.w.Now()
		ls, err := result(sc, waiter)
		sc.wants(nil, err, "the waiter")
		if took := sc.w.Now().Sub(freed); took > 100*time.Millisecond {
			t.Errorf("it has the lock %v after the message", took)
		}
		sc.release(ls)
	})
}
