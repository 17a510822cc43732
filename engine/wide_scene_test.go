package engine

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A name keeps its lanes while anything goes on with it, so that nothing overtakes what came before it; one of which
// nothing goes on takes those that are used now. A question takes one lane then: nobody would know of it afterwards.
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
		if freed(few) || asked(sc.e.Lock("few")) {
			sc.t.Error("it was acquired in the lane of few, and nothing goes on with it any more")
		}
		if !freed(sc.acquire(sc.e.Lock("few"))) {
			sc.t.Error("many use all lanes")
		}
		sc.se.wide.Store(0)
		if !freed(many) || asked(sc.e.Lock("many")) {
			sc.t.Error("it was acquired in the lanes of many")
		}
	})
}

// A grant that nobody could use is given back in the lane that it came by, and what comes next comes behind it: it would
// else be told that another has the lock, and there is none.
func TestWhatComesAfterAGrantThatNobodyCouldUseDoesNotOvertakeItsRelease(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		slow := ""
		sc.slow = func(args []string) time.Duration {
			if strings.HasPrefix(simScriptNames[scriptArg(args)], slow) {
				return 100 * time.Millisecond
			}
			return 0
		}
		l := sc.e.Lock("given back")
		asked := func() (ls *Lease, wide bool) {
			f := l.TryAcquireAsync(context.Background())
			s := sc.e.enter(l.hash)
			wide = s.sh.names.get(l.hash, l.key).wide
			s.leave()
			ls, err := result(sc, f)
			if err != nil {
				sc.t.Error(err)
			}
			return ls, wide
		}
		givenUp := func() {
			slow = "acquire"
			f := l.AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond)
			if !f.Cancel() {
				sc.t.Error("it was granted before")
			}
			slow = "release"
		}
		givenUp()
		sc.w.Sleep(100 * time.Millisecond)
		if got := sc.e.Stats().Ghosts; got != 0 {
			sc.t.Error("its release was answered before")
		}
		sc.se.wide.Store(1)
		ls, wide := asked()
		if wide {
			sc.t.Error("it is in another lane than the release")
		}
		slow = "none"
		sc.release(ls)
		sc.w.Sleep(time.Second)
		if got := sc.e.Stats().Ghosts; got != 1 {
			sc.t.Error("nothing was given back")
		}
		if ls, wide = asked(); !wide {
			sc.t.Error("nothing goes on with it any more")
		}
		sc.release(ls)
		// Also where it had no answer, and is sent again.
		inTime := sc.slow
		givenUp()
		sc.slow = func(args []string) time.Duration {
			if strings.HasPrefix(simScriptNames[scriptArg(args)], "release") {
				return -1
			}
			return 0
		}
		sc.w.Sleep(sc.e.nodes.AttemptLimit() + 300*time.Millisecond)
		if got := sc.e.Stats().Names; got != 1 {
			sc.t.Error("it is forgotten, and what comes next may take other lanes")
		}
		sc.slow, slow = inTime, "none"
		sc.w.Sleep(20 * time.Second)
		if got := sc.e.Stats().Names; got != 0 {
			sc.t.Error("it stays")
		}
		givenUp()
		sc.w.Sleep(time.Second)
		if got := sc.e.Stats(); got.Ghosts != 2 || got.Names != 0 {
			sc.t.Errorf("it stays: %d names, %d given back", got.Names, got.Ghosts)
		}
	})
}

// Commands of which no entry knows take one lane, however many others there are; so does what they may change, such as a
// semaphore that is acquired behind one that sets its number.
func TestWhatSetsANumberKeepsItsPlace(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.se.wide.Store(1)
		for l, called := range map[*Lock]bool{
			sc.e.Lock("lock"): false, &sc.e.PermitSemaphore("permits").one: true, &sc.e.Semaphore("semaphore").one: true,
		} {
			if l.InspectAsync(context.Background()).op.(*singleOp[Info]).op.Wide {
				sc.t.Error("a command that no entry knows of takes the lanes of many")
			}
			s := sc.e.enter(l.hash)
			ent := s.makeEntry(l)
			if ent.wide == called {
				sc.t.Error("an entry is in the lanes of many, or is not: ", ent.wide)
			}
			s.sh.names.remove(ent)
			s.leave()
		}
	})
}
