package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// workerEnv makes the program one of the processes that contend.
const workerEnv = "HOLDFAST_HOT_WORKER"

// gcPercent is the collector's pace for every implementation, as in loadgen.
const gcPercent = 200

// setup is the first line a worker reads.
type setup struct {
	Addr    string
	Impls   []string // by key in the witness
	Callers int
	Witness string // file
}

// order is every further line: somebody's turn.
type order struct {
	Impl     int
	Callers  int
	Hold     time.Duration
	Duration time.Duration
}

// answer is the line a worker writes when it has done what it read.
type answer struct {
	Grants     int64
	Errors     int64
	Stuck      int64
	Wall       time.Duration
	Waits      []byte // encoded
	Served     []int64
	Violations int64
	First      string
	Told       []string // violations in words
	Failed     string   // the worker cannot go on
}

// worker is one process that contends.
type worker struct {
	clients []hot.Client
	witness *witness.Witness
	seen    int64 // violations so far
}

// work does what the lines of in say, until it ends.
func work(ctx context.Context, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(gcPercent)
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	var s setup
	if err := lines.Decode(&s); err != nil {
		return err
	}
	w, err := newWorker(ctx, s)
	if err != nil {
		return errors.Join(answers.Encode(answer{Failed: err.Error()}), err)
	}
	if err := answers.Encode(answer{}); err != nil {
		return errors.Join(err, w.close(ctx))
	}
	for {
		var o order
		switch err := lines.Decode(&o); {
		case errors.Is(err, io.EOF):
			return w.close(ctx)
		case err != nil:
			return errors.Join(err, w.close(ctx))
		}
		if err := answers.Encode(w.turn(ctx, s, o)); err != nil {
			return errors.Join(err, w.close(ctx))
		}
	}
}

func newWorker(ctx context.Context, s setup) (*worker, error) {
	w := new(worker)
	var err error
	if w.witness, err = witness.Open(s.Witness, witness.Options{Keys: len(s.Impls), FallbackPrefix: "hot"}); err != nil {
		return nil, err
	}
	for _, name := range s.Impls {
		for _, impl := range hot.Impls() {
			if impl.Name != name {
				continue
			}
			c, err := impl.Open(ctx, s.Addr, s.Callers)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), w.close(ctx))
			}
			w.clients = append(w.clients, c)
		}
	}
	return w, nil
}

func (w *worker) turn(ctx context.Context, s setup, o order) answer {
	r := hot.Drive(ctx, w.clients[o.Impl], hot.Load{
		Name: "hot:" + s.Impls[o.Impl], Callers: o.Callers, Hold: o.Hold, Duration: o.Duration,
		Witness: w.witness, Key: o.Impl,
	})
	all, told := w.witness.Violations()
	a := answer{
		Grants: r.Grants, Errors: r.Errors, Stuck: r.Stuck, Wall: r.Wall, Served: r.Served,
		Violations: all - w.seen, Told: told,
	}
	w.seen = all
	if r.First != nil {
		a.First = r.First.Error()
	}
	var err error
	if a.Waits, err = r.Waits.Encode(hdrEncoding); err != nil {
		a.Failed = err.Error()
	}
	return a
}

func (w *worker) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs []error
	for _, c := range w.clients {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(append(errs, w.witness.Leave())...)
}
