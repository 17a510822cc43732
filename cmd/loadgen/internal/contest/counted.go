package contest

import (
	"context"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// counted is a semaphore of an engine, as one caller uses it, one turn at a time.
type counted interface {
	acquire(ctx context.Context, n int) error
	acquireLater(ctx context.Context, n int, then func(error))
	release(ctx context.Context, n int) error
	releaseLater(n int, then func(error))
}

// owned has permits that nobody gives back but their holder.
type owned struct{ *engine.Semaphore }

func (o owned) acquire(ctx context.Context, n int) error { return o.Acquire(ctx, n) }
func (o owned) release(ctx context.Context, n int) error { return o.Release(ctx, n) }

func (o owned) acquireLater(ctx context.Context, n int, then func(error)) {
	o.AcquireAsync(ctx, n).OnComplete(func(_ struct{}, err error) { then(err) })
}

func (o owned) releaseLater(n int, then func(error)) {
	o.ReleaseAsync(n).OnComplete(func(_ struct{}, err error) { then(err) })
}

// leased has permits under a lease.
type leased struct {
	of     *engine.PermitSemaphore
	permit *engine.Permit // of this turn
	lost   *atomic.Int64
}

func (l *leased) acquire(ctx context.Context, n int) (err error) {
	l.permit, err = l.of.Acquire(ctx, n)
	return err
}

func (l *leased) acquireLater(ctx context.Context, n int, then func(error)) {
	l.of.AcquireAsync(ctx, n).OnComplete(func(p *engine.Permit, err error) {
		l.permit = p
		then(err)
	})
}

func (l *leased) release(ctx context.Context, _ int) error {
	l.look()
	return l.permit.Release(ctx)
}

func (l *leased) releaseLater(_ int, then func(error)) {
	l.look()
	l.permit.ReleaseAsync().OnComplete(func(_ struct{}, err error) { then(err) })
}

// look counts a lease that is lost while its holder believes to have it.
func (l *leased) look() {
	if l.permit.Lost() {
		l.lost.Add(1)
	}
}
