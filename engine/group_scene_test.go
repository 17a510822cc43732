package engine

import (
	"context"
	"testing"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
)

// When the turn of those who hand a set to each other is over, it is left to other sets of this engine that wait, though
// nobody elsewhere has heard of the release. Where nobody waits for another set, the next goes on at once.
func TestASetThatOthersOfTheEngineWaitBesideIsLeftToThem(t *testing.T) {
	t.Parallel()
	for _, beside := range []bool{true, false} {
		play(t, func(sc *scene) {
			ab, bc := sc.e.GroupLock("g", KryoStrings("a", "b")), sc.e.GroupLock("g", KryoStrings("b", "c"))
			first := sc.acquire(&ab.one)
			next := ab.AcquireAsync(context.Background())
			other := (*Future[*Lease])(nil)
			if beside {
				other = bc.AcquireAsync(context.Background())
			}
			sc.w.Sleep(lockstate.TenureMost)
			sc.release(first)
			released := sc.w.Now()
			if beside {
				ls, err := result(sc, other)
				sc.wants(nil, err, "the other set")
				if _, _, done := next.Result(); done {
					t.Error("the next of the same set has it before")
				}
				sc.release(ls)
			}
			ls, err := result(sc, next)
			sc.wants(nil, err, "the next")
			if took := sc.w.Now().Sub(released); !beside && took >= lockstate.YieldLeast {
				t.Errorf("nobody else waits, and the next has it %v after the release", took)
			}
			sc.release(ls)
		})
	}
}
