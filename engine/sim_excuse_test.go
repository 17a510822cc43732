package engine

import (
	"context"
	"testing"
	"time"
)

// What the rules excuse, and for how long.

// A ForceRelease takes what an acquire has left on the server that got no answer. That acquire keeps its owner id, and is
// granted under it when the ForceRelease is over: what was taken is another grant.
func TestSimKnowsThatWhatWasTakenIsGrantedAnew(t *testing.T) {
	t.Parallel()
	playAs(t, simPlan{seed: 1, engines: 1, owners: 1, kinds: []simKind{simRead, simWrite}}, func(sc *scene) {
		n := sc.names[0]
		n.longest = time.Minute
		sc.slowed("read", -1)
		asks := sc.e.RWLock(n.name).ReadLock().AcquireAsync(context.Background())
		sc.w.Sleep(5 * time.Millisecond)
		sc.slow = nil
		(&simActor{s: sc.sim, se: sc.se, gen: sc.se.gen}).force(&simStep{kind: simRead})
		taken := false
		for _, took := range sc.taken {
			taken = taken || took
		}
		if !taken {
			t.Error("it was not taken")
		}
		ls, err := result(sc, asks)
		sc.wants(nil, err, "the reading")
		if sc.taken[simField{n, ls.OwnerID()}] || sc.excused[ls.OwnerID()] {
			t.Error("it was granted anew, and counts as taken, or is excused")
		}
		sc.release(ls)
	})
}
