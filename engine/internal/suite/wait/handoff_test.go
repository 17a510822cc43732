package wait_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// crowd keeps callers taking and giving back one lock until stop.
func crowd(t *testing.T, e *engine.Engine, callers int, stop <-chan struct{}, while func(*engine.Lease)) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ls, err := e.Lock("hot", engine.WatchdogLease(time.Second)).Acquire(context.Background())
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				while(ls)
				_ = ls.Release(context.Background()) // lost now and then, where the test deletes the key
			}
		})
	}
	return &wg
}

func TestHandOffSendsNoCommandWithinATurn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	first, err := e.Lock("hot").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	second := e.Lock("hot").AcquireAsync(testkit.Limited(t))
	before, err := s.CommandStats()
	require.NoError(t, err)
	require.NoError(t, first.Release(testkit.Limited(t)))
	ls, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, first.OwnerID(), ls.OwnerID(), "the field stays")
	require.ErrorIs(t, first.Release(testkit.Limited(t)), engine.ErrNotHeld, "the old handle is spent")
	require.False(t, ls.Lost())
	require.ErrorIs(t, context.Cause(first.Context()), engine.ErrReleased)
	require.NoError(t, ls.Context().Err())
	after, err := s.CommandStats()
	require.NoError(t, err)
	require.Equal(t, before["evalsha"], after["evalsha"])
	require.EqualValues(t, 1, e.Stats().GrantsByHandOff)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}

func TestHandOffIsRefusedWhereItWouldNotBeAsSafe(t *testing.T) {
	for name, c := range map[string]struct {
		holder, waiter []engine.Option
		before         func(*engine.Lease)
		change         func(*engine.Config)
	}{
		"FixedLease":     {holder: []engine.Option{engine.FixedLease(5 * time.Second)}, waiter: []engine.Option{engine.FixedLease(5 * time.Second)}},
		"AnotherLease":   {waiter: []engine.Option{engine.WatchdogLease(10 * time.Second)}},
		"AnotherMaxHold": {waiter: []engine.Option{engine.MaxHold(10 * time.Second)}},
		"StoppedRenewal": {before: func(ls *engine.Lease) { ls.StopRenewing() }},
		"SwitchedOff":    {change: func(cfg *engine.Config) { cfg.NoHandOff = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr(), func(cfg *engine.Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			first, err := e.Lock("hot", c.holder...).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			second := e.Lock("hot", c.waiter...).AcquireAsync(testkit.Limited(t))
			if c.before != nil {
				c.before(first)
			}
			require.NoError(t, first.Release(testkit.Limited(t)))
			ls, err := second.Await(testkit.Limited(t))
			require.NoError(t, err)
			require.NotEqual(t, first.OwnerID(), ls.OwnerID())
			require.Zero(t, e.Stats().GrantsByHandOff)
			require.NoError(t, ls.Release(testkit.Limited(t)))
			testkit.Finish(t, s, e)
		})
	}
}

// The next holder takes the present deadline: in the last half of the lease it is not worth having. The
// way to the server is so long here that this is so from the grant on, while the turn is not over.
func TestHandOffIsRefusedInTheLastHalfOfTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	const lease = 4 * time.Second
	p.Delay(0, lease*11/20)
	first := testkit.Acquire(t, e.Lock("hot", engine.WatchdogLease(lease)))
	require.Less(t, time.Until(first.Deadline()), lease/2)
	second := e.Lock("hot", engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
	given := first.ReleaseAsync()
	p.Delay(0, 0)
	_, err := given.Await(testkit.Limited(t))
	require.NoError(t, err)
	ls, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, e.Stats().GrantsByHandOff)
	require.NotEqual(t, first.OwnerID(), ls.OwnerID())
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// A count that is on its way would hit the next holder: the lock is not passed on before its answer.
func TestHandOffIsRefusedWhileACountIsOnItsWay(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	first, err := e.Lock("hot").Acquire(ctx)
	require.NoError(t, err)
	held := p.Hold(testkit.ScriptCall("reacquire"), 1)
	again := e.Lock("hot").AcquireAsync(ctx)
	testkit.Await(t, held.C(), "the count is on its way")
	waiter := e.Lock("hot").AcquireAsync(testkit.Limited(t))
	given := first.ReleaseAsync() // a hand-off would be over when it returns
	_, _, done := waiter.Result()
	require.False(t, done, "the lock was passed on with a count on its way")
	p.ReleaseCommands()
	second, err := again.Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = given.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.RequireHeldOnce(t, s, second)
	_, _, done = waiter.Result()
	require.False(t, done, "its owner still has it")
	testkit.Release(t, second)
	ls, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.RequireHeldOnce(t, s, ls)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// A waiter that behaves as Redisson's: subscribe, try, wait for the message or the TTL.
func TestForeignWaiterBesideSixtyFourBusyCallersGetsItsTurn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	stop := make(chan struct{})
	wg := crowd(t, e, 64, stop, func(*engine.Lease) {})
	sub, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer sub.Close()
	require.NoError(t, sub.Send("SUBSCRIBE", "redisson_lock__channel:{hot}"))
	_, err = sub.Receive(testkit.Limited(t))
	require.NoError(t, err)
	cmd, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer cmd.Close()
	const script = `if redis.call('exists', KEYS[1]) == 0 then
		redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return -10 end
		return redis.call('pttl', KEYS[1])`
	var waits []time.Duration
	for range 40 {
		begun := time.Now()
		for {
			got, err := cmd.Do(testkit.Limited(t), "EVAL", script, "1", "hot", "30000", "6e3814a1-e847-452b-a982-45baf93a1df2:57")
			require.NoError(t, err)
			if got == int64(-10) {
				break
			}
			_, err = sub.Receive(testkit.Limited(t))
			require.NoError(t, err)
		}
		waits = append(waits, time.Since(begun))
		s.Do(t, "DEL", "hot")
		s.Do(t, "PUBLISH", "redisson_lock__channel:{hot}", "0")
	}
	close(stop)
	wg.Wait()
	slices.Sort(waits)
	t.Logf("foreign waiter: median %v, worst %v", waits[len(waits)/2], waits[len(waits)-1])
	require.Less(t, waits[len(waits)/2], 50*time.Millisecond)
	require.Less(t, waits[len(waits)-1], 500*time.Millisecond)
	testkit.Finish(t, s, e)
}

func TestMessagesNotPollsServeEnginesThatContend(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	stop := make(chan struct{})
	var engines []*engine.Engine
	var crowds []*sync.WaitGroup
	for range 4 {
		e := testkit.Open(t, s.Addr())
		engines = append(engines, e)
		crowds = append(crowds, crowd(t, e, 8, stop, func(*engine.Lease) {}))
	}
	byServer := func() (all, byPoll int64) {
		for _, e := range engines {
			stats := e.Stats()
			all += stats.Grants - stats.GrantsByHandOff
			byPoll += stats.GrantsByPoll
		}
		return all, byPoll
	}
	testkit.Eventually(t, "some hundred turns", func() bool { all, _ := byServer(); return all > 400 })
	close(stop)
	for _, wg := range crowds {
		wg.Wait()
	}
	all, byPoll := byServer()
	t.Logf("%d grants by the server, %d by a poll", all, byPoll)
	require.Less(t, byPoll*100, all)
	testkit.Finish(t, s, engines...)
}
