// Command slowline measures which round trip a watched lock tolerates.
//
// Each case has a server's line of its own that takes a fixed time each way, an engine and some locks under its
// watchdog. They are taken and renewed once while the line is fast, for a connection is made only when it is needed, and
// its handshake takes several round trips. Then the line turns slow, and they are held for some leases. All cases run at
// once: they wait nearly all the time.
//
//	go run ./cmd/slowline [-addr host:port] [-locks 200] [-leases 1s,3s,10s,30s] [-held 4]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
)

// shares of the lease that a round trip takes.
var shares = []struct {
	name string
	of   float64
}{{"1/12", 1. / 12}, {"1/6", 1. / 6}, {"1/4", 1. / 4}, {"0.3", 0.3}, {"0.4", 0.4}, {"1/2", 1. / 2}}

type config struct {
	addr   string
	locks  int
	held   int // leases
	leases []time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "slowline:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	if cfg.addr == "" {
		s, err := embedded.Start(ctx)
		if err != nil {
			return err
		}
		defer s.Stop()
		cfg.addr = s.Addr()
	}
	lost := make([][]string, len(cfg.leases))
	var wg sync.WaitGroup
	for i, lease := range cfg.leases {
		lost[i] = make([]string, len(shares))
		for k, share := range shares {
			wg.Go(func() { lost[i][k] = measure(ctx, cfg, lease, time.Duration(share.of*float64(lease))) })
		}
	}
	wg.Wait()
	return table(out, cfg, lost)
}

func parse(args []string) (*config, error) {
	cfg := &config{}
	set := flag.NewFlagSet("slowline", flag.ContinueOnError)
	set.StringVar(&cfg.addr, "addr", "", "host:port of a server; without it one is started")
	set.IntVar(&cfg.locks, "locks", 200, "locks of each case")
	set.IntVar(&cfg.held, "held", 4, "how many leases they are held for")
	leases := set.String("leases", "1s,3s,10s,30s", "leases, with commas between")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(*leases, ",") {
		lease, err := time.ParseDuration(text)
		if err != nil || lease < engine.MinWatchdogLease {
			return nil, fmt.Errorf("-leases: %q is no lease of %v or more", text, engine.MinWatchdogLease)
		}
		cfg.leases = append(cfg.leases, lease)
	}
	if cfg.locks < 1 || cfg.held < 1 || set.NArg() > 0 {
		return nil, errors.New("-locks and -held are 1 or more, and nothing follows the flags")
	}
	return cfg, nil
}

// measure holds locks over a slow line and says how many were lost.
func measure(ctx context.Context, cfg *config, lease, roundTrip time.Duration) string {
	p, err := faultproxy.New(cfg.addr)
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{p.Addr()}})
	if err != nil {
		return err.Error()
	}
	defer func() {
		p.Delay(0, 0)
		_ = e.Close(context.WithoutCancel(ctx))
	}()
	asked := make([]*engine.Future[*engine.Lease], cfg.locks)
	for i := range asked {
		asked[i] = e.Lock(fmt.Sprintf("slowline:%v:%v:%d", lease, roundTrip, i), engine.WatchdogLease(lease)).AcquireAsync(ctx)
	}
	held, err := engine.All(asked...).Await(ctx)
	if err != nil {
		return err.Error()
	}
	for e.Stats().Renewals.Sent < int64(cfg.locks) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return "interrupted"
		}
	}
	p.Delay(roundTrip/2, roundTrip/2)
	timer := time.NewTimer(time.Duration(cfg.held) * lease)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return "interrupted"
	}
	lost := 0
	for _, ls := range held {
		if ls.Lost() {
			lost++
		}
	}
	return fmt.Sprintf("%d %%", (100*lost+cfg.locks-1)/cfg.locks)
}

func table(out io.Writer, cfg *config, lost [][]string) error {
	var w strings.Builder
	fmt.Fprintf(&w, "lost within %d leases, %d locks each; round trip of the lease:\n", cfg.held, cfg.locks)
	fmt.Fprint(&w, "lease")
	for _, share := range shares {
		fmt.Fprintf(&w, "\t%s", share.name)
	}
	fmt.Fprintln(&w)
	for i, lease := range cfg.leases {
		fmt.Fprint(&w, lease)
		for k := range shares {
			roundTrip := time.Duration(shares[k].of * float64(lease)).Round(time.Millisecond)
			fmt.Fprintf(&w, "\t%s (%v)", lost[i][k], roundTrip)
		}
		fmt.Fprintln(&w)
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(columns, w.String()); err != nil {
		return err
	}
	return columns.Flush()
}
