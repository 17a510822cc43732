package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

// config is what the flags said.
type config struct {
	kinds                   []string
	inFlight, rounds, pairs int
	duration                time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run returns the exit status: 1 for a run that failed, 2 for flags that cannot be.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "limit:", err)
		return 2
	}
	if err := measure(ctx, cfg, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "limit:", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("limit", flag.ContinueOnError)
	f.SetOutput(stderr)
	wanted := f.String("kinds", strings.Join(kinds(), ","), "which locks: `names`, in this order")
	f.IntVar(&c.inFlight, "inflight", 4096, "operations of the engine in flight")
	f.IntVar(&c.rounds, "rounds", 5, "turns of each")
	f.IntVar(&c.pairs, "pairs", 200_000, "how many pairs are recorded")
	f.DurationVar(&c.duration, "duration", 2*time.Second, "of a turn")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.kinds = strings.Split(*wanted, ",")
	for i, kind := range c.kinds {
		if !slices.Contains(kinds(), kind) || slices.Contains(c.kinds[:i], kind) {
			return c, fmt.Errorf("-kinds: %q is not one of %s, or is there twice", kind, strings.Join(kinds(), ", "))
		}
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case c.inFlight < 1 || c.rounds < 1 || c.pairs < 1 || c.duration <= 0:
		return c, errors.New("-inflight, -rounds, -pairs and -duration must be more than 0")
	}
	return c, nil
}

func measure(ctx context.Context, cfg config, stdout, stderr io.Writer) error {
	s, err := redisproc.Start(ctx, redisproc.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	const head, row = "%-8s %14s %14s %8s   %s\n", "%-8s %14.0f %14.0f %8.2f   %.2f–%.2f\n"
	_, _ = fmt.Fprintf(stdout, head, "kind", "engine pairs/s", "limit pairs/s", "ratio", "rounds")
	for _, kind := range cfg.kinds {
		engines, limits, ratios, err := compare(ctx, cfg, s, kind, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		_, _ = fmt.Fprintf(stdout, row, kind, hot.Median(engines), hot.Median(limits), hot.Median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	return nil
}

// compare gives the engine and the recording of one kind their turns.
func compare(ctx context.Context, cfg config, s *redisproc.Server, kind string, stderr io.Writer) (engines, limits, ratios []float64, err error) {
	rec, err := record(ctx, s.Addr(), kind, cfg.inFlight, cfg.pairs)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := newWorker(ctx, s.Addr(), kind, cfg.inFlight)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	for n := range cfg.rounds {
		began := time.Now()
		done, err := w.work(ctx, func(int) bool { return time.Since(began) < cfg.duration })
		if err != nil {
			return nil, nil, nil, err
		}
		reached := float64(done) / time.Since(began).Seconds()
		limit, err := replay(ctx, s.Addr(), rec, cfg.duration)
		if err != nil {
			return nil, nil, nil, err
		}
		engines, limits, ratios = append(engines, reached), append(limits, limit), append(ratios, reached/limit)
		_, _ = fmt.Fprintf(stderr, "round %d/%d %8s %9.0f pairs/s, limit %9.0f\n", n+1, cfg.rounds, kind, reached, limit)
	}
	return engines, limits, ratios, nil
}
