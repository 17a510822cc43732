package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the server")
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, *redis, l)
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, redis string, l net.Listener) (err error) {
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{redis}})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{Handler: handler(eng, pay), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(ending))
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // not what Shutdown has left
	defer cancel()
	return errors.Join(err, eng.Close(closing))
}

// pay is the work. It looks at ctx, which ends when the caller has left or the lock is lost.
func pay(ctx context.Context, _ string) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handler does the work of an order under its lock.
func handler(eng *engine.Engine, work func(ctx context.Context, order string) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		lock := eng.Lock("order:"+id, engine.MaxWait(200*time.Millisecond))
		how := notBegun
		err := lock.Do(r.Context(), func(ctx context.Context) error {
			how = begun
			if err := work(ctx, id); err != nil {
				return err
			}
			how = done
			return nil
		})
		answer(w, id, how, err)
	})
	return mux
}

// progress is how far the work has come. Do's error alone does not say: it may be that of giving the lock back.
type progress int

const (
	notBegun progress = iota
	begun
	done
)

// answer says what became of a request.
func answer(w http.ResponseWriter, id string, how progress, err error) {
	var held *engine.HeldError
	switch {
	case how == done && !errors.Is(err, engine.ErrLost):
		if err != nil { // the lock is free again once its lease has ended
			log.Printf("order %q is paid; its lock: %v", id, err)
		}
		_, _ = fmt.Fprintf(w, "order %q is paid\n", id)
	case errors.Is(err, engine.ErrName): // longer than a name may be
		http.Error(w, "no such order", http.StatusNotFound)
	case errors.As(err, &held):
		w.Header().Set("Retry-After", retryAfter(err))
		http.Error(w, "another request works on this order", http.StatusConflict)
	case errors.Is(err, engine.ErrLost): // the work was told to stop, and may have done a part
		http.Error(w, "the lock was lost: look at the order before you try again", http.StatusServiceUnavailable)
	case how == notBegun && (engine.SafeToRetry(err) || errors.Is(err, engine.ErrUnknown) || errors.Is(err, engine.ErrClosed)):
		// Overloaded, or no answer, or this service ends and another one has the next request.
		w.Header().Set("Retry-After", retryAfter(err))
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrNotHeld): // the service has ended meanwhile
		http.Error(w, "interrupted: look at the order before you try again", http.StatusServiceUnavailable)
	default:
		log.Printf("order %q: %v", id, err)
		http.Error(w, "failed", http.StatusInternalServerError)
	}
}

// retryAfter is what the engine advises, in whole seconds, and one at least.
func retryAfter(err error) string {
	return strconv.Itoa(int(max(math.Ceil(engine.RetryAfter(err).Seconds()), 1)))
}
