package engine

import (
	"context"
	"maps"
	"slices"
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

// extendCounter counts the Extends of parts: of each lock those without an answer at once, and all of them.
type extendCounter struct {
	partOrder
	open, most, all map[string]int
}

func (c *extendCounter) extends(ls *Lease, _ time.Duration) func(*Future[struct{}]) {
	name := ls.Name()
	c.all[name]++
	c.open[name]++
	c.most[name] = max(c.most[name], c.open[name])
	return func(f *Future[struct{}]) {
		f.then(func() { c.open[name]-- })
	}
}

func countExtends(sc *scene) *extendCounter {
	c := &extendCounter{open: make(map[string]int), most: make(map[string]int), all: make(map[string]int)}
	sc.e.joints.watch = c
	return c
}

// Where answers take longer than a quarter of a lease, who waits for another lock does not ask again before it has one.
func TestMultiExtendsOneAtATimeWhatItKeeps(t *testing.T) {
	play(t, func(sc *scene) {
		asked := countExtends(sc)
		held := sc.acquire(sc.e.Lock("b"))
		f := sc.e.MultiLock("a", "b").With(FixedLease(time.Second)).AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		sc.slowed("renew", 300*time.Millisecond)
		sc.w.Sleep(5 * time.Second)
		require.Equal(t, 1, asked.most["a"], "Extends on their way at once")
		require.Greater(t, asked.all["a"], 5)
		sc.slow = nil
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		require.Equal(t, []string{"a", "b", "b"}, asked.asked, "a was never lost")
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

// What was lost, and what is given back because of that, is not extended for as long as another lock is waited for.
func TestMultiExtendsNothingFromWhatItHasLostOn(t *testing.T) {
	play(t, func(sc *scene) {
		asked := countExtends(sc)
		lease := FixedLease(time.Second)
		held := sc.acquire(sc.e.Lock("d"))
		f := sc.e.MultiLock("a", "b", "c", "d").With(lease).AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		sc.server.twin.Delete("b")
		sc.w.Sleep(time.Second) // an Extend finds that out
		before := maps.Clone(asked.all)
		sc.w.Sleep(10 * time.Second)
		require.Equal(t, before["b"], asked.all["b"], "it is lost")
		require.Equal(t, before["c"], asked.all["c"], "it is given back as soon as the wait is over")
		require.Greater(t, asked.all["a"], before["a"], "it is kept")
		sc.server.twin.Delete("a")
		sc.w.Sleep(time.Second)
		before = maps.Clone(asked.all)
		sc.w.Sleep(10 * time.Second)
		require.Equal(t, before, asked.all, "nothing is kept any more")
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		require.False(t, ls.Lost())
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
		require.Equal(t, []string{"a"}, order.asked, "nothing is waited for")
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

// another opens one more engine at the server of the scene.
func (sc *scene) another() *Engine {
	se := &simEngine{s: sc.sim, n: 1, proc: sc.se.proc, giving: make(map[simGiving][]*simHold)}
	if err := se.open(); err != nil {
		sc.t.Errorf("open: %v", err)
	}
	se.eng.joints.watch = nil
	return se.eng
}

// closes closes an engine.
func (sc *scene) closes(e *Engine) {
	ctx, cancel := sc.w.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	sc.wants(nil, e.Close(ctx), "close")
}

func TestMultiOfSeveralEnginesIsLostWhenOneOfThemCloses(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		other := sc.another()
		m := Multi(sc.e.Lock("a"), other.Lock("b"))
		first, err := result(sc, m.AcquireAsync(context.Background()))
		sc.wants(nil, err, "all are free")
		require.False(t, first.Lost())
		ctx := first.Context()
		sc.closes(other)
		require.True(t, first.Lost(), "one lock was given back")
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.ErrorIs(t, context.Cause(first.Context()), ErrLost)
		_, err = result(sc, first.ReleaseAsync())
		sc.wants(ErrLost, err, "one was given back before")
		require.NotErrorIs(t, err, ErrNotHeld)
		require.Empty(t, sc.server.twin.Hash("a"))
		// One engine that closes gives all back: that is its holder's will.
		last := sc.another()
		ml, err := result(sc, last.MultiLock("a", "b").AcquireAsync(context.Background()))
		sc.wants(nil, err, "all are free")
		ctx = ml.Context()
		sc.closes(last)
		require.False(t, ml.Lost())
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
		require.NotErrorIs(t, context.Cause(ctx), ErrLost)
	})
}

func TestMultiContextOfWhatWasGivenBackSaysSo(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		other := sc.another()
		ml, err := result(sc, Multi(sc.e.Lock("a"), other.Lock("b")).AcquireAsync(context.Background()))
		sc.wants(nil, err, "all are free")
		_, err = result(sc, ml.ReleaseAsync())
		sc.wants(nil, err, "all are held")
		require.ErrorIs(t, context.Cause(ml.Context()), ErrReleased)
		require.NotErrorIs(t, context.Cause(ml.Context()), ErrLost)
		sc.closes(other)
	})
}

// Where each Extend wears out what was extended before it, all are extended at last: none is older than the last answer.
func TestMultiExtendsEverythingTheLastTime(t *testing.T) {
	play(t, func(sc *scene) {
		asked := countExtends(sc)
		const whole, took = 4 * time.Second, 900 * time.Millisecond
		held := sc.acquire(sc.e.Lock("b"))
		f := sc.e.MultiLock("a", "b").With(FixedLease(whole)).AcquireAsync(context.Background())
		sc.w.Sleep(880 * time.Millisecond) // just before what is kept is looked at
		sc.slow = func(args []string) time.Duration {
			switch simScriptNames[scriptArg(args)] {
			case "acquire": // so that b is older than the Extend of a
				return 110 * time.Millisecond
			case "renew":
				return took
			default:
				return 0
			}
		}
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "all are free")
		require.Equal(t, map[string]int{"a": 2, "b": 2}, asked.all, "a, then b, then both")
		for _, child := range ls.leases {
			if left := child.hold.Deadline().Sub(sc.w.Now()); left < whole*3/4 {
				t.Errorf("%q has %v left of %v", child.Name(), left, whole)
			}
		}
		sc.slow = nil
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

// A server that is silent for a while when leases are extended at the end is waited for, as everywhere else.
func TestMultiOutlastsTroubleWhileItExtends(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		const whole = time.Minute
		held := sc.acquire(sc.e.Lock("b"))
		f := sc.e.MultiLock("a", "b").With(FixedLease(whole)).AcquireAsync(context.Background())
		sc.w.Sleep(29900 * time.Millisecond) // just before the second look at what is kept
		unheard := 0
		sc.slow = func(args []string) time.Duration {
			if simScriptNames[scriptArg(args)] == "renew" && slices.Contains(args, "a") {
				unheard++
				return -1
			}
			return 0
		}
		sc.release(held)
		sc.w.Sleep(12 * time.Second)
		require.Greater(t, unheard, 1)
		sc.slow = nil
		ls, err := result(sc, f)
		sc.wants(nil, err, "the server answers again")
		for _, child := range ls.leases {
			if left := child.hold.Deadline().Sub(sc.w.Now()); left < whole*7/10 {
				t.Errorf("%q has %v left of %v", child.Name(), left, whole)
			}
		}
		_, err = result(sc, ls.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

func TestMultiTryOfManyAtOnceIsGrantedToOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1}, func(sc *scene) {
			all := make([]*Engine, 10)
			for i := range all {
				all[i] = sc.another()
			}
			var asked []*Future[*MultiLease]
			for _, e := range all {
				asked = append(asked, e.MultiLock("d", "b", "a", "c").TryAcquireAsync(context.Background()))
			}
			granted := 0
			for _, f := range asked {
				ml, err := result(sc, f)
				if err == nil {
					granted++
					_, err = result(sc, ml.ReleaseAsync())
					sc.wants(nil, err, "all are held")
					continue
				}
				sc.wants(ErrHeld, err, "another one has them")
			}
			if granted == 0 {
				t.Errorf("seed %d: all have failed", seed)
			}
			for _, e := range all {
				sc.closes(e)
			}
		})
	}
}

// An engine that has just left a lock to others has asked for nothing: nothing is unknown.
func TestMaxWaitThatEndsWhileTheNameIsLeftToOthersIsHeld(t *testing.T) {
	play(t, func(sc *scene) {
		other := sc.another()
		sc.line = 8 * time.Millisecond
		ls := sc.acquire(sc.e.Lock("a"))
		f := other.Lock("a").AcquireAsync(context.Background())
		sc.w.Sleep(500 * time.Millisecond) // it hears of releases by now, and the tenure is over
		sc.release(ls)
		_, err := result(sc, sc.e.Lock("a", MaxWait(time.Millisecond)).AcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "the other one was heard to wait")
		ls, err = result(sc, f)
		sc.wants(nil, err, "it was left the lock")
		sc.release(ls)
		sc.closes(other)
	})
}

func TestPermitsAreGivenBackThatTooFewReplicasHaveSeen(t *testing.T) {
	play(t, func(sc *scene) {
		sem := sc.e.PermitSemaphore("p", FixedLease(10*time.Second))
		set, err := result(sc, sem.TrySetPermitsAsync(context.Background(), 3))
		sc.wants(nil, err, "there is none")
		require.True(t, set)
		safe := sem.With(WaitReplicas(2, 100*time.Millisecond))
		_, err = result(sc, safe.TryAcquireAsync(context.Background(), 2)) // there is one replica
		sc.wants(ErrNotReplicated, err, "one replica has seen it")
		var few *NotReplicatedError
		require.ErrorAs(t, err, &few)
		require.Equal(t, 1, few.Seen)
		sc.w.Sleep(time.Second)
		free, err := result(sc, sem.AvailablePermitsAsync(context.Background()))
		sc.wants(nil, err, "it answers")
		require.Equal(t, 3, free, "both were given back")
		sc.server.twin.Acks = 2
		p, err := result(sc, safe.TryAcquireAsync(context.Background(), 2))
		sc.wants(nil, err, "both replicas have seen it")
		_, err = result(sc, p.ReleaseAsync())
		sc.wants(nil, err, "it is held")
		_, err = result(sc, sem.DeleteAsync(context.Background()))
		sc.wants(nil, err, "it is there")
	})
}

// The answer to who asks for a semaphore says nothing to who asks for a lock of its name.
func TestATryBehindOneOfAnotherKindIsAskedForItself(t *testing.T) {
	play(t, func(sc *scene) {
		sem, ctx := sc.e.Semaphore("s"), context.Background()
		_, err := result(sc, sem.TrySetPermitsAsync(ctx, 1, 0))
		sc.wants(nil, err, "there is none")
		_, err = result(sc, sem.TryAcquireAsync(ctx, 1))
		sc.wants(nil, err, "one is free")
		first, second := sem.TryAcquireAsync(ctx, 1), sc.e.Lock("s").TryAcquireAsync(ctx)
		_, err = result(sc, first)
		sc.wants(ErrNoPermits, err, "none is free")
		_, err = result(sc, second)
		sc.wants(ErrWrongKind, err, "it is a semaphore")
		_, err = result(sc, sem.DeleteAsync(ctx))
		sc.wants(nil, err, "it is there")
	})
}
