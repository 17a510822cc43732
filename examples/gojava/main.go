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
	lock := eng.Lock("counter:lock")
	for range times {
		err := lock.Do(ctx, func(ctx context.Context) (err error) {
			last, err = addOne(ctx, client)
			return err
		})
		if err != nil {
			return last, err
		}
	}
	return last, nil
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
