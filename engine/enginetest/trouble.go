package enginetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/slot"
)

const (
	// ForeignOwner is the owner id of the other owner that Steal lets in: a thread of a Java process.
	ForeignOwner = "5ca1ab1e-0000-4000-8000-000000000001:1"
	// ForeignLease is its lease, Redisson's watchdog lease. Nobody renews it.
	ForeignLease = engine.DefaultLease

	// unlockMessage is Redisson's UNLOCK_MESSAGE.
	unlockMessage = "0"
)

// Lose deletes the lock behind its holder's back. When it returns, the holder's lease is lost: Lost
// says so, and its context has ended with cause engine.ErrLost. Waiters are woken, as by a release.
//
// While the server is down the holder cannot be told: it learns of the loss after Up, or at the end
// of its lease. Lose fails the test if nobody holds the lock.
func (s *Server) Lose(name string) {
	s.tb.Helper()
	s.acting.Lock()
	defer s.acting.Unlock()
	if !s.Held(name) {
		s.tb.Fatalf("enginetest: lose lock %q: nobody holds it; see AwaitHeld", name)
		return
	}
	s.take(name, func() { s.erase(name) })
}

// LosePermits takes all leased permits of a semaphore away from whoever has them: they are free. When it returns, every
// Permit of the engines of this server is lost. A plain Semaphore has nothing to lose: nobody owns its permits.
//
// It fails the test if the server is down or refuses commands.
func (s *Server) LosePermits(name string) {
	s.tb.Helper()
	s.acting.Lock()
	defer s.acting.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, m := range s.members() {
		if !strings.HasPrefix(name, m.prefix) {
			continue
		}
		sem := m.PermitSemaphore(strings.TrimPrefix(name, m.prefix))
		holders, err := sem.Holders(ctx)
		var ids []string
		for _, h := range holders {
			if h.Mine {
				ids = append(ids, h.ID)
			}
		}
		if err == nil && len(ids) > 0 {
			_, err = sem.ForceRelease(ctx, ids...)
		}
		if err != nil {
			s.tb.Fatalf("enginetest: lose the permits of %q: %v", name, err)
			return
		}
	}
}

// Steal lets ForeignOwner hold the lock, for ForeignLease, whether it is free or held: a holder's
// lease is lost when Steal returns, as after Lose. In between nobody else can get the lock.
func (s *Server) Steal(name string) {
	s.tb.Helper()
	s.acting.Lock()
	defer s.acting.Unlock()
	seize := func() { s.seize(name) }
	s.take(name, seize)
	s.take(name, seize) // from whom it was granted to while the first was done
}

// Free releases the lock that ForeignOwner holds, and tells the waiters. It fails the test if
// somebody else holds it, or nobody.
func (s *Server) Free(name string) {
	s.tb.Helper()
	s.acting.Lock()
	defer s.acting.Unlock()
	if owner := s.Owner(name); owner != ForeignOwner {
		s.tb.Fatalf("enginetest: free lock %q: it is held by %q, not by ForeignOwner", name, owner)
		return
	}
	s.erase(name)
}

// erase deletes a lock and tells the waiters.
func (s *Server) erase(name string) {
	s.mini.Del(name)
	s.mini.Publish(slot.LockChannel(name), unlockMessage)
}

// seize makes ForeignOwner the only owner of a lock that is never free meanwhile.
func (s *Server) seize(name string) {
	s.mini.HSet(name, ForeignOwner, "1")
	s.mini.SetTTL(name, ForeignLease)
	owners, _ := s.mini.HKeys(name)
	for _, owner := range owners {
		if owner != ForeignOwner {
			s.mini.HDel(name, owner)
		}
	}
}

// take does act to a lock, after the lease of the engine that holds it was made lost.
func (s *Server) take(name string, act func()) {
	s.tb.Helper()
	if s.isDown() {
		act()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, m := range s.members() {
		s.inspect(ctx, m, name) // after this answer it has those to earlier acquires, too
	}
	m, ok := s.holder(name)
	if !ok {
		act()
		return
	}
	defer s.script(name, act)()
	if _, err := m.lock(name).ForceRelease(ctx); err != nil {
		s.tb.Fatalf("enginetest: take lock %q from its holder: %v", name, err)
	}
}

// script makes the force-release of a key do act instead, whatever is refused, until undo is called.
func (s *Server) script(key string, act func()) (undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripted[key] = act
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.scripted, key)
	}
}

// holder returns the engine that believes to hold the lock.
func (s *Server) holder(name string) (member, bool) {
	for _, m := range s.members() {
		if m.holds(name) {
			return m, true
		}
	}
	return member{}, false
}

func (m member) holds(name string) bool {
	return slices.ContainsFunc(m.Held(), func(h engine.HeldInfo) bool { return m.prefix+h.Name == name })
}

// waiters is how many callers of an engine wait for what the server calls name, whatever that is.
func (m member) waiters(name string) int {
	if !strings.HasPrefix(name, m.prefix) {
		return 0
	}
	return m.Semaphore(strings.TrimPrefix(name, m.prefix)).Waiters()
}

// lock returns the engine's handle on the lock that the server calls name.
func (m member) lock(name string) *engine.Lock { return m.Lock(strings.TrimPrefix(name, m.prefix)) }

// inspect asks for a lock through an engine, whatever is refused. The answer is empty if the engine
// is closed, or cannot name the lock, or the lock is of another kind.
func (s *Server) inspect(ctx context.Context, m member, name string) engine.Info {
	if !strings.HasPrefix(name, m.prefix) {
		return engine.Info{}
	}
	s.asking.Add(1)
	defer s.asking.Add(-1)
	info, _ := m.lock(name).Inspect(ctx)
	return info
}

// Advance lets d pass for everybody but the engines of this server: leases of other owners get
// shorter, and those that end are over at once. So does what an engine left behind that is closed.
//
// Locks that the engines hold are untouched, since their holders' clock has not moved. Waiters are
// woken, where Redis would let them find out by their poll.
func (s *Server) Advance(d time.Duration) {
	s.clock.move()
	held := map[string]bool{}
	for _, m := range s.members() {
		for _, h := range m.Held() {
			held[h.OwnerID] = true
		}
	}
	for _, key := range s.mini.Keys() {
		left := s.mini.TTL(key)
		switch {
		case left == 0 || held[s.owner(key)]:
		case left > d:
			s.mini.SetTTL(key, left-d)
		default:
			s.erase(key)
		}
	}
}

// Refuse makes the server answer commands with an error, text, until Accept. The first word says
// which, as it does for clients:
//
//   - "OOM …": acquires alone, of permits and at barriers, too. Renewals and releases need no memory, nor does a latch.
//   - "READONLY …", "MISCONF …", "NOREPLICAS …": whatever writes.
//   - any other, such as "LOADING …" or "NOPERM …": every lock command, and Ping.
//
// An Acquire goes on trying for some seconds where the trouble may pass by itself, as it does with
// READONLY and LOADING; a TryAcquire answers at once.
func (s *Server) Refuse(text string) {
	s.tb.Helper()
	if strings.TrimSpace(text) == "" || strings.ContainsAny(text, "\r\n") {
		s.tb.Fatalf("enginetest: refuse with %q: not an error of one line", text)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = text
}

// Accept ends what Refuse began.
func (s *Server) Accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = ""
}

// Down cuts every connection and refuses new ones until Up. A command that was on its way may have
// run or not; when Down returns, none runs any more. Keys stay, and expire.
//
// Operations go on trying for about eight seconds before they fail, unless their ctx ends first:
// give it a limit.
func (s *Server) Down() { s.setDown(true) }

// Up ends what Down began. When it returns, the engines of this server have an answer from it: the
// next command of each goes through. Operations that were waiting are sent again within a second.
func (s *Server) Up() {
	s.tb.Helper()
	s.setDown(false)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, m := range s.members() {
		s.inspect(ctx, m, m.prefix+"enginetest:up") // is sent again until it is answered
	}
	if ctx.Err() != nil {
		s.tb.Fatalf("enginetest: an engine had no answer within %v after Up", patience)
	}
}

func (s *Server) setDown(down bool) {
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
	s.listener.setDown(down)
}

func (s *Server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}
