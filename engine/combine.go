package engine

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
)

// A combined is the future of several futures. Cancelling it cancels those it is made of.
type combined[T any] struct {
	Future[T]
	cancel func()
	run    *callback.Pool
}

func (c *combined[T]) runner() *callback.Pool { return c.run }

func (c *combined[T]) abandon(err error) bool {
	var none T
	if !c.resolve(none, err) {
		return false
	}
	if c.cancel != nil {
		c.cancel()
	}
	return true
}

// errNoFutures is the result of Any and AnyLease of nothing.
var errNoFutures = errors.New("holdfast: no futures were given")

func combine[T, U any](fs []*Future[T]) *combined[U] {
	c := &combined[U]{}
	c.op = c
	c.run = idleCallbacks
	if len(fs) > 0 {
		c.run = fs[0].op.runner()
	}
	c.cancel = func() { cancelAll(fs) }
	return c
}

// idleCallbacks runs the callbacks of futures that belong to no engine, being made of nothing. It has
// no pool: each worker is a goroutine that ends with its queue.
//
//nolint:gochecknoglobals // it holds nothing while nothing runs
var idleCallbacks = &callback.Pool{}

func cancelAll[T any](fs []*Future[T]) {
	for _, f := range fs {
		f.Cancel()
	}
}

// All completes with every value, in order, when all futures have succeeded, and with the first
// error as soon as one fails; the others are left alone. For leases use AllLeases. All of nothing
// is an empty slice. Cancelling it cancels all.
func All[T any](fs ...*Future[T]) *Future[[]T] {
	fs = slices.Clone(fs)
	c := combine[T, []T](fs)
	values := make([]T, len(fs))
	left := atomic.Int64{}
	left.Store(int64(len(fs)))
	if len(fs) == 0 {
		c.resolve(values, nil)
	}
	for i, f := range fs {
		f.then(func() {
			if f.err != nil {
				c.resolve(nil, f.err)
				return
			}
			values[i] = f.value
			if left.Add(-1) == 0 {
				c.resolve(values, nil)
			}
		})
	}
	return &c.Future
}

// Any completes with the index of the first future to succeed, and with all errors joined when
// every one failed. The others are left alone: for leases use AnyLease. Cancelling it cancels all.
func Any[T any](fs ...*Future[T]) *Future[int] {
	fs = slices.Clone(fs)
	c := combine[T, int](fs)
	left := atomic.Int64{}
	left.Store(int64(len(fs)))
	if len(fs) == 0 {
		c.resolve(-1, errNoFutures)
	}
	for i, f := range fs {
		f.then(func() {
			if f.err == nil {
				c.resolve(i, nil)
			} else if left.Add(-1) == 0 {
				c.resolve(-1, joined(fs))
			}
		})
	}
	return &c.Future
}

func joined[T any](fs []*Future[T]) error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f.err
	}
	return errors.Join(errs...)
}

// AllLeases completes with every lease, in order. If one fails, it completes with that error, and
// every lease that was or will be granted is released. Cancelling it does the same.
//
// Two callers that ask for the same locks in different orders can wait for each other for ever: give
// them a MaxWait or a ctx, or sort the names.
func AllLeases(fs ...*Future[*Lease]) *Future[[]*Lease] {
	fs = slices.Clone(fs)
	all := All(fs...)
	all.then(func() {
		if all.err != nil {
			giveBack(fs, nil)
		}
	})
	return all
}

// AnyLease completes with the first lease to be granted; every other is given back or cancelled. It
// fails with all errors joined when every one failed. Cancelling it gives back all.
func AnyLease(fs ...*Future[*Lease]) *Future[*Lease] {
	fs = slices.Clone(fs)
	c := combine[*Lease, *Lease](fs)
	c.cancel = func() { giveBack(fs, nil) }
	left := atomic.Int64{}
	left.Store(int64(len(fs)))
	if len(fs) == 0 {
		c.resolve(nil, errNoFutures)
	}
	for _, f := range fs {
		f.then(func() {
			switch {
			case f.err == nil && c.resolve(f.value, nil):
				giveBack(fs, f)
			case f.err != nil && left.Add(-1) == 0:
				c.resolve(nil, joined(fs))
			}
		})
	}
	return &c.Future
}

// giveBack cancels every future but keep, and releases the leases of those that had been granted.
// Nobody waits for the releases: the engine repeats them until they are answered.
func giveBack(fs []*Future[*Lease], keep *Future[*Lease]) {
	for _, f := range fs {
		if f == keep || f.Cancel() {
			continue
		}
		f.then(func() {
			if f.err == nil {
				f.value.ReleaseAsync()
			}
		})
	}
}
