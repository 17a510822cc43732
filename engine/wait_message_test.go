package engine_test

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
)

// pollCap of the product is 1 s, spread by a fifth.
const apiPoll = 1200 * time.Millisecond

func TestWaiterIsServedByTheMessageOfARelease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	holder, waiter := apiOpen(t, s.Addr()), apiOpen(t, s.Addr())
	ls := apiAcquire(t, holder.Lock("name"))
	f := waiter.Lock("name").AcquireAsync(context.Background())
	apiParked(t, s, "name", 1, 1, waiter)
	apiRelease(t, ls)
	apiWithin(t, f.Done(), apiSoon, "the message wakes the waiter")
	got := apiGet(t, f)
	require.NotZero(t, waiter.Stats().WokenByMessage)
	require.NotEqual(t, ls.OwnerID(), got.OwnerID())
	require.Equal(t, got.OwnerID()+"\n1", s.Do(t, "HGETALL", "name"))
	require.EqualValues(t, 1, holder.Stats().Heard)
	apiRelease(t, got)
	require.Zero(t, waiter.Stats().Waiting)
}

// Between the try that found the lock held and the confirmation of SUBSCRIBE nobody hears anything:
// what is released then is found by trying again once the subscription stands.
func TestC110ReleaseBetweenFailedTryAndSubscribeIsNotMissed(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := apiOpen(t, p.Addr())
	foreign := apiNewForeign(t, s)
	for round := range 5 { // each with a name of its own: a lingering subscription would hide the gap
		name := fmt.Sprint("name:", round)
		foreign.lock(name, time.Minute)
		hold := p.Hold(faultproxy.Argument("SUBSCRIBE", apiChannel(name)), 1)
		before := e.Stats()
		f := e.Lock(name).AcquireAsync(context.Background())
		apiWithin(t, hold.C(), apiLong, "the waiter subscribes")
		apiPending(t, f)
		foreign.unlock(name)
		require.Equal(t, "0", s.Do(t, "EXISTS", name))
		start := time.Now()
		p.ReleaseCommands()
		apiWithin(t, f.Done(), apiLong, "the waiter is served")
		took := time.Since(start)
		require.Less(t, took, apiSoon, "it was the second try, not the poll")
		after := e.Stats()
		require.EqualValues(t, before.WokenBySubscribe+1, after.WokenBySubscribe)
		require.Equal(t, before.WokenByMessage, after.WokenByMessage, "nobody could hear the message")
		apiRelease(t, apiGet(t, f))
	}
}

// Answers and messages travel on different connections: a release may be told before the answer "busy"
// that is older than it.
func TestP5BusyAnswerOlderThanTheMessageIsNotBelieved(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := apiOpen(t, p.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("name", time.Minute)
	f := e.Lock("name").AcquireAsync(context.Background())
	apiParked(t, s, "name", 1, 1, e)
	before, tries := e.Stats(), calls(t, s, "evalsha")
	const late = 400 * time.Millisecond
	p.Delay(0, late)
	s.Do(t, "PUBLISH", apiChannel("name"), "0") // its message is late, too
	eventually(t, "the waiter has tried again", func() bool { return calls(t, s, "evalsha") == tries+1 })
	p.Delay(0, 0)
	foreign.unlock("name") // overtakes the answer
	apiWithin(t, f.Done(), apiLong, "the waiter is served")
	require.Equal(t, before.WokenByPoll, e.Stats().WokenByPoll, "by trying again at once, not by the poll")
	apiRelease(t, apiGet(t, f))
}

func TestC111SubscriberConnectionKilledRightBeforeTheReleaseCostsAtMostThePoll(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	for round := range 3 {
		name := fmt.Sprint("name:", round)
		foreign.lock(name, time.Minute)
		f := e.Lock(name).AcquireAsync(context.Background())
		apiUntil(t, "the waiter listens", func() bool { return strings.HasSuffix(s.Do(t, "PUBSUB", "NUMSUB", apiChannel(name)), "\n1") })
		require.NotEqual(t, "0", foreign.do("CLIENT", "KILL", "TYPE", "pubsub"))
		foreign.unlock(name)
		apiWithin(t, f.Done(), apiPoll+apiSoon, "served by the reconnect or by the poll, not by the TTL")
		apiRelease(t, apiGet(t, f))
	}
	require.NotZero(t, e.Stats().Nodes[0].Subscriptions.Reconnects)
	require.NotZero(t, e.Stats().WokenByReconnect+e.Stats().WokenByPoll)
}

func TestC117WaitersPollWhereSubscribingIsImpossible(t *testing.T) {
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
			holder, waiter := apiOpen(t, s.Addr(), change...), apiOpen(t, s.Addr(), change...)
			ls := apiAcquire(t, holder.Lock("name"))
			f := waiter.Lock("name").AcquireAsync(context.Background())
			apiUntil(t, "the waiter was told busy", func() bool { return waiter.Stats().Waits == 1 })
			apiPending(t, f)
			apiRelease(t, ls)
			apiWithin(t, f.Done(), apiPoll+apiSoon, "served by the poll")
			require.NotZero(t, waiter.Stats().WokenByPoll)
			require.Zero(t, waiter.Stats().WokenByMessage)
			apiRelease(t, apiGet(t, f))
			require.Equal(t, "", s.Do(t, "PUBSUB", "CHANNELS"))
		})
	}
}

func TestForceReleaseServesTheWaitersHereAndElsewhere(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	here, there := apiOpen(t, s.Addr()), apiOpen(t, s.Addr())
	ls := apiAcquire(t, here.Lock("name"))
	behind, elsewhere := here.Lock("name").AcquireAsync(context.Background()), there.Lock("name").AcquireAsync(context.Background())
	apiParked(t, s, "name", 1, 1, there)
	was, err := here.Lock("name").ForceRelease(apiCtx(t))
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, ls.Lost())
	start := time.Now()
	for range 2 { // one, then the other
		select {
		case <-behind.Done():
			apiRelease(t, apiGet(t, behind))
			behind = &engine.Future[*engine.Lease]{} // one that is never done
		case <-elsewhere.Done():
			apiRelease(t, apiGet(t, elsewhere))
			elsewhere = &engine.Future[*engine.Lease]{}
		case <-time.After(apiLong):
			require.FailNow(t, "a waiter was not served")
		}
	}
	require.Less(t, time.Since(start), 2*time.Second)
	require.Error(t, ls.Release(apiCtx(t)))
}

// Somebody replaces the lock by another kind of object while others wait for it.
func TestWaitersOfANameThatBecomesAnotherKindAreTold(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("name", time.Minute)
	var fs []*engine.Future[*engine.Lease]
	for range 10 {
		fs = append(fs, e.Lock("name").AcquireAsync(context.Background()))
	}
	apiParked(t, s, "name", 1, 10, e)
	s.Do(t, "HSET", "name", "mode", "write")
	s.Do(t, "PUBLISH", apiChannel("name"), "0")
	for _, f := range fs {
		require.ErrorIs(t, apiErr(t, f), engine.ErrWrongKind)
	}
	apiIdle(t, e)
}

// Whatever is published on the channel, it is a hint at most.
func TestForeignMessagesOnTheChannelDoNoHarm(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("name", time.Minute)
	f := e.Lock("name").AcquireAsync(context.Background())
	apiParked(t, s, "name", 1, 1, e)
	apiReset(t, s)
	const spam = 200
	for i := range spam {
		s.Do(t, "PUBLISH", apiChannel("name"), []string{"", "1", "-1", "junk", strings.Repeat("x", 10_000)}[i%5])
	}
	apiPending(t, f)
	apiUntil(t, "it has looked", func() bool { return e.Stats().WokenByMessage > 0 })
	require.LessOrEqual(t, apiCalls(t, s)["evalsha"], int64(spam+5), "one try a message at most")
	foreign.unlock("name")
	apiRelease(t, apiGet(t, f))
}

// The proxy swallows every message on connections that are in perfect health.
func TestMessagesThatNeverArriveCostAtMostTwoSeconds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := apiOpen(t, p.Addr())
	foreign := apiNewForeign(t, s)
	for range 3 {
		drop := p.DropMessages(func(string) bool { return true })
		foreign.lock("name", time.Minute)
		f := e.Lock("name").AcquireAsync(context.Background())
		apiUntil(t, "the waiter listens", func() bool {
			return e.Stats().Waiting == 1 && strings.HasSuffix(s.Do(t, "PUBSUB", "NUMSUB", apiChannel("name")), "\n1")
		})
		apiPending(t, f)
		foreign.unlock("name")
		apiWithin(t, drop.C(), apiLong, "the message was dropped")
		apiWithin(t, f.Done(), 2*time.Second, "served although the message never came")
		apiRelease(t, apiGet(t, f))
		apiWithin(t, drop.C(), apiLong, "the message of our own release was dropped, too")
		drop.Remove()
	}
	require.Zero(t, e.Stats().WokenByMessage)
}

func TestC121WaitersOfADeadHolderAreServedWhenItsLeaseEnds(t *testing.T) {
	const waiters = 50
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("name", 1500*time.Millisecond)
	start := time.Now()
	apiReset(t, s)
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
	case <-time.After(apiLong):
		require.FailNow(t, "nobody was served")
	}
	require.GreaterOrEqual(t, first, 1400*time.Millisecond, "not while the holder's lease lasts")
	require.LessOrEqual(t, first, 1500*time.Millisecond*12/10+apiSoon, "PTTL and a fifth")
	for range waiters - 1 {
		select {
		case <-grants:
		case <-time.After(apiLong):
			require.FailNow(t, "not all were served")
		}
	}
	apiGone(t, s)
	calls := apiCalls(t, s)
	// An acquire and a release a turn; before that a first try, one behind the subscription, two polls.
	require.LessOrEqual(t, calls["evalsha"], 2*calls["hset"]+8, "no thundering loop")
	require.LessOrEqual(t, calls["hset"], int64(waiters))
	require.Equal(t, calls["hset"], calls["hdel"])
}

func TestForeignClientAndEngineTakeTurns(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign, ear := apiNewForeign(t, s), apiNewForeign(t, s)
	const name = "shared"
	heard := ear.do("SUBSCRIBE", apiChannel(name))
	require.Equal(t, "subscribe\n"+apiChannel(name)+"\n1", heard)
	ctx := apiCtx(t)
	for range 20 {
		foreign.lock(name, 30*time.Second)
		_, err := e.Lock(name).TryAcquire(ctx)
		require.ErrorIs(t, err, engine.ErrHeld)
		f := e.Lock(name).AcquireAsync(ctx)
		apiUntil(t, "the engine waits", func() bool { return e.Stats().Waiting == 1 })
		apiPending(t, f)
		foreign.unlock(name) // our engine hears Redisson's message
		msg, err := ear.conn.Receive(ctx)
		require.NoError(t, err)
		require.Equal(t, "message\n"+apiChannel(name)+"\n0", redistest.Text(msg))
		ls := apiGet(t, f)
		require.False(t, foreign.tryLock(name, time.Second), "exclusion holds the other way, too")
		apiRelease(t, ls)
		msg, err = ear.conn.Receive(ctx) // Redisson hears our message
		require.NoError(t, err)
		require.Equal(t, "message\n"+apiChannel(name)+"\n0", redistest.Text(msg))
	}
}

func TestWaiterOfAKeyWithoutExpiryWaitsWithThePollCap(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr(), func(cfg *engine.Config) { cfg.NoSubscribe = true })
	s.Do(t, "HSET", "name", "somebody:1", "1")
	_, err := e.Lock("name").TryAcquire(apiCtx(t))
	var held *engine.HeldError
	require.ErrorAs(t, err, &held)
	require.Negative(t, held.Remaining)
	require.ErrorContains(t, err, "no expiry")
	f := e.Lock("name").AcquireAsync(context.Background())
	apiUntil(t, "the waiter was told busy", func() bool { return e.Stats().Waits == 1 })
	s.Do(t, "DEL", "name") // somebody removes it by hand, and tells nobody
	apiWithin(t, f.Done(), apiPoll+apiSoon, "served by the poll")
	apiRelease(t, apiGet(t, f))
}
