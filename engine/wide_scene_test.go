package engine

import (
	"context"
	"testing"
)

// A name keeps its lanes while anything goes on with it, so that nothing overtakes what came before it; one of which
// nothing goes on takes those that are used now.
func TestANameKeepsItsLanesWhileAnythingGoesOn(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		asked := func(l *Lock) bool {
			f := l.InspectAsync(context.Background())
			wide := f.op.(*singleOp[Info]).op.Wide
			if _, err := result(sc, f); err != nil {
				sc.t.Error(err)
			}
			return wide
		}
		freed := func(ls *Lease) bool {
			f := ls.ReleaseAsync()
			wide := f.op.(*releaseOp).op.Wide
			if asked(sc.e.Lock(ls.Name())) != wide {
				sc.t.Error("a question behind a release is in another lane")
			}
			if _, err := result(sc, f); err != nil {
				sc.t.Error(err)
			}
			return wide
		}
		few := sc.acquire(sc.e.Lock("few"))
		sc.se.wide.Store(1)
		many := sc.acquire(sc.e.Lock("many"))
		if freed(few) || !asked(sc.e.Lock("few")) {
			sc.t.Error("it was acquired in the lane of few")
		}
		sc.se.wide.Store(0)
		if !freed(many) || asked(sc.e.Lock("many")) {
			sc.t.Error("it was acquired in the lanes of many")
		}
	})
}
