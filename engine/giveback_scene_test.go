package engine

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"
)

// What gives back fails in one way or another, and something else takes its place: who waits for its answer waits for that.

// exclusiveKinds are the locks that nobody shares, by what gives them back.
var exclusiveKinds = map[string]func(e *Engine, opts ...Option) *Lock{
	"release":     func(e *Engine, opts ...Option) *Lock { return e.Lock("k", opts...) },
	"fairrelease": func(e *Engine, opts ...Option) *Lock { return e.FairLock("k", opts...).Lock },
}

// A release is refused for good, so its caller is told, and the engine goes on with another. A Try that the server has
// answered before that one arrives is told of nobody but its own engine.
func TestATryBehindAReleaseThatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	for script, kind := range exclusiveKinds {
		for times := 1; times <= 3; times++ {
			for after := time.Duration(0); after < 3*time.Millisecond; after += 300 * time.Microsecond {
				play(t, func(sc *scene) {
					ls := sc.acquire(kind(sc.e))
					sc.refusing(script, "MISCONF no", times)
					sc.slow = func([]string) time.Duration { return time.Millisecond }
					given := ls.ReleaseAsync()
					sc.w.Sleep(after)
					got, err := result(sc, kind(sc.e).TryAcquireAsync(context.Background()))
					sc.wants(nil, err, script+" refused "+strconv.Itoa(times)+" times: a Try "+after.String()+" later")
					_, err = result(sc, given)
					if err == nil {
						t.Error("a release was refused, and its caller is told nothing")
					}
					if got != nil {
						sc.release(got)
					}
					sc.w.Sleep(2 * time.Second)
				})
			}
		}
	}
}

// leavers has so many callers of a fair lock leave that somebody else has, and the server refuse to take their places
// out, for ever.
func (sc *scene) leavers(n int) {
	sc.server.twin.Do([]string{"HSET", "k", "somebody", "1"})
	sc.server.twin.Do([]string{"PEXPIRE", "k", "6000000"})
	var leave []*Future[*Lease]
	for range n {
		leave = append(leave, sc.e.FairLock("k").AcquireAsync(context.Background()))
	}
	sc.w.Sleep(200 * time.Millisecond)
	sc.refusing("fairrelease", "NOPERM no", -1)
	for _, f := range leave {
		sc.w.Sleep(7 * time.Millisecond)
		f.Cancel()
	}
}

// Who asks for replicas travels on another connection than what is given back, and so waits for that: for what is on its
// way when it comes, and not for all that is sent again meanwhile.
func TestWhoAsksForReplicasWaitsForNoneOfManyThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{true, false} {
		play(t, func(sc *scene) {
			sc.leavers(300)
			asks := 0
			sc.slow = func(args []string) time.Duration {
				if simScriptNames[scriptArg(args)] == "fair" {
					asks++
				}
				return 200 * time.Millisecond
			}
			sc.w.Sleep(15 * time.Second)
			l := sc.e.FairLock("k", WaitReplicas(1, time.Second), FixedLease(time.Minute))
			ask := l.AcquireAsync
			if try {
				ask = l.TryAcquireAsync
			}
			for range 10 {
				before, from := asks, sc.w.Now()
				f := ask(context.Background())
				for asks == before && sc.w.Now().Sub(from) < 10*time.Second {
					sc.w.Sleep(time.Millisecond)
				}
				if took := sc.w.Now().Sub(from); took > time.Second {
					t.Errorf("who asks for replicas (a Try: %v) was sent after %v", try, took)
				}
				f.Cancel()
				sc.w.Sleep(time.Second)
			}
			sc.slow, sc.server.refuses = nil, nil
			sc.w.Sleep(10 * time.Second)
		})
	}
}

// Who waits for the answer to a release goes on when that is there, whatever else of the name is sent again and again.
func TestAWaiterWaitsForItsReleaseAlone(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		const names = 300
		sc.server.twin.Do([]string{"HSET", "k", "somebody", "1"})
		sc.server.twin.Do([]string{"PEXPIRE", "k", "6000000"})
		for range names { // acquires whose answers were lost, and whose callers left
			sc.slow = func([]string) time.Duration { return -1 }
			f := sc.e.Lock("k", FixedLease(time.Hour)).AcquireAsync(context.Background())
			sc.w.Sleep(5 * time.Millisecond)
			sc.slow = nil
			f.Cancel()
			sc.w.Sleep(time.Millisecond)
		}
		good := ""
		sc.server.refuses = func(args []string) string {
			if simScriptNames[scriptArg(args)] != "release" || args[len(args)-1] == good {
				return ""
			}
			return "NOPERM no"
		}
		sc.w.Sleep(10 * time.Second)
		sc.slow = func([]string) time.Duration { return 200 * time.Millisecond }
		sc.server.twin.Do([]string{"DEL", "k"})
		ls := sc.acquire(sc.e.Lock("k"))
		good = ls.OwnerID()
		waits := sc.e.Lock("k", FixedLease(time.Minute)).AcquireAsync(context.Background())
		sc.w.Sleep(time.Second)
		sc.release(ls)
		from := sc.w.Now()
		next, err := result(sc, waits)
		sc.wants(nil, err, "who waited")
		if took := sc.w.Now().Sub(from); took > 700*time.Millisecond {
			t.Errorf("who waited has the lock %v after the release was answered, and a round trip takes 0.2 s", took)
		}
		sc.server.refuses, sc.slow = nil, nil
		sc.release(next)
		sc.w.Sleep(10 * time.Second)
	})
}

// Of a waiter that was never sent nothing is unknown: what it waits for is still to be given back here.
func TestMaxWaitBehindARefusedReleaseIsNotUnknown(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"MISCONF no", "READONLY no", "TRYAGAIN the slot is moving"} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("k"))
			first := sc.e.Lock("k", FixedLease(time.Minute)).AcquireAsync(context.Background()) // another lease: no hand-off
			sc.w.Sleep(300 * time.Millisecond)                                                  // the tenure is over
			sc.refusing("release", refusal, -1)
			given := ls.ReleaseAsync()
			sc.w.Sleep(5 * time.Millisecond)
			_, err := result(sc, sc.e.Lock("k", MaxWait(40*time.Millisecond)).AcquireAsync(context.Background()))
			sc.wants(ErrHeld, err, "MaxWait behind a release that is refused with "+refusal)
			sc.server.refuses = nil
			_, _ = result(sc, given)
			next, err := result(sc, first)
			sc.wants(nil, err, "the first")
			sc.release(next)
		})
	}
}

// A Try was told of somebody, and rests to ask again when its ctx ends: that is what it says.
func TestTheCtxOfATryThatAsksAgainEnds(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("k")
		ls := sc.acquire(l)
		sc.refusing("release", "TRYAGAIN the slot is moving", -1)
		given := ls.ReleaseAsync()
		sc.w.Sleep(10 * time.Millisecond)
		asks := sc.asked("acquire", 0)
		ctx, cancel := sc.w.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		before := sc.e.Stats().Refused
		_, err := result(sc, l.TryAcquireAsync(ctx))
		if *asks != 1 {
			t.Errorf("the Try asked %d times, and was to be told of the lock once", *asks)
		}
		if sc.wants(ErrHeld, err, "the Try"); !errors.Is(err, context.DeadlineExceeded) || sc.e.Stats().Refused != before+1 {
			t.Errorf("it is told %v, and counted %d times", err, sc.e.Stats().Refused-before)
		}
		sc.server.refuses = nil
		_, err = result(sc, given)
		sc.wants(nil, err, "the release")
	})
}
