package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
)

// namesEach is how many locks a caller has for its own; it takes them in turns.
const namesEach = 64

// round is what one turn reached.
type round struct {
	perS float64
	pair *hdrhistogram.Histogram // nanoseconds from the call of the acquire to the return of the release
}

func newPairs() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// drive lets the callers take and give back their own locks until the time is over. The first error ends it.
func drive(ctx context.Context, client hot.Client, callers int, length time.Duration) (round, error) {
	var (
		wg    sync.WaitGroup
		seen  = make([]*hdrhistogram.Histogram, callers)
		errs  = make([]error, callers)
		began = time.Now()
	)
	for i := range callers {
		seen[i] = newPairs()
		names := make([]string, namesEach)
		for n := range names {
			names[n] = "callers:" + strconv.Itoa(i) + ":" + strconv.Itoa(n)
		}
		wg.Go(func() { errs[i] = pairs(ctx, client, names, seen[i], began.Add(length)) })
	}
	wg.Wait()
	took := time.Since(began)
	out := round{pair: newPairs()}
	for _, h := range seen {
		out.pair.Merge(h)
	}
	out.perS = float64(out.pair.TotalCount()) / took.Seconds()
	return out, errors.Join(errs...)
}

// pairs is one caller.
func pairs(ctx context.Context, client hot.Client, names []string, seen *hdrhistogram.Histogram, end time.Time) error {
	for n, since := 0, time.Now(); since.Before(end); n++ {
		release, err := client.Acquire(ctx, names[n%len(names)])
		if err != nil {
			return err
		}
		if err := release(ctx); err != nil {
			return err
		}
		now := time.Now()
		_ = seen.RecordValue(min(max(int64(now.Sub(since)), 1), int64(time.Minute))) // in range, so it cannot fail
		since = now
	}
	return nil
}
