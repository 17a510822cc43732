package engine

import (
	"testing"
	"time"
)

// A reader that wants no renewal any more is renewed for as long as others share its hold, and no longer.
func TestStopRenewingOfOneOfSeveralReaders(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		const lease = 2 * time.Second
		l := sc.e.RWLock("rw", WatchdogLease(lease)).ReadLock()
		one, two := sc.acquire(l), sc.acquire(l)
		if one.OwnerID() != two.OwnerID() {
			t.Error("they do not share a hold")
		}
		one.StopRenewing()
		one.StopRenewing()
		for range 100 {
			sc.w.Sleep(lease / 10)
			if one.Lost() || two.Lost() || sc.lives("rw") <= 0 {
				t.Error("it is not renewed, though the other wants that")
				return
			}
		}
		sc.release(two)
		released, trusted := sc.w.Now(), one.hold.Deadline()
		if left := trusted.Sub(released); left <= 0 || left > lease {
			t.Errorf("trusted for %v when the other has left", left)
		}
		for !one.Lost() {
			sc.w.Sleep(time.Millisecond)
		}
		if at := sc.w.Now(); at.After(trusted.Add(time.Millisecond)) {
			t.Errorf("it was renewed: lost %v after the other has left", at.Sub(released))
		}
		_, err := result(sc, one.ReleaseAsync())
		sc.wants(ErrLost, err, "its release")
	})
}
