package engine

import (
	"context"
	"testing"
	"time"
)

// The engine is closed while a ForceRelease tells a holder here that it has lost the lock. The command is not sent any more,
// so the lock is given back: when Close returns it is free.
func TestCloseFreesWhatAForceReleaseIsJustTakingAway(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Lock.loseForced: marked | a loss told", "section.tellLoss: contexts cancelled | freed", "listener.Lost: freed | told"} {
		play(t, func(sc *scene) {
			sc.acquire(sc.e.Lock("a"))
			sc.w.OnYield(func(here string) {
				if here == at {
					sc.w.Sleep(time.Second)
				}
			})
			sc.w.Go("force", func() { sc.e.Lock("a").ForceReleaseAsync(context.Background()) })
			sc.w.Sleep(time.Millisecond)
			if err := sc.e.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if kind, _ := sc.server.twin.Look("a"); kind != 0 {
				t.Errorf("%s: the engine is closed, and the lock stays for %v", at, sc.lives("a"))
			}
			sc.w.OnYield(nil)
			sc.w.Sleep(2 * time.Second)
		})
	}
}
