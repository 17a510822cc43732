package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// A scene is a simulated world with one engine in which a test plays a sequence of its own, to the microsecond: what
// random programs have found once is told again without chance.
type scene struct {
	*sim
	t  *testing.T
	e  *Engine
	se *simEngine
}

// play runs a sequence in a world in which nothing goes wrong by itself.
func play(t *testing.T, do func(sc *scene)) {
	t.Helper()
	playAs(t, simPlan{seed: 1, engines: 1, owners: 1}, do)
}

// playAs is play with a plan of its own: where it takes yield points, for instance.
func playAs(t *testing.T, p simPlan, do func(sc *scene)) {
	t.Helper()
	sc := &scene{sim: newSim(p, nil), t: t}
	defer sc.w.Close()
	sc.sim.faults = false
	se := &simEngine{s: sc.sim, proc: &world.Process{}, giving: make(map[simGiving][]*simHold)}
	sc.w.In(se.proc, "play", func() {
		defer func() { sc.over = true }()
		if err := se.open(); err != nil {
			t.Errorf("open: %v", err)
			return
		}
		sc.e, sc.se = se.eng, se
		do(sc)
		if sc.e.closed.IsOpen() { // the scene has closed it, and looked at what that said
			return
		}
		ctx, cancel := sc.w.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sc.e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	require.NoError(t, sc.w.Run(func() bool { return sc.over }))
	require.True(t, sc.over, "it came to its end")
}

// slowed makes the answers to one script take longer.
func (sc *scene) slowed(script string, by time.Duration) {
	sc.slow = func(args []string) time.Duration {
		if simScriptNames[scriptArg(args)] == script {
			return by
		}
		return 0
	}
}

// lateTimers has the watchdog, and whatever else waits for time, come so late to what is due.
func (sc *scene) lateTimers(by time.Duration) {
	sc.w.OnYield(func(at string) {
		if at == "Set.run: items taken out | fired" {
			sc.w.Sleep(by)
		}
	})
}

// acquire waits for a lock.
func (sc *scene) acquire(l *Lock) *Lease {
	ls, err := result(sc, l.AcquireAsync(context.Background()))
	if err != nil {
		sc.t.Errorf("%q: %v", l.Name(), err)
	}
	return ls
}

// release gives a lock back.
func (sc *scene) release(ls *Lease) {
	if _, err := result(sc, ls.ReleaseAsync()); err != nil {
		sc.t.Errorf("%q: %v", ls.Name(), err)
	}
}

// wants complains of an error that is not the one that was to come.
func (sc *scene) wants(want, err error, what string) {
	if !errors.Is(err, want) {
		sc.t.Errorf("%s: %v, and not %v", what, err, want)
	}
}

// result waits for a future.
func result[T any](sc *scene, f *Future[T]) (T, error) {
	await(sc.sim, f)
	v, err, _ := f.Result()
	return v, err
}

// soon is how much later than asked for a timer of the engine's may be: its width and a tick.
const soon = 15 * time.Millisecond

// MaxWait ends on time, however long the answer takes, and wherever the acquire is: on its way, behind a round that
// takes long, or behind some that do not. Begun at any moment between two looks of the engine's.
func TestMaxWaitEndsOnTimeHoweverLongAnAnswerTakes(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{1, 5, 40, 60, 100, 115, 120, 121, 130, 200, 1000} {
		for _, before := range []time.Duration{0, 1, 30, 45, 49, 51, 300} { // an answer that the lane waits for meanwhile
			play(t, func(sc *scene) {
				most, before := most*time.Millisecond, before*time.Millisecond
				for phase := range 10 {
					sc.w.Sleep(time.Duration(phase) * 5 * time.Millisecond)
					sc.slowed("acquire", before)
					var others []*Future[*Lease]
					for i := range 16 { // every lane has one
						others = append(others, sc.e.Lock(strconv.Itoa(i)).AcquireAsync(context.Background()))
					}
					sc.w.Sleep(min(before, time.Millisecond))
					sc.slowed("acquire", 1300*time.Millisecond)
					asked := sc.w.Now()
					_, err := result(sc, sc.e.Lock("b", MaxWait(most)).AcquireAsync(context.Background()))
					late := sc.w.Now().Sub(asked) - most
					sc.wants(ErrUnknown, err, "an acquire without an answer")
					if late < 0 || late > soon {
						t.Errorf("MaxWait(%v) behind an answer of %v ended %v late", most, before, late)
					}
					for _, f := range others {
						ls, _ := result(sc, f)
						sc.release(ls)
					}
					sc.w.Sleep(2 * time.Second)
				}
			})
		}
	}
}

// An acquire was on its way when a ForceRelease began, so its grant is not believed: it rests until that is over, but
// no longer than it may.
func TestMaxWaitEndsWhereAGrantIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{5, 100, 150, 300} {
		play(t, func(sc *scene) {
			most, l := most*time.Millisecond, sc.e.Lock("a")
			sc.slowed("force", -1) // until no copy can run any more
			asked := sc.w.Now()
			f := sc.e.Lock("a", MaxWait(most)).AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Microsecond)
			force := l.ForceReleaseAsync(context.Background())
			_, err := result(sc, f)
			sc.wants(ErrUnknown, err, "an acquire behind a ForceRelease")
			if late := sc.w.Now().Sub(asked) - most; late > soon {
				t.Errorf("MaxWait(%v) ended %v late", most, late)
			}
			_, err = result(sc, force)
			sc.wants(ErrUnknown, err, "a ForceRelease without an answer")
		})
	}
}

// MaxWait is how long one waits for others. A Try does not: it takes its one answer, however long that takes.
func TestMaxWaitBoundsNoTry(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.slowed("acquire", 300*time.Millisecond)
		ls, err := result(sc, sc.e.Lock("a", MaxWait(10*time.Millisecond)).TryAcquireAsync(context.Background()))
		sc.wants(nil, err, "a Try")
		if err == nil {
			sc.release(ls)
		}
	})
}

// A lease is over for its holder at its deadline, some milliseconds before the watchdog comes to it: its owner enters
// nothing by it any more.
func TestAnOwnerWhoseTimeIsOverEntersNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []func(e *Engine, opts ...Option) *Lock{
		func(e *Engine, opts ...Option) *Lock { return e.Lock("a", opts...) },
		func(e *Engine, opts ...Option) *Lock { return e.RWLock("e", opts...).ReadLock() },
		func(e *Engine, opts ...Option) *Lock { return e.RWLock("e", opts...).WriteLock() },
		func(e *Engine, opts ...Option) *Lock { return e.FairLock("g", opts...).Lock },
	} {
		play(t, func(sc *scene) {
			sc.lateTimers(60 * time.Millisecond)
			owner := NewOwner()
			l := kind(sc.e, As(owner), FixedLease(100*time.Millisecond))
			ls := sc.acquire(l)
			sc.w.Sleep(ls.hold.Deadline().Sub(sc.w.Now()) + time.Millisecond)
			if !ls.Lost() || ls.hold.Status() != lockstate.Held {
				t.Errorf("%q: the moment was missed", l.Name())
			}
			_, err := result(sc, l.AcquireAsync(context.Background()))
			sc.wants(ErrLost, err, "an acquire")
			_, err = result(sc, l.TryAcquireAsync(context.Background()))
			sc.wants(ErrLost, err, "a Try")
			_, err = result(sc, ls.ReleaseAsync())
			if err != nil {
				sc.wants(ErrLost, err, "its release")
			}
			sc.release(sc.acquire(l))
		})
	}
}

// A lock that is over, though the watchdog has not said so, is in the way of no other kind.
func TestWhatIsOverRefusesNoOtherKind(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.lateTimers(60 * time.Millisecond)
		ls := sc.acquire(sc.e.RWLock("a", FixedLease(100*time.Millisecond)).WriteLock())
		other := sc.e.FencedLock("a")
		_, err := result(sc, other.AcquireAsync(context.Background()))
		sc.wants(ErrWrongKind, err, "while it is held")
		sc.w.Sleep(ls.hold.Deadline().Sub(sc.w.Now()) + time.Millisecond)
		if !ls.Lost() || ls.hold.Status() != lockstate.Held {
			t.Errorf("the moment was missed")
		}
		next, err := result(sc, other.AcquireAsync(context.Background()))
		if err != nil {
			t.Errorf("refused by what is over: %v", err)
			return
		}
		sc.release(next)
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(ErrLost, err, "its release")
	})
}

// An owner has lost what it read, and is giving its write lock back, which waits for what it asked to read beside it:
// nothing is entered any more by a lock that nobody has a handle of.
func TestAnOwnerThatGivesBackTheRestEntersNothingAfterALoss(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := NewOwner()
		rw := sc.e.RWLock("e", As(owner))
		brief := sc.e.RWLock("e", As(owner), FixedLease(100*time.Millisecond)).ReadLock()
		w, r := sc.acquire(rw.WriteLock()), sc.acquire(brief)
		sc.slowed("read", time.Second)
		asks := rw.ReadLock().AcquireAsync(context.Background())
		given := w.ReleaseAsync()
		behind := rw.WriteLock().AcquireAsync(context.Background()) // it would enter the write lock, which it finds given back
		sc.w.Sleep(200 * time.Millisecond)
		if !r.Lost() {
			t.Error("what it read is not lost")
		}
		_, err := result(sc, rw.ReadLock().AcquireAsync(context.Background()))
		sc.wants(ErrLost, err, "a reading")
		_, err = result(sc, rw.WriteLock().AcquireAsync(context.Background()))
		sc.wants(ErrLost, err, "a writing")
		asks.Cancel()
		_, err = result(sc, given)
		sc.wants(nil, err, "the release of the write lock")
		_, err = result(sc, behind)
		sc.wants(ErrLost, err, "a writing that was queued before the loss")
		_, err = result(sc, r.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
		sc.release(sc.acquire(rw.WriteLock()))
	})
}

// A holder that lost its fair lock is told before the next one here has it, though that one's acquire was on its way.
func TestTheHolderOfAFairLockIsToldBeforeTheNextHereHasIt(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		first := sc.acquire(sc.e.FairLock("g", FixedLease(100*time.Millisecond)).Lock)
		ctx := first.Context()
		sc.w.OnYield(func(at string) {
			if at == "section.tellLoss: lost | a context cancelled" {
				sc.w.Sleep(time.Second)
			}
		})
		next := sc.e.FairLock("g").AcquireAsync(context.Background())
		told := false
		next.then(func() {
			select {
			case <-ctx.Done(): // Err would look at the clock
				told = true
			default:
			}
		})
		ls, err := result(sc, next)
		sc.wants(nil, err, "the next")
		if !told {
			t.Error("the next has it, and the context of the last has not ended")
		}
		sc.w.OnYield(nil)
		sc.release(ls)
		_, err = result(sc, first.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
	})
}

// A lease that is given back while Close, or its loss, ends its context has an ended context when that returns.
func TestTheContextOfALeaseHasEndedWhenItsReleaseReturns(t *testing.T) {
	t.Parallel()
	for at, end := range map[string]func(sc *scene, ls *Lease){
		"Engine.closeShard: changes ended, holds released | their contexts cancelled": func(sc *scene, _ *Lease) {
			_ = sc.e.Close(context.Background())
		},
		"section.tellLoss: lost | a context cancelled": func(sc *scene, ls *Lease) { sc.e.watchdog.Lose(ls.hold, renew.CauseForced) },
	} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("a"))
			done := ls.Context().Done()
			sc.w.OnYield(func(here string) {
				if here == at {
					sc.w.Sleep(time.Second)
				}
			})
			sc.w.Go("end", func() { end(sc, ls) })
			sc.w.Sleep(time.Millisecond)
			ls.ReleaseAsync()
			select {
			case <-done:
			default:
				t.Errorf("%s: the context lives on", at)
			}
			sc.w.OnYield(nil)
			sc.w.Sleep(5 * time.Second)
		})
	}
}

// Close returns when every future is told: whom a caller's own release passed its lock to, and who was just cancelled,
// though those calls have not returned.
func TestCloseWaitsForWhoIsJustTold(t *testing.T) {
	t.Parallel()
	for at, call := range map[string]func(ls *Lease, next *Future[*Lease]){
		"releaseOp.giveBack: contexts ended | effects": func(ls *Lease, _ *Future[*Lease]) { ls.ReleaseAsync() },
		"acquireOp.abandon: unlinked | told":           func(_ *Lease, next *Future[*Lease]) { next.Cancel() },
	} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("a"))
			next := sc.e.Lock("a").AcquireAsync(context.Background())
			sc.w.OnYield(func(here string) {
				if here == at {
					sc.w.Sleep(time.Second)
				}
			})
			sc.w.Go("call", func() { call(ls, next) })
			sc.w.Sleep(time.Millisecond)
			if err := sc.e.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if _, _, told := next.Result(); !told {
				t.Errorf("%s: Close has returned before the waiter was told", at)
			}
			sc.w.OnYield(nil)
		})
	}
}

// Who joins a queue that was told "busy" is told of a holder when its MaxWait ends, though the queue's poll is just on its
// way: it takes nothing back of what is known.
func TestMaxWaitTellsOfTheHolderWhileAPollIsOnItsWay(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.server.twin.Do([]string{"HSET", "a", "somebody", "1"})
		sc.server.twin.Do([]string{"PEXPIRE", "a", "60000"})
		first := sc.e.Lock("a").AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		second := sc.e.Lock("a", MaxWait(1250*time.Millisecond)).AcquireAsync(context.Background())
		first.Cancel()
		sc.slowed("acquire", time.Second)
		_, err := result(sc, second)
		sc.wants(ErrHeld, err, "a waiter")
		sc.server.twin.Do([]string{"DEL", "a"})
	})
}

// A writer that leaves takes its note back. The next one, which travels on another connection, leaves its own after that.
func TestANoteThatIsTakenBackIsNotThatOfTheNextWriter(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		for range 30 {
			sc.server.twin.Do([]string{"HSET", "e", "mode", "read", "somebody", "1"})
			sc.server.twin.Do([]string{"PEXPIRE", "e", "60000"})
			first := sc.e.RWLock("e").WriteLock().AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond)
			sc.text = &strings.Builder{}
			first.Cancel()
			next := sc.e.RWLock("e", WaitReplicas(1, time.Second)).WriteLock().AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond)
			if story := sc.text.String(); strings.Index(story, "server: write e") < strings.Index(story, "server: writerelease e") {
				t.Errorf("readers are let in before who waits to write:\n%s", story)
			}
			sc.text = nil
			next.Cancel()
			sc.w.Sleep(10 * time.Millisecond)
			sc.server.twin.Do([]string{"DEL", "e"})
		}
	})
}

// A handle is given back while an Extend is on its way, which keeps the key's expiry as it is: it is lowered to what the
// rest ask for when that is answered.
func TestAKeyIsLoweredWhenTheExtendThatKeptItIsAnswered(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := NewOwner()
		brief := sc.acquire(sc.e.Lock("a", As(owner), FixedLease(5*time.Second)))
		long := sc.acquire(sc.e.Lock("a", As(owner), FixedLease(20*time.Second)))
		sc.slowed("renew", 100*time.Millisecond)
		extended := brief.extend(context.Background(), 5*time.Second)
		sc.release(long)
		_, err := result(sc, extended)
		sc.wants(nil, err, "the Extend")
		sc.w.Sleep(10 * time.Millisecond)
		_, expires := sc.server.twin.Look("a")
		if left := expires - sc.server.twin.Millis(); left > 5000 || left < 4000 || brief.Lost() {
			t.Errorf("the key lives %d ms", left)
		}
		sc.release(brief)
	})
}

// lives is how long a key is to live.
func (sc *scene) lives(key string) time.Duration {
	_, expires := sc.server.twin.Look(key)
	return time.Duration(expires-sc.server.twin.Millis()) * time.Millisecond
}

// lateExtend does on the server what a copy of an Extend does that comes late.
func (sc *scene) lateExtend(key string, d time.Duration) {
	sc.server.twin.Do([]string{"PEXPIRE", key, strconv.FormatInt(d.Milliseconds(), 10)})
}

// An Extend was sent twice, for its first copy got no answer. Its handle is given back, and then that copy comes: the key
// is lowered to what the rest ask for as soon as no copy can come any more.
func TestALateCopyOfAnExtendIsSettledWhenItsHandleIsGivenBack(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("a", As(NewOwner()), FixedLease(20*time.Second))
		outer, inner := sc.acquire(l), sc.acquire(l)
		sc.slowed("renew", -1)
		extended := inner.extend(context.Background(), time.Hour)
		sc.w.Sleep(10 * time.Millisecond)
		sc.slow = nil
		_, err := result(sc, extended)
		sc.wants(nil, err, "the Extend")
		sc.release(inner)
		if lives := sc.lives("a"); lives > 20*time.Second {
			t.Errorf("given back: the key lives %v", lives)
		}
		sc.lateExtend("a", time.Hour)
		sc.w.Sleep(3 * time.Second)
		if lives := sc.lives("a"); lives > 20*time.Second || lives < 15*time.Second || outer.Lost() {
			t.Errorf("no copy can come any more: the key lives %v", lives)
		}
		sc.release(outer)
	})
}

// Who extends leaves the wait and gives its handle back while the Extend is to be sent again, for it got no answer: the
// key is lowered when that has one, and again as soon as no copy can come any more.
func TestAnExtendThatNobodyWaitsForIsSettledWhenItsHandleIsGivenBack(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := NewOwner()
		outer := sc.acquire(sc.e.Lock("a", As(owner), WatchdogLease(2*time.Second)))
		inner := sc.acquire(sc.e.Lock("a", As(owner), FixedLease(2*time.Second)))
		sc.slowed("renew", -1)
		extended := inner.extend(context.Background(), time.Hour)
		sc.w.Sleep(5 * time.Millisecond) // its first copy has no answer, and it is to be sent again
		sc.slow = nil
		extended.Cancel()
		given := inner.ReleaseAsync()
		_, err := result(sc, extended)
		sc.wants(ErrCancelled, err, "the Extend")
		_, err = result(sc, given)
		sc.wants(nil, err, "the release")
		sc.w.Sleep(100 * time.Millisecond)
		if lives := sc.lives("a"); lives > 2*time.Second {
			t.Errorf("the Extend has ended: the key lives %v", lives)
		}
		sc.lateExtend("a", time.Hour)
		sc.w.Sleep(3 * time.Second)
		if lives := sc.lives("a"); lives > 2*time.Second || lives < time.Second || outer.Lost() {
			t.Errorf("no copy can come any more: the key lives %v", lives)
		}
		sc.release(outer)
	})
}

// The answer to an Extend comes when its handle was given back: the others trust the hold for no longer than they did, not
// for a moment.
func TestTheAnswerToAnExtendOfWhoHasLeftRaisesNoTrust(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("a", As(NewOwner()), FixedLease(2*time.Second))
		outer, inner := sc.acquire(l), sc.acquire(l)
		sc.slow = func(args []string) time.Duration {
			return map[string]time.Duration{"renew": 100 * time.Millisecond, "reacquire": time.Second}[simScriptNames[scriptArg(args)]]
		}
		extended := inner.extend(context.Background(), time.Hour)
		given := inner.ReleaseAsync()
		seen := false
		sc.w.OnYield(func(at string) {
			seen = seen || at == "singleOp.ends: settled | finished"
			if trusted := outer.hold.Deadline().Sub(sc.w.Now()); trusted > 2*time.Second {
				t.Errorf("%s: trusted for %v", at, trusted)
			}
		})
		_, err := result(sc, extended)
		sc.wants(nil, err, "the Extend")
		sc.w.OnYield(nil)
		if !seen {
			t.Error("nobody has looked")
		}
		_, err = result(sc, given)
		sc.wants(nil, err, "the release")
		sc.slow = nil
		sc.w.Sleep(2 * time.Second)
		if !outer.Lost() {
			t.Error("a lease of two seconds that nobody extended is not lost")
		}
		_, err = result(sc, outer.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
	})
}

// The watchdog stands still while the time of a hold of several readers ends. Whoever gives back then has lost it, and so
// have the others.
func TestOneOfSeveralReadersThatGivesBackTooLateHasLostTheLock(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := NewOwner()
		rw := sc.e.RWLock("e", WatchdogLease(time.Second))
		own, other := sc.acquire(rw.ReadLock().With(As(owner))), sc.acquire(rw.ReadLock())
		if own.hold != other.hold {
			t.Error("they do not share a hold")
		}
		told := other.Context().Done()
		sc.w.OnYield(func(at string) {
			if at == "Cohorts.fire: decided | given to the senders" || at == "sender.send: the gone ones dropped | sent" {
				sc.w.Sleep(3 * time.Second)
			}
		})
		sc.w.Sleep(1900 * time.Millisecond)
		if !own.Lost() || own.hold.Status() != lockstate.Held {
			t.Error("the moment was missed")
		}
		_, err := result(sc, own.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
		select {
		case <-told:
		default:
			t.Error("the other reader is not told")
		}
		sc.w.OnYield(nil)
		_, err = result(sc, other.ReleaseAsync())
		sc.wants(ErrLost, err, "the other's release")
		sc.release(sc.acquire(rw.WriteLock().With(As(owner)))) // it has nothing to give back any more
	})
}

// An owner gives all its handles back at once, the one with the longest lease behind another. Nobody is left then who asks
// for less, so the key is not lowered: it is released, and not passed on with that lease.
func TestHandlesThatAreGivenBackAtOnceLeaveTheNextHolderItsOwnLease(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		short, as := WatchdogLease(2*time.Second), As(NewOwner())
		outer := sc.acquire(sc.e.Lock("a", as, short))
		long := sc.acquire(sc.e.Lock("a", as, FixedLease(time.Hour)))
		third := sc.acquire(sc.e.Lock("a", as, short))
		next := sc.e.Lock("a", short).AcquireAsync(context.Background())
		for _, ls := range []*Lease{third, long, outer} {
			ls.ReleaseAsync()
		}
		ls, err := result(sc, next)
		sc.wants(nil, err, "the next")
		if lives, trusted := sc.lives("a"), ls.hold.Deadline().Sub(sc.w.Now()); max(lives, trusted) > 2*time.Second {
			t.Errorf("the next holder's key lives %v, and is trusted for %v", lives, trusted)
		}
		sc.release(ls)
	})
}
