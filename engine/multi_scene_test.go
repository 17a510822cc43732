package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMultiStartsOverWithWhatWasLostWhileItWaited(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		lease := WatchdogLease(time.Second)
		held := sc.acquire(sc.e.Lock("b", lease))
		f := sc.e.MultiLock("c", "a", "b").With(lease).AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		sc.server.twin.Delete("a")
		sc.w.Sleep(time.Second) // a renewal finds that out
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		for _, view := range ls.Leases() {
			if view.Lost() || len(sc.server.twin.Hash(view.Name())) != 1 {
				t.Errorf("%q was lost, and is not acquired anew", view.Name())
			}
		}
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

func TestMultiIsToldThatItHasEndedWhenAllItsAcquiresHave(t *testing.T) {
	play(t, func(sc *scene) {
		order := &partOrder{}
		sc.e.joints.watch = order
		f := sc.e.MultiLock("a", "b").AcquireAsync(context.Background())
		cancelled := false
		sc.w.OnYield(func(at string) { // one is granted, and is not told of it yet
			if at == "section.publish: a result | the next" && !cancelled {
				cancelled = true
				f.Cancel()
			}
		})
		unanswered := 0
		f.then(func() {
			for _, asked := range order.futures {
				if _, _, ok := asked.Result(); !ok {
					unanswered++
				}
			}
		})
		_, err := result(sc, f)
		sc.wants(ErrCancelled, err, "it was cancelled")
		require.True(t, cancelled)
		require.Zero(t, unanswered)
		sc.w.Sleep(time.Second)
		require.Empty(t, sc.server.twin.Hash("a"))
		require.Empty(t, sc.server.twin.Hash("b"))
	})
}

func TestMultiExtendsAtTheEndWhatHasRunForAWhile(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		const whole = 4 * time.Second
		held := sc.acquire(sc.e.Lock("b"))
		f := sc.e.MultiLock("a", "b").With(FixedLease(whole)).AcquireAsync(context.Background())
		sc.w.Sleep(1995 * time.Millisecond) // just before the second look at what is kept
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		for _, child := range ls.leases {
			if left := child.hold.Deadline().Sub(sc.w.Now()); left < whole*3/4 {
				t.Errorf("%q has %v left of %v", child.Name(), left, whole)
			}
		}
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

// A master that is being replaced refuses to write for a while: who waits outlasts that, whether it asks for one lock or
// for several.
func TestMultiOutlastsAFailoverAsOneLockDoes(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		sc.server.twin.Refuse = "READONLY You can't write against a read only replica."
		one := sc.e.Lock("one").AcquireAsync(context.Background())
		several := sc.e.MultiLock("b", "a").AcquireAsync(context.Background())
		sc.w.Sleep(simAttempt) // a newcomer is patient for retryBudget times that
		_, _, told := several.Result()
		require.False(t, told, "it waits")
		sc.server.twin.Refuse = ""
		ls, err := result(sc, one)
		sc.wants(nil, err, "the new master grants one")
		sc.release(ls)
		ml, err := result(sc, several)
		sc.wants(nil, err, "and several")
		_, err = result(sc, ml.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

func TestMultiTryAsksOnceInAFailover(t *testing.T) {
	play(t, func(sc *scene) {
		order := &partOrder{}
		sc.e.joints.watch = order
		sc.server.twin.Refuse = "READONLY You can't write against a read only replica."
		_, err := result(sc, sc.e.MultiLock("b", "a").TryAcquireAsync(context.Background()))
		var refused *ServerError
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.Class.Transient())
		require.Equal(t, []string{"a", "b"}, order.asked, "nothing is waited for")
		sc.server.twin.Refuse = ""
	})
}

func TestMultiEndsWithTroubleThatDoesNotPass(t *testing.T) {
	for text, class := range map[string]Class{
		"NOPERM this user has no permissions": ClassNoPerm,
		"OOM command not allowed":             ClassOOM,
	} {
		play(t, func(sc *scene) {
			sc.e.joints.watch = nil
			sc.server.twin.Refuse = text
			_, err := result(sc, sc.e.MultiLock("b", "a").AcquireAsync(context.Background()))
			var refused *ServerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, class, refused.Class)
			sc.server.twin.Refuse = ""
		})
	}
}

// The longer handle may be given back first, and then the key lives only as long as the others ask for.
func TestMultiExtendsAFixedLeaseBesideALongerOne(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		const whole = 2 * time.Second
		ctx := WithOwner(context.Background(), NewOwner())
		longer, err := result(sc, sc.e.Lock("a").AcquireAsync(ctx))
		sc.wants(nil, err, "it is free")
		held := sc.acquire(sc.e.Lock("b"))
		f := sc.e.MultiLock("a", "b").With(FixedLease(whole)).AcquireAsync(ctx)
		sc.w.Sleep(3 * time.Second)
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		sc.release(longer)
		for _, child := range ls.leases {
			if left := child.hold.Deadline().Sub(sc.w.Now()); left < whole*7/10 {
				t.Errorf("%q has %v left of %v", child.Name(), left, whole)
			}
		}
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}
