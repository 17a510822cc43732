package family_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A rwWorld is one read-write lock of two engines on a real server, and the twin: who has a handle.
type rwWorld struct {
	*rapid.T
	conn    *redistest.Conn
	engines []*engine.Engine
	name    string
	owners  [][]*engine.Owner // of each engine; nil: nobody
	held    []rwHandle
	waiter  *rwWaiter
	left    bool // somebody who waited has left: an attempt may still be on its way
}

// A rwHandle is a lease that somebody has.
type rwHandle struct {
	ls    *engine.Lease
	at    int // engine
	owner *engine.Owner
	write bool
}

// A rwWaiter is a writer that waits.
type rwWaiter struct {
	at     int
	f      *engine.Future[*engine.Lease]
	cancel context.CancelFunc
}

func (w *rwWorld) fatalIf(bad bool, format string, args ...any) {
	w.Helper()
	if bad {
		w.Fatalf(format, args...)
	}
}

func (w *rwWorld) do(args ...string) string {
	w.Helper()
	v, err := w.conn.Do(context.Background(), args...)
	w.fatalIf(err != nil, "%q: %v", args, err)
	return redistest.Text(v)
}

// until waits for what must happen soon.
func (w *rwWorld) until(what string, cond func() bool) {
	w.Helper()
	limit := time.Now().Add(testkit.TooLong / 2)
	for !cond() {
		w.fatalIf(time.Now().After(limit), "waited in vain: %s", what)
		testkit.LastUntil(time.Now().Add(time.Millisecond))
	}
}

func (w *rwWorld) lock(at int, write bool, o *engine.Owner) *engine.Lock {
	l := w.engines[at].RWLock(w.name)
	half := l.ReadLock()
	if write {
		half = l.WriteLock()
	}
	if o != nil {
		half = half.With(engine.As(o))
	}
	return half
}

// has counts handles.
func (w *rwWorld) has(match func(rwHandle) bool) (n int) {
	for _, h := range w.held {
		if match(h) {
			n++
		}
	}
	return n
}

// expected is the twin's opinion on a Try. either: a waiting writer elsewhere keeps readers out as soon as
// this engine's turn is over, which nobody can know.
func (w *rwWorld) expected(at int, write bool, o *engine.Owner) (want error, either bool) {
	writes := w.has(func(h rwHandle) bool { return h.write }) > 0
	ownWrites := o != nil && w.has(func(h rwHandle) bool { return h.write && h.owner == o }) > 0
	ownReads := o != nil && w.has(func(h rwHandle) bool { return !h.write && h.owner == o }) > 0
	here := w.has(func(h rwHandle) bool { return !h.write && h.at == at }) > 0
	switch {
	case ownWrites, ownReads && !write:
		return nil, false
	case ownReads:
		return engine.ErrUpgrade, false
	case writes, write && len(w.held) > 0, w.waiter != nil && w.waiter.at == at:
		return engine.ErrHeld, false
	case w.waiter != nil:
		return engine.ErrHeld, here && !write
	default:
		return nil, false
	}
}

func (w *rwWorld) try() {
	at, write := rapid.IntRange(0, 1).Draw(w.T, "engine"), rapid.IntRange(0, 3).Draw(w.T, "write") == 3
	o := rapid.SampledFrom(w.owners[at]).Draw(w.T, "owner")
	want, either := w.expected(at, write, o)
	ls, err := w.lock(at, write, o).TryAcquire(context.Background())
	if either && err == nil {
		want = nil
	}
	w.fatalIf(!errors.Is(err, want) || want == nil && err != nil, "engine %d, write %v: %v instead of %v", at, write, err, want)
	if err == nil {
		w.held = append(w.held, rwHandle{ls, at, o, write})
	}
}

func (w *rwWorld) release() {
	if len(w.held) == 0 {
		w.Skip("nobody has it")
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(w.T, "whose")
	err := w.held[i].ls.Release(context.Background())
	w.fatalIf(err != nil, "release: %v", err)
	w.held = slices.Delete(w.held, i, i+1)
	w.serve()
}

// serve gives the writer that waits what nobody has.
func (w *rwWorld) serve() {
	if w.waiter == nil {
		return
	}
	if len(w.held) > 0 {
		w.noted()
		return
	}
	var ls *engine.Lease
	w.until("the writer is served", func() bool {
		got, err, ok := w.waiter.f.Result()
		w.fatalIf(ok && err != nil, "the writer is told %v", err)
		ls = got
		return ok
	})
	w.held = append(w.held, rwHandle{ls, w.waiter.at, nil, true})
	w.waiter.cancel()
	w.waiter = nil
}

func (w *rwWorld) note() string { return "{" + w.name + "}:rwlock_writer" }

func (w *rwWorld) wait() {
	if w.waiter != nil || len(w.held) == 0 {
		w.Skip("no use")
	}
	at := rapid.IntRange(0, 1).Draw(w.T, "engine")
	ctx, cancel := context.WithCancel(context.Background())
	w.waiter = &rwWaiter{at, w.lock(at, true, nil).AcquireAsync(ctx), cancel}
	w.noted()
}

// noted waits until the server knows that a writer waits for those who read: what comes then is certain.
func (w *rwWorld) noted() {
	if w.has(func(h rwHandle) bool { return h.write }) == 0 {
		w.until("the writer is told", func() bool { return w.do("EXISTS", w.note()) == "1" })
	}
}

func (w *rwWorld) leave() {
	if w.waiter == nil {
		w.Skip("nobody waits")
	}
	w.waiter.cancel()
	_, err := w.waiter.f.Await(context.Background())
	w.fatalIf(!errors.Is(err, context.Canceled), "cancelled: %v", err)
	w.waiter, w.left = nil, true
	if w.has(func(h rwHandle) bool { return h.write }) == 0 { // the next writer's own note goes with its release
		w.until("its note is gone", func() bool { return w.do("EXISTS", w.note()) == "0" })
	}
}

// check compares the server with the twin.
func (w *rwWorld) check() {
	want := map[string]string{}
	for _, h := range w.held {
		w.fatalIf(h.ls.Lost(), "a lease is lost")
		field := h.ls.OwnerID()
		if h.write {
			want["mode"] = "write"
			want[field] = fmt.Sprint(w.has(func(o rwHandle) bool { return o.write && o.ls.OwnerID() == field }))
			continue
		}
		if want["mode"] == "" {
			want["mode"] = "read"
		}
		want[field] = "1"
	}
	// An attempt of a waiter that has left may still be on its way. It can be granted what was released meanwhile; the
	// engine gives that back.
	w.until("what was granted to a waiter that had left is given back", func() bool {
		return !w.left || fmt.Sprint(w.holds()) == fmt.Sprint(want)
	})
	have := w.holds()
	w.fatalIf(fmt.Sprint(have) != fmt.Sprint(want), "the server has %v, and should have %v", have, want)
	if w.waiter != nil {
		_, err, ok := w.waiter.f.Result()
		w.fatalIf(ok, "the writer that waits is answered: %v", err)
	}
}

// holds returns what the server has.
func (w *rwWorld) holds() map[string]string {
	have := map[string]string{}
	for i, all := 0, strings.Fields(w.do("HGETALL", w.name)); i+1 < len(all); i += 2 {
		have[all[i]] = all[i+1]
	}
	return have
}

// end gives everything back: then nothing is left.
func (w *rwWorld) end() {
	for len(w.held) > 0 {
		err := w.held[0].ls.Release(context.Background())
		w.fatalIf(err != nil, "release: %v", err)
		w.held = w.held[1:]
		w.serve()
	}
	w.until("nothing is left", func() bool { return w.do("KEYS", "*") == "" })
	for _, e := range w.engines {
		w.until("nothing goes on", func() bool { return e.Stats().Names == 0 })
	}
}

// Whoever reads, writes, enters again, goes on reading, waits and leaves, in whatever order, in two engines: who
// is let in, and who is told what, is what a read-write lock in one process would say, and the server has
// exactly the holds that there are.
func TestModelReadWriteLock(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	conn, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer conn.Close()
	var names atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		w := &rwWorld{T: t, conn: conn, engines: []*engine.Engine{a, b}, name: testkit.Numbered("rw", int(names.Add(1)))}
		for range w.engines {
			w.owners = append(w.owners, []*engine.Owner{nil, engine.NewOwner(), engine.NewOwner()})
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        func(t *rapid.T) { w.T = t; w.check() },
			"try":     func(t *rapid.T) { w.T = t; w.try() },
			"again":   func(t *rapid.T) { w.T = t; w.try() },
			"release": func(t *rapid.T) { w.T = t; w.release() },
			"wait":    func(t *rapid.T) { w.T = t; w.wait() },
			"leave":   func(t *rapid.T) { w.T = t; w.leave() },
		})
		w.end()
	})
	require.Positive(t, a.Stats().GrantsByHandOff+b.Stats().GrantsByHandOff, "nobody shared a hold")
	testkit.Finish(t, s, a, b)
}
