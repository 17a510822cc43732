package engine

import (
	"context"
	"testing"
	"time"
)

// redOf makes the lease of a RedLock by hand: of three locks, of which the first two have answered. That they are one
// engine's does not matter to it.
func (sc *scene) redOf(opts ...Option) (rl *RedLease, third *Lease) {
	sc.e.joints.watch = nil
	m := sc.e.MultiLock("a", "b", "c").With(opts...)
	rl = &RedLease{lock: &RedLock{m}, lead: sc.e, parts: make([]redPart, 3)}
	rl.group = newGroupContext(context.Background(), rl.Lost)
	for i := range 2 {
		rl.parts[i].lease.Store(sc.acquire(m.sorted[i]))
	}
	return rl, sc.acquire(m.sorted[2])
}

func TestRedWatchesAPartOnceThatJoinsWhileItBegins(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf()
		rl.join(2, third)
		rl.begin()
		for i, ls := range rl.granted() {
			if w := ls.hold.watch; w != &rl.parts[i].watch || w.next != nil {
				sc.t.Fatalf("%q is not watched once", ls.Name()) // the list may be a ring: nothing may walk it
			}
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

func TestRedStopsRenewingWhatJoinsLater(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(WatchdogLease(time.Second))
		rl.begin()
		rl.StopRenewing()
		rl.join(2, third)
		sc.w.Sleep(2 * time.Second)
		if !third.Lost() || !rl.Lost() {
			sc.t.Error("what has joined is renewed")
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(ErrLost, err, "nothing was renewed")
	})
}

func TestRedExtendsWhatJoinsLater(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(FixedLease(time.Second))
		rl.begin()
		sc.wants(nil, rl.Extend(context.Background(), 10*time.Second), "all are held")
		rl.join(2, third)
		sc.w.Sleep(2 * time.Second)
		if third.Lost() || rl.Held() != 3 {
			sc.t.Error("what has joined has run out")
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all were extended")
	})
}
