package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// eng stands for the one engine of a process.
var eng *engine.Engine

func Example() {
	ctx := context.Background()
	eng, err := engine.Open(ctx, engine.Config{Addrs: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(context.Background()) // ctx may have ended by then

	err = eng.Lock("invoice:42").Do(ctx, func(ctx context.Context) error {
		// Nobody else runs this for invoice 42. ctx ends if the lock is lost.
		return nil
	})
	fmt.Println(err)
}

func ExampleLock_Acquire() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lease, err := eng.Lock("invoice:42").Acquire(ctx) // waits, at most 5 s
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	work(lease.Context())
}

func ExampleLock_TryAcquire() {
	lease, err := eng.Lock("nightly-report").TryAcquire(context.Background())
	var held *engine.HeldError
	if errors.As(err, &held) {
		fmt.Println("somebody else does it, for another", held.Remaining)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
}

// Thousands of locks from one goroutine: start them all, then collect.
func ExampleLock_AcquireAsync() {
	ctx := context.Background()
	futures := make([]*engine.Future[*engine.Lease], 1000)
	for i := range futures {
		futures[i] = eng.Lock(fmt.Sprintf("child:%d", i)).AcquireAsync(ctx)
	}
	for _, f := range futures {
		lease, err := f.Await(ctx)
		if err != nil {
			log.Print(err)
			continue
		}
		lease.ReleaseAsync() // on its way; nobody waits for it
	}
}

func ExampleFuture_OnComplete() {
	eng.Lock("cache:warm").TryAcquireAsync(context.Background()).OnComplete(func(lease *engine.Lease, err error) {
		if err == nil {
			defer lease.ReleaseAsync()
			work(lease.Context())
		}
	})
}

func ExampleAllLeases() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	leases, err := engine.AllLeases( // both or none
		eng.Lock("account:1").AcquireAsync(ctx),
		eng.Lock("account:2").AcquireAsync(ctx),
	).Await(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, lease := range leases {
		defer lease.Release(context.Background())
	}
}

func ExampleAnyLease() {
	ctx := context.Background()
	lease, err := engine.AnyLease( // whichever printer is free first
		eng.Lock("printer:1").AcquireAsync(ctx),
		eng.Lock("printer:2").AcquireAsync(ctx),
	).Await(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("printing on", lease.Name())
	defer lease.Release(ctx)
}

// Two accounts at once. Whoever names them in the other order waits, and never for ever.
func ExampleEngine_MultiLock() {
	err := eng.MultiLock("account:1", "account:2").Do(context.Background(), func(ctx context.Context) error {
		work(ctx) // it ends when either lock is lost
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// One lock on three servers that share nothing.
func ExampleRed() {
	var locks []*engine.Lock
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		e, err := engine.Open(context.Background(), engine.Config{Addrs: []string{addr}})
		if err != nil {
			log.Fatal(err)
		}
		defer e.Close(context.Background())
		locks = append(locks, e.Lock("migration"))
	}
	lease, err := engine.Red(locks...).Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	fmt.Println("held on", lease.Held(), "of 3 servers")
}

func ExampleFixedLease() {
	ctx := context.Background()
	lease, err := eng.Lock("upload", engine.FixedLease(10*time.Second)).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	if err := lease.Extend(ctx, 20*time.Second); errors.Is(err, engine.ErrLost) {
		log.Fatal("too late: stop touching the upload")
	}
}

func ExampleLease_Lost() {
	ctx := context.Background()
	lease, err := eng.Lock("leader").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for range time.Tick(time.Second) {
		if lease.Lost() { // exact, no command, no allocation
			log.Print(context.Cause(lease.Context()))
			return
		}
	}
}

func ExampleClientOption() {
	cfg := engine.Config{Addrs: []string{"127.0.0.1:6379"}}
	client, err := rueidis.NewClient(engine.ClientOption(cfg))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	eng, err := engine.Open(context.Background(), engine.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(context.Background())
}

// A function that takes a lock its caller may hold already.
func ExampleWithOwner() {
	ctx := engine.WithOwner(context.Background(), engine.NewOwner())
	outer, err := eng.Lock("account:1").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inner, err := eng.Lock("account:1").Acquire(ctx) // enters again: the same owner
	if err != nil {
		log.Fatal(err)
	}
	inner.Release(ctx)
	outer.Release(ctx) // now it is free
}

func ExampleSafeToRetry() {
	_, err := eng.Lock("invoice:42").TryAcquire(context.Background())
	if engine.SafeToRetry(err) { // nothing was changed, or the engine cleans up
		time.Sleep(engine.RetryAfter(err))
		_, err = eng.Lock("invoice:42").TryAcquire(context.Background())
	}
	fmt.Println(err)
}

func work(context.Context) {}
