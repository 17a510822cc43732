package callback

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const long = 30 * time.Second

func newPool(t *testing.T, logger *slog.Logger) *Pool {
	t.Helper()
	p, err := New(nil, logger)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		p.Close(ctx)
	})
	return p
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(long):
		require.FailNow(t, what)
	}
}

// block adds callbacks that do not return before open is called, and waits until they run.
func block(t *testing.T, p *Pool, n int) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(n)
	for range n {
		p.Add(func() { inside.Done(); <-gate })
	}
	all := make(chan struct{})
	go func() { inside.Wait(); close(all) }()
	for {
		select {
		case <-all:
			return sync.OnceFunc(func() { close(gate) })
		case <-time.After(time.Millisecond):
			p.Tick()
		}
	}
}

// A callback that never returns is all that runs when Close gives up: nobody ticks any more, and whoever stands behind it
// is called all the same, though others that do not return stand before them.
func TestCallbacksBehindOneThatIsStuckAreCalledThoughCloseGaveUp(t *testing.T) {
	p, err := New(nil, nil)
	require.NoError(t, err)
	stuck, gate := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	others.Add(20)
	p.mu.Lock() // one turn for all of them
	p.queue = append(p.queue, func() { close(stuck); <-gate })
	for range 10 {
		p.queue = append(p.queue, func() { <-gate }, others.Done, others.Done)
	}
	p.mu.Unlock()
	p.start()
	await(t, stuck, "the first runs")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	over := make(chan struct{})
	go func() { p.Close(ended); close(over) }()
	called := make(chan struct{})
	go func() { others.Wait(); close(called) }()
	await(t, called, "nobody calls them")
	require.Contains(t, p.Stuck(), "callbacks have not returned")
	select {
	case <-over:
		require.FailNow(t, "Close waits for all of them")
	default:
	}
	close(gate)
	await(t, over, "all have returned")
}

// Nobody ticks here.
func TestACallbackThatBlocksDelaysNoneThatComesLater(t *testing.T) {
	p := newPool(t, nil)
	open := block(t, p, 1)
	defer open()
	for range 100 {
		ran := make(chan struct{})
		p.Add(func() { close(ran) })
		await(t, ran, "another callback")
	}
}

// They leave the turn in different ways. Nobody ticks here.
func TestACallbackThatPanicsOrEndsItsGoroutineCostsItselfAlone(t *testing.T) {
	p := newPool(t, nil)
	const n = 10 * batch
	var ran sync.WaitGroup
	ran.Add(n)
	for i := range n {
		p.Add(func() {
			defer ran.Done()
			switch i % 3 {
			case 0:
				panic("on purpose")
			case 1:
				runtime.Goexit()
			}
		})
	}
	all := make(chan struct{})
	go func() { ran.Wait(); close(all) }()
	await(t, all, "every callback")
	require.Eventually(t, func() bool { return p.Stats().Ran == n }, long, time.Millisecond)
	require.EqualValues(t, (n+2)/3, p.Stats().Panics)
}

// The capacity is the bound. It gives way by a few workers a tick, and only while so many are in user code.
func TestAPoolThatIsStuckGrowsByAFewWorkersATickAndShrinksAgain(t *testing.T) {
	p := newPool(t, nil)
	open := block(t, p, poolSize)
	defer open()
	require.Equal(t, poolSize, p.ants.Cap())
	require.Zero(t, p.Stats().Overflow)
	var ran atomic.Int64
	gate := make(chan struct{})
	openBoth := sync.OnceFunc(func() { close(gate); open() })
	defer openBoth()
	for range 3 * tickGrowth {
		p.Add(func() { ran.Add(1); <-gate })
	}
	for end := time.Now().Add(long); ran.Load() < 3*tickGrowth && time.Now().Before(end); {
		before := p.Stats().Overflow
		p.Tick()
		require.LessOrEqual(t, p.Stats().Overflow-before, int64(tickGrowth))
	}
	require.EqualValues(t, 3*tickGrowth, ran.Load())
	require.EqualValues(t, 3*tickGrowth, p.Stats().Overflow, "turns that have not begun are no reason")
	require.Equal(t, poolSize+3*tickGrowth, p.ants.Cap())
	openBoth()
	require.Eventually(t, func() bool { p.Tick(); return p.ants.Cap() == poolSize }, long, 10*time.Millisecond)
}

// All workers may have returned between the refusal and the growth.
func TestAPoolThatGrowsLateIsNotNarrower(t *testing.T) {
	p := newPool(t, nil)
	p.grow(tickGrowth)
	require.Equal(t, poolSize+tickGrowth, p.ants.Cap())
	p.Tick()
	require.Equal(t, poolSize, p.ants.Cap())
}

// Of a closed pool, and of none: futures outlive their engine.
func TestWhatIsAddedAfterCloseIsCalled(t *testing.T) {
	closed, err := New(nil, nil)
	require.NoError(t, err)
	closed.Close(t.Context())
	for _, p := range []*Pool{closed, {}} {
		for range 3 {
			ran := make(chan bool)
			p.Add(func() { ran <- Inside() })
			require.True(t, <-ran)
		}
		require.Eventually(t, func() bool { return p.Stats().Ran == 3 }, long, time.Millisecond)
	}
	require.False(t, Inside())
}

// All workers may be between their last callback and the pool's list of those that are idle: then it refuses a turn though
// nobody is stuck. Nobody ticks after Close.
func TestWhatAFullPoolRefusedIsCalledWhenItIsReleased(t *testing.T) {
	p, err := New(nil, nil)
	require.NoError(t, err)
	ran := make(chan struct{})
	p.queue = append(p.queue, func() { close(ran) })
	p.Release()
	await(t, ran, "it is called")
}

// Close and Add may meet anywhere.
func TestNothingIsForgottenBetweenAddAndClose(t *testing.T) {
	for range 200 {
		p, err := New(nil, nil)
		require.NoError(t, err)
		const adders, each = 4, 50
		var ran, added sync.WaitGroup
		ran.Add(adders * each)
		for range adders {
			added.Go(func() {
				for range each {
					p.Add(ran.Done)
				}
			})
		}
		p.Close(t.Context())
		added.Wait()
		ran.Wait()
	}
}

func TestASimulatedPoolRunsInItsWorldAlone(t *testing.T) {
	run := func(seed uint64) (order string, hash uint64) {
		w := world.New(seed, 2)
		defer w.Close()
		done := false
		w.In(new(world.Process), "test", func() {
			p, err := New(w, nil)
			require.NoError(t, err)
			require.Nil(t, p.ants)
			for i := range 3 * batch { // three turns
				p.Add(func() { w.Sleep(time.Millisecond); order += fmt.Sprint(i, " ") })
			}
			p.Close(context.Background())
			require.EqualValues(t, 3*batch, p.Stats().Ran)
			done = true
		})
		require.NoError(t, w.Run(func() bool { return done }))
		return order, w.Hash()
	}
	for seed := range uint64(8) {
		order, hash := run(seed)
		again, same := run(seed)
		require.Equal(t, order, again)
		require.Equal(t, hash, same)
	}
}
