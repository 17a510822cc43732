package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/election"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the server")
	every := flag.Duration("every", time.Minute, "how often the job runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	job := func(_ context.Context, token int64) error {
		log.Printf("term %d: the job runs here", token)
		return nil
	}
	err := run(ctx, *redis, *every, job)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run campaigns, and runs the job while it leads, until ctx ends.
func run(ctx context.Context, redis string, every time.Duration, job func(context.Context, int64) error) (err error) {
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{redis}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(context.Background())) }()
	el := election.New(eng, "cron", engine.WatchdogLease(10*time.Second))
	err = el.Run(ctx, func(ctx context.Context, term *election.Term) error {
		for again := true; again; again = wait(ctx, every) {
			if err := job(ctx, term.Token()); err != nil {
				log.Printf("the job failed: %v", err)
			}
		}
		return nil // the term is over, or the program
	})
	if ctx.Err() != nil { // it was told to stop, and has resigned
		return nil
	}
	return err
}

// wait pauses, and reports whether ctx is still running then.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
