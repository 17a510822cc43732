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
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// Exit statuses, as loadgen has them.
const (
	statusFailed    = 1
	statusUsage     = 2
	statusViolation = 4
)

// config is what the flags said.
type config struct {
	addr     string
	impls    []string
	procs    int
	callers  int // of each process
	hold     time.Duration
	rounds   int
	duration time.Duration
	warmup   time.Duration
	json     string // file, "-", or empty
}

func main() {
	if os.Getenv(workerEnv) != "" {
		if err := work(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "hot:", err)
			os.Exit(statusFailed)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "hot:", err)
		return statusUsage
	}
	r, err := measure(ctx, cfg, stderr)
	if err == nil {
		err = r.write(cfg, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "hot:", err)
		return statusFailed
	}
	for _, one := range r.Impls {
		if strings.HasPrefix(one.Name, "holdfast") && one.Violations > 0 {
			return statusViolation
		}
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	names := make([]string, 0, len(hot.Impls()))
	for _, impl := range hot.Impls() {
		names = append(names, impl.Name)
	}
	f := flag.NewFlagSet("hot", flag.ContinueOnError)
	f.SetOutput(stderr)
	impls := f.String("impls", strings.Join(names, ","), "whose turns: `names`, in this order")
	f.StringVar(&c.addr, "addr", "", "`host:port` of a server (default one of its own)")
	f.IntVar(&c.procs, "procs", 1, "processes")
	f.IntVar(&c.callers, "callers", 64, "blocking callers in each process, on one client")
	f.DurationVar(&c.hold, "hold", 0, "how long each holder keeps the lock; from 50µs it sleeps, below it spins")
	f.IntVar(&c.rounds, "rounds", 5, "turns of each")
	f.DurationVar(&c.duration, "duration", 2*time.Second, "of a turn")
	f.DurationVar(&c.warmup, "warmup", 500*time.Millisecond, "of each before the first round, not measured")
	f.StringVar(&c.json, "json", "", "write the result as JSON to `file`; - is standard output, without the table")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.impls = strings.Split(*impls, ",")
	for i, name := range c.impls {
		if !slices.Contains(names, name) || slices.Contains(c.impls[:i], name) {
			return c, fmt.Errorf("-impls: %q is not one of %s, or is there twice", name, strings.Join(names, ", "))
		}
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case c.procs < 1 || c.procs > witness.MaxProcesses:
		return c, fmt.Errorf("-procs must be between 1 and %d, not %d", witness.MaxProcesses, c.procs)
	case c.callers < 1 || c.callers > 10_000:
		return c, fmt.Errorf("-callers must be between 1 and 10000, not %d", c.callers)
	case c.rounds < 1 || c.duration <= 0 || c.hold < 0 || c.warmup < 0:
		return c, errors.New("-rounds and -duration must be more than 0, -hold and -warmup not negative")
	}
	return c, nil
}

// measure starts the server and the processes, and gives everybody its turns.
func measure(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "holdfast-hot-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if cfg.addr == "" {
		own, err := embedded.Start(ctx)
		if err != nil {
			return nil, err
		}
		defer own.Stop()
		cfg.addr = own.Addr()
		_, _ = fmt.Fprintf(stderr, "hot: started %s of its own on %s\n", own.Kind, own.Addr())
	}
	crew, err := startCrew(cfg, dir)
	if err != nil {
		return nil, err
	}
	r := newReport(cfg)
	err = crew.play(ctx, cfg, r, stderr)
	r.settle()
	return r, errors.Join(err, crew.stop())
}

// write writes the table, or JSON, or both.
func (r *report) write(cfg config, stdout io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	switch cfg.json {
	case "-":
		_, err = stdout.Write(text)
		return err
	case "":
	default:
		if err := os.WriteFile(cfg.json, text, 0o644); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, r.table())
	return err
}
