package hot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

const (
	longestWait = 5 * time.Minute  // told apart; a longer one counts as this
	drainGrace  = 10 * time.Second // for the callers' last turns when the time is over
	errorPause  = time.Millisecond // after an error
	spinBelow   = 50 * time.Microsecond
)

// Load is what one client does.
type Load struct {
	Name     string
	Callers  int
	Hold     time.Duration    // how long each holder keeps the lock; from 50 µs on asleep
	Duration time.Duration    // how long callers begin anew; 0: without end
	Grants   int64            // how many there are to be; 0: without end
	Witness  *witness.Witness // that exclusion is checked with; nil: it is not
	Key      int              // of the lock in the witness
}

// Result is what was seen.
type Result struct {
	Grants int64
	Errors int64
	Stuck  int64                   // callers that were still waiting long after the time was over
	Wall   time.Duration           // to the end of the last turn
	Waits  *hdrhistogram.Histogram // nanoseconds
	Served []int64                 // by caller
	First  error                   // the first error
}

// Rate is grants a second.
func (r *Result) Rate() float64 {
	if r.Wall <= 0 {
		return 0
	}
	return float64(r.Grants) / r.Wall.Seconds()
}

// NewWaits is an empty distribution.
func NewWaits() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longestWait), 3) }

// run is a load that runs.
type run struct {
	load   Load
	client Client
	began  time.Time
	left   atomic.Int64 // grants still to be begun
}

// Drive lets the callers contend, until each of them has had its last turn.
func Drive(ctx context.Context, c Client, l Load) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Duration > 0 {
		defer time.AfterFunc(l.Duration+drainGrace+2*l.Hold*time.Duration(l.Callers), cancel).Stop()
	}
	r := &run{load: l, client: c, began: time.Now()}
	r.left.Store(l.Grants)
	callers := make([]caller, l.Callers)
	var wg sync.WaitGroup
	for i := range callers {
		callers[i] = caller{run: r, n: i, waits: NewWaits()}
		wg.Go(func() { callers[i].loop(ctx) })
	}
	wg.Wait()
	out := Result{Waits: NewWaits()}
	for i := range callers {
		c := &callers[i]
		out.Grants += c.grants
		out.Wall = max(out.Wall, c.ended)
		out.Errors += c.errors
		out.Stuck += c.stuck
		out.Waits.Merge(c.waits)
		out.Served = append(out.Served, c.grants)
		if out.First == nil {
			out.First = c.first
		}
	}
	return out
}

// caller is one of those who contend.
type caller struct {
	*run
	n      int
	waits  *hdrhistogram.Histogram
	grants int64
	errors int64
	stuck  int64
	first  error
	ended  time.Duration // of the last turn, since the beginning
	_      [64]byte      // what one caller writes must not slow down the next
}

func (c *caller) loop(ctx context.Context) {
	for ctx.Err() == nil && c.mayBegin() {
		err := c.turn(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			c.stuck++
		default:
			c.errors++
			time.Sleep(errorPause)
		}
		if c.first == nil {
			c.first = err
		}
	}
}

func (c *caller) mayBegin() bool {
	if c.load.Duration > 0 && time.Since(c.began) >= c.load.Duration {
		return false
	}
	return c.load.Grants == 0 || c.left.Add(-1) >= 0
}

func (c *caller) turn(ctx context.Context) error {
	since := time.Now()
	release, err := c.client.Acquire(ctx, c.load.Name)
	if err != nil {
		return err
	}
	waited := time.Since(since)
	if w := c.load.Witness; w != nil {
		mark := w.Take(c.load.Key, c.n)
		keep(c.load.Hold)
		w.Give(c.load.Key, mark)
	} else {
		keep(c.load.Hold)
	}
	err = release(ctx)
	c.grants++
	c.ended = time.Since(c.began)
	_ = c.waits.RecordValue(min(max(int64(waited), 1), int64(longestWait))) // in range, so it cannot fail
	return err
}

// keep is what a holder does while it holds.
func keep(hold time.Duration) {
	switch {
	case hold <= 0:
	case hold >= spinBelow:
		time.Sleep(hold)
	default:
		for began := time.Now(); time.Since(began) < hold; {
		}
	}
}
