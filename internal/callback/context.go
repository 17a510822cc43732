package callback

import (
	"context"
	"reflect"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A caller's context is foreign code: its methods may block, panic, or call the engine. Who calls the API asks its own
// context itself. Beside that only callback workers do, and never under a mutex: a lane, the watchdog or the wheel
// would stop for everybody. The standard library's own contexts are asked where they are met.

//nolint:gochecknoglobals // constants
var (
	cancelContext  = typeOfContext(context.WithCancel(context.Background()))
	timerContext   = typeOfContext(context.WithTimeout(context.Background(), 0))
	withoutCancel  = reflect.TypeOf(context.WithoutCancel(context.Background()))
	backgroundType = reflect.TypeOf(context.Background())
	todoType       = reflect.TypeOf(context.TODO())
)

func typeOfContext(ctx context.Context, cancel context.CancelFunc) reflect.Type {
	cancel()
	return reflect.TypeOf(ctx)
}

// Own is embedded by contexts of ours: to ask them runs nobody else's code.
type Own struct{}

func (Own) own() {}

// foreign reports whether asking a context for its end, or watching it, may run code of others. The contexts of the
// standard library that are listed here have an end of their own, or none: they ask nothing that they are made from.
// Blocks: never.
func foreign(ctx context.Context) bool {
	switch ctx.(type) {
	case interface{ own() }, *world.Context:
		return false
	}
	switch reflect.TypeOf(ctx) {
	case cancelContext, timerContext, withoutCancel, backgroundType, todoType:
		return false
	default:
		return true
	}
}

// Ask runs what asks a context: on a callback worker, if that is foreign.
func (p *Pool) Ask(ctx context.Context, fn func()) {
	if foreign(ctx) {
		p.Add(fn)
	} else {
		fn()
	}
}

// Unwatch ends the watch of a context, if there is one.
func (p *Pool) Unwatch(ctx context.Context, stop func() bool) {
	if stop != nil {
		p.Ask(ctx, func() { p.UnwatchHere(stop) })
	}
}

// UnwatchHere is Unwatch where the context may be asked: in the call that it was given to, or on a worker.
func (p *Pool) UnwatchHere(stop func() bool) {
	if stop != nil {
		defer p.Contain()
		stop()
	}
}

// Contain is to be deferred: it stops a panic in a context of the caller's.
func (p *Pool) Contain() {
	if r := recover(); r != nil {
		p.panicked("holdfast: a context panicked", r)
	}
}
