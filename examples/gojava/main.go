package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the server")
	times := flag.Int("times", 100, "how often to add one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	last, err := run(ctx, *redis, *times)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("go: %d\n", last)
}

// run adds one as often as it is told, and returns the last number it wrote.
func run(ctx context.Context, redis string, times int) (last int, err error) {
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{redis}})
	if err != nil {
		return 0, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, eng.Close(ending))
	}()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := meet(ctx, eng.CountDownLatch("counter:start")); err != nil {
		return 0, err
	}
	lock := eng.Lock("counter:lock")
	for range times {
		err := lock.Do(ctx, func(ctx context.Context) (err error) {
			last, err = addOne(ctx, client)
			return err
		})
		if err != nil {
			return last, err
		}
		time.Sleep(2 * time.Millisecond) // what a program does between its locks
	}
	return last, nil
}

// meet waits until the other program has come, which takes a JVM a second: else this one would be done before.
func meet(ctx context.Context, start *engine.CountDownLatch) error {
	if _, err := start.TrySetCount(ctx, 2); err != nil { // false: the other one has
		return err
	}
	if err := start.CountDown(ctx); err != nil {
		return err
	}
	return start.Await(ctx)
}

// addOne is two commands on purpose: what somebody else writes in between is lost.
func addOne(ctx context.Context, client rueidis.Client) (int, error) {
	text, err := client.Do(ctx, client.B().Get().Key("counter").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, err
	}
	n, _ := strconv.Atoi(text)
	return n + 1, client.Do(ctx, client.B().Set().Key("counter").Value(strconv.Itoa(n+1)).Build()).Error()
}
