package engine

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// A Try behind the last handle of a hold that was entered again goes behind the release, as it does where there was one
// handle: whatever its kind, by hand-off or by a command. What the owner asks for meanwhile comes later.
func TestATryBehindTheLastOfSeveralHandlesIsNotRefused(t *testing.T) {
	t.Parallel()
	for i, other := range [][]Option{nil, {FixedLease(9 * time.Second)}, {WaitReplicas(1, time.Second)}} {
		for kind := range 4 {
			play(t, func(sc *scene) {
				of := func(opts ...Option) *Lock {
					return []*Lock{
						sc.e.Lock("k", opts...), sc.e.FairLock("k", opts...).Lock, sc.e.FencedLock("k", opts...).Lock,
						sc.e.RWLock("k", opts...).WriteLock(),
					}[kind]
				}
				mine := of().With(As(NewOwner()))
				for _, again := range []bool{false, kind != 1 || i != 2} { // who asks for replicas may be passed, see FairLock
					outer := sc.acquire(mine)
					middle := sc.acquire(mine)
					inner := sc.acquire(mine)
					sc.slow = func([]string) time.Duration { return time.Millisecond }
					given := []*Future[struct{}]{inner.ReleaseAsync(), middle.ReleaseAsync(), outer.ReleaseAsync()}
					try := of(other...).TryAcquireAsync(context.Background())
					var enters *Future[*Lease]
					if again {
						enters = mine.AcquireAsync(context.Background())
					}
					ls, err := result(sc, try)
					sc.wants(nil, err, fmt.Sprintf("the Try of kind %d, option %d, again %v", kind, i, again))
					if err == nil {
						sc.release(ls)
					}
					for _, f := range given {
						_, err := result(sc, f)
						sc.wants(nil, err, "a release")
					}
					if again {
						ls, err := result(sc, enters)
						sc.wants(nil, err, "who enters again")
						sc.release(ls)
					}
					sc.slow = nil
				}
			})
		}
	}
}

// It is refused where a handle stays, where the owner has entered again before the last was given back, where somebody
// waits already, and where the owner goes on reading.
func TestATryBehindAHoldThatStaysIsRefused(t *testing.T) {
	t.Parallel()
	refused := func(sc *scene, l *Lock, what string) {
		_, err := result(sc, l.TryAcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, what)
	}
	for kind := range 2 {
		play(t, func(sc *scene) {
			anybodys := []*Lock{sc.e.Lock("k"), sc.e.FairLock("k").Lock}[kind]
			mine := anybodys.With(As(NewOwner()))
			outer, middle, inner := sc.acquire(mine), sc.acquire(mine), sc.acquire(mine)
			sc.slow = func([]string) time.Duration { return time.Millisecond }
			one, two := inner.ReleaseAsync(), middle.ReleaseAsync()
			refused(sc, anybodys, "one handle stays")
			_, _ = result(sc, one)
			_, _ = result(sc, two)
			enters, last := mine.AcquireAsync(context.Background()), outer.ReleaseAsync()
			refused(sc, anybodys, "its owner has entered again")
			_, err := result(sc, last)
			sc.wants(nil, err, "a release")
			outer, err = result(sc, enters)
			sc.wants(nil, err, "who enters again")
			inner = sc.acquire(mine)
			waits := anybodys.AcquireAsync(context.Background())
			sc.w.Sleep(5 * time.Millisecond)
			one, two = inner.ReleaseAsync(), outer.ReleaseAsync()
			refused(sc, anybodys, "somebody waits")
			ls, err := result(sc, waits)
			sc.wants(nil, err, "who waits")
			sc.release(ls)
			_, _ = result(sc, one)
			_, _ = result(sc, two)
		})
	}
	play(t, func(sc *scene) {
		owner, rw := NewOwner(), sc.e.RWLock("k")
		mine := rw.WriteLock().With(As(owner))
		outer, inner := sc.acquire(mine), sc.acquire(mine)
		sc.slow = func([]string) time.Duration { return time.Millisecond }
		one, two := inner.ReleaseAsync(), outer.ReleaseAsync()
		try := rw.WriteLock().TryAcquireAsync(context.Background())
		reads := rw.ReadLock().With(As(owner)).AcquireAsync(context.Background())
		_, err := result(sc, try)
		ls, readsErr := result(sc, reads)
		sc.wants(nil, readsErr, "the owner reads")
		if err == nil {
			t.Error("a Try to write is granted beside a reader")
		}
		sc.release(ls)
		_, _ = result(sc, one)
		_, _ = result(sc, two)
	})
}

// The hold that it rests behind ends otherwise: it is lost, or taken by force, or the Try gives up.
func TestATryBehindTheLastOfSeveralHandlesOutlivesTheHold(t *testing.T) {
	t.Parallel()
	for kind := range 2 {
		for _, ends := range []string{"force", "lost", "gives up", "close"} {
			play(t, func(sc *scene) {
				anybodys := []*Lock{sc.e.Lock("k"), sc.e.FairLock("k").Lock}[kind]
				mine := anybodys.With(As(NewOwner()))
				outer, inner := sc.acquire(mine), sc.acquire(mine)
				sc.slow = func(args []string) time.Duration { return 2 * time.Millisecond }
				one, two := inner.ReleaseAsync(), outer.ReleaseAsync()
				try := anybodys.TryAcquireAsync(context.Background())
				switch ends {
				case "force":
					_, _ = result(sc, anybodys.ForceReleaseAsync(context.Background()))
				case "lost":
					sc.server.twin.Delete("k")
				case "gives up":
					if !try.Cancel() {
						t.Error("it has its result already")
					}
					try = anybodys.TryAcquireAsync(context.Background())
				case "close":
					_ = sc.e.Close(context.Background())
				}
				ls, err := result(sc, try)
				if ends == "close" {
					sc.wants(ErrClosed, err, "the Try")
				} else {
					sc.wants(nil, err, fmt.Sprintf("the Try, kind %d, %s", kind, ends))
				}
				if err == nil {
					sc.release(ls)
				}
				_, _ = result(sc, one)
				_, _ = result(sc, two)
			})
		}
	}
}

// It does not rest for as long as the hold lasts: it is refused as soon as a change fails, whether the server says why or not.
func TestATryBehindHandlesThatAreHeldUpIsRefused(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"READONLY You can't write against a read only replica.", "LOADING", "silent", "silent to changes"} {
		for kind := range 3 {
			play(t, func(sc *scene) {
				anybodys := []*Lock{sc.e.Lock("k"), sc.e.FairLock("k").Lock, sc.e.RWLock("k").WriteLock()}[kind]
				mine := anybodys.With(As(NewOwner()), FixedLease(10*time.Minute))
				outer, inner := sc.acquire(mine), sc.acquire(mine)
				switch trouble {
				case "silent":
					sc.slow = func([]string) time.Duration { return -1 }
				case "silent to changes":
					sc.slowed("reacquire", -1)
				default:
					sc.server.twin.Refuse = trouble
				}
				one, two := inner.ReleaseAsync(), outer.ReleaseAsync()
				before := sc.w.Now()
				_, err := result(sc, anybodys.TryAcquireAsync(context.Background()))
				sc.wants(ErrHeld, err, "the Try of kind "+anybodys.Name())
				_, again, told := anybodys.TryAcquireAsync(context.Background()).Result()
				sc.wants(ErrHeld, again, "the next")
				if !told {
					t.Errorf("%s, kind %d: the next rests", trouble, kind)
				}
				if took := sc.w.Now().Sub(before); took > simAnswered {
					t.Errorf("%s, kind %d: refused after %v", trouble, kind, took)
				}
				sc.slow, sc.server.twin.Refuse = nil, ""
				_, _ = result(sc, one)
				_, _ = result(sc, two)
			})
		}
	}
}

// The owner tries again, and somebody else gets the lock by hand-off: who tried before, or who waited.
func TestAnOwnersTryBehindSomebodyWhoIsHandedTheLockIsRefused(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		play(t, func(sc *scene) {
			anybodys := sc.e.Lock("k")
			mine := anybodys.With(As(NewOwner()))
			outer, inner := sc.acquire(mine), sc.acquire(mine)
			sc.slow = func([]string) time.Duration { return time.Millisecond }
			var first *Future[*Lease]
			if waits {
				first = anybodys.AcquireAsync(context.Background())
			}
			one, two := inner.ReleaseAsync(), outer.ReleaseAsync()
			if !waits {
				first = anybodys.TryAcquireAsync(context.Background())
			}
			owners := mine.TryAcquireAsync(context.Background())
			ls, err := result(sc, first)
			sc.wants(nil, err, "who was there before")
			ctx, cancel := sc.w.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err = owners.Await(ctx)
			sc.wants(ErrHeld, err, "the owner's Try")
			sc.release(ls)
			_, _ = result(sc, one)
			_, _ = result(sc, two)
		})
	}
}

// A Try of a fair lock that rests keeps nobody from the queue on the server: it gives way to who waits.
func TestWhoAsksForAFairLockBehindATryThatRestsIsSentAtOnce(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		anybodys := sc.e.FairLock("k").Lock
		mine := anybodys.With(As(NewOwner()))
		outer, middle, inner := sc.acquire(mine), sc.acquire(mine), sc.acquire(mine)
		sc.slowed("reacquire", 100*time.Millisecond)
		given := []*Future[struct{}]{inner.ReleaseAsync(), middle.ReleaseAsync(), outer.ReleaseAsync()}
		try := anybodys.TryAcquireAsync(context.Background())
		waits := anybodys.AcquireAsync(context.Background())
		_, err := result(sc, try)
		sc.wants(ErrHeld, err, "the Try")
		sc.w.Sleep(10 * time.Millisecond)
		if places := sc.server.twin.List("redisson_lock_queue:{k}"); len(places) != 1 {
			t.Errorf("the queue on the server: %v", places)
		}
		ls, err := result(sc, waits)
		sc.wants(nil, err, "who waits")
		sc.release(ls)
		for _, f := range given {
			_, _ = result(sc, f)
		}
	})
}

// Nor does a Try wait for the replicas that an owner waits for who goes on reading.
func TestATryDoesNotWaitForAnOwnerThatGoesOnReading(t *testing.T) {
	t.Parallel()
	for _, handles := range []int{1, 2} {
		for _, first := range []bool{false, true} {
			play(t, func(sc *scene) {
				owner, rw := NewOwner(), sc.e.RWLock("k")
				mine := rw.WriteLock().With(As(owner))
				var given []*Future[struct{}]
				var all []*Lease
				for range handles {
					all = append(all, sc.acquire(mine))
				}
				sc.slow = func([]string) time.Duration { return time.Millisecond }
				ask := func() *Future[*Lease] {
					return sc.e.RWLock("k", WaitReplicas(9, 8*time.Second)).ReadLock().With(As(owner)).AcquireAsync(context.Background())
				}
				var reads, try *Future[*Lease]
				if first {
					reads = ask()
				}
				for _, ls := range all {
					given = append(given, ls.ReleaseAsync())
				}
				try = rw.WriteLock().TryAcquireAsync(context.Background())
				if !first {
					reads = ask()
				}
				before := sc.w.Now()
				ls, err := result(sc, try)
				if took := sc.w.Now().Sub(before); took > simAnswered {
					t.Errorf("%d handles: answered after %v", handles, took)
				}
				if err == nil {
					sc.release(ls)
				}
				if ls, err := result(sc, reads); err == nil {
					sc.release(ls)
				}
				for _, f := range given {
					_, _ = result(sc, f)
				}
			})
		}
	}
}
