package engine

import (
	"context"
	"slices"
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
}

// The states of a future. Claiming decides every race between a grant, a cancel, the end of a
// context and Close: one compare-and-swap, then the winner publishes.
const (
	futurePending uint32 = iota
	futureClaimed
	futureDone
)

// waiting exists only when somebody asked for the channel or a callback.
type waiting struct {
	done chan struct{}
	call func()
	next *waiting // earlier waiting
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
		if w.call != nil {
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

// Await waits for the result. The end of ctx ends only this wait, with ctx's error: the operation
// goes on, and the future may be awaited again. A result that is there wins over an ended ctx.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if v, err, ok := f.Result(); ok {
		return v, err
	}
	f.waitIn(ctx)
	if v, err, ok := f.Result(); ok {
		return v, err
	}
	var none T
	return none, ctx.Err()
}

// waitIn waits for the result as long as ctx allows, and says whether there may be one.
func (f *Future[T]) waitIn(ctx context.Context) bool {
	if f.op != nil && f.op.runner() != nil && f.op.runner().World() != nil {
		there := f.op.runner().World().NewLatch()
		f.then(there.Open)
		return there.WaitIn(ctx)
	}
	select {
	case <-f.Done():
		return true
	case <-ctx.Done():
		return false
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
// block and may start operations. A panic in fn is reported to the logger and stops nothing.
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
