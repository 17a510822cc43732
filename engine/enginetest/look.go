package enginetest

import (
	"context"
	"fmt"
	"time"
)

// Held reports whether the server has a lock under this name, whoever holds it.
func (s *Server) Held(name string) bool {
	s.clock.move()
	return s.mini.Exists(name)
}

// Owner returns the owner id of whoever holds the lock: Lease.OwnerID of the holder, or ForeignOwner;
// "" if nobody does.
func (s *Server) Owner(name string) string {
	s.clock.move()
	return s.owner(name)
}

func (s *Server) owner(key string) string {
	owners, err := s.mini.HKeys(key)
	if err != nil || len(owners) == 0 {
		return ""
	}
	return owners[0]
}

// AwaitHeld waits until an engine of this server holds the lock. It fails the test after ten seconds.
func (s *Server) AwaitHeld(name string) {
	s.tb.Helper()
	s.await(fmt.Sprintf("an engine that holds %q", name), func(context.Context) bool {
		_, ok := s.holder(name)
		return ok
	})
}

// AwaitWaiters waits until at least n acquires of the engines of this server are waiting for the
// lock, the semaphore, the latch or the barrier. It fails the test after ten seconds. The server must not be down.
func (s *Server) AwaitWaiters(name string, n int) {
	s.tb.Helper()
	s.await(fmt.Sprintf("%d waiters for %q", n, name), func(ctx context.Context) bool {
		waiters := 0
		for _, m := range s.members() {
			waiters += max(s.inspect(ctx, m, name).Waiters, m.waiters(name))
		}
		return waiters >= n
	})
}

// await looks again every millisecond: of what engines do inside there is no signal.
func (s *Server) await(what string, there func(context.Context) bool) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !there(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.tb.Fatalf("enginetest: waited %v in vain for %s", patience, what)
			return
		}
	}
}
