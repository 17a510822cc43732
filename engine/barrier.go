package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// MinPartyLease is the shortest time after which an engine that is not heard of counts as gone: several times that
// between two of its words.
const MinPartyLease = 5 * time.Second

// A Barrier lets parties wait for each other: when as many wait as it is for, all go on, and the next ones are the next
// generation. Parties may be of one engine, or of any number of them. It has a wire of its own: Redisson has none.
//
// Nobody passes before its whole generation has come. If one leaves that waits, the generation is broken: everybody in
// it is answered ErrBarrierBroken, and so is everybody who comes, until Reset. One leaves when its ctx or MaxWait is
// over, when its future is cancelled, or its engine closed, or when its engine is not heard of for 30 s, because the
// process died (WatchdogLease makes that more or less, at least MinPartyLease). A party that leaves at the moment in
// which the last one comes may be told that it has left though its generation goes on: it had come.
//
// What engines that have gone may still ask for is remembered for an hour; beyond some thousand parties, until they
// have not been heard of for a minute longer than was waited for them. If there is no room for a party, it is refused
// with *ServerError, and has not come.
//
// An arrival counts once, though its answer may be lost and the request sent again. A barrier that nobody has used for
// an hour is gone, broken or not. What waits when the server loses it is answered ErrBarrierBroken; a failover to a
// replica that had not seen the last arrivals may let a generation wait for more, or break it.
type Barrier struct {
	sem     Semaphore
	parties int
}

// Barrier returns a handle on a barrier for so many parties, from 1 to MaxParties. All who wait must name the same
// number; once nobody waits it may be another one. Options: MaxWait and WatchdogLease. Errors: as Lock.
func (e *Engine) Barrier(name string, parties int, opts ...Option) *Barrier {
	l := e.handle(name, resp.FamilyBarrier, opts)
	want := *defaults[resp.FamilyBarrier]
	want.maxWait, want.err, want.Lease, want.Units = l.set.maxWait, l.set.err, l.set.Lease, l.set.Units
	switch {
	case *l.set != want:
		want.refuse(fmt.Errorf("%w: of a barrier: only MaxWait and WatchdogLease", ErrLease))
	case want.Lease < MinPartyLease:
		want.refuse(fmt.Errorf("%w: WatchdogLease(%v) of a barrier is below %v", ErrLease, want.Lease, MinPartyLease))
	case parties < 1 || parties > MaxParties:
		want.refuse(fmt.Errorf("%w: a barrier for %d parties is not for 1 to %d", ErrLease, parties, MaxParties))
	}
	want.Units = int32(min(max(parties, 1), MaxParties)) //nolint:gosec // it is between those
	l.set = &want
	return &Barrier{Semaphore{one: l}, parties}
}

// With returns a handle on the same name, for as many parties, with further options.
func (b *Barrier) With(opts ...Option) *Barrier {
	set := b.sem.one.set
	same := func(s *settings) { s.maxWait, s.Lease = set.maxWait, set.Lease }
	return b.sem.one.eng.Barrier(b.Name(), b.parties, append([]Option{same}, opts...)...)
}

// Name returns the name without the engine's prefix.
func (b *Barrier) Name() string { return b.sem.Name() }

// Parties returns for how many it is.
func (b *Barrier) Parties() int { return b.parties }

// Err returns what is wrong with the name, the options or the number of parties: ErrName, ErrLease, or nil.
func (b *Barrier) Err() error { return b.sem.Err() }

// Await waits until all parties of a generation wait, as long as ctx and MaxWait allow. Each call is one party.
//
// Errors: ErrBarrierBroken; ctx's own and, after MaxWait, ErrNotOpen: then the caller has left, and the generation is
// broken; ErrParties; ErrUnknown, if nobody knows how the generation ended; *ServerError, ErrClosed, ErrWrongKind,
// ErrName, ErrLease.
func (b *Barrier) Await(ctx context.Context) error { return b.sem.Acquire(ctx, b.units()) }

// AwaitAsync is Await as a future. ctx bounds the operation. Cancelling it is leaving. Blocks: never.
func (b *Barrier) AwaitAsync(ctx context.Context) *Future[struct{}] {
	return b.sem.AcquireAsync(ctx, b.units())
}

// units is what the settings have: a number of parties that is refused is none of permits.
func (b *Barrier) units() int { return int(b.sem.one.set.Units) }

// Waiters returns how many callers of this engine wait there. Blocks: never.
func (b *Barrier) Waiters() int { return b.sem.Waiters() }

// Waiting returns how many wait there, of all engines. Blocks: for one round trip, or until ctx ends.
//
// Errors: *ServerError, ErrWrongKind, ErrName, ErrClosed, ErrLease; ErrUnknown after it was asked again.
func (b *Barrier) Waiting(ctx context.Context) (int, error) { return b.WaitingAsync(ctx).Await(ctx) }

// WaitingAsync is Waiting as a future.
func (b *Barrier) WaitingAsync(ctx context.Context) *Future[int] {
	return askSemaphore(ctx, &b.sem, question{"waiting", 0, 0, b.Err()}, answeredMany)
}

// Broken reports whether it is broken, and has to be reset. Blocks and errors: as Waiting.
func (b *Barrier) Broken(ctx context.Context) (bool, error) { return b.BrokenAsync(ctx).Await(ctx) }

// BrokenAsync is Broken as a future.
func (b *Barrier) BrokenAsync(ctx context.Context) *Future[bool] {
	return askSemaphore(ctx, &b.sem, question{"broken", 0, 0, b.Err()}, func(r *resp.Result) bool { return r.Value > 0 })
}

// Reset begins the next generation, and says whether there was anything to do: the barrier was broken, or parties
// waited. Those are answered ErrBarrierBroken.
//
// Blocks: for one round trip, or until ctx ends. Errors: as Waiting, but it is not asked again: ErrUnknown, if no
// answer came.
func (b *Barrier) Reset(ctx context.Context) (bool, error) { return b.ResetAsync(ctx).Await(ctx) }

// ResetAsync is Reset as a future.
func (b *Barrier) ResetAsync(ctx context.Context) *Future[bool] {
	return askSemaphore(ctx, &b.sem, question{"reset", 0, 0, b.Err()}, answeredDone)
}
