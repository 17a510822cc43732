package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/renew"
)

// renewedTimes lets time go by until a lock has been renewed so often. The collector runs after each renewal, so that the
// next one finds what is dropped.
func (sc *scene) renewedTimes(n int64) {
	for {
		before := sc.e.Stats().Renewals.Sent
		runtime.GC()
		if before >= n {
			require.Equal(sc.t, n, before)
			return
		}
		for sc.e.Stats().Renewals.Sent == before {
			sc.w.Sleep(10 * time.Millisecond)
		}
	}
}

// renewed tells the engine of a success.
func (sc *scene) renewed(h *hold) { listener{sc.e}.Renewed([]renew.Success{{Subject: h}}) }

// A lease that is dropped is found by the fourth renewal after the sixth, once, and nobody holds on to it until then.
func TestADroppedLeaseIsFoundAfterTwoLeases(t *testing.T) {
	play(t, func(sc *scene) {
		func() { sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease))) }()
		for _, at := range []struct{ renewals, leaked int64 }{
			{leakAfter, 0}, {leakAfter + leakEvery - 1, 0}, {leakAfter + leakEvery, 1}, {leakAfter + 3*leakEvery, 1},
		} {
			sc.renewedTimes(at.renewals)
			require.Equal(t, at.leaked, sc.e.Stats().Leaked, "%d renewals", at.renewals)
		}
	})
}

// Weak pointers of many leases are made little by little: each costs several renewals.
func TestAmongManyADroppedLeaseIsFoundLater(t *testing.T) {
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))
		h := ls.hold
		sc.e.shard(h.ent.hash).weakDebt = (leakFree-1)*leakShare + 5*leakEvery // of others
		for range leakAfter + 4*leakEvery - 1 {
			sc.renewed(h)
			require.Nil(t, h.weak.Value())
		}
		sc.renewed(h)
		require.Equal(t, ls, h.weak.Value())
		sc.release(ls)
	})
}

// One that is kept is never found, nor one whose context is, or whose end somebody waits for: whoever does so may work
// under the lock until Close gives it back.
func TestALeaseThatIsKeptIsNoLeak(t *testing.T) {
	for name, c := range map[string]struct {
		keep   func(*Lease) any
		leaked int64
	}{
		"lease": {func(ls *Lease) any { return ls }, 0}, "context": {func(ls *Lease) any { return ls.Context() }, 0},
		"end": {func(ls *Lease) any { return ls.Context().Done() }, 0}, "nothing": {func(*Lease) any { return nil }, 1},
	} {
		play(t, func(sc *scene) {
			kept := func() any { return c.keep(sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))) }()
			sc.renewedTimes(leakAfter + 3*leakEvery)
			require.Equal(t, c.leaked, sc.e.Stats().Leaked, name)
			runtime.KeepAlive(kept)
		})
	}
}

// A lease released and forgotten is no leak, also when the answer to a renewal that looks comes after the release.
func TestALeaseThatWasReleasedBeforeItsRenewalWasAnsweredIsNoLeak(t *testing.T) {
	play(t, func(sc *scene) {
		var h *hold
		func() {
			ls := sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))
			h = ls.hold
			for range leakAfter {
				sc.renewed(h)
			}
			sc.release(ls)
		}()
		runtime.GC()
		require.Nil(t, h.weak.Value(), "it is forgotten")
		for range 2 * leakEvery {
			sc.renewed(h)
		}
		require.Zero(t, sc.e.Stats().Leaked)
	})
}
