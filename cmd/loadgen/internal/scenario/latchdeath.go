package scenario

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

const (
	// lastingCount is more than the other client counts before it is killed.
	lastingCount = 1 << 24
	// lastingPause is the time between two counts of the other client: it is mostly stopped when it has no count on its
	// way, so that what it has counted is known exactly.
	lastingPause = 5 * time.Millisecond
	// lastingWaiters wait for the latch in each engine.
	lastingWaiters = 4
)

// A lastingLatch is one that a client which is to be killed counts down, beside those of the rounds. Callers of this
// process wait for it. The death must not open it, and what the dead client counted must have counted once: whoever
// counts down what is left opens it, and everybody is in.
type lastingLatch struct {
	s       *Stage
	of      []*engine.CountDownLatch // by engine
	waiting []*engine.Future[struct{}]
	giveUp  context.CancelFunc
}

// newLastingLatch returns nil where no client is killed.
func (s *Stage) newLastingLatch() *lastingLatch {
	if !s.Cfg.KillsClient() && !s.Cfg.Victim {
		return nil
	}
	l := &lastingLatch{s: s}
	for _, e := range s.Engines {
		l.of = append(l.of, e.CountDownLatch(s.Cfg.LockName('v', 0)))
	}
	return l
}

// begin gives it its count, and has callers wait for it.
func (l *lastingLatch) begin(ctx context.Context) error {
	if l == nil || l.s.Cfg.Victim {
		return nil
	}
	set, err := l.of[0].TrySetCount(ctx, lastingCount)
	if err != nil {
		return fmt.Errorf("give a latch its count: %w", err)
	}
	if !set {
		return fmt.Errorf("there is a latch %q already: give another --prefix", l.of[0].Name())
	}
	ctx, l.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	for _, of := range l.of {
		for range lastingWaiters {
			l.waiting = append(l.waiting, of.AwaitAsync(ctx))
		}
	}
	return nil
}

// live is what the other client does until it is killed: it counts this latch down, one count at a time, and waits for
// the latches of the rounds. The witness file has what it has counted, and what may be on its way.
func (l *lastingLatch) live(ctx context.Context, rounds []*engine.CountDownLatch) {
	var all sync.WaitGroup
	for _, of := range rounds {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = of.Await(ctx) // whoever is let in early is seen by those who count
				rest(ctx, lastingPause)
			}
		})
	}
	file := l.s.Witness.File()
	for ctx.Err() == nil {
		file.Ask(1)
		if err := l.of[0].CountDown(ctx); err == nil { // else nobody knows, and it stays on its way
			file.Enter(1, math.MaxInt, 0)
			file.Settled(1)
		}
		rest(ctx, lastingPause)
	}
	all.Wait()
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// finish looks at what the other client has left, counts down the rest, and waits for those who wait.
func (l *lastingLatch) finish(ctx context.Context, out *report.Latch) error {
	if l == nil || l.waiting == nil {
		return nil
	}
	defer l.giveUp()
	counted, unsettled := l.s.Witness.File().Permits(true)
	left, err := l.of[0].Count(ctx)
	if err != nil {
		return fmt.Errorf("ask for the count of the latch of the client that was killed: %w", err)
	}
	out.KilledCounted = counted
	out.KilledMissing = missingCounts(lastingCount-int64(left), counted, unsettled)
	if left > 1 {
		_, err = l.of[0].CountDownAsync(left - 1).Await(ctx)
	}
	if unsettled == 0 { // else one more may have come, and been the last
		out.Early += l.in()
	}
	if err == nil {
		_, err = l.of[0].CountDownAsync(1).Await(ctx)
	}
	if err != nil {
		return fmt.Errorf("count down the latch of the client that was killed: %w", err)
	}
	out.Late += l.late(ctx)
	return nil
}

// in is how many have been let in so far.
func (l *lastingLatch) in() (n int64) {
	for _, f := range l.waiting {
		if _, err, done := f.Result(); done && err == nil {
			n++
		}
	}
	return n
}

// late is how many are not in within the bound.
func (l *lastingLatch) late(ctx context.Context) (n int64) {
	ctx, cancel := context.WithTimeout(ctx, config.OpenMost)
	defer cancel()
	for _, f := range l.waiting {
		if _, err := f.Await(ctx); err != nil {
			n++
		}
	}
	return n
}

// missingCounts is how many of the counts that were answered a latch does not have; negative: it has so many more than
// were asked for.
func missingCounts(has, answered, unsettled int64) int64 {
	switch {
	case has < answered:
		return answered - has
	case has > answered+unsettled:
		return answered + unsettled - has
	default:
		return 0
	}
}
