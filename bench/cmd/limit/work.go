package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// kinds are the locks that can be measured.
func kinds() []string { return []string{"lock", "fenced", "fair", "read", "write"} }

// A worker is an engine that takes and gives back locks nobody else wants, so many operations at a time.
type worker struct {
	eng   *engine.Engine
	locks []*engine.Lock
	next  int
	slots []slot
}

// A slot is an operation in flight.
type slot struct {
	acquiring *engine.Future[*engine.Lease] // nil: it is given back, or nothing is done
	releasing *engine.Future[struct{}]
}

// namesEach is how many locks there are for each operation in flight.
const namesEach = 16

func newWorker(ctx context.Context, addr, kind string, inFlight int) (*worker, error) {
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{addr}})
	if err != nil {
		return nil, err
	}
	w := &worker{eng: e, slots: make([]slot, inFlight)}
	for i := range namesEach * inFlight {
		name := "limit:" + strconv.Itoa(i)
		switch kind {
		case "fenced":
			w.locks = append(w.locks, e.FencedLock(name).Lock)
		case "fair":
			w.locks = append(w.locks, e.FairLock(name).Lock)
		case "read":
			w.locks = append(w.locks, e.RWLock(name).ReadLock())
		case "write":
			w.locks = append(w.locks, e.RWLock(name).WriteLock())
		default:
			w.locks = append(w.locks, e.Lock(name))
		}
	}
	return w, nil
}

// work does pairs while more says so of how many are done, and returns when every lock is given back.
func (w *worker) work(ctx context.Context, more func(done int) bool) (done int, err error) {
	for i := range w.slots {
		w.start(ctx, &w.slots[i])
	}
	for open, i := len(w.slots), 0; open > 0; i = (i + 1) % len(w.slots) {
		s := &w.slots[i]
		switch {
		case s.acquiring != nil:
			lease, err := s.acquiring.Await(ctx)
			if err != nil {
				return done, err
			}
			s.acquiring, s.releasing = nil, lease.ReleaseAsync()
		case s.releasing != nil:
			if _, err := s.releasing.Await(ctx); err != nil {
				return done, err
			}
			s.releasing = nil
			if done++; more(done) {
				w.start(ctx, s)
			} else {
				open--
			}
		}
	}
	return done, nil
}

func (w *worker) start(ctx context.Context, s *slot) {
	s.acquiring = w.locks[w.next%len(w.locks)].AcquireAsync(ctx)
	w.next++
}

func (w *worker) close(ctx context.Context) error {
	if err := w.eng.Close(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("close the engine: %w", err)
	}
	return nil
}
