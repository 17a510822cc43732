package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// A lock and a semaphore of one name in the simulation, both ways: who asks as the other kind is refused, whoever waits
// or has what there is in whatever engine, and nothing changes.

// simOtherNames are locks that are asked for as semaphores, too.
//
//nolint:gochecknoglobals // constants
var simOtherNames = []string{"w0", "w1"}

// otherKind asks for what there is as the other kind.
func (a *simActor) otherKind(st *simStep) {
	switch {
	case a.s.counted == nil:
	case st.pick%2 == 0:
		a.lockSemaphore(st)
	case a.s.healthy() && !a.s.closes: // else a Close gives the lock back
		a.semaphoreOfLock(st)
	}
}

// lockSemaphore asks for a semaphore as a lock. Behind those of its engine who wait for the semaphore a Try is told that
// somebody does, and others wait in their queue.
func (a *simActor) lockSemaphore(st *simStep) {
	s, tally := a.s, a.se.tally
	sem := s.counted.sems[st.name%len(s.counted.sems)]
	l := a.se.eng.Lock(sem.name, simLeases[st.lease])
	ctx, cancel := s.w.WithCancel(context.Background())
	s.story("%s asks for the semaphore %q as a lock, once: %v", a.who(), sem.name, st.try)
	s.ops++
	behind := sem.others[a.se] > 0 || slices.ContainsFunc(sem.takers, func(w *simTaker) bool { return w.se == a.se })
	sem.others[a.se]++
	var f *Future[*Lease]
	if st.try {
		f = l.TryAcquireAsync(ctx)
	} else {
		f = l.AcquireAsync(ctx)
	}
	over, done := behind, s.w.NewLatch()
	f.then(func() {
		sem.others[a.se]--
		_, err, _ := f.Result()
		s.story("%s asked for the semaphore %q as a lock: %v", a.who(), sem.name, err)
		if st.try && errors.Is(err, ErrHeld) {
			tally.refused++
		}
		s.judgeOtherKind(sem.name, "a lock", over, err)
		done.Open()
	})
	if !done.WaitUntil(s.w.Now().Add(simSoon)) {
		if s.healthy() && !over {
			s.fail("who asks as another kind is refused", "%q: nobody tells that it is no lock", sem.name)
		}
		over = true
		cancel()
	}
	done.WaitIn(context.Background())
	cancel()
}

// judgeOtherKind: nothing is granted or changed, and where nothing goes wrong the error says why.
func (s *sim) judgeOtherKind(name, kind string, over bool, err error) {
	switch {
	case err == nil:
		s.fail("who asks as another kind is refused", "%q was taken as %s", name, kind)
	case s.healthy() && !over && !errors.Is(err, ErrWrongKind) && !errors.Is(err, ErrClosed):
		s.fail("who asks as another kind is refused", "%q was asked for as %s, and that is told %v", name, kind, err)
	}
}

// semaphoreOfLock has a lock, and asks for it as a semaphore: in its own engine, and in another one.
func (a *simActor) semaphoreOfLock(st *simStep) {
	s, se := a.s, a.se
	name := simOtherNames[st.name%len(simOtherNames)]
	s.ops++
	f := se.eng.Lock(name, WatchdogLease(20*time.Second)).TryAcquireAsync(context.Background())
	await(s, f)
	ls, err, _ := f.Result()
	if errors.Is(err, ErrHeld) {
		se.tally.refused++
	}
	if err != nil {
		return
	}
	se.tells(ls)
	s.story("%s has the lock %q", a.who(), name)
	s.w.Sleep(min(st.keep, 100*time.Millisecond))
	for _, other := range []*simEngine{se, s.engines[(se.n+1)%len(s.engines)]} {
		if other.eng != nil { // else it is just being opened
			a.asksAsSemaphore(name, other)
		}
	}
	s.ops++
	back := ls.ReleaseAsync()
	await(s, back)
	se.tally.released(back.err)
	if back.err != nil {
		s.fail("who asks as another kind is refused", "%q was asked for as a semaphore, and its release is told %v", name, back.err)
	}
}

// asksAsSemaphore asks for a lock that is held as a semaphore, in every way.
func (a *simActor) asksAsSemaphore(name string, se *simEngine) {
	s, sem := a.s, se.eng.Semaphore(name)
	before := slices.Clone(s.server.twin.Hash(name))
	for what, ask := range []func() error{
		func() error { return resultOf(s, sem.TryAcquireAsync(context.Background(), 1)) },
		func() error { return resultOf(s, sem.AcquireAsync(context.Background(), 1)) },
		func() error { return resultOf(s, sem.ReleaseAsync(1)) },
		func() error { return resultOf(s, sem.AvailablePermitsAsync(context.Background())) },
		func() error { return resultOf(s, sem.TrySetPermitsAsync(context.Background(), 3, 0)) },
	} {
		s.ops++
		err := ask()
		s.story("engine %d asks for the lock %q as a semaphore, way %d: %v", se.n, name, what, err)
		s.judgeOtherKind(name, "a semaphore", false, err)
	}
	s.checkUntouched(name, before[0].Name)
}

// checkUntouched: the lock is its holder's, and nothing stands beside it.
func (s *sim) checkUntouched(name, field string) {
	if after := s.server.twin.Hash(name); len(after) != 1 || after[0].Name != field || after[0].Value != "1" {
		s.fail("who asks as another kind changes nothing", "%q was %s's, and is %v", name, field, after)
	}
	for _, e := range s.server.twin.Keys() {
		if strings.HasPrefix(e.Key, "{"+name+"}") {
			s.fail("who asks as another kind changes nothing", "%q: %q was left", name, e.Key)
		}
	}
}

// resultOf waits for a future's error.
func resultOf[T any](s *sim, f *Future[T]) error {
	await(s, f)
	_, err, _ := f.Result()
	return err
}
