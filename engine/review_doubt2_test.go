package engine_test

import (
	"testing"
	"time"
)

// The same for a waiter that was told "busy".
func TestBusyAnsweredAfterTheDoubtClosed(t *testing.T) {
	l := holdAcquire(t)
	other := openEngine(t, l.s.Addr())
	theirs := acquire(t, other.Lock("a"))
	re := watchCommands(l.p, scriptCall("reacquire"))
	f := l.e.Lock("a").AcquireAsync(limited(t))
	await(t, l.heldC, "the acquire is held")
	l.cut()
	// polls come each 0.8..1.2 s; hold back the answer of the last before 2.5 s
	var last time.Time
	go func() {
		for range re {
			last = time.Now()
		}
	}()
	for time.Since(l.sent) < 1500*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	l.p.DropMessages(func(string) bool { return true })
	l.p.Delay(0, 900*time.Millisecond)
	for time.Since(last) >= 100*time.Millisecond && time.Since(l.sent) < 2400*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	if time.Since(l.sent) < 1700*time.Millisecond || time.Since(l.sent) > 2350*time.Millisecond {
		t.Skip("no poll at the right time", time.Since(l.sent))
	}
	time.Sleep(50 * time.Millisecond)
	t.Log("poll at", last.Sub(l.sent))
	release(t, theirs)
	l.p.ReleaseCommands()
	eventually(t, "the copy ran", func() bool { return exists(t, l.s, "a") })
	t.Log("copy ran at", time.Since(l.sent))
	time.Sleep(900 * time.Millisecond)
	l.p.Delay(0, 0)
	begun := time.Now()
	select {
	case <-f.Done():
		t.Log("granted after", time.Since(begun))
	case <-time.After(5 * time.Second):
		t.Fatal("still waiting for its own ghost", l.s.Do(t, "PTTL", "a"), l.s.Do(t, "HGETALL", "a"), l.e.ID())
	}
}
