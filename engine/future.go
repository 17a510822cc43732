package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
)

// A Future is an operation on its way. Any number of goroutines may look at it; its result is
// published once and stays.
//
// A future needs no Await: dropped, its operation still runs, and a lease nobody reads is renewed
// until MaxHold or Close.
type Future[T any] struct {
	state atomic.Uint32
	asked stamp // of an acquire: when it was asked for, if that was not when it was sent; here it costs no memory
	value T
	err   error
	wait  atomic.Pointer[waiting]
	op    operation
}

// operation is what a future can ask of the work behind it.
type operation interface {
	// abandon ends the operation with err, unless it has its result already.
	abandon(err error) bool
	// runner runs user callbacks.
	runner() *callback.Pool
	// awaitEnded is what one is told whose ctx has ended while it waited for the future.
	awaitEnded(cause error) error
}

// The states of a future. Claiming decides every race between a grant, a cancel, the end of a
// context and Close: one compare-and-swap, then the winner publishes.
const (
	futurePending uint32 = iota
	futureClaimed
	futureDone
)

// waiting exists only when somebody waits, or asked for the channel or a callback.
type waiting struct {
	done chan struct{}
	call func()
	bell chan struct{} // of a parked caller, which is rung once
	next *waiting      // earlier waiting
}

// settledMark is what a future's wait points to once it is done.
//
//nolint:gochecknoglobals // a constant in all but name: its address is the mark
var settledMark = &waiting{done: closedChannel()}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (f *Future[T]) claim() bool { return f.state.CompareAndSwap(futurePending, futureClaimed) }

// publish sets the result of a claimed future and wakes whoever waits. Blocks: never.
func (f *Future[T]) publish(v T, err error) {
	f.value, f.err = v, err
	f.state.Store(futureDone)
	w := f.wait.Swap(settledMark)
	if w == nil {
		return
	}
	// The first to ask is the first to be told. Done may still be walking the list: it is only read.
	var space [8]*waiting
	list := space[:0]
	for ; w != nil; w = w.next {
		list = append(list, w)
	}
	for _, w := range slices.Backward(list) {
		if w.done != nil {
			close(w.done)
		}
		switch {
		case w.bell != nil:
			w.bell <- struct{}{} // there is room: from now on it is somebody else's
		case w.call != nil:
			w.call()
		}
	}
}

// resolve claims and publishes; false if somebody else did.
func (f *Future[T]) resolve(v T, err error) bool {
	if !f.claim() {
		return false
	}
	f.publish(v, err)
	return true
}

// Result returns the result if there is one. Blocks: never. Allocates: never.
func (f *Future[T]) Result() (v T, err error, ok bool) {
	if f.state.Load() != futureDone {
		return v, nil, false
	}
	return f.value, f.err, true
}

// Done returns a channel that is closed when there is a result. It is made when first asked for.
func (f *Future[T]) Done() <-chan struct{} {
	for {
		w := f.wait.Load()
		for have := w; have != nil; have = have.next {
			if have.done != nil {
				return have.done
			}
		}
		made := &waiting{done: make(chan struct{}), next: w}
		if f.wait.CompareAndSwap(w, made) {
			return made.done
		}
	}
}

// Await waits for the result. The end of ctx ends only this wait, with ctx's error, as a *WaitError which says of what,
// of several futures the first that has no result: the operation goes on, and the future may be awaited again. A result
// that is there wins over an ended ctx.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if v, err, ok := f.Result(); ok {
		return v, err
	}
	f.waitIn(ctx)
	if v, err, ok := f.Result(); ok {
		return v, err
	}
	var none T
	if f.op == nil { // the caller's own
		return none, ctx.Err()
	}
	return none, f.op.awaitEnded(ctx.Err())
}

// waitIn waits for the result as long as ctx allows, and says whether there may be one.
func (f *Future[T]) waitIn(ctx context.Context) bool {
	if f.op != nil && f.op.runner() != nil && f.op.runner().World() != nil {
		there := f.op.runner().World().NewLatch()
		f.then(there.Open)
		return there.WaitIn(ctx)
	}
	if f.op != nil && f.op.runner() != nil && f.wait.Load() == nil {
		if there, parked := f.park(ctx, &f.op.runner().Parked); parked {
			return there
		}
	}
	select {
	case <-f.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// park waits as the first to do so, with a bell that is used again and again: most calls have one caller, who waits
// until the result. It says whether there is a result, and whether it could wait like that at all. Done may walk past
// what stands here even when it serves another future already: nothing is in it, and nothing behind it.
func (f *Future[T]) park(ctx context.Context, parked *sync.Pool) (there, first bool) {
	w, _ := parked.Get().(*waiting)
	if w == nil {
		w = &waiting{bell: make(chan struct{}, 1)}
	}
	if !f.wait.CompareAndSwap(nil, w) {
		parked.Put(w)
		return false, false
	}
	select {
	case <-w.bell:
		parked.Put(w)
		return true, true
	case <-ctx.Done(): // the result may still ring it
		return false, true
	}
}

// Cancel gives the operation up: the future completes with ErrCancelled, and whatever the server
// may grant later is released by the engine. It says false if there is a result already.
func (f *Future[T]) Cancel() bool {
	if f.op == nil {
		return false
	}
	return f.op.abandon(ErrCancelled)
}

// OnComplete calls fn once with the result, on a worker of the engine, which holds no lock: fn may
// block and may start operations. Callbacks of one engine may run at the same time. A panic in fn is reported to the
// logger and stops nothing.
func (f *Future[T]) OnComplete(fn func(T, error)) {
	f.then(func() { f.op.runner().Add(func() { fn(f.value, f.err) }) })
}

// then calls fn once when there is a result: now, in the caller, or later in whoever publishes. fn
// must not block.
func (f *Future[T]) then(fn func()) {
	made := &waiting{call: fn}
	for {
		w := f.wait.Load()
		if w == settledMark {
			fn()
			return
		}
		made.next = w
		if f.wait.CompareAndSwap(w, made) {
			return
		}
	}
}

// A combined is the future of several futures. Cancelling it cancels those it is made of.
type combined[T any] struct {
	Future[T]
	cancel func()
	run    *callback.Pool
	waits  func(cause error) error // what one is told who has waited for the first that has no result yet
}

func (c *combined[T]) runner() *callback.Pool       { return c.run }
func (c *combined[T]) awaitEnded(cause error) error { return c.waits(cause) }

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
	c.waits = func(cause error) error {
		for _, f := range fs {
			if _, _, over := f.Result(); !over {
				return f.op.awaitEnded(cause)
			}
		}
		return cause
	}
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
// every one failed. The others are left alone: for leases use AnyLease. Any of nothing fails. Cancelling it
// cancels all.
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
// them a MaxWait or a ctx, or use Multi, which orders them.
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
// fails with all errors joined when every one failed, and where none is given. Cancelling it gives back all.
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
