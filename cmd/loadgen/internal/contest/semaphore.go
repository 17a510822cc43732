package contest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Counter counts the permits that callers hold: in this process, and in all that share a witness file.
type Counter struct {
	Permits int // that there are
	Take    int // the most that one turn takes
	Held    *meter.Permits
	Witness *witness.File // nil: this process runs alone

	Leased bool         // what a process had that died comes back
	Lost   atomic.Int64 // leases that were over before their holder gave them back
}

// Semaphore is what one caller uses: it takes one to so many permits, by chance, one turn at a time.
type Semaphore struct {
	*Counter
	of     counted
	caller int
	rng    *rand.Rand
	n      int
	asked  atomic.Int64 // Unix time in nanoseconds; 0: it does not wait
}

// NewSemaphore makes that of a caller.
func (c *Counter) NewSemaphore(of *engine.Semaphore, caller int, seed uint64) *Semaphore {
	return c.semaphore(owned{of}, caller, seed)
}

// NewLeased makes that of a caller whose permits are leased.
func (c *Counter) NewLeased(of *engine.PermitSemaphore, caller int, seed uint64) *Semaphore {
	return c.semaphore(&leased{of: of, lost: &c.Lost}, caller, seed)
}

func (c *Counter) semaphore(of counted, caller int, seed uint64) *Semaphore {
	return &Semaphore{Counter: c, of: of, caller: caller, rng: rand.New(rand.NewPCG(seed, uint64(caller)))}
}

// WaitsSince is since when its caller waits; false: it does not.
func (s *Semaphore) WaitsSince() (since time.Time, waits bool) {
	at := s.asked.Load()
	return time.Unix(0, at), at != 0
}

// Acquire takes some.
func (s *Semaphore) Acquire(ctx context.Context) (Held, error) {
	s.ask()
	return s.answered(s.of.acquire(ctx, s.n))
}

// AcquireLater takes some, and calls then.
func (s *Semaphore) AcquireLater(ctx context.Context, then func(Held, error)) {
	s.ask()
	s.of.acquireLater(ctx, s.n, func(err error) { then(s.answered(err)) })
}

// Release gives back what Acquire took.
func (s *Semaphore) Release(ctx context.Context) error {
	s.giving()
	err := s.of.release(ctx, s.n)
	s.settled()
	return err
}

// ReleaseLater gives it back, and calls then.
func (s *Semaphore) ReleaseLater(then func(error)) {
	s.giving()
	s.of.releaseLater(s.n, func(err error) {
		s.settled()
		then(err)
	})
}

func (s *Semaphore) ask() {
	s.n = 1 + s.rng.IntN(s.Take)
	s.asked.Store(time.Now().UnixNano())
	if s.Witness != nil {
		s.Witness.Ask(s.n)
	}
}

func (s *Semaphore) answered(err error) (Held, error) {
	s.asked.Store(0)
	defer s.settled()
	if err != nil {
		return nil, err
	}
	s.Held.Take(s.n, s.caller)
	switch {
	case s.Witness == nil:
	case s.Leased:
		s.Witness.EnterLeased(s.n, s.Permits, s.caller)
	default:
		s.Witness.Enter(s.n, s.Permits, s.caller)
	}
	return s, nil
}

func (s *Semaphore) giving() {
	if s.Witness != nil {
		s.Witness.Ask(s.n)
		s.Witness.Exit(s.n)
	}
	s.Held.Give(s.n)
}

func (s *Semaphore) settled() {
	if s.Witness != nil {
		s.Witness.Settled(s.n)
	}
}
