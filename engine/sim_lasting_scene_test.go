package engine

import (
	"context"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
)

// A MaxHold ends nothing before its time: until then the lease is renewed, and afterwards it runs out.
func TestAMaxHoldEndsNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("a", WatchdogLease(time.Second), MaxHold(4*time.Second)))
		since := sc.w.Now()
		for !ls.Lost() {
			sc.w.Sleep(10 * time.Millisecond)
		}
		if lasted := sc.w.Now().Sub(since); lasted < 4500*time.Millisecond || lasted > 5100*time.Millisecond {
			t.Errorf("it lasted %v", lasted)
		}
		_, _ = result(sc, ls.ReleaseAsync())
	})
}

// Who stops its renewals while its owner has the lock by another handle is trusted for its own lease from then on, and no
// longer, once the other is given back.
func TestWhoStopsBesideALongerLeaseIsTrustedForItsOwn(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		longer := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(20*time.Second)))
		ls := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(2*time.Second)))
		ls.StopRenewing()
		since := sc.w.Now()
		sc.release(longer)
		for !ls.Lost() {
			sc.w.Sleep(10 * time.Millisecond)
		}
		if lasted := sc.w.Now().Sub(since); lasted < 1900*time.Millisecond || lasted > 2*time.Second {
			t.Errorf("it lasted %v", lasted)
		}
		_, _ = result(sc, ls.ReleaseAsync())
	})
}

// A renewal that was on its way when the renewals were stopped does not prolong what is trusted.
func TestARenewalThatIsOnItsWayProlongsNothingThatHasStopped(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		asked := false
		sc.slow = func(args []string) time.Duration {
			if simScriptNames[scriptArg(args)] == "renew" {
				asked = true
				return 50 * time.Millisecond
			}
			return 0
		}
		ls := sc.acquire(sc.e.Lock("a", WatchdogLease(2*time.Second)))
		for !asked {
			sc.w.Sleep(time.Millisecond)
		}
		until := ls.hold.Deadline()
		ls.StopRenewing()
		sc.w.Sleep(200 * time.Millisecond)
		if now := ls.hold.Deadline(); now != until {
			t.Errorf("it is trusted for %v more", now.Sub(until))
		}
		sc.release(ls)
	})
}

// Readers join those of their engine for the length of a turn. Then the server is asked again: a writer may wait elsewhere.
func TestReadersJoinOthersForATurnAndThenAskTheServer(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.RWLock("e").ReadLock()
		first := sc.acquire(l)
		second := sc.acquire(l)
		if second.OwnerID() != first.OwnerID() {
			t.Error("who comes at once does not join")
		}
		sc.w.Sleep(lockstate.TenureMost)
		ls, err := result(sc, l.AcquireAsync(context.Background()))
		sc.wants(nil, err, "who comes later")
		if ls.OwnerID() == first.OwnerID() {
			t.Error("who comes later has not asked the server")
		}
		for _, ls := range []*Lease{first, second, ls} {
			sc.release(ls)
		}
	})
}

// What a longer lease of another handle keeps on the server is given back for as long as that may last, though it is
// trusted for the shorter one only.
func TestWhatALongerLeaseKeepsIsGivenBackForAsLong(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		longer := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(20*time.Second)))
		ls := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(2*time.Second)))
		sc.w.Sleep(7 * time.Second) // it was renewed with the longer one
		sc.se.cut.until = sc.w.Now().Add(10 * time.Second)
		first := longer.ReleaseAsync()
		for !ls.Lost() {
			sc.w.Sleep(10 * time.Millisecond)
		}
		_, _ = result(sc, first)
		_, _ = result(sc, ls.ReleaseAsync())
		sc.w.Sleep(sc.se.cut.until.Sub(sc.w.Now()) + 2*time.Second)
		if left := sc.lives("a"); left > 0 {
			t.Errorf("it is held for %v more", left)
		}
	})
}
