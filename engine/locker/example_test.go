package locker_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/engine/locker"
)

// A Ledger takes whatever lock it is given: a sync.Mutex in one process, a Locker among many.
type Ledger struct {
	mu      sync.Locker
	balance int
}

// Deposit adds to the balance.
func (l *Ledger) Deposit(amount int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.balance += amount
}

func Example() {
	eng, done := open()
	defer done()

	ledger := &Ledger{mu: locker.New(eng.Lock("ledger"))}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { ledger.Deposit(10) })
	}
	wg.Wait()
	fmt.Println(ledger.balance)
	// Output: 100
}

// A condition variable whose lock other processes contend for, too. It wakes the goroutines of this
// process only.
func ExampleNew_cond() {
	eng, done := open()
	defer done()

	var jobs []string
	cond := sync.NewCond(locker.New(eng.Lock("jobs")))
	go func() {
		cond.L.Lock()
		defer cond.L.Unlock()
		jobs = append(jobs, "print")
		cond.Signal()
	}()

	cond.L.Lock()
	defer cond.L.Unlock()
	for len(jobs) == 0 {
		cond.Wait() // gives the lock back, waits, takes it again
	}
	fmt.Println(jobs)
	// Output: [print]
}

func ExampleLocker_LockContext() {
	eng, done := open()
	defer done()

	l := locker.New(eng.Lock("ledger"))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.LockContext(ctx); err != nil {
		log.Print(err)
		return
	}
	defer l.Unlock()
	if l.Lost() { // before what cannot be undone
		log.Print("somebody else may be at it")
		return
	}
	fmt.Println("booked")
	// Output: booked
}

// open opens an engine on a server of its own.
func open() (eng *engine.Engine, done func()) {
	tb := &exampleTB{}
	return enginetest.Start(tb).Engine(), tb.end
}

// exampleTB stands for a test.
type exampleTB struct{ cleanups []func() }

func (e *exampleTB) Helper()                           {}
func (e *exampleTB) Cleanup(fn func())                 { e.cleanups = append(e.cleanups, fn) }
func (e *exampleTB) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (e *exampleTB) end() {
	for _, fn := range e.cleanups {
		fn()
	}
}
