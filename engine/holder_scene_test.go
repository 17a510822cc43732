package engine

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// stands puts a field under a name, as whoever took the lock for a minute would.
func (sc *scene) stands(name, field string) {
	sc.server.twin.Do([]string{"HSET", name, field, "1"})
	sc.server.twin.Do([]string{"PEXPIRE", name, "60000"})
}

// What has the lock is a hold of this engine that it gave back long ago: only the server does not know that, as one that
// took over. Who waits does not wait for the end of that lease.
func TestAHoldThatOnlyTheServerKnowsIsGivenBack(t *testing.T) {
	t.Parallel()
	for kind, lock := range map[string]func(e *Engine) *Lock{
		"lock":   func(e *Engine) *Lock { return e.Lock("a") },
		"spin":   func(e *Engine) *Lock { return e.Lock("a", Spin(time.Millisecond, 64*time.Millisecond)) },
		"fenced": func(e *Engine) *Lock { return e.FencedLock("a").Lock },
	} {
		play(t, func(sc *scene) {
			sc.stands("a", sc.e.ID()+":17")
			began := sc.w.Now()
			ls := sc.acquire(lock(sc.e))
			if took := sc.w.Now().Sub(began); took > 3*time.Second {
				t.Errorf("%s: it took %v", kind, took)
			}
			sc.release(ls)
			if s := sc.e.Stats(); s.Ghosts != 1 {
				t.Errorf("%s: %d ghosts", kind, s.Ghosts)
			}
		})
	}
}

// Fields that are not what a mutex of this engine would leave are let alone, and so is whatever may be on its way.
func TestWhoElseHasTheLockIsLetAlone(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		for _, field := range []string{"another:17", sc.e.ID() + "0:17", resp.FairField(sc.e.ID(), 17), sc.e.ID() + ":17:write"} {
			sc.stands("a", field)
			ctx, cancel := sc.w.WithTimeout(context.Background(), 8*time.Second)
			_, err := result(sc, sc.e.Lock("a").AcquireAsync(ctx))
			cancel()
			sc.wants(ErrHeld, err, field)
			var held *HeldError
			if !errors.As(err, &held) || held.Holder != field {
				t.Errorf("%v, and not held by %s", err, field)
			}
			if !hasField(sc.server.twin.Hash("a"), field) {
				t.Errorf("%s was given back", field)
			}
			sc.server.twin.Delete("a")
		}
	})
}

// An error names the holder that is, not the one that was: who hears of a release asks anew once it has waited in vain; and
// who does not, for a lease ran out, or nobody was told, once the lock is to end at another time.
func TestWhoHeldTheLockBeforeIsNotSaidToHoldIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		heard        bool
		waits, after time.Duration
		holder       string
	}{
		{"ItWasHeardOf", true, 4 * time.Second, 3500 * time.Millisecond, ""},
		{"NobodyWasTold", false, 5 * time.Second, 2500 * time.Millisecond, "another:2"},
	} {
		play(t, func(sc *scene) {
			sc.stands("a", "another:1")
			ctx, cancel := sc.w.WithTimeout(context.Background(), c.waits)
			defer cancel()
			f := sc.e.Lock("a").AcquireAsync(ctx)
			sc.w.Sleep(c.after)
			sc.server.twin.Delete("a")
			sc.stands("a", "another:2")
			if c.heard { // and by when the lock ends nobody could tell
				sc.server.twin.Do([]string{"PEXPIRE", "a", strconv.FormatInt((time.Minute - c.after).Milliseconds(), 10)})
				sc.server.publish("redisson_lock__channel:{a}", "0")
			}
			_, err := result(sc, f)
			var held *HeldError
			if !errors.As(err, &held) || held.Holder != c.holder {
				t.Errorf("%s: %v, and not held by %q", c.name, err, c.holder)
			}
		})
	}
}

// A hold that is on its way back, or an acquire under its owner id that may yet be granted, is none that only the server
// knows: what has it settled settles it.
func TestAHoldThatIsOnItsWayBackIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.slowed("acquire", -1) // the answer is lost
		ctx, cancel := sc.w.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		f := sc.e.Lock("a", FixedLease(30*time.Second)).AcquireAsync(ctx)
		sc.w.Sleep(5 * time.Millisecond)
		sc.slow = nil
		ls, err := result(sc, f)
		sc.wants(nil, err, "it is granted under the id that was sent without an answer")
		sc.w.Sleep(8 * time.Second)
		if ls.Lost() || !hasField(sc.server.twin.Hash("a"), ls.OwnerID()) {
			t.Error("it was given back")
		}
		sc.release(ls)
	})
}
