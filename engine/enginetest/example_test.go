package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
)

var ctx = context.Background()

// In the examples, t stands for a test's *testing.T, and t.end for the end of that test.

func Example() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	// The program under test: it works while it has the lock.
	report := func(eng *engine.Engine) error {
		return eng.Lock("nightly-report").Do(ctx, func(ctx context.Context) error {
			<-ctx.Done() // long work
			return fmt.Errorf("report: %w", context.Cause(ctx))
		})
	}
	done := make(chan error)
	go func() { done <- report(srv.Engine()) }()

	srv.AwaitHeld("nightly-report")
	srv.Lose("nightly-report")
	fmt.Println("stopped by the loss:", errors.Is(<-done, engine.ErrLost))
	// Output: stopped by the loss: true
}

func ExampleServer_NewEngine() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	here := srv.Engine()
	elsewhere := srv.NewEngine(func(c *engine.Config) { c.KeepOnClose = true })

	_, _ = elsewhere.Lock("leader").Acquire(ctx)
	_, err := here.Lock("leader").TryAcquire(ctx)
	fmt.Println("held elsewhere:", errors.Is(err, engine.ErrHeld))

	_ = elsewhere.Close(context.Background()) // that process crashes, and its lease runs out
	srv.Advance(engine.DefaultLease)
	_, err = here.Lock("leader").TryAcquire(ctx)
	fmt.Println("taken over:", err == nil)
	// Output:
	// held elsewhere: true
	// taken over: true
}

func ExampleServer_Lose() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	lease, _ := srv.Engine().Lock("invoice:42").Acquire(ctx)
	srv.Lose("invoice:42")
	fmt.Println(lease.Lost(), context.Cause(lease.Context()))
	// Output: true holdfast: lease is lost
}

func ExampleServer_Steal() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	srv.Steal("invoice:42") // a Java service has it
	_, err := srv.Engine().Lock("invoice:42").TryAcquire(ctx)
	var held *engine.HeldError
	fmt.Println(errors.As(err, &held), held.Remaining > 0)
	fmt.Println(srv.Owner("invoice:42") == enginetest.ForeignOwner)
	// Output:
	// true true
	// true
}

func ExampleServer_Free() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	srv.Steal("invoice:42")
	f := srv.Engine().Lock("invoice:42").AcquireAsync(ctx)
	srv.AwaitWaiters("invoice:42", 1)
	srv.Free("invoice:42") // its holder releases, and tells the waiters
	lease, err := f.Await(ctx)
	fmt.Println(lease.Name(), err)
	// Output: invoice:42 <nil>
}

func ExampleServer_Advance() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	srv.Steal("invoice:42") // a Java service has it, and crashes
	f := srv.Engine().Lock("invoice:42").AcquireAsync(ctx)
	srv.AwaitWaiters("invoice:42", 1)
	srv.Advance(enginetest.ForeignLease) // no test waits for 30 seconds
	lease, err := f.Await(ctx)
	fmt.Println(lease.Name(), err)
	// Output: invoice:42 <nil>
}

func ExampleServer_Refuse() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	lock := srv.Engine().Lock("invoice:42")
	srv.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
	_, err := lock.TryAcquire(ctx)
	var server *engine.ServerError
	fmt.Println(errors.As(err, &server) && server.Class == engine.ClassOOM, engine.SafeToRetry(err))

	srv.Accept()
	_, err = lock.TryAcquire(ctx)
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}

func ExampleServer_Down() {
	t := &fakeTB{}
	defer t.end()
	srv := enginetest.Start(t)

	lease, _ := srv.Engine().Lock("leader", engine.WatchdogLease(time.Second)).Acquire(ctx)
	srv.Down()
	<-lease.Context().Done() // in time, although nobody can be asked
	fmt.Println(lease.Lost())

	srv.Up()
	_, err := srv.Engine().Lock("printer").TryAcquire(ctx)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
