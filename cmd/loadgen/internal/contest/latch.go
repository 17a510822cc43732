package contest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Latch is one latch with those who want it, round after round: one gives it a count, all wait, and all count it down
// in turn. The last count is held back until the others have been answered: whoever is let in before it is early.
type Latch struct {
	Of    []*engine.CountDownLatch // by caller
	Count int
	Hold  time.Duration // before the last count
	Async bool
	Rec   *meter.Recorder // an acquire is one wait, a release is one count

	Rounds, Early, Late atomic.Int64
	Last                atomic.Int64 // ns, the longest from an opening until the last caller was in
	Served              []int64      // by caller
}

// ErrCounted is what Round returns if the latch has a count that nobody here gave it.
var ErrCounted = errors.New("it had a count already")

func unknown(err error) bool { return errors.Is(err, engine.ErrUnknown) }

// opening is one round.
type opening struct {
	last   atomic.Bool  // the last count has been begun
	failed atomic.Bool  // a count has
	known  atomic.Int64 // Unix time in ns: the last count was answered, or somebody is in; 0: neither
	final  atomic.Int64 // when the last caller was in
}

// Round plays one round. An error ends it, and is in Rec.
//
// Errors: those of the engine; ErrCounted; ctx's own.
func (l *Latch) Round(ctx context.Context) error {
	if err := l.set(ctx); err != nil {
		l.Rec.Pair(false, err, 0, 0)
		return err
	}
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var o opening
	in := l.await(waiting, &o)
	err := l.open(ctx, &o)
	if err != nil { // nobody knows whether it is open
		o.failed.Store(true)
		giveUp()
	}
	select {
	case <-in:
	case <-time.After(config.OpenMost):
		giveUp()
		<-in
	}
	if err != nil || waiting.Err() != nil {
		_, _ = l.Of[0].Delete(ctx) // else the next round finds its count
		return err
	}
	l.Rounds.Add(1)
	if took := o.final.Load() - o.known.Load(); took > l.Last.Load() { // its only writer
		l.Last.Store(took)
	}
	return nil
}

// set gives it the count. Where no answer comes the server is asked: nobody counts meanwhile.
func (l *Latch) set(ctx context.Context) error {
	one := l.Of[0]
	done, err := one.TrySetCount(ctx, l.Count)
	for unknown(err) {
		var n int
		if n, err = one.Count(ctx); err == nil {
			if n == l.Count {
				return nil
			}
			done, err = one.TrySetCount(ctx, l.Count)
		}
	}
	if err == nil && !done {
		return fmt.Errorf("latch %s: %w", one.Name(), ErrCounted)
	}
	return err
}

// await has every caller wait. What it returns is closed when nobody does any more.
func (l *Latch) await(ctx context.Context, o *opening) <-chan struct{} {
	var callers sync.WaitGroup
	asked := time.Now()
	for i, of := range l.Of {
		callers.Add(1)
		each(l.Async, func() error { return of.Await(ctx) }, func() *engine.Future[struct{}] { return of.AwaitAsync(ctx) },
			func(err error) {
				defer callers.Done()
				l.in(o, i, err, time.Since(asked), ctx.Err() != nil)
			})
	}
	in := make(chan struct{})
	go func() { // ends with the round
		callers.Wait()
		close(in)
	}()
	return in
}

// in notes that a caller waits no longer.
func (l *Latch) in(o *opening, caller int, err error, waited time.Duration, gaveUp bool) {
	switch {
	case err != nil && o.failed.Load():
		return
	case err != nil && gaveUp:
		l.Late.Add(1)
		return
	case err != nil:
		l.Rec.Pair(false, err, 0, 0)
		return
	}
	if !o.last.Load() {
		l.Early.Add(1)
	}
	now := time.Now().UnixNano()
	if !o.known.CompareAndSwap(0, now) && now-o.known.Load() > int64(config.OpenMost) {
		l.Late.Add(1)
	}
	for was := o.final.Load(); now > was && !o.final.CompareAndSwap(was, now); was = o.final.Load() {
	}
	l.Rec.Waited(waited)
	l.Served[caller]++
}

// open counts it down.
func (l *Latch) open(ctx context.Context, o *opening) error {
	if err := l.down(ctx, l.Count-1); err != nil {
		return err
	}
	holdFor(l.Hold)
	o.last.Store(true)
	err := l.down(ctx, 1)
	o.known.CompareAndSwap(0, time.Now().UnixNano())
	return err
}

// down has so many counts come at once.
func (l *Latch) down(ctx context.Context, n int) error {
	errs := make(chan error, n)
	for i := range n {
		of, began := l.Of[i%len(l.Of)], time.Now()
		each(l.Async, func() error { return of.CountDown(ctx) }, func() *engine.Future[struct{}] { return of.CountDownAsync(1) },
			func(err error) {
				l.Rec.Pair(false, err, 0, time.Since(began))
				errs <- err
			})
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// each does something by a blocking call or as a future, and calls then.
func each(async bool, blocking func() error, future func() *engine.Future[struct{}], then func(error)) {
	if async {
		future().OnComplete(func(_ struct{}, err error) { then(err) })
		return
	}
	go func() { then(blocking()) }() // ends with the round
}
