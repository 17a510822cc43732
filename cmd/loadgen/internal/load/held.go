package load

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Held are locks that are taken once and kept, under the watchdog.
type Held struct {
	cfg     *config.Config
	engines []*engine.Engine
	Leases  []*engine.Lease // by number
	Ledger  *meter.Ledger
}

// HoldLimit bounds taking, and beside the holding all else that is done with held locks.
const HoldLimit = 10 * time.Minute

// heldWindow is the most operations in flight while locks are taken or given back.
const heldWindow = 4096

// NewHeld makes room for cfg.locks leases, so that what taking them adds to the
// heap is the engine's.
func NewHeld(cfg *config.Config, engines []*engine.Engine) *Held {
	h := &Held{cfg: cfg, engines: engines, Leases: make([]*engine.Lease, cfg.Locks)}
	h.Ledger = meter.NewLedger(cfg.Locks, h.Name)
	return h
}

// Name is that of the i-th lock.
func (h *Held) Name(i int) string { return h.cfg.LockName('h', i) }

// Take acquires every lock, a window at a time, and keeps the leases. After the end of
// ctx it begins nothing new.
//
// Errors: none of its own; what failed is in rec.
func (h *Held) Take(ctx context.Context, rec *meter.Recorder) {
	ops, cancel := context.WithTimeout(context.WithoutCancel(ctx), HoldLimit)
	defer cancel()
	began := time.Now()
	submit := func(i int) *engine.Future[*engine.Lease] {
		if ctx.Err() != nil {
			return nil
		}
		lock := h.engines[i%len(h.engines)].Lock(h.Name(i), engine.WatchdogLease(h.cfg.Lease))
		return lock.AcquireAsync(ops)
	}
	pipeline(len(h.Leases), began, submit, func(i int, f *engine.Future[*engine.Lease], since time.Duration) {
		if f == nil {
			return
		}
		lease, err := f.Await(ops)
		if err != nil {
			rec.Failed(err)
			return
		}
		rec.Acquired(time.Since(began) - since)
		rec.Live.Add(1)
		h.Ledger.Take(i, uint64(i)+1)
		h.Leases[i] = lease
	})
}

// Give releases every lock that is held. Once user has ended and a release has failed it begins no more of them: what is
// left ends with its lease, or with its engine.
func (h *Held) Give(ctx, user context.Context, rec *meter.Recorder) {
	began, failed := time.Now(), false
	submit := func(i int) *engine.Future[struct{}] {
		if h.Leases[i] == nil || failed && user.Err() != nil {
			return nil
		}
		h.Ledger.Give(i, uint64(i)+1)
		return h.Leases[i].ReleaseAsync()
	}
	pipeline(len(h.Leases), began, submit, func(i int, f *engine.Future[struct{}], since time.Duration) {
		if f == nil {
			return
		}
		h.Leases[i] = nil
		if _, err := f.Await(ctx); err != nil {
			failed = true
			rec.Failed(err)
			return
		}
		rec.Freed(time.Since(began) - since)
		rec.Live.Add(1)
	})
}

// Count says how many leases still hold, and how many are lost.
func (h *Held) Count() (held, lost int64) {
	for _, lease := range h.Leases {
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

// Forget gives up the leases of those locks that are lost, without asking the server to release them.
func (h *Held) Forget(of func(name string) bool) {
	for i, lease := range h.Leases {
		if lease != nil && of(h.Name(i)) && lease.Lost() {
			h.Ledger.Give(i, uint64(i)+1)
			h.Leases[i] = nil
		}
	}
}

// Again takes those locks once more, waiting as long as ctx lets it, and gives them back.
func (h *Held) Again(ctx context.Context, of func(name string) bool) (taken, failed int64, first error) {
	submit := func(i int) *engine.Future[*engine.Lease] {
		if !of(h.Name(i)) {
			return nil
		}
		return h.engines[i%len(h.engines)].Lock(h.Name(i), engine.WatchdogLease(h.cfg.Lease)).AcquireAsync(ctx)
	}
	pipeline(len(h.Leases), time.Now(), submit, func(_ int, f *engine.Future[*engine.Lease], _ time.Duration) {
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

// TakeQuietly takes the locks where taking them is not what is measured.
func (h *Held) TakeQuietly(ctx context.Context) error {
	rec := meter.NewRecorder()
	h.Take(ctx, rec)
	return rec.Complaint("take the locks to hold")
}

// GiveQuietly is its counterpart.
func (h *Held) GiveQuietly(ctx context.Context) error {
	rec := meter.NewRecorder()
	h.Give(ctx, ctx, rec)
	return rec.Complaint("give back the held locks")
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
