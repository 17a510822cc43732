package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the server")
	permits := flag.Int("permits", 3, "how many calls run at a time")
	callers := flag.Int("callers", 20, "how many want to call")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	call := func(ctx context.Context, caller int) error {
		log.Printf("caller %d is in", caller)
		select {
		case <-time.After(time.Second): // the slow service
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := run(ctx, *redis, *permits, *callers, call)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run has each caller call once, and returns what went wrong.
func run(ctx context.Context, redis string, permits, callers int, call func(ctx context.Context, caller int) error) (err error) {
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{redis}})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, eng.Close(ending))
	}()
	limit := eng.PermitSemaphore("service", engine.WatchdogLease(10*time.Second))
	if _, err := limit.TrySetPermits(ctx, permits); err != nil { // the first process to do so decides
		return err
	}
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			err := limited(ctx, limit, func(ctx context.Context) error { return call(ctx, i) })
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
				errs[i] = err // and not that the program was told to stop
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// limited runs fn with a permit. Its ctx ends with the caller's, and when the permit is lost.
func limited(ctx context.Context, limit *engine.PermitSemaphore, fn func(context.Context) error) error {
	permit, err := limit.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	inside, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(permit.Context(), func() { cancel(context.Cause(permit.Context())) })()
	defer cancel(nil)
	err = fn(inside)
	return errors.Join(err, permit.Release(context.WithoutCancel(ctx)))
}
