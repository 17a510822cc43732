package wait_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A JVM needs a millisecond or two from the message to its acquire, an engine a tenth of that. Where many engines
// want one lock, they would win every race.
func TestASlowForeignWaiterBesideManyEnginesGetsItsTurn(t *testing.T) {
	const threads, latency = 4, time.Millisecond
	s := redistest.Run(t, redistest.Options{})
	stop := make(chan struct{})
	var crowds []*sync.WaitGroup
	for range 4 {
		e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = true })
		crowds = append(crowds, crowd(t, e, 8, stop, func(*engine.Lease) {}))
	}
	ear := testkit.NewForeign(t, s)
	ear.Do("SUBSCRIBE", testkit.Channel("hot"))
	messages := make(chan struct{}, 1)
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for {
			if _, err := ear.Conn.Receive(t.Context()); err != nil {
				return
			}
			select {
			case messages <- struct{}{}:
			default:
			}
		}
	})
	var grants atomic.Int32
	var waiting sync.WaitGroup
	until := time.Now().Add(2 * time.Second)
	for range threads {
		foreign := testkit.NewForeign(t, s)
		waiting.Go(func() {
			for time.Now().Before(until) {
				<-messages
				time.Sleep(latency)
				if foreign.TryLock("hot", 30*time.Second) {
					grants.Add(1)
					foreign.Unlock("hot")
				}
			}
		})
	}
	waiting.Wait()
	close(stop)
	for _, c := range crowds {
		c.Wait()
	}
	require.NoError(t, ear.Conn.Close())
	hearing.Wait()
	t.Logf("%d grants in two seconds", grants.Load())
	require.Greater(t, grants.Load(), int32(15))
}

// With one other client nothing but Redisson's own message is published, and a spin lock publishes nothing at all.
func TestALockIsLeftByAMessageThatRedissonKnows(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ears := []*testkit.Foreign{testkit.NewForeign(t, s), testkit.NewForeign(t, s)}
	turn := func() string {
		ls, err := e.Lock("name").Acquire(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
		msg, err := ears[0].Conn.Receive(testkit.Limited(t))
		require.NoError(t, err)
		return msg.([]any)[2].(string)
	}
	ears[0].Do("SUBSCRIBE", testkit.Channel("name"))
	for range 50 {
		require.Equal(t, "0", turn())
	}
	ears[1].Do("SUBSCRIBE", testkit.Channel("name"))
	require.Equal(t, "0", turn(), "nobody knows yet that two listen")
	testkit.Eventually(t, "it is left to others", func() bool {
		m := turn()
		require.Contains(t, []string{"0", "00"}, m)
		return m == "00"
	})
}

// Who spins looks every now and then, and is told nothing.
func TestASpinnerElsewhereGetsItsTurn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	spin := e.Lock("hot", engine.Spin(time.Millisecond, 128*time.Millisecond))
	stop := make(chan struct{})
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("hot", 30*time.Second)
	var crowd sync.WaitGroup
	for range 16 {
		crowd.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ls, err := spin.Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond) // what it holds the lock for
				_ = ls.Release(context.Background())
			}
		})
	}
	testkit.Eventually(t, "somebody was told that it is held", func() bool { return e.Stats().Waits > 0 })
	foreign.Unlock("hot")
	testkit.Eventually(t, "the callers have it", func() bool { return e.Stats().Grants > 20 })
	const every = 5 * time.Millisecond
	looks, grants := 0, 0
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(every) {
		if looks++; foreign.TryLock("hot", 30*time.Second) {
			grants++
			foreign.Unlock("hot")
		}
	}
	close(stop)
	crowd.Wait()
	t.Logf("%d looks, %d grants", looks, grants)
	require.Greater(t, 10*grants, looks)
}
