package engine

import (
	"context"
	"testing"
	"time"
)

// How long a key lives for the sake of handles that are renewed no more.

// A MaxHold passes long before the next renewal is due, which is when the watchdog would notice. Whoever gives back
// meanwhile, or gives up entering, leaves the key as long as the other asks for: its lease from the end of its MaxHold on.
// It is no other where that one is stopped, too.
func TestAMaxHoldThatHasPassedKeepsItsKeyNoLonger(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(sc *scene, limited *Lease, l *Lock){
		"another is given back": func(sc *scene, _ *Lease, l *Lock) {
			other := sc.acquire(l)
			sc.w.Sleep(5 * time.Second)
			sc.release(other)
		},
		"it is stopped, and another is given back": func(sc *scene, limited *Lease, l *Lock) {
			other := sc.acquire(l)
			sc.w.Sleep(5 * time.Second)
			limited.StopRenewing()
			sc.release(other)
		},
		"another gives up": func(sc *scene, _ *Lease, l *Lock) {
			sc.w.Sleep(1500 * time.Millisecond) // the watchdog's first look comes half a second later
			sc.slowed("reacquire", 10*time.Millisecond)
			other := l.AcquireAsync(context.Background())
			sc.w.Sleep(5 * time.Millisecond)
			other.Cancel()
			sc.w.Sleep(50 * time.Millisecond)
		},
	} {
		play(t, func(sc *scene) {
			owner := As(NewOwner())
			limited := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(30*time.Second), MaxHold(time.Second)))
			granted := sc.w.Now()
			do(sc, limited, sc.e.Lock("a", owner, FixedLease(time.Minute)))
			since := sc.w.Now().Sub(granted)
			if lives := sc.lives("a"); lives > 31*time.Second-since || lives < 29*time.Second-since {
				t.Errorf("%s %v after a MaxHold of 1 s was granted, and a lease of 30 s keeps the key for %v", what, since, lives)
			}
			sc.release(limited)
		})
	}
}

// The same of a write lock, beside which its owner has read.
func TestAMaxHoldThatHasPassedKeepsItsKeyNoLongerWhenItsReaderLeaves(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		limited := sc.acquire(sc.e.RWLock("e", owner, WatchdogLease(30*time.Second), MaxHold(time.Second)).WriteLock())
		granted := sc.w.Now()
		sc.w.Sleep(1200 * time.Millisecond)
		reads := sc.acquire(sc.e.RWLock("e", owner, WatchdogLease(30*time.Second)).ReadLock())
		sc.w.Sleep(300 * time.Millisecond)
		sc.release(reads)
		sc.w.Sleep(10 * time.Millisecond)
		since := sc.w.Now().Sub(granted)
		if lives := sc.lives("e"); lives > 31*time.Second-since || lives < 28*time.Second-since {
			t.Errorf("%v after a MaxHold of 1 s was granted a lease of 30 s keeps the key for %v", since, lives)
		}
		sc.release(limited)
	})
}

// A renewal is on its way while the handle that it is for is given back, and comes behind what lowers the key. The other
// handle's lease is as long, but most of it is over: the key is lowered once more.
func TestARenewalOfWhoHasLeftIsSettled(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		fixed := sc.acquire(sc.e.Lock("a", owner, FixedLease(time.Minute)))
		sc.w.Sleep(35 * time.Second)
		renewed := sc.acquire(sc.e.Lock("a", owner, WatchdogLease(time.Minute)))
		sending, sent := sc.w.NewLatch(), sc.w.NewLatch()
		sc.w.OnYield(func(at string) {
			if at == "sender.send: the gone ones dropped | sent" {
				sending.Open()
				sent.WaitUntil(sc.w.Now().Add(time.Minute))
			}
		})
		sending.WaitUntil(sc.w.Now().Add(time.Minute))
		sc.w.OnYield(nil)
		sc.release(renewed)
		before := sc.lives("a")
		sent.Open()
		sc.w.Sleep(time.Millisecond)
		if lives := sc.lives("a"); lives > before || before > 25*time.Second || fixed.Lost() {
			t.Errorf("the key lived %v, and lives %v when the renewal has come", before, lives)
		}
		sc.release(fixed)
	})
}
