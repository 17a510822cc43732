package engine

import (
	"context"
	"testing"
	"time"
)

// A reader joins those of its engine where that is as good as asking the server. Where it is not, the server is asked.

// asksItself complains of a reader that has joined a hold which it was not to join.
func (sc *scene) asksItself(ls, other *Lease, what string) {
	if ls != nil && ls.hold == other.hold {
		sc.t.Errorf("%s: it has joined", what)
	}
}

// What is left of the lease is less than a half: a new reader would have it for no longer. It came with an answer that took
// long, or its renewals have none.
func TestNoReaderJoinsAHoldInTheLastHalfOfItsLease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	play(t, func(sc *scene) {
		l := sc.e.RWLock("slow answer", WatchdogLease(lease)).ReadLock()
		sc.slowed("read", lease*11/20)
		first := sc.acquire(l)
		sc.slow = nil
		second := sc.acquire(l)
		sc.asksItself(second, first, "within the turn")
		sc.release(second)
		sc.release(first)
	})
	play(t, func(sc *scene) {
		l := sc.e.RWLock("no renewals", WatchdogLease(lease), As(NewOwner())).ReadLock()
		first := sc.acquire(l)
		sc.slowed("readrenew", -1)
		sc.w.Sleep(lease * 11 / 20)
		second := sc.acquire(l)
		sc.asksItself(second, first, "its owner")
		if left := second.hold.Deadline().Sub(sc.w.Now()); left < lease*9/10 {
			t.Errorf("the new one has %v", left)
		}
		sc.slow = nil
		sc.release(second)
		sc.release(first)
	})
}

// A late copy of the acquire may still run: it is released once more then, and nobody else is to be in it.
func TestNoReaderJoinsAHoldOfWhichALateCopyMayRun(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.RWLock("b").ReadLock()
		copies := 0
		sc.slow = func(args []string) time.Duration {
			if simScriptNames[scriptArg(args)] == "read" {
				copies++
			}
			return time.Duration(-(copies % 2)) // the first has no answer
		}
		first := sc.acquire(l)
		sc.slow = nil
		if !first.hold.Indeterminate().MayRunAfter(sc.w.Now()) {
			t.Error("no copy may run")
		}
		second := sc.acquire(l)
		sc.asksItself(second, first, "while a copy may run")
		sc.release(second)
		sc.release(first)
	})
}

// A ForceRelease is about to take what an owner reads. Who reads once more for that owner meanwhile is told that it is lost, and
// gets nothing that is over at once.
func TestNoReaderJoinsAHoldThatAForceReleaseTakes(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.RWLock("b", As(NewOwner())).ReadLock()
		first := sc.acquire(l)
		var asks *Future[*Lease]
		sc.w.OnYield(func(at string) {
			if at == "Lock.loseForced: marked | a loss told" && asks == nil && !first.Lost() {
				asks = l.AcquireAsync(context.Background())
			}
		})
		_, err := result(sc, l.ForceReleaseAsync(context.Background()))
		sc.wants(nil, err, "the ForceRelease")
		sc.w.OnYield(nil)
		if asks == nil {
			t.Error("the moment was missed")
			return
		}
		_, err = result(sc, asks)
		sc.wants(ErrLost, err, "who asked meanwhile")
		_, err = result(sc, first.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
		sc.release(sc.acquire(l))
	})
}

// A ForceRelease of the write lock leaves readers alone, and one of the read lock the writer: whoever holds the other half
// does not lose it. But nobody comes in beside it until that is known.
func TestAForceReleaseOfTheOtherHalfTakesNothingAndLetsNobodyIn(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		rw := sc.e.RWLock("b")
		first := sc.acquire(rw.ReadLock())
		sc.slowed("force", 5*time.Millisecond)
		forces := rw.WriteLock().ForceReleaseAsync(context.Background())
		asks := rw.ReadLock().AcquireAsync(context.Background())
		if _, _, done := asks.Result(); done {
			t.Error("a reader has joined while the ForceRelease is on its way")
		}
		took, err := result(sc, forces)
		sc.wants(nil, err, "the ForceRelease of the write lock")
		second, err := result(sc, asks)
		sc.wants(nil, err, "the reader, when that was answered")
		if took || first.Lost() {
			t.Errorf("the ForceRelease of the write lock took something: %v, the reader has lost it: %v", took, first.Lost())
		}
		sc.release(first)
		sc.release(second)

		writes := sc.acquire(rw.WriteLock())
		took, err = result(sc, rw.ReadLock().ForceReleaseAsync(context.Background()))
		sc.wants(nil, err, "the ForceRelease of the read lock")
		if took || writes.Lost() {
			t.Errorf("the ForceRelease of the read lock took something: %v, the writer has lost it: %v", took, writes.Lost())
		}
		sc.release(writes)
	})
}

// The last of those who read elsewhere leaves: the writer that waits here is woken by the message, and does not wait for
// its poll.
func TestAWriterIsWokenByTheMessageOfTheLastReader(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		do := func(args ...string) { sc.server.twin.Do(args) }
		do("HSET", "b", "mode", "read", "somebody", "1")
		do("PEXPIRE", "b", "60000")
		writer := sc.e.RWLock("b").WriteLock().AcquireAsync(context.Background())
		sc.w.Sleep(100 * time.Millisecond) // it listens
		if _, _, done := writer.Result(); done {
			t.Error("somebody reads")
		}
		do("DEL", "b")
		if heard := sc.server.publish("redisson_rwlock:{b}", "0"); heard != 1 {
			t.Errorf("%d hear the message", heard)
		}
		left := sc.w.Now()
		ls, err := result(sc, writer)
		sc.wants(nil, err, "the writer")
		if took := sc.w.Now().Sub(left); took > 5*time.Millisecond {
			t.Errorf("it has the lock %v after the last reader left", took)
		}
		if stats := sc.e.Stats(); stats.GrantsByMessage != 1 || stats.GrantsByPoll != 0 {
			t.Errorf("by message: %d, by poll: %d", stats.GrantsByMessage, stats.GrantsByPoll)
		}
		sc.release(ls)
	})
}

// A writer gives up: its note is taken back at once, not when it expires, whether somebody waits behind it or not.
func TestTheNoteOfAWriterThatGivesUpIsTakenBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{false, true} {
		play(t, func(sc *scene) {
			rw := sc.e.RWLock("b")
			note := func() bool { return sc.server.twin.Do([]string{"EXISTS", "{b}:rwlock_writer"}).Int == 1 }
			sc.server.twin.Do([]string{"HSET", "b", "mode", "read", "somebody", "1"})
			sc.server.twin.Do([]string{"PEXPIRE", "b", "60000"})
			writer := rw.WriteLock().AcquireAsync(context.Background())
			sc.w.Sleep(100 * time.Millisecond)
			if !note() {
				t.Error("there is no note")
			}
			var reader *Future[*Lease]
			if behind {
				reader = rw.ReadLock().AcquireAsync(context.Background())
			}
			writer.Cancel()
			sc.w.Sleep(2 * time.Millisecond)
			if note() {
				t.Errorf("somebody waits behind it: %v; its note is there", behind)
			}
			if behind {
				ls, err := result(sc, reader)
				sc.wants(nil, err, "the reader behind it")
				sc.release(ls)
			}
			sc.server.twin.Do([]string{"DEL", "b"})
		})
	}
}

// A ForceRelease of the read lock runs behind the release of its writer, and both get no answer. When it is sent again there is
// nothing any more: the first copy may have taken what is read. Who reads is told, and does not go on.
func TestAForceReleaseThatMayHaveTakenWhatIsReadTellsItsReader(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		rw := sc.e.RWLock("b", As(NewOwner()), WatchdogLease(time.Minute))
		w, r := sc.acquire(rw.WriteLock()), sc.acquire(rw.ReadLock())
		sent := 0
		sc.slow = func([]string) time.Duration {
			sent++
			if sent == 1 {
				return -1
			}
			return 0
		}
		forces := sc.e.RWLock("b").ReadLock().ForceReleaseAsync(context.Background())
		given := w.ReleaseAsync() // is sent first
		took, err := result(sc, forces)
		sc.wants(nil, err, "the ForceRelease")
		if !took || sent < 2 || !r.Lost() {
			t.Errorf("sent %d times, it says that it took something: %v, and who reads is told: %v", sent, took, r.Lost())
		}
		sc.slow = nil
		_, err = result(sc, r.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was read")
		_, err = result(sc, given)
		sc.wants(nil, err, "the release of the writer")
		sc.release(sc.acquire(rw.WriteLock()))
	})
}
