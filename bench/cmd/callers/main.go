package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
)

// config is what the flags said.
type config struct {
	addr             string
	impls            []hot.Impl
	callers          []int
	rounds           int
	duration, warmup time.Duration
	json, svg        string // files, or empty
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
		_, _ = fmt.Fprintln(stderr, "callers:", err)
		return 2
	}
	r, err := measure(ctx, cfg, stderr)
	if err == nil {
		err = write(cfg, r, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "callers:", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	known := impls()
	names := make([]string, 0, len(known))
	for _, impl := range known {
		names = append(names, impl.Name)
	}
	f := flag.NewFlagSet("callers", flag.ContinueOnError)
	f.SetOutput(stderr)
	wanted := f.String("impls", strings.Join(names, ","), "whose turns: `names`, in this order")
	callers := f.String("callers", "1,8,64", "how many blocking callers, on one client: `numbers`")
	f.StringVar(&c.addr, "addr", "", "`host:port` of a server (default one of its own)")
	f.IntVar(&c.rounds, "rounds", 5, "turns of each")
	f.DurationVar(&c.duration, "duration", 2*time.Second, "of a turn")
	f.DurationVar(&c.warmup, "warmup", 300*time.Millisecond, "before each turn, not measured")
	f.StringVar(&c.json, "json", "", "also write the result as JSON to `file`")
	f.StringVar(&c.svg, "svg", "", "also draw the result to `file`")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for _, name := range strings.Split(*wanted, ",") {
		i := slices.Index(names, name)
		if i < 0 || slices.ContainsFunc(c.impls, func(impl hot.Impl) bool { return impl.Name == name }) {
			return c, fmt.Errorf("-impls: %q is not one of %s, or is there twice", name, strings.Join(names, ", "))
		}
		c.impls = append(c.impls, known[i])
	}
	for _, text := range strings.Split(*callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000 {
			return c, fmt.Errorf("-callers: %q is no number between 1 and 10000", text)
		}
		c.callers = append(c.callers, n)
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case c.rounds < 1 || c.duration <= 0 || c.warmup < 0:
		return c, errors.New("-rounds and -duration must be more than 0, -warmup not negative")
	}
	return c, nil
}

// measure gives everybody its turns.
func measure(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	if cfg.addr == "" {
		own, err := embedded.Start(ctx)
		if err != nil {
			return nil, err
		}
		defer own.Stop()
		cfg.addr = own.Addr()
		_, _ = fmt.Fprintf(stderr, "callers: started %s of its own on %s\n", own.Kind, own.Addr())
	}
	r := newReport(cfg)
	for n := range cfg.rounds {
		for _, c := range r.Cells {
			one, err := turn(ctx, cfg, c)
			if err != nil {
				return nil, fmt.Errorf("%s with %d callers: %w", c.Impl, c.Callers, err)
			}
			c.add(one)
			_, _ = fmt.Fprintf(stderr, "round %d/%d %12s %5d callers %9.0f pairs/s\n",
				n+1, cfg.rounds, c.Impl, c.Callers, one.perS)
		}
	}
	r.settle()
	return r, nil
}

// turn opens a client, warms it up, and measures one implementation with one number of callers.
func turn(ctx context.Context, cfg config, c *cell) (_ round, err error) {
	client, err := c.open(ctx, cfg.addr, c.Callers)
	if err != nil {
		return round{}, err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	if cfg.warmup > 0 {
		if _, err := drive(ctx, client, c.Callers, cfg.warmup); err != nil {
			return round{}, err
		}
	}
	return drive(ctx, client, c.Callers, cfg.duration)
}

func write(cfg config, r *report, stdout io.Writer) error {
	if cfg.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(cfg.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if cfg.svg != "" {
		if err := r.draw(cfg.svg); err != nil {
			return err
		}
	}
	_, err := io.WriteString(stdout, r.table())
	return err
}
