package engine

import (
	"testing"
	"time"
)

// An owner reads beside its write lock and loses that, in an outage in which renewals get through. It is given back until
// the server knows, for as long as the reading may have the key live: also when the reader has just left, and nobody knows
// whether the server has heard that. When the engine forgets it, the key is gone.
func TestALostWriteHoldIsGivenBackForAsLongAsItsReaderMayKeepIt(t *testing.T) {
	t.Parallel()
	for after := 3 * time.Second; after < 9*time.Second; after += 100 * time.Millisecond {
		play(t, func(sc *scene) {
			owner := As(NewOwner())
			writes := sc.acquire(sc.e.RWLock("e", owner, FixedLease(1500*time.Millisecond)).WriteLock())
			reads := sc.acquire(sc.e.RWLock("e", owner, WatchdogLease(time.Second)).ReadLock())
			sc.server.dark, sc.server.renews = sc.w.Now().Add(time.Hour), true
			sc.w.Sleep(after)
			given := reads.ReleaseAsync()
			sc.server.dark = 0
			_, _ = result(sc, given) // late: the key may be gone by then
			for range 400 {
				if _, known := sc.server.twin.Look("e"); known != 0 && hasField(sc.server.twin.Hash("e"), writes.OwnerID()) && !sc.e.knows("e", writes.OwnerID()) {
					t.Errorf("%v: the key lives %v, and nobody gives it back", after, sc.lives("e"))
					break
				}
				sc.w.Sleep(5 * time.Millisecond)
			}
			_, err := result(sc, writes.ReleaseAsync())
			sc.wants(ErrLost, err, "the release of what was lost")
		})
	}
}
