package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
)

// A hand-off makes a holder of the next in everything: whose the lock is, and for how long it is renewed.

// MaxHold counts from the hand-off, and not from the grant of the one before.
func TestAHandOffBeginsItsHoldersMaxHoldAnew(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		const limit = 5 * time.Second
		l := sc.e.Lock("a", MaxHold(limit))
		first := sc.acquire(l)
		granted := sc.w.Now()
		next := l.AcquireAsync(context.Background())
		sc.w.Sleep(lockstate.TenureLeast / 2)
		sc.release(first)
		handed := sc.w.Now()
		ls, err := result(sc, next)
		sc.wants(nil, err, "the next")
		if ls.hold != first.hold {
			t.Error("it was not handed over")
		}
		if ends := sc.e.watchdog.Until(ls.hold); ends != handed.Add(limit) {
			t.Errorf("it is renewed for %v after the hand-off, which came %v after the grant", ends.Sub(handed), handed.Sub(granted))
		}
		sc.release(ls)
	})
}

// The next holder's owner enters what was handed over. The one before has it no more: it is told that somebody else has it.
func TestWhatIsHandedOverIsItsNewOwners(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		before, now := As(NewOwner()), As(NewOwner())
		first := sc.acquire(sc.e.Lock("a", before))
		next := sc.e.Lock("a", now).AcquireAsync(context.Background())
		sc.release(first)
		ls, err := result(sc, next)
		sc.wants(nil, err, "the next")
		if ls.hold != first.hold {
			t.Error("it was not handed over")
		}
		_, err = result(sc, sc.e.Lock("a", before).TryAcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "who had it before")
		again, err := result(sc, sc.e.Lock("a", now).TryAcquireAsync(context.Background()))
		sc.wants(nil, err, "who has it now")
		if err == nil {
			sc.release(again)
		}
		sc.release(ls)
	})
}

// An engine whose turn is over leaves a lock that others wait for to them for a moment: who waits here does not ask at once.
// Where nobody waits elsewhere it does.
func TestAnEngineLeavesTheLockToOthersForAMomentWhenItsTurnIsOver(t *testing.T) {
	t.Parallel()
	for _, others := range []int64{0, 1} {
		play(t, func(sc *scene) {
			publish := sc.server.twin.Publish
			sc.server.twin.Publish = func(channel, message string) int64 { return publish(channel, message) + others }
			l := sc.e.Lock("a")
			first := sc.acquire(l)
			next := l.AcquireAsync(context.Background())
			sc.w.Sleep(lockstate.TenureMost)
			sc.release(first)
			released := sc.w.Now()
			ls, err := result(sc, next)
			sc.wants(nil, err, "the next")
			if took := sc.w.Now().Sub(released); took < lockstate.YieldLeast != (others == 0) {
				t.Errorf("with %d others the next of this engine has it %v after the release", others, took)
			}
			sc.release(ls)
		})
	}
}

// A turn lasts for ten round trips, within its bounds: over a long way it is longer, or it would be over before the second
// grant. And the lock is left to the others for two, or our next acquire would be there before they have heard.
func TestATurnAndThePauseBehindItAreAsLongAsTheWay(t *testing.T) {
	t.Parallel()
	const others = 1
	for _, c := range []struct {
		line, held time.Duration // one way, and for how long the lock is held
		handedOver bool
		least      time.Duration // between a release and the next grant, if it is not handed over
	}{
		{0, 19 * time.Millisecond, true, 0},
		{0, 25 * time.Millisecond, false, lockstate.YieldLeast},
		{4 * time.Millisecond, 75 * time.Millisecond, true, 0},
		{4 * time.Millisecond, 90 * time.Millisecond, false, 24 * time.Millisecond}, // a pause of 16, and a round trip of 8
		{40 * time.Millisecond, 195 * time.Millisecond, true, 0},
		{40 * time.Millisecond, 205 * time.Millisecond, false, 100 * time.Millisecond}, // of 20, and of 80
	} {
		play(t, func(sc *scene) {
			sc.line = c.line
			publish := sc.server.twin.Publish
			sc.server.twin.Publish = func(channel, message string) int64 { return publish(channel, message) + others }
			l := sc.e.Lock("a")
			first := sc.acquire(l)
			next := l.AcquireAsync(context.Background())
			sc.w.Sleep(c.held)
			sc.release(first)
			released := sc.w.Now()
			ls, err := result(sc, next)
			sc.wants(nil, err, "the next")
			if handedOver := ls.hold == first.hold; handedOver != c.handedOver {
				t.Errorf("%v one way, held for %v: handed over: %v", c.line, c.held, handedOver)
			}
			switch took := sc.w.Now().Sub(released); {
			case took < c.least:
				t.Errorf("%v one way: the others had %v", c.line, took)
			case took > 2*c.least+time.Millisecond:
				t.Errorf("%v one way: %v until the next of this engine had it", c.line, took)
			}
			sc.release(ls)
		})
	}
}

// An Extend of an hour gets no answer, and then nothing else does for a long time: the key may live for the hour. Whoever gives
// the lock back is told so, and it is given back whenever the server answers again, not after its lease only.
func TestALockWhoseExtendGotNoAnswerIsGivenBackHoweverLongThatTakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reads, lost bool }{{}, {lost: true}, {reads: true}, {true, true}} {
		play(t, func(sc *scene) {
			const lease, silence = 2 * time.Second, 5 * time.Minute
			l := sc.e.Lock("a", FixedLease(lease))
			if c.reads {
				l = sc.e.RWLock("a", FixedLease(lease)).ReadLock()
			}
			ls := sc.acquire(l)
			sc.slow = func([]string) time.Duration { return time.Hour } // it has none, but runs
			extended := ls.extend(context.Background(), time.Hour)
			sc.w.Sleep(10 * time.Millisecond)
			if lives := sc.lives("a"); lives < 59*time.Minute {
				t.Errorf("the key lives %v: the Extend has not run", lives)
			}
			sc.server.dark = sc.w.Now().Add(silence)
			if c.lost {
				sc.w.Sleep(lease)
				if !ls.Lost() {
					t.Error("it is not lost")
				}
			}
			_, err := result(sc, ls.ReleaseAsync())
			switch {
			case c.lost:
				sc.wants(ErrLost, err, "the release of what was lost")
			case err == nil || !strings.Contains(err.Error(), "free by"):
				t.Errorf("the release without an answer: %v", err)
			case ls.hold.freeBy().Sub(sc.w.Now()) < 59*time.Minute:
				t.Errorf("the release says: %v", err)
			}
			_, err = result(sc, extended)
			if err == nil {
				t.Error("the Extend has an answer")
			}
			sc.slow = nil
			sc.w.Sleep(silence + 10*time.Second)
			if lives := sc.lives("a"); lives > 0 {
				t.Errorf("the server answers again: the key lives %v", lives)
			}
		})
	}
}

// An owner with two handles of a lost lock gets nothing anew before it has given both back: of a hold of its own, and of one
// that it shares with other readers.
func TestAnOwnerGivesEveryHandleOfALostLockBackBeforeItHasItAnew(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		as := As(NewOwner())
		for _, l := range []*Lock{sc.e.Lock("a", as), sc.e.RWLock("b", as).ReadLock()} {
			one, two := sc.acquire(l), sc.acquire(l)
			if one.hold != two.hold {
				t.Errorf("%s: two holds", l.Name())
			}
			_, err := result(sc, l.ForceReleaseAsync(context.Background()))
			sc.wants(nil, err, "the ForceRelease")
			for _, ls := range []*Lease{one, two} {
				_, err = result(sc, l.AcquireAsync(context.Background()))
				sc.wants(ErrLost, err, "who has not given everything back")
				_, err = result(sc, ls.ReleaseAsync())
				sc.wants(ErrLost, err, "the release of what was lost")
			}
			sc.release(sc.acquire(l))
		}
	})
}

// An owner that writes reads beside that, for longer, or extends its reading; the server does so, and says nothing then for a
// long time. The write hold is lost meanwhile. The key lives for as long as was asked, whoever has it: the write hold is given
// back whenever the server answers again.
func TestAWriteHoldIsGivenBackHoweverLongItsOwnerMayHaveRead(t *testing.T) {
	t.Parallel()
	for _, extends := range []bool{false, true} {
		play(t, func(sc *scene) {
			const lease, silence = 2 * time.Second, 5 * time.Minute
			rw := sc.e.RWLock("rw", As(NewOwner()))
			w := sc.acquire(rw.WriteLock().With(FixedLease(lease)))
			unanswered := func([]string) time.Duration { return time.Hour } // it has none, but runs
			ctx, cancel := sc.w.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			if extends {
				r := sc.acquire(rw.ReadLock().With(FixedLease(lease)))
				sc.slow = unanswered
				r.extend(ctx, time.Hour)
			} else {
				sc.slow = unanswered
				rw.ReadLock().With(FixedLease(time.Hour)).AcquireAsync(ctx)
			}
			sc.w.Sleep(20 * time.Millisecond)
			sc.slow, sc.server.dark = nil, sc.w.Now().Add(silence)
			if lives := sc.lives("rw"); lives < 50*time.Minute {
				t.Errorf("the key lives %v only", lives)
			}
			sc.w.Sleep(lease)
			if !w.Lost() {
				t.Error("it is not lost")
			}
			_, err := result(sc, w.ReleaseAsync())
			sc.wants(ErrLost, err, "the release of what was lost")
			sc.w.Sleep(silence + 10*time.Second)
			if lives := sc.lives("rw"); lives > 0 {
				t.Errorf("the server answers again: the key lives %v", lives)
			}
		})
	}
}
