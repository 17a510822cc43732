// Command burst asks a slow server for very many locks at once, beside locks that are held.
//
// The server is stopped for most of the time: it runs for -runs of every -every. All acquires of the burst start in one
// moment, each for a name of its own, and what is granted is kept until the end, under a lease of five minutes that
// nobody renews. Each round says how the acquires ended, how long all took, and how many of the locks beside them were
// lost. No acquire should end unknown, and no lock should be lost.
//
// With -watchdog the locks of the burst are renewed, too. Where the server cannot renew so many, the engine does not ask
// for more: what is left waits in its queue, and is given up at -limit.
//
//	go run ./cmd/burst [-acquires 200000] [-watchdog 30s] [-held 2000] [-held-lease 6s] [-runs 5ms -every 155ms]
//		[-rounds 3] [-limit 3m] [-progress]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

type config struct {
	acquires, held, rounds int
	watchdog, heldLease    time.Duration
	runs, every            time.Duration
	limit                  time.Duration
	progress               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	const row = "%5v %8v %10v %8v %8v %6v %5v %9v %12v %6v\n"
	_, _ = fmt.Fprintf(out, row, "round", "granted", "overloaded", "given up", "unknown", "other", "lost", "jeopardy", "connections", "took")
	bad := 0
	for i := range cfg.rounds {
		r, err := round(ctx, cfg)
		if err != nil {
			return err
		}
		bad += int(r.unknown.Load()+r.other.Load()) + int(r.lost)
		_, _ = fmt.Fprintf(out, row, i+1, r.granted.Load(), r.overloaded.Load(), r.givenUp.Load(), r.unknown.Load(), r.other.Load(),
			r.lost, r.jeopardies, r.reconnects, r.took.Round(100*time.Millisecond))
	}
	if bad > 0 {
		return fmt.Errorf("%d acquires ended unknown or otherwise, or their locks were lost", bad)
	}
	return nil
}

func parse(args []string) (*config, error) {
	cfg := &config{}
	set := flag.NewFlagSet("burst", flag.ContinueOnError)
	set.IntVar(&cfg.acquires, "acquires", 200_000, "how many locks are asked for at once")
	set.IntVar(&cfg.held, "held", 2000, "locks that are held meanwhile")
	set.IntVar(&cfg.rounds, "rounds", 3, "how often, each time with a server and an engine of its own")
	set.DurationVar(&cfg.watchdog, "watchdog", 0, "renew the locks of the burst, under this lease; 0: they are not renewed")
	set.DurationVar(&cfg.heldLease, "held-lease", 6*time.Second, "watchdog lease of those that are held")
	set.DurationVar(&cfg.runs, "runs", 5*time.Millisecond, "how long the server runs in each period; 0: always")
	set.DurationVar(&cfg.every, "every", 155*time.Millisecond, "the period")
	set.DurationVar(&cfg.limit, "limit", 3*time.Minute, "after which acquires are given up")
	set.BoolVar(&cfg.progress, "progress", false, "say twice a second how far it is")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case cfg.acquires < 1 || cfg.rounds < 1 || cfg.held < 0 || set.NArg() > 0:
		return nil, errors.New("-acquires and -rounds are 1 or more, -held is 0 or more, and nothing follows the flags")
	case cfg.heldLease < engine.MinWatchdogLease || cfg.watchdog != 0 && cfg.watchdog < engine.MinWatchdogLease:
		return nil, fmt.Errorf("-watchdog and -held-lease are %v or more", engine.MinWatchdogLease)
	case cfg.runs < 0 || cfg.runs >= cfg.every:
		return nil, errors.New("-runs is less than -every")
	case !redisproc.CanPause:
		return nil, errors.New("this system cannot stop a process for a while")
	}
	return cfg, nil
}

// tally is what became of one round.
type tally struct {
	granted, overloaded, givenUp, unknown, other atomic.Int64
	lost, jeopardies, reconnects                 int64
	took                                         time.Duration
}

// round has one burst on a server of its own.
func round(ctx context.Context, cfg *config) (*tally, error) {
	s, err := redisproc.Start(ctx, redisproc.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	e, err := engine.Open(ctx, engine.Config{
		Addrs: []string{s.Addr()}, QueueMax: 4 * cfg.acquires, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	asked := make([]*engine.Future[*engine.Lease], cfg.held)
	for i := range asked {
		asked[i] = e.Lock(fmt.Sprint("held:", i), engine.WatchdogLease(cfg.heldLease)).AcquireAsync(ctx)
	}
	held, err := engine.All(asked...).Await(ctx)
	if err != nil {
		return nil, err
	}
	locks := make([]*engine.Lock, cfg.acquires)
	kept := engine.FixedLease(5 * time.Minute)
	if cfg.watchdog != 0 {
		kept = engine.WatchdogLease(cfg.watchdog)
	}
	for i := range locks {
		locks[i] = e.Lock(fmt.Sprint("burst:", i), kept)
	}
	resume := slow(s, cfg)
	defer resume()
	t := &tally{}
	if cfg.progress {
		defer t.watch(e)()
	}
	limited, cancel := context.WithTimeout(ctx, cfg.limit)
	defer cancel()
	granted := t.burst(limited, locks)
	// Each lock that is renewed comes round once more.
	select {
	case <-time.After(max(cfg.heldLease, cfg.watchdog) / 2):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	stats := e.Stats()
	t.lost, t.jeopardies = stats.Lost, stats.Renewals.Jeopardies
	for i := range stats.Nodes {
		t.reconnects += stats.Nodes[i].Reconnects
	}
	resume()
	err = e.Close(ctx)
	runtime.KeepAlive(held)
	runtime.KeepAlive(granted) // a lease that nobody has any more is reported
	return t, err
}

// watch prints what goes on, twice a second, until the function that is returned is called.
func (t *tally) watch(e *engine.Engine) (stop func()) {
	over := make(chan struct{})
	began := time.Now()
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(500 * time.Millisecond):
			}
			stats := e.Stats()
			_, _ = fmt.Fprintf(os.Stderr, "%5.1fs  granted %d, unknown %d, queued %d, renewals %d (%d late, %d failed), in jeopardy %d, lost %d\n",
				time.Since(began).Seconds(), t.granted.Load(), t.unknown.Load(), stats.Nodes[0].Queued, stats.Renewals.Sent,
				stats.Renewals.Late, stats.Renewals.Failed, stats.Renewals.Jeopardies, stats.Lost)
		}
	}()
	return func() { close(over) }
}

// burst starts all acquires at once and waits until each has ended.
func (t *tally) burst(ctx context.Context, locks []*engine.Lock) []*engine.Lease {
	var open sync.WaitGroup
	granted := make([]*engine.Lease, len(locks))
	open.Add(len(locks))
	began := time.Now()
	for i, l := range locks {
		l.AcquireAsync(ctx).OnComplete(func(ls *engine.Lease, err error) {
			defer open.Done()
			switch {
			case err == nil:
				t.granted.Add(1)
				granted[i] = ls
			case errors.Is(err, engine.ErrOverloaded):
				t.overloaded.Add(1)
			case errors.Is(err, engine.ErrUnknown):
				t.unknown.Add(1)
			case ctx.Err() != nil && errors.Is(err, ctx.Err()):
				t.givenUp.Add(1)
			default:
				t.other.Add(1)
			}
		})
	}
	ended := make(chan struct{})
	go func() { // ends with the acquires, and they with ctx
		open.Wait()
		close(ended)
	}()
	<-ended
	t.took = time.Since(began)
	return granted
}

// slow lets the server run for a part of each period only, until the function that is returned is called.
func slow(s *redisproc.Server, cfg *config) (resume func()) {
	if cfg.runs == 0 {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer s.Resume()
		for {
			for _, phase := range []struct {
				begin func()
				takes time.Duration
			}{{s.Pause, cfg.every - cfg.runs}, {s.Resume, cfg.runs}} {
				phase.begin()
				select {
				case <-time.After(phase.takes):
				case <-over:
					return
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-ended
	})
}
