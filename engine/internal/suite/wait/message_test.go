package wait_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// pollCap of the product is 1 s, spread by a fifth.
const apiPoll = 1200 * time.Millisecond

func TestWaiterIsServedByTheMessageOfARelease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	holder, waiter := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, holder.Lock("name"))
	f := waiter.Lock("name").AcquireAsync(context.Background())
	testkit.Parked(t, s, "name", 1, 1, waiter)
	testkit.Release(t, ls)
	testkit.Within(t, f.Done(), testkit.Soon, "the message wakes the waiter")
	got := testkit.Get(t, f)
	require.NotZero(t, waiter.Stats().WokenByMessage)
	require.NotEqual(t, ls.OwnerID(), got.OwnerID())
	require.Equal(t, got.OwnerID()+"\n1", s.Do(t, "HGETALL", "name"))
	require.EqualValues(t, 1, holder.Stats().Heard)
	testkit.Release(t, got)
	require.Zero(t, waiter.Stats().Waiting)
}

// Between the try that found the lock held and the confirmation of SUBSCRIBE nobody hears anything:
// what is released then is found by trying again once the subscription stands.
func TestC110_ReleaseBetweenFailedTryAndSubscribeIsNotMissed(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	foreign := testkit.NewForeign(t, s)
	for round := range 5 { // each with a name of its own: a lingering subscription would hide the gap
		name := fmt.Sprint("name:", round)
		foreign.Lock(name, time.Minute)
		hold := p.Hold(faultproxy.Argument("SUBSCRIBE", testkit.Channel(name)), 1)
		before := e.Stats()
		f := e.Lock(name).AcquireAsync(context.Background())
		testkit.Within(t, hold.C(), testkit.TooLong, "the waiter subscribes")
		testkit.Pending(t, f)
		foreign.Unlock(name)
		require.Equal(t, "0", s.Do(t, "EXISTS", name))
		start := time.Now()
		p.ReleaseCommands()
		testkit.Within(t, f.Done(), testkit.TooLong, "the waiter is served")
		took := testkit.Ran(start)
		require.Less(t, took, testkit.Soon, "it was the second try, not the poll")
		after := e.Stats()
		require.EqualValues(t, before.WokenBySubscribe+1, after.WokenBySubscribe)
		require.Equal(t, before.WokenByMessage, after.WokenByMessage, "nobody could hear the message")
		testkit.Release(t, testkit.Get(t, f))
	}
}

// Answers and messages travel on different connections: a release may be told before the answer "busy"
// that is older than it.
func TestP5BusyAnswerOlderThanTheMessageIsNotBelieved(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	f := e.Lock("name").AcquireAsync(context.Background())
	testkit.Parked(t, s, "name", 1, 1, e)
	before, tries := e.Stats(), testkit.CallsOf(t, s, "evalsha")
	const late = 400 * time.Millisecond
	p.Delay(0, late)
	s.Do(t, "PUBLISH", testkit.Channel("name"), "0") // its message is late, too
	testkit.Eventually(t, "the waiter has tried again", func() bool { return testkit.CallsOf(t, s, "evalsha") == tries+1 })
	p.Delay(0, 0)
	foreign.Unlock("name") // overtakes the answer
	testkit.Within(t, f.Done(), testkit.TooLong, "the waiter is served")
	require.Equal(t, before.WokenByPoll, e.Stats().WokenByPoll, "by trying again at once, not by the poll")
	testkit.Release(t, testkit.Get(t, f))
}

func TestC111_SubscriberConnectionKilledRightBeforeTheReleaseCostsAtMostThePoll(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	for round := range 3 {
		name := fmt.Sprint("name:", round)
		foreign.Lock(name, time.Minute)
		f := e.Lock(name).AcquireAsync(context.Background())
		testkit.Eventually(t, "the waiter listens", func() bool { return strings.HasSuffix(s.Do(t, "PUBSUB", "NUMSUB", testkit.Channel(name)), "\n1") })
		require.NotEqual(t, "0", foreign.Do("CLIENT", "KILL", "TYPE", "pubsub"))
		foreign.Unlock(name)
		testkit.Within(t, f.Done(), apiPoll+testkit.Soon, "served by the reconnect or by the poll, not by the TTL")
		testkit.Release(t, testkit.Get(t, f))
	}
	require.NotZero(t, e.Stats().Nodes[0].Subscriptions.Reconnects)
	require.NotZero(t, e.Stats().WokenByReconnect+e.Stats().WokenByPoll)
}

func TestC117_WaitersPollWhereSubscribingIsImpossible(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  func(t *testing.T, s *redistest.Server)
		config func(*engine.Config)
	}{
		{name: "BecauseTheConfigSaysSo", config: func(cfg *engine.Config) { cfg.NoSubscribe = true }},
		{name: "BecauseTheACLForbidsTheChannel", setup: func(t *testing.T, s *redistest.Server) {
			require.Equal(t, "OK", s.Do(t, "ACL", "SETUSER", "default", "resetchannels"))
		}},
		{name: "BecauseTheACLForbidsTheCommand", setup: func(t *testing.T, s *redistest.Server) {
			require.Equal(t, "OK", s.Do(t, "ACL", "SETUSER", "default", "-subscribe"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			if c.setup != nil {
				c.setup(t, s)
			}
			var change []func(*engine.Config)
			if c.config != nil {
				change = append(change, c.config)
			}
			holder, waiter := testkit.OpenChecked(t, s.Addr(), change...), testkit.OpenChecked(t, s.Addr(), change...)
			ls := testkit.Acquire(t, holder.Lock("name"))
			f := waiter.Lock("name").AcquireAsync(context.Background())
			testkit.Eventually(t, "the waiter was told busy", func() bool { return waiter.Stats().Waits == 1 })
			testkit.Pending(t, f)
			testkit.Release(t, ls)
			testkit.Within(t, f.Done(), apiPoll+testkit.Soon, "served by the poll")
			require.NotZero(t, waiter.Stats().WokenByPoll)
			require.Zero(t, waiter.Stats().WokenByMessage)
			testkit.Release(t, testkit.Get(t, f))
			require.Equal(t, "", s.Do(t, "PUBSUB", "CHANNELS"))
		})
	}
}

func TestForceReleaseServesTheWaitersHereAndElsewhere(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	here, there := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, here.Lock("name"))
	behind, elsewhere := here.Lock("name").AcquireAsync(context.Background()), there.Lock("name").AcquireAsync(context.Background())
	testkit.Parked(t, s, "name", 1, 1, there)
	was, err := here.Lock("name").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, ls.Lost())
	start := time.Now()
	for range 2 { // one, then the other
		select {
		case <-behind.Done():
			testkit.Release(t, testkit.Get(t, behind))
			behind = &engine.Future[*engine.Lease]{} // one that is never done
		case <-elsewhere.Done():
			testkit.Release(t, testkit.Get(t, elsewhere))
			elsewhere = &engine.Future[*engine.Lease]{}
		case <-time.After(testkit.TooLong):
			require.FailNow(t, "a waiter was not served")
		}
	}
	require.Less(t, testkit.Ran(start), 2*time.Second)
	require.Error(t, ls.Release(testkit.Limited(t)))
}

// Somebody replaces the lock by another kind of object while others wait for it.
func TestWaitersOfANameThatBecomesAnotherKindAreTold(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	var fs []*engine.Future[*engine.Lease]
	for range 10 {
		fs = append(fs, e.Lock("name").AcquireAsync(context.Background()))
	}
	testkit.Parked(t, s, "name", 1, 10, e)
	s.Do(t, "HSET", "name", "mode", "write")
	s.Do(t, "PUBLISH", testkit.Channel("name"), "0")
	for _, f := range fs {
		require.ErrorIs(t, testkit.GetError(t, f), engine.ErrWrongKind)
	}
	testkit.Idle(t, e)
}

// Whatever is published on the channel, it is a hint at most.
func TestForeignMessagesOnTheChannelDoNoHarm(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	f := e.Lock("name").AcquireAsync(context.Background())
	testkit.Parked(t, s, "name", 1, 1, e)
	testkit.ResetCalls(t, s)
	const spam = 200
	for i := range spam {
		s.Do(t, "PUBLISH", testkit.Channel("name"), []string{"", "1", "-1", "junk", strings.Repeat("x", 10_000)}[i%5])
	}
	testkit.Pending(t, f)
	testkit.Eventually(t, "it has looked", func() bool { return e.Stats().WokenByMessage > 0 })
	require.LessOrEqual(t, testkit.Calls(t, s)["evalsha"], int64(spam+5), "one try a message at most")
	foreign.Unlock("name")
	testkit.Release(t, testkit.Get(t, f))
}

// The proxy swallows every message on connections that are in perfect health.
func TestMessagesThatNeverArriveCostAtMostTwoSeconds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	foreign := testkit.NewForeign(t, s)
	for range 3 {
		drop := p.DropMessages(func(string) bool { return true })
		foreign.Lock("name", time.Minute)
		f := e.Lock("name").AcquireAsync(context.Background())
		testkit.Eventually(t, "the waiter listens", func() bool {
			return e.Stats().Waiting == 1 && strings.HasSuffix(s.Do(t, "PUBSUB", "NUMSUB", testkit.Channel("name")), "\n1")
		})
		testkit.Pending(t, f)
		foreign.Unlock("name")
		testkit.Within(t, drop.C(), testkit.TooLong, "the message was dropped")
		testkit.Within(t, f.Done(), 2*time.Second, "served although the message never came")
		testkit.Release(t, testkit.Get(t, f))
		testkit.Within(t, drop.C(), testkit.TooLong, "the message of our own release was dropped, too")
		drop.Remove()
	}
	require.Zero(t, e.Stats().WokenByMessage)
}

func TestC121_WaitersOfADeadHolderAreServedWhenItsLeaseEnds(t *testing.T) {
	const waiters = 50
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", 1500*time.Millisecond)
	start := time.Now()
	testkit.ResetCalls(t, s)
	grants := make(chan time.Duration, waiters)
	for range waiters {
		e.Lock("name").AcquireAsync(context.Background()).OnComplete(func(ls *engine.Lease, err error) {
			grants <- time.Since(start)
			if err == nil {
				ls.ReleaseAsync()
			}
		})
	}
	var first time.Duration
	select {
	case first = <-grants:
	case <-time.After(testkit.TooLong):
		require.FailNow(t, "nobody was served")
	}
	require.GreaterOrEqual(t, first, 1400*time.Millisecond, "not while the holder's lease lasts")
	require.LessOrEqual(t, first, 1500*time.Millisecond*12/10+testkit.Soon, "PTTL and a fifth")
	for range waiters - 1 {
		select {
		case <-grants:
		case <-time.After(testkit.TooLong):
			require.FailNow(t, "not all were served")
		}
	}
	testkit.NoKeys(t, s)
	calls := testkit.Calls(t, s)
	// An acquire and a release a turn; before that a first try, one behind the subscription, two polls.
	require.LessOrEqual(t, calls["evalsha"], 2*calls["hset"]+8, "no thundering loop")
	require.LessOrEqual(t, calls["hset"], int64(waiters))
	require.Equal(t, calls["hset"], calls["hdel"])
}

func TestForeignClientAndEngineTakeTurns(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign, ear := testkit.NewForeign(t, s), testkit.NewForeign(t, s)
	const name = "shared"
	heard := ear.Do("SUBSCRIBE", testkit.Channel(name))
	require.Equal(t, "subscribe\n"+testkit.Channel(name)+"\n1", heard)
	ctx := testkit.Limited(t)
	for range 20 {
		foreign.Lock(name, 30*time.Second)
		_, err := e.Lock(name).TryAcquire(ctx)
		require.ErrorIs(t, err, engine.ErrHeld)
		f := e.Lock(name).AcquireAsync(ctx)
		testkit.Eventually(t, "the engine waits", func() bool { return e.Stats().Waiting == 1 })
		testkit.Pending(t, f)
		foreign.Unlock(name) // our engine hears Redisson's message
		msg, err := ear.Conn.Receive(ctx)
		require.NoError(t, err)
		require.Equal(t, "message\n"+testkit.Channel(name)+"\n0", redistest.Text(msg))
		ls := testkit.Get(t, f)
		require.False(t, foreign.TryLock(name, time.Second), "exclusion holds the other way, too")
		testkit.Release(t, ls)
		msg, err = ear.Conn.Receive(ctx) // Redisson hears our message
		require.NoError(t, err)
		require.Equal(t, "message\n"+testkit.Channel(name)+"\n0", redistest.Text(msg))
	}
}

func TestWaiterOfAKeyWithoutExpiryWaitsWithThePollCap(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.NoSubscribe = true })
	s.Do(t, "HSET", "name", "somebody:1", "1")
	_, err := e.Lock("name").TryAcquire(testkit.Limited(t))
	var held *engine.HeldError
	require.ErrorAs(t, err, &held)
	require.Negative(t, held.Remaining)
	require.ErrorContains(t, err, "no expiry")
	f := e.Lock("name").AcquireAsync(context.Background())
	testkit.Eventually(t, "the waiter was told busy", func() bool { return e.Stats().Waits == 1 })
	s.Do(t, "DEL", "name") // somebody removes it by hand, and tells nobody
	testkit.Within(t, f.Done(), apiPoll+testkit.Soon, "served by the poll")
	testkit.Release(t, testkit.Get(t, f))
}
