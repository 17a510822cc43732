package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Who leaves a barrier while its engine is not let through.

// refusesOf has the scripts of barriers refused that an engine sends.
func (sc *scene) refusesOf(e *Engine, prefix string) {
	sc.server.refuses = func(args []string) string {
		of := func(arg string) bool { return strings.Contains(arg, e.id) }
		if strings.HasPrefix(simScriptNames[scriptArg(args)], prefix) && slices.ContainsFunc(args, of) {
			return "LOADING no"
		}
		return ""
	}
}

// A generation that began after one had left is not its own, however late the server hears of that.
func TestALateLeaveBreaksNoYoungerGeneration(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		sc.refusesOf(sc.e, "barrier")
		leaves := sc.e.Barrier("b", 2).AwaitAsync(context.Background())
		sc.w.Sleep(50 * time.Millisecond)
		leaves.Cancel()
		b := other.Barrier("b", 2)
		for _, f := range []*Future[struct{}]{b.AwaitAsync(context.Background()), b.AwaitAsync(context.Background())} {
			_, err := result(sc, f)
			sc.wants(nil, err, "who met another")
		}
		sc.w.Sleep(20 * time.Second)
		waits := b.AwaitAsync(context.Background())
		sc.w.Sleep(time.Second)
		sc.server.refuses = nil
		sc.w.Sleep(10 * time.Second)
		if _, err, told := waits.Result(); told {
			t.Errorf("a generation is broken by who left before it began: %v", err)
		}
		_, err := result(sc, b.AwaitAsync(context.Background()))
		sc.wants(nil, err, "the second of it")
		sc.closes(other)
	})
}

// A leave that is refused for a while breaks the generation all the same, though its engine is heard of before.
func TestALeaveThatIsOvertakenBreaksItsGeneration(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		b := sc.e.Barrier("b", 3)
		sc.slowed("barrier", 50*time.Millisecond)
		waits := b.AwaitAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		leaves := b.AwaitAsync(context.Background()) // the request of the first is on its way
		sc.refusing("barrierleave", "LOADING no", 6)
		sc.w.Sleep(time.Millisecond)
		leaves.Cancel()
		sc.w.Sleep(10 * time.Second)
		if _, err, told := waits.Result(); !told || !errors.Is(err, ErrBarrierBroken) {
			t.Errorf("the first is told: %v, %v", told, err)
		}
	})
}

// The engine of one that the server has not heard of is closed: that is leaving, too.
func TestCloseOfAPartyThatIsNotHeardOfBreaksItsGeneration(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		waits := sc.e.Barrier("b", 2).AwaitAsync(context.Background())
		sc.w.Sleep(50 * time.Millisecond)
		sc.server.refuses = func(args []string) string {
			of := func(arg string) bool { return strings.Contains(arg, other.id) }
			if simScriptNames[scriptArg(args)] == "barrier" && slices.ContainsFunc(args, of) {
				return "LOADING no"
			}
			return ""
		}
		leaves := other.Barrier("b", 2).AwaitAsync(context.Background())
		sc.w.Sleep(50 * time.Millisecond)
		sc.closes(other)
		_, err := result(sc, leaves)
		sc.wants(ErrClosed, err, "whose engine is closed")
		sc.w.Sleep(3 * time.Second)
		if _, err, told := waits.Result(); !told || !errors.Is(err, ErrBarrierBroken) {
			t.Errorf("who waited for it is told: %v, %v", told, err)
		}
	})
}

// Nobody knows of a latch that is just counted down whether it is open.
func TestMaxWaitAtALatchThatIsJustCountedDownIsUnknown(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.CountDownLatch("l")
		_, err := result(sc, l.TrySetCountAsync(context.Background(), 1))
		sc.wants(nil, err, "the count")
		waits := l.AwaitAsync(context.Background())
		sc.w.Sleep(50 * time.Millisecond)
		sc.slow = func([]string) time.Duration { return 500 * time.Millisecond }
		down := l.CountDownAsync(1)
		waits.Cancel()
		sc.w.Sleep(20 * time.Millisecond)
		_, err = result(sc, l.With(MaxWait(100*time.Millisecond)).AwaitAsync(context.Background()))
		sc.wants(ErrUnknown, err, "MaxWait")
		_, err = result(sc, down)
		sc.wants(nil, err, "the counting down")
		sc.slow = nil
	})
}

// Whoever leads a RedLock may be closed: what is given back is answered as soon as a majority is free all the same.
func TestARedLockIsGivenBackInTimeThoughItsLeadIsClosed(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		play(t, func(sc *scene) {
			sc.e.joints.watch = nil
			lead := sc.another()
			m := sc.e.MultiLock("a", "b", "c", "d", "e")
			rl := &RedLease{lock: &RedLock{m}, lead: lead, parts: make([]redPart, 5)}
			rl.group = newGroupContext(context.Background(), rl.Lost)
			for i, l := range m.sorted {
				if i == 0 {
					l = lead.Lock("a")
				}
				rl.parts[i].lease.Store(sc.acquire(l))
			}
			rl.begin()
			sc.server.twin.Delete("b")
			sc.server.refuses = func(args []string) string {
				silent := slices.Contains(args, "e") || !closed && slices.Contains(args, "d")
				if simScriptNames[scriptArg(args)] == "release" && silent {
					return "LOADING no"
				}
				return ""
			}
			if closed {
				sc.closes(lead)
			}
			from := sc.w.Now()
			_, err := result(sc, rl.ReleaseAsync())
			sc.wants(nil, err, "the RedLock")
			if took := sc.w.Now().Sub(from); took > lateVotes+200*time.Millisecond { // a command of several keys is refused, then sent key by key
				t.Errorf("its lead is closed: %v; answered after %v", closed, took)
			}
			sc.server.refuses = nil
			sc.w.Sleep(time.Second)
			if !closed {
				sc.closes(lead)
			}
		})
	}
}

// Who was named by a request that the server has refused was not heard of, whenever it leaves.
func TestWhoWasNamedByARefusedRequestWasNotHeardOf(t *testing.T) {
	t.Parallel()
	const step = 20 * time.Millisecond
	for ms := step; ms <= 2*time.Second; ms += step {
		play(t, func(sc *scene) {
			other := sc.another()
			far := other.Barrier("b", 3).AwaitAsync(context.Background())
			b := sc.e.Barrier("b", 3)
			near := b.AwaitAsync(context.Background())
			sc.w.Sleep(50 * time.Millisecond)
			sc.server.refuses = func(args []string) string {
				if strings.HasPrefix(simScriptNames[scriptArg(args)], "barrier") {
					return "LOADING no"
				}
				return ""
			}
			leaves := b.AwaitAsync(context.Background())
			if ms%(2*step) == 0 { // else it leaves before its request is refused
				sc.w.Sleep(5 * time.Millisecond)
			}
			leaves.Cancel()
			sc.w.Sleep(ms)
			sc.server.refuses = nil
			sc.w.Sleep(10 * time.Second)
			for who, f := range map[string]*Future[struct{}]{"near": near, "far": far} {
				if _, err, told := f.Result(); !told || !errors.Is(err, ErrBarrierBroken) {
					t.Errorf("refused for %v: who waits %s is told: %v, %v", ms, who, told, err)
				}
				f.Cancel()
			}
			sc.w.Sleep(time.Second)
			sc.closes(other)
		})
	}
}

// A part that the Close of its engine has given back was not there when a RedLease was, no more than one that was lost.
func TestRedOfWhichOnePartIsLostAndOneIsClosedIsLost(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil // it looks at locks that are asked for together, and these are not
		other := sc.another()
		m := sc.e.MultiLock("a", "b", "c")
		rl := &RedLease{lock: &RedLock{m}, lead: sc.e, parts: make([]redPart, 3)}
		rl.group = newGroupContext(context.Background(), rl.Lost)
		for i, l := range m.sorted {
			if i == 1 {
				l = other.Lock("b")
			}
			rl.parts[i].lease.Store(sc.acquire(l))
		}
		rl.begin()
		sc.server.twin.Delete("a") // lost, and not known yet
		sc.closes(other)           // given back
		sc.w.Sleep(100 * time.Millisecond)
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(ErrLost, err, "one of three was held")
	})
}
