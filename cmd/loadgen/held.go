package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// heldLocks are locks that are taken once and kept, under the watchdog.
type heldLocks struct {
	cfg     *config
	engines []*engine.Engine
	leases  []*engine.Lease // by number
	ledger  *ledger
}

// holdLimit bounds taking, and beside the holding all else that is done with held locks.
const holdLimit = 10 * time.Minute

// heldWindow is the most operations in flight while locks are taken or given back.
const heldWindow = 4096

// newHeldLocks makes room for cfg.locks leases, so that what taking them adds to the
// heap is the engine's.
func newHeldLocks(cfg *config, engines []*engine.Engine) *heldLocks {
	h := &heldLocks{cfg: cfg, engines: engines, leases: make([]*engine.Lease, cfg.locks)}
	h.ledger = newLedger(cfg.locks, h.name)
	return h
}

func (h *heldLocks) name(i int) string { return lockName(h.cfg.prefix, 'h', i) }

// take acquires every lock, a window at a time, and keeps the leases. After the end of
// ctx it begins nothing new.
//
// Errors: none of its own; what failed is in rec.
func (h *heldLocks) take(ctx context.Context, rec *recorder) {
	ops, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdLimit)
	defer cancel()
	began := time.Now()
	submit := func(i int) *engine.Future[*engine.Lease] {
		if ctx.Err() != nil {
			return nil
		}
		lock := h.engines[i%len(h.engines)].Lock(h.name(i), engine.WatchdogLease(h.cfg.lease))
		return lock.AcquireAsync(ops)
	}
	pipeline(len(h.leases), began, submit, func(i int, f *engine.Future[*engine.Lease], since time.Duration) {
		if f == nil {
			return
		}
		lease, err := f.Await(ops)
		if err != nil {
			rec.failed(err)
			return
		}
		rec.acquired(time.Since(began) - since)
		rec.live.Add(1)
		h.ledger.take(i, uint64(i)+1)
		h.leases[i] = lease
	})
}

// give releases every lock that is held.
func (h *heldLocks) give(ctx context.Context, rec *recorder) {
	began := time.Now()
	submit := func(i int) *engine.Future[struct{}] {
		if h.leases[i] == nil {
			return nil
		}
		h.ledger.give(i, uint64(i)+1)
		return h.leases[i].ReleaseAsync()
	}
	pipeline(len(h.leases), began, submit, func(i int, f *engine.Future[struct{}], since time.Duration) {
		if f == nil {
			return
		}
		h.leases[i] = nil
		if _, err := f.Await(ctx); err != nil {
			rec.failed(err)
			return
		}
		rec.freed(time.Since(began) - since)
		rec.live.Add(1)
	})
}

// count says how many leases still hold, and how many are lost.
func (h *heldLocks) count() (held, lost int64) {
	for _, lease := range h.leases {
		switch {
		case lease == nil:
		case lease.Lost():
			lost++
		default:
			held++
		}
	}
	return held, lost
}

// forget gives up the leases of those locks that are lost, without asking the server to release them.
func (h *heldLocks) forget(of func(name string) bool) {
	for i, lease := range h.leases {
		if lease != nil && of(h.name(i)) && lease.Lost() {
			h.ledger.give(i, uint64(i)+1)
			h.leases[i] = nil
		}
	}
}

// again takes those locks once more, waiting as long as ctx lets it, and gives them back.
func (h *heldLocks) again(ctx context.Context, of func(name string) bool) (taken, failed int64, first error) {
	submit := func(i int) *engine.Future[*engine.Lease] {
		if !of(h.name(i)) {
			return nil
		}
		return h.engines[i%len(h.engines)].Lock(h.name(i), engine.WatchdogLease(h.cfg.lease)).AcquireAsync(ctx)
	}
	pipeline(len(h.leases), time.Now(), submit, func(_ int, f *engine.Future[*engine.Lease], _ time.Duration) {
		if f == nil {
			return
		}
		lease, err := f.Await(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		if err == nil {
			taken++
			return
		}
		failed++
		if first == nil {
			first = err
		}
	})
	return taken, failed, first
}

// takeQuietly takes the locks where taking them is not what is measured.
func (h *heldLocks) takeQuietly(ctx context.Context) error {
	rec := newRecorder()
	h.take(ctx, rec)
	return rec.complaint("take the locks to hold")
}

// giveQuietly is its counterpart.
func (h *heldLocks) giveQuietly(ctx context.Context) error {
	rec := newRecorder()
	h.give(ctx, rec)
	return rec.complaint("give back the held locks")
}

// complaint puts the errors in words; nil if there were none.
func (r *recorder) complaint(what string) error {
	if n := r.errorCount(); n > 0 {
		return fmt.Errorf("%s: %d failed: %s", what, n, formatErrors(r.errors))
	}
	return nil
}

// pipeline submits n operations, a window in flight at a time, and sees each in turn,
// with when it was submitted.
func pipeline[F any](n int, began time.Time, submit func(i int) F, see func(i int, f F, since time.Duration)) {
	type flying struct {
		f     F
		since time.Duration
	}
	var none F
	window := make([]flying, min(n, heldWindow))
	for i := range n + len(window) {
		at := &window[i%len(window)]
		if i >= len(window) {
			see(i-len(window), at.f, at.since)
			at.f = none
		}
		if i < n {
			since := time.Since(began)
			*at = flying{submit(i), since}
		}
	}
}
