package engine

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// A CountDownLatch lets everybody wait until something has happened so many times: it is given a count, others count it
// down, and who waits goes on when it is zero. On the wire it is Redisson's RCountDownLatch.
//
// One that has no count is open, before it was given one and when it has come to zero: then it may be given another
// (TrySetCount). Who waits is let in by the first opening after they began to wait, also if it was given another count
// at once, where an engine has counted it down to zero: Redisson leaves no note of an opening.
//
// There is no ForceRelease, and there are no events: nothing is held by anybody. Whoever has to let everybody in counts
// down by as many as are left (CountDownAsync), and Delete ends the waiting with an error.
//
// Each count counts once, though its answer may be lost and the request sent again, as for a Semaphore.
//
// In a cluster Redisson cannot use a latch whose name has a hash tag: its channel is in another slot. Such a latch
// works for engines.
type CountDownLatch struct{ sem Semaphore }

// CountDownLatch returns a handle on a latch. The only option is MaxWait. Errors: as Lock.
func (e *Engine) CountDownLatch(name string, opts ...Option) *CountDownLatch {
	return &CountDownLatch{Semaphore{one: handleOfCounted(e, name, resp.FamilyLatch, opts)}}
}

// Name returns the name without the engine's prefix.
func (l *CountDownLatch) Name() string { return l.sem.Name() }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (l *CountDownLatch) Err() error { return l.sem.Err() }

// With returns a handle on the same name with further options.
func (l *CountDownLatch) With(opts ...Option) *CountDownLatch {
	return l.sem.one.eng.CountDownLatch(l.Name(), l.sem.more(opts)...)
}

// Await waits until the latch is open, as long as ctx and MaxWait allow.
//
// Errors: ctx's own; ErrNotOpen after MaxWait; ErrLatchGone; ErrUnknown, *ServerError, ErrClosed, ErrWrongKind,
// ErrName, ErrLease.
func (l *CountDownLatch) Await(ctx context.Context) error { return l.sem.Acquire(ctx, 1) }

// AwaitAsync is Await as a future. ctx bounds the operation. Blocks: never.
func (l *CountDownLatch) AwaitAsync(ctx context.Context) *Future[struct{}] {
	return l.sem.AcquireAsync(ctx, 1)
}

// CountDown counts the latch down by one. It opens with the last one; one that is open stays so. It is detached: the
// end of ctx ends only the wait for the answer.
//
// Errors: ErrUnknown if no answer came, or none but that the server cannot do it now, such as READONLY, for some
// seconds: the engine goes on with it, for an hour at most, so do not count it down again; such an error has the
// server's last word, a *ServerError, beside it. *ServerError alone if the server refused for good: nothing was
// counted; ErrWrongKind, ErrClosed, ErrName, ErrLease.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.CountDownAsync(1).Await(ctx)
	return err
}

// CountDownAsync counts the latch down by n, from 0 to 2^31-1, as a future. Cancelling it changes nothing: it is on its
// way.
func (l *CountDownLatch) CountDownAsync(n int) *Future[struct{}] {
	return l.sem.release(n, l.sem.checkUnits("CountDown", "steps", n, 0))
}

// TrySetCount gives the latch a count, from 1 on, if it has none, and says whether it did. Blocks: for one round trip,
// or until ctx ends.
//
// Errors: ErrUnknown if no answer came: it may have been done, and is not sent again; *ServerError, ErrWrongKind,
// ErrName, ErrClosed; ErrLease for an n below 1 or above 2^31-1.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int) (bool, error) {
	return l.TrySetCountAsync(ctx, n).Await(ctx)
}

// TrySetCountAsync is TrySetCount as a future.
func (l *CountDownLatch) TrySetCountAsync(ctx context.Context, n int) *Future[bool] {
	return askSemaphore(ctx, &l.sem, question{"set", n, 0, l.sem.checkUnits("TrySetCount", "steps", n, 1)}, answeredDone)
}

// Count returns the count; 0: the latch is open. Blocks: for one round trip, or until ctx ends. Errors: as TrySetCount.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) { return l.CountAsync(ctx).Await(ctx) }

// CountAsync is Count as a future.
func (l *CountDownLatch) CountAsync(ctx context.Context) *Future[int] {
	return askSemaphore(ctx, &l.sem, question{"get", 0, 0, l.Err()}, answeredMany)
}

// Waiters returns how many callers of this engine wait for the latch. Blocks: never.
func (l *CountDownLatch) Waiters() int { return l.sem.Waiters() }

// Delete takes the count away, and says whether there was one. Who waits is answered ErrLatchGone. Blocks and errors:
// as TrySetCount.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	return l.DeleteAsync(ctx).Await(ctx)
}

// DeleteAsync is Delete as a future.
func (l *CountDownLatch) DeleteAsync(ctx context.Context) *Future[bool] {
	return askSemaphore(ctx, &l.sem, question{"delete", 0, 0, l.Err()}, answeredDone)
}
