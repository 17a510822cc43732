package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Who waits for the answer to a give-back that travels on another connection goes on when there is none on its way: with
// the last answer, and while a refused one is not sent again yet.

// soon is what comes of an acquire, which must have it within a second.
func (sc *scene) soon(asked *Future[*Lease], what string) error {
	sc.w.Sleep(time.Second)
	ls, err, done := asked.Result()
	switch {
	case !done:
		sc.t.Errorf("%s: not answered after a second", what)
	case err == nil:
		sc.release(ls)
	}
	return err
}

// A fair lock is asked for by the name of a semaphore, whose permits are just given back.
func TestWhoAsksForReplicasGoesOnBehindAReleaseOfPermits(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{true, false} {
		for _, free := range []bool{true, false} {
			play(t, func(sc *scene) {
				sc.server.twin.Do([]string{"SET", "x", "1"})
				sc.slowed("semaphorerelease", 50*time.Millisecond)
				given := sc.e.Semaphore("x").ReleaseAsync(1)
				sc.w.Sleep(10 * time.Millisecond)
				want := ErrWrongKind
				if free {
					sc.server.twin.Do([]string{"DEL", "x"}) // after the release, before its answer
					want = nil
				}
				lock := sc.e.FairLock("x", WaitReplicas(1, time.Second))
				asks := lock.TryAcquireAsync
				if !try {
					asks = lock.AcquireAsync
				}
				asked := asks(context.Background())
				_, err := result(sc, given)
				sc.wants(nil, err, "the release")
				what := fmt.Sprintf("try %v, free %v", try, free)
				sc.wants(want, sc.soon(asked, what), what)
			})
		}
	}
}

// What was granted too late is given back, and the server refuses that for as long as it is a replica.
func TestATryForReplicasWaitsForNoRefusedGiveBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []func(e *Engine, opts ...Option) *Lock{
		func(e *Engine, opts ...Option) *Lock { return e.Lock("k", opts...) },
		func(e *Engine, opts ...Option) *Lock { return e.FairLock("k", opts...).Lock },
		func(e *Engine, opts ...Option) *Lock { return e.RWLock("k", opts...).ReadLock() },
	} {
		play(t, func(sc *scene) {
			sc.slow = func([]string) time.Duration { return -1 }
			left := kind(sc.e).AcquireAsync(context.Background())
			sc.w.Sleep(5 * time.Millisecond)
			sc.server.twin.Refuse = "READONLY You can't write against a read only replica."
			sc.slow = func([]string) time.Duration { return 20 * time.Millisecond }
			left.Cancel()
			for range 3 { // the first meets one that is on its way, the others some that were sent again
				err := sc.soon(kind(sc.e, WaitReplicas(1, time.Second)).TryAcquireAsync(context.Background()), "the Try")
				var said *ServerError
				if !errors.Is(err, ErrHeld) && !errors.As(err, &said) {
					t.Errorf("refused by the server, or by what stands there: %v", err)
				}
				sc.w.Sleep(10 * time.Second)
			}
			sc.server.twin.Refuse, sc.slow = "", nil
			sc.w.Sleep(10 * time.Second)
			sc.release(sc.acquire(kind(sc.e, WaitReplicas(1, time.Second))))
		})
	}
}

// Permits are taken by nobody's wish and are to be given back, and a lock has taken their name.
func TestATryForReplicasWaitsForNoUndoingThatALockStandsBefore(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.server.twin.Do([]string{"SET", "x", "5"})
		sc.slowed("semaphore", -1)
		taken := sc.e.Semaphore("x").AcquireAsync(context.Background(), 3)
		sc.w.Sleep(5 * time.Millisecond)
		sc.slow = nil
		sc.server.twin.Do([]string{"DEL", "x"})
		sc.server.twin.Do([]string{"HSET", "x", "somebody", "1"})
		taken.Cancel()
		sc.w.Sleep(5 * time.Millisecond)
		try := sc.e.Lock("x", WaitReplicas(1, time.Second)).TryAcquireAsync(context.Background())
		sc.wants(ErrHeld, sc.soon(try, "the Try"), "the Try")
		// The permits are given back when their name is theirs again.
		sc.server.twin.Do([]string{"DEL", "x"})
		sc.server.twin.Do([]string{"SET", "x", "2"})
		sc.w.Sleep(10 * time.Minute)
		free, err := result(sc, sc.e.Semaphore("x").AvailablePermitsAsync(context.Background()))
		sc.wants(nil, err, "the permits")
		if free != 5 {
			t.Errorf("%d of 5 permits are free", free)
		}
	})
}

// Of two permits that are given back one goes to who waits here, and the server refuses the other one: whoever gave them
// cannot give both once more, so the engine goes on. A whole release that is refused meanwhile is its caller's again.
func TestTheRestOfAReleaseIsGivenBackThoughItIsRefused(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 2} { // given back by somebody else, behind it
		play(t, func(sc *scene) {
			sc.server.twin.Do([]string{"SET", "s", "4"})
			sem := sc.e.Semaphore("s")
			all, one := sem.AcquireAsync(context.Background(), 4), sem.AcquireAsync(context.Background(), 1)
			_, err := result(sc, all)
			sc.wants(nil, err, "four")
			sc.server.twin.Do([]string{"DEL", "s"})
			sc.server.twin.Do([]string{"HSET", "s", "somebody", "1"})
			sc.slowed("semaphorerelease", 10*time.Millisecond)
			part := sem.ReleaseAsync(2)
			var whole *Future[struct{}]
			if more > 0 {
				whole = sem.ReleaseAsync(more)
			}
			_, err = result(sc, part)
			sc.wants(ErrUnknown, err, "the release of which a part was handed out")
			_, err = result(sc, one)
			sc.wants(nil, err, "who was handed it")
			if whole != nil {
				_, err = result(sc, whole)
				sc.wants(ErrWrongKind, err, "the whole one")
			}
			// Who asks for the lock that stands there does not wait for that.
			try := sc.e.Lock("s", WaitReplicas(1, time.Second)).TryAcquireAsync(context.Background())
			sc.wants(ErrHeld, sc.soon(try, "a Try"), "a Try")
			sc.slow = nil
			sc.server.twin.Do([]string{"DEL", "s"})
			sc.server.twin.Do([]string{"SET", "s", "0"})
			sc.w.Sleep(10 * time.Minute)
			free, err := result(sc, sem.AvailablePermitsAsync(context.Background()))
			sc.wants(nil, err, "the permits")
			if free != 1 {
				t.Errorf("%d permits are free, and one was to be given back", free)
			}
		})
	}
}

// refusing has the server refuse one script, so many times.
func (sc *scene) refusing(script, text string, times int) {
	sc.server.refuses = func(args []string) string {
		if simScriptNames[scriptArg(args)] != script || times == 0 {
			return ""
		}
		times--
		return text
	}
}

// A refusal that passes keeps a Try waiting: it would be told of what its own engine is just giving back.
func TestATryForReplicasWaitsForAGiveBackThatIsRefusedOnce(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.refusing("release", "MISCONF no", 1)
		sc.slow = func([]string) time.Duration { return 20 * time.Millisecond }
		left := sc.e.Lock("k").AcquireAsync(context.Background())
		sc.w.Sleep(5 * time.Millisecond)
		left.Cancel()
		sc.w.Sleep(20 * time.Millisecond) // it was granted, and is given back
		ls, err := result(sc, sc.e.Lock("k", WaitReplicas(1, time.Second)).TryAcquireAsync(context.Background()))
		sc.wants(nil, err, "the Try of what nobody has")
		if err == nil {
			sc.release(ls)
		}
	})
}

// The same of a Try that overtakes: it asks again behind what is given back, be that refused once, or for as long as a slot
// moves. What is refused for longer it is told of.
func TestATryIsNotToldOfWhatItsOwnEngineIsJustGivingBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refusal string
		times   int
		want    error
	}{
		{"MISCONF no", 1, nil},
		{"MISCONF no", 2, nil},
		{"MISCONF no", -1, ErrHeld},
		{"TRYAGAIN the slot is moving", 8, nil},
		{"TRYAGAIN the slot is moving", -1, ErrHeld},
	} {
		for _, kind := range []func(e *Engine) *Lock{
			func(e *Engine) *Lock { return e.Lock("k") },
			func(e *Engine) *Lock { return e.FairLock("k").Lock },
		} {
			play(t, func(sc *scene) {
				left := c.times
				sc.server.refuses = func(args []string) string {
					if strings.HasSuffix(simScriptNames[scriptArg(args)], "release") && left != 0 {
						left--
						return c.refusal
					}
					return ""
				}
				sc.slow = func([]string) time.Duration { return 20 * time.Millisecond }
				leaves := kind(sc.e).AcquireAsync(context.Background())
				sc.w.Sleep(5 * time.Millisecond)
				leaves.Cancel()
				sc.w.Sleep(20 * time.Millisecond) // it was granted, and is given back
				ls, err := result(sc, kind(sc.e).TryAcquireAsync(context.Background()))
				sc.wants(c.want, err, c.refusal)
				sc.server.refuses = nil
				if err == nil {
					sc.release(ls)
				}
				sc.w.Sleep(2 * time.Second) // what was refused is given back
			})
		}
	}
}

// A release that fails is tried for seconds, and its key for as long as it can live: a Try waits for neither.
func TestATryWaitsForNoReleaseThatFails(t *testing.T) {
	t.Parallel()
	for i := range 120 {
		refusal := []string{"NOPERM no", "MISCONF no", "READONLY no", "TRYAGAIN the slot is moving"}[i%4]
		play(t, func(sc *scene) {
			l := sc.e.Lock("k")
			ls := sc.acquire(l)
			sc.refusing("release", refusal, -1)
			given := ls.ReleaseAsync()
			sc.w.Sleep(time.Duration(i) * time.Millisecond)
			begun := sc.w.Now()
			for _, atMost := range []time.Duration{210 * time.Millisecond, 210 * time.Millisecond, 10 * time.Millisecond} {
				if strings.HasPrefix(refusal, "TRYAGAIN") {
					atMost += sc.e.nodes.AttemptLimit()
				}
				_, err := result(sc, l.TryAcquireAsync(context.Background()))
				sc.wants(ErrHeld, err, refusal)
				if took := sc.w.Now().Sub(begun); took > atMost {
					t.Errorf("%s: a Try took %v", refusal, took)
				}
				if _, err := result(sc, given); err == nil {
					t.Errorf("%s: it was released", refusal)
				}
				begun = sc.w.Now()
			}
			sc.server.refuses = nil
			sc.w.Sleep(2 * time.Second)
		})
	}
}

// asked counts the calls of one script. Their answers take so long.
func (sc *scene) asked(script string, takes time.Duration) *int {
	times := new(int)
	sc.slow = func(args []string) time.Duration {
		if simScriptNames[scriptArg(args)] != script {
			return 0
		}
		*times++
		return takes
	}
	return times
}

// A release that has failed for a while is waited for again as soon as it is on its way: what travels on another connection
// would be told of what is just given back.
func TestWhoAsksForReplicasWaitsForAReleaseThatIsSentAgain(t *testing.T) {
	t.Parallel()
	for release, kind := range map[string]func(e *Engine, opts ...Option) *Lock{
		"release":     func(e *Engine, opts ...Option) *Lock { return e.Lock("k", opts...) },
		"fairrelease": func(e *Engine, opts ...Option) *Lock { return e.FairLock("k", opts...).Lock },
	} {
		play(t, func(sc *scene) {
			ls := sc.acquire(kind(sc.e))
			sc.refusing(release, "READONLY no", -1)
			given := ls.ReleaseAsync()
			sc.w.Sleep(2 * time.Second)
			sc.server.refuses = nil
			released := sc.asked(release, 50*time.Millisecond)
			for *released == 0 {
				sc.w.Sleep(time.Millisecond)
			}
			ls, err := result(sc, kind(sc.e, WaitReplicas(1, time.Second)).TryAcquireAsync(context.Background()))
			sc.wants(nil, err, "the Try")
			if _, _, done := given.Result(); !done {
				t.Errorf("%s: it did not wait for that", release)
			}
			if err == nil {
				sc.release(ls)
			}
		})
	}
}

// Others do not wait behind a Try that asks again, and nobody waits once it has left.
func TestATryThatAsksAgainIsInNobodysWay(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) { // permits are there for who wants fewer
		sc.server.twin.Do([]string{"SET", "s", "2"})
		sc.refusing("semaphorerelease", "READONLY no", -1)
		s := sc.e.Semaphore("s")
		given := s.ReleaseAsync(4)
		sc.w.Sleep(500 * time.Microsecond)
		many := s.TryAcquireAsync(context.Background(), 5)
		sc.w.Sleep(2 * time.Millisecond)
		asked := sc.w.Now()
		_, err := result(sc, s.TryAcquireAsync(context.Background(), 1))
		sc.wants(nil, err, "a Try")
		_, err = result(sc, s.AcquireAsync(context.Background(), 1))
		sc.wants(nil, err, "a waiter")
		if took := sc.w.Now().Sub(asked); took > 5*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		_, err = result(sc, many)
		sc.wants(ErrHeld, err, "who wants too many")
		sc.server.refuses = nil
		_, err = result(sc, given)
		sc.wants(nil, err, "the release")
	})
	play(t, func(sc *scene) { // and the lock is free meanwhile
		l := sc.e.Lock("k")
		ls := sc.acquire(l)
		sc.refusing("release", "TRYAGAIN the slot is moving", -1)
		given := ls.ReleaseAsync()
		sc.w.Sleep(50 * time.Millisecond)
		try := l.TryAcquireAsync(context.Background())
		sc.w.Sleep(5 * time.Millisecond)
		waits := l.AcquireAsync(context.Background())
		sc.server.twin.Do([]string{"DEL", "k"})
		left := sc.w.Now()
		if !try.Cancel() {
			t.Error("the Try has its result already")
		}
		next, err := result(sc, waits)
		sc.wants(nil, err, "who waits behind it")
		if took := sc.w.Now().Sub(left); took > 5*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		sc.server.refuses = nil
		_, err = result(sc, given)
		sc.wants(ErrLost, err, "the release of what is gone")
		if next != nil {
			sc.release(next)
		}
	})
}

// Many that are refused are sent again all the time, and there is always one on its way.
func TestATryWaitsForNoneOfManyThatAreRefused(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		g := sc.e.FairLock("g")
		sc.server.twin.Do([]string{"HSET", "g", "somebody", "1"})
		sc.server.twin.Do([]string{"PEXPIRE", "g", "6000000"})
		var leave []*Future[*Lease]
		for range 60 {
			leave = append(leave, g.AcquireAsync(context.Background()))
		}
		sc.w.Sleep(200 * time.Millisecond)
		sc.refusing("fairrelease", "NOPERM no", -1)
		for _, f := range leave {
			sc.w.Sleep(7 * time.Millisecond)
			f.Cancel()
		}
		sc.slow = func([]string) time.Duration { return 200 * time.Millisecond }
		sc.w.Sleep(15 * time.Second)
		for range 40 {
			sc.wants(ErrHeld, sc.soon(g.TryAcquireAsync(context.Background()), "a Try"), "a Try")
		}
		sc.slow, sc.server.refuses = nil, nil
		sc.w.Sleep(2 * time.Second)
	})
}

// Too few permits are no answer to who wants the name as something else, also where nobody waits before it any more. Nor
// are they to the next, and a server that refuses is none to wait for.
func TestATryOfAnotherKindIsAskedForWherePermitsWereServed(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"", "MISCONF no", "READONLY no"} {
		play(t, func(sc *scene) {
			sc.server.twin.Do([]string{"SET", "s", "3"})
			s, l := sc.e.Semaphore("s"), sc.e.Lock("s")
			sc.slowed("semaphore", 2*time.Millisecond)
			two, one := s.AcquireAsync(context.Background(), 2), s.AcquireAsync(context.Background(), 1)
			leaves := s.AcquireAsync(context.Background(), 1)
			_, err := result(sc, two)
			sc.wants(nil, err, "two")
			sc.w.Sleep(100 * time.Microsecond)
			try := l.TryAcquireAsync(context.Background())
			leaves.Cancel()
			_, err = result(sc, one)
			sc.wants(nil, err, "one")
			sc.server.twin.Refuse = refusal
			next := l.TryAcquireAsync(context.Background())
			for _, f := range []*Future[*Lease]{try, next} {
				err := sc.soon(f, "a Try")
				if said := new(ServerError); refusal != "" && !errors.As(err, &said) {
					t.Errorf("%s: %v", refusal, err)
				} else if refusal == "" {
					sc.wants(ErrWrongKind, err, "a Try")
				}
			}
			sc.server.twin.Refuse = ""
		})
	}
}

// Who waits behind a Try that asks again knows what that one was told.
func TestWhoWaitsBehindATryThatAsksAgainKnowsOfTheHolder(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("k"))
		sc.refusing("release", "TRYAGAIN the slot is moving", -1)
		given := ls.ReleaseAsync()
		sc.w.Sleep(10 * time.Millisecond)
		try := sc.e.Lock("k").TryAcquireAsync(context.Background())
		sc.w.Sleep(3 * time.Millisecond)
		_, err := result(sc, sc.e.Lock("k", MaxWait(40*time.Millisecond)).AcquireAsync(context.Background()))
		var held *HeldError
		if !errors.As(err, &held) || held.Remaining < 29*time.Second {
			t.Errorf("a waiter: %v", err)
		}
		sc.server.refuses = nil
		_, err = result(sc, given)
		sc.wants(nil, err, "the release")
		_, err = result(sc, try)
		sc.wants(nil, err, "the Try")
	})
}

// handsOutOneOfTwo gives two permits back, of which one goes to who waits here. The server refuses the other.
func (sc *scene) handsOutOneOfTwo(sem *Semaphore) {
	sc.server.twin.Do([]string{"SET", "s", "1"})
	one, waits := sem.AcquireAsync(context.Background(), 1), sem.AcquireAsync(context.Background(), 1)
	_, err := result(sc, one)
	sc.wants(nil, err, "a permit")
	_, err = result(sc, sem.ReleaseAsync(2))
	sc.wants(ErrUnknown, err, "the release of which a part was handed out")
	_, err = result(sc, waits)
	sc.wants(nil, err, "who was handed it")
}

// What is refused is tried again for an hour, each part from its own refusal on: what comes late to an old one is not
// dropped with it.
func TestWhatIsRefusedIsTriedAgainForItsOwnHour(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sem := sc.e.Semaphore("s")
		sc.refusing("semaphorerelease", "NOPERM no", -1)
		sc.handsOutOneOfTwo(sem)
		sc.w.Sleep(time.Hour - time.Minute)
		sc.handsOutOneOfTwo(sem)
		sc.w.Sleep(2 * time.Minute)
		sc.server.refuses = nil
		sc.server.twin.Do([]string{"SET", "s", "0"})
		sc.w.Sleep(2 * time.Second)
		free, err := result(sc, sem.AvailablePermitsAsync(context.Background()))
		sc.wants(nil, err, "the permits")
		if free != 1 || sc.e.unanswered() != 0 {
			t.Errorf("%d permits are free, of the two the later; %d unanswered", free, sc.e.unanswered())
		}
	})
}

// What comes behind an old refusal has all the time that is its own until its outcome is unknown.
func TestAReleaseBehindAnOldRefusalHasItsOwnTime(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sem := sc.e.Semaphore("s")
		sc.refusing("semaphorerelease", "NOPERM no", -1)
		sc.handsOutOneOfTwo(sem)
		sc.w.Sleep(time.Minute)
		times := 0
		sc.server.refuses = func(args []string) string {
			if simScriptNames[scriptArg(args)] == "semaphorerelease" {
				times++
			}
			return map[int]string{1: "NOPERM no", 2: "MISCONF no", 3: "MISCONF no"}[times]
		}
		_, err := result(sc, sem.ReleaseAsync(1))
		sc.wants(nil, err, "a release")
		free, err := result(sc, sem.AvailablePermitsAsync(context.Background()))
		sc.wants(nil, err, "the permits")
		if free != 2 {
			t.Errorf("%d permits are free, and two were given back", free)
		}
	})
}

// A ForceRelease in the middle of what is refused, and Close, find nothing that goes on for ever.
func TestAForceReleaseAndCloseMeetWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		play(t, func(sc *scene) {
			sc.server.refuses = func(args []string) string {
				if s := simScriptNames[scriptArg(args)]; s == "release" || s == "semaphorerelease" {
					return "NOPERM no"
				}
				return ""
			}
			sc.slow = func([]string) time.Duration { return 20 * time.Millisecond }
			lock, sem := sc.e.Lock("k", WaitReplicas(1, time.Second)), sc.e.Semaphore("s")
			left := sc.e.Lock("k").AcquireAsync(context.Background())
			sc.w.Sleep(5 * time.Millisecond)
			left.Cancel()
			sc.handsOutOneOfTwo(sem)
			sc.w.Sleep(time.Second)
			whole := sem.ReleaseAsync(1) // behind the rest
			_, err := result(sc, lock.ForceReleaseAsync(context.Background()))
			sc.wants(nil, err, "the ForceRelease")
			if closes {
				ctx, cancel := sc.w.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				if sc.e.Close(ctx) == nil {
					t.Error("Close says that everything was given back")
				}
				if _, err, done := whole.Result(); !done || err == nil {
					t.Errorf("a release that was refused until Close: answered %v, %v", done, err)
				}
				return
			}
			ls, err := result(sc, lock.TryAcquireAsync(context.Background()))
			sc.wants(nil, err, "a Try of what was taken by force")
			_, err = result(sc, whole)
			var said *ServerError
			if !errors.As(err, &said) {
				t.Errorf("a release that is refused: %v", err)
			}
			sc.server.refuses = nil
			sc.release(ls)
			sc.w.Sleep(10 * time.Second)
			if n := sc.e.unanswered(); n != 0 {
				t.Errorf("%d unanswered", n)
			}
		})
	}
}

// Two takes have no answer, and are undone: the older one once more when no copy of it can come any more, while the younger
// has no answer yet. A take in between is noted beside the younger, not in its place: the note says what is to be undone.
func TestAnUndoingThatIsAnsweredAgainEndsNoOther(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.server.twin.Do([]string{"SET", "s", "5"})
		sem := sc.e.Semaphore("s")
		older, again := "", 0
		sc.server.refuses = func(args []string) string {
			if simScriptNames[scriptArg(args)] != "semaphorerelease" {
				return ""
			}
			text := strings.Join(args, " ")
			if older == "" {
				older = text
			}
			if text == older {
				again++
				return ""
			}
			return "MISCONF no"
		}
		lost := func() {
			sc.slowed("semaphore", -1)
			take := sem.AcquireAsync(context.Background(), 1)
			sc.w.Sleep(5 * time.Millisecond)
			sc.slow = nil
			take.Cancel()
		}
		lost()
		sc.w.Sleep(simAttempt - 100*time.Millisecond)
		lost()
		sc.w.Sleep(time.Second)
		if again < 2 {
			t.Errorf("the older was given back %d times", again)
		}
		_, err := result(sc, sem.AcquireAsync(context.Background(), 1))
		sc.wants(nil, err, "a take in between")
		sc.server.refuses = nil
		sc.w.Sleep(10 * time.Second)
		_, err = result(sc, sem.ReleaseAsync(1))
		sc.wants(nil, err, "its release")
		free, err := result(sc, sem.AvailablePermitsAsync(context.Background()))
		sc.wants(nil, err, "the permits")
		if free != 5 {
			t.Errorf("%d of 5 permits are free", free)
		}
	})
}
