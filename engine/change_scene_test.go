package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// Changes of one hold are made one after the other. Whoever waits behind one that gets no answer is told as soon as who
// asked for that one, and what nobody knows is carried out when the server answers again.
func TestWhoWaitsBehindAChangeWithoutAnAnswerIsTold(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("a", As(NewOwner()), FixedLease(time.Hour))
		handles := []*Lease{sc.acquire(l), sc.acquire(l), sc.acquire(l), sc.acquire(l)}
		sc.slowed("reacquire", -1)
		asked := sc.w.Now()
		releases := []*Future[struct{}]{handles[0].ReleaseAsync(), handles[1].ReleaseAsync()}
		acquires := []*Future[*Lease]{
			l.TryAcquireAsync(context.Background()), l.AcquireAsync(context.Background()),
		}
		extended := handles[3].extend(context.Background(), 2*time.Hour)
		ctx, cancel := sc.w.WithCancel(context.Background())
		left := handles[3].extend(ctx, 3*time.Hour)
		sc.w.Sleep(5 * time.Second)
		cancel()
		releases = append(releases, handles[2].ReleaseAsync()) // it was asked for later, and is told later
		const alone = retryBudget * simAttempt                 // from the first failure on, which comes at once here
		told := func() time.Duration { return sc.w.Now().Sub(asked) }
		for _, f := range releases[:2] {
			_, err := result(sc, f)
			sc.wants(ErrUnknown, err, "a release")
		}
		for _, f := range acquires {
			_, err := result(sc, f)
			sc.wants(ErrUnknown, err, "an entry")
		}
		_, err := result(sc, extended)
		sc.wants(ErrUnknown, err, "an Extend")
		_, err = result(sc, left)
		sc.wants(context.Canceled, err, "an Extend whose caller left")
		if took := told(); took < alone || took > alone+2*time.Second {
			t.Errorf("they are told after %v", took)
		}
		if _, _, early := releases[2].Result(); early {
			t.Error("the last is told as early as the first")
		}
		_, err = result(sc, releases[2])
		sc.wants(ErrUnknown, err, "a later release")
		if took := told() - 5*time.Second; took < alone || took > alone+2*time.Second {
			t.Errorf("the later one is told after %v", took)
		}
		sc.slow = nil
		sc.w.Sleep(10 * time.Second)
		sc.onWire("a", "1", time.Hour)
		sc.release(handles[3])
		if kind, _ := sc.server.twin.Look("a"); kind != 0 {
			t.Error("it is not free")
		}
	})
}

// An owner has given back all it had, and nobody knows whether the server did that. Then the lock is lost. Nothing is left
// to be given back: who wants in again, and waits behind those releases, asks for it anew.
func TestWhoGaveEverythingBackMayEnterAfterALoss(t *testing.T) {
	t.Parallel()
	for _, kind := range []func(e *Engine, opts ...Option) *Lock{
		func(e *Engine, opts ...Option) *Lock { return e.Lock("a", opts...) },
		func(e *Engine, opts ...Option) *Lock { return e.RWLock("e", opts...).WriteLock() },
		func(e *Engine, opts ...Option) *Lock { return e.FairLock("g", opts...).Lock },
	} {
		play(t, func(sc *scene) {
			l := kind(sc.e, As(NewOwner()))
			outer, inner := sc.acquire(l), sc.acquire(l)
			sc.slowed("reacquire", -1)
			for _, f := range []*Future[struct{}]{inner.ReleaseAsync(), outer.ReleaseAsync()} {
				_, err := result(sc, f)
				sc.wants(ErrUnknown, err, "a release")
			}
			again := l.AcquireAsync(context.Background())
			sc.w.Sleep(time.Millisecond)
			sc.e.watchdog.Lose(outer.hold, renew.CauseDeadline)
			ls, err := result(sc, again)
			sc.wants(nil, err, "an entry")
			if ls != nil {
				sc.release(ls)
			}
		})
	}
}

// Who wanted in again and gave up leaves nothing behind, though the change before has no answer: neither one after the
// other nor all at once.
func TestWhoGivesUpEnteringAgainLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for _, kind := range []func(e *Engine, opts ...Option) *Lock{
		func(e *Engine, opts ...Option) *Lock { return e.Lock("a", opts...) },
		func(e *Engine, opts ...Option) *Lock { return e.FairLock("g", opts...).Lock },
	} {
		play(t, func(sc *scene) {
			l := kind(sc.e, As(NewOwner()), FixedLease(time.Hour))
			ls := sc.acquire(l)
			sc.slowed("reacquire", -1)
			first := l.AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond)
			queued := func() int { return ls.hold.reentry().Waiting() }
			for range 200 {
				_, err := result(sc, l.With(MaxWait(time.Millisecond)).AcquireAsync(context.Background()))
				sc.wants(ErrUnknown, err, "an entry")
			}
			if n := queued(); n != 0 {
				t.Errorf("%q: %d that gave up one after the other wait", l.Name(), n)
			}
			stays := l.AcquireAsync(context.Background())
			ctx, cancel := sc.w.WithCancel(context.Background())
			var many []*Future[*Lease]
			for range 1000 {
				many = append(many, l.AcquireAsync(ctx))
			}
			cancel()
			for _, f := range many {
				_, err := result(sc, f)
				sc.wants(context.Canceled, err, "an entry")
			}
			if n := queued(); n > 2 {
				t.Errorf("%q: %d that gave up at once wait", l.Name(), n-1)
			}
			sc.slow = nil
			for _, f := range []*Future[*Lease]{first, stays} {
				again, err := result(sc, f)
				sc.wants(nil, err, "an entry that was waited for")
				sc.release(again)
			}
			sc.release(ls)
		})
	}
}

// The server refuses to take a handle off, or to let one more in, for good. Nobody has that handle; so as soon as the server
// lets it, count and expiry are set to what the others ask for.
func TestARefusedChangeIsSettledWhenTheServerLetsIt(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is unable to persist to disk."} {
		play(t, func(sc *scene) {
			o := NewOwner()
			outer := sc.acquire(sc.e.Lock("a", As(o), WatchdogLease(10*time.Second)))
			long := sc.e.Lock("a", As(o), FixedLease(time.Hour))
			inner := sc.acquire(long)
			sc.server.twin.Refuse = refusal
			_, err := result(sc, inner.ReleaseAsync())
			var refused *ServerError
			if !errors.As(err, &refused) {
				t.Errorf("the release: %v", err)
			}
			sc.w.Sleep(3 * time.Second) // settling it is refused, too
			_, err = result(sc, long.AcquireAsync(context.Background()))
			if !errors.As(err, &refused) {
				t.Errorf("an entry: %v", err)
			}
			sc.onWire("a", "2", time.Hour)
			sc.server.twin.Refuse = ""
			sc.w.Sleep(2 * lockstate.SettleAgain)
			sc.onWire("a", "1", 10*time.Second)
			if outer.Lost() {
				t.Error("the outer handle is lost")
			}
			sc.release(outer)
		})
	}
}

// onWire complains if a lock's count is another than wanted, or if its key does not live for as long as a lease: no longer,
// and not much less.
func (sc *scene) onWire(name, count string, lease time.Duration) {
	sc.t.Helper()
	_, expires := sc.server.twin.Look(name)
	left := time.Duration(expires-sc.server.twin.Millis()) * time.Millisecond
	if left > lease || left < lease/2 {
		sc.t.Errorf("%q lives for %v, and should for %v", name, left, lease)
	}
	if fields := sc.server.twin.Hash(name); len(fields) != 1 || fields[0].Value != count {
		sc.t.Errorf("%q has %v, and should have a count of %s", name, fields, count)
	}
}

// A refused release has left the key a longer life than anybody asks for. Another entry makes the count right, and lowers
// nothing: the hold is still settled.
func TestAnEntryDoesNotSettleWhatWasRefused(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		brief := sc.e.Lock("a", As(NewOwner()), FixedLease(10*time.Second))
		outer := sc.acquire(brief)
		inner := sc.acquire(brief.With(FixedLease(time.Hour)))
		sc.server.twin.Refuse = "NOREPLICAS Not enough good replicas to write."
		if _, err := result(sc, inner.ReleaseAsync()); err == nil {
			t.Error("the release is not refused")
		}
		sc.server.twin.Refuse = ""
		again := sc.acquire(brief)
		sc.onWire("a", "2", time.Hour)
		sc.w.Sleep(2 * lockstate.SettleAgain)
		sc.onWire("a", "2", 10*time.Second)
		sc.release(again)
		sc.release(outer)
	})
}
