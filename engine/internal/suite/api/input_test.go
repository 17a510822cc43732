package api_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// apiRefused runs every operation of a lock and wants each refused with the error before anything is
// sent.
func apiRefused(t *testing.T, s *redistest.Server, l *engine.Lock, want error, onlyAcquires bool) {
	t.Helper()
	ctx := testkit.Limited(t)
	testkit.ResetCalls(t, s)
	require.ErrorIs(t, l.Err(), want)
	_, err := l.Acquire(ctx)
	require.ErrorIs(t, err, want)
	_, err = l.TryAcquire(ctx)
	require.ErrorIs(t, err, want)
	for _, f := range []*engine.Future[*engine.Lease]{l.AcquireAsync(ctx), l.TryAcquireAsync(ctx)} {
		_, err, done := f.Result()
		require.True(t, done, "at once")
		require.ErrorIs(t, err, want)
	}
	require.ErrorIs(t, l.Do(ctx, func(context.Context) error { panic("must not run") }), want)
	require.False(t, engine.SafeToRetry(err), "the trouble is in the request")
	require.Regexp(t, `^holdfast: `, err.Error())
	require.Less(t, len(err.Error()), 500)
	if !onlyAcquires {
		_, err = l.Inspect(ctx)
		require.ErrorIs(t, err, want)
		_, err = l.ForceRelease(ctx)
		require.ErrorIs(t, err, want)
	}
	require.ErrorIs(t, l.With(engine.MaxWait(time.Second)).Err(), want, "a further option mends nothing")
	require.Empty(t, testkit.Calls(t, s))
}

func TestC151C152_NamesThatCannotNameALockAreRefusedBeforeAnythingIsSent(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for what, name := range map[string]string{
		"empty":             "",
		"too long":          strings.Repeat("x", 1025),
		"a megabyte":        strings.Repeat("x", 1<<20),
		"invalid UTF-8":     "a\xffb",
		"cut UTF-8":         "ä"[:1],
		"NUL":               "a\x00b",
		"line feed":         "a\nb",
		"carriage return":   "a\rb",
		"tab":               "a\tb",
		"delete":            "a\x7fb",
		"C1 control":        "a\u0085b",
		"Redisson's prefix": "redisson_lock__channel:{x}",
		"the bare prefix":   "redisson_",
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			apiRefused(t, s, e.Lock(name), engine.ErrName, false)
			apiRefused(t, s, e.Lock(name, engine.FixedLease(0)), engine.ErrName, false)
		})
	}
	testkit.Idle(t, e)
	require.Empty(t, s.Keys(t))
}

// Names a cluster could not hold: a single server can, and Java peers have them.
func TestC151_NamesThatOnlyASingleServerCanHoldWorkThere(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	holder, waiter := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	for _, name := range []string{
		"a{b", "a}b", "x{}y", "}{", "{}", "{", "}", "a{b}c{d}", "{a}", "x",
		strings.Repeat("x", 1024), "ünïcödé 锁 🔒", "with space", "quote\"'`", "%s %d", "redis", "Redisson_x", `back\slash`, "*", "a:b:c",
	} {
		t.Run(fmt.Sprintf("%.20s", name), func(t *testing.T) {
			ls := testkit.Acquire(t, holder.Lock(name))
			require.Equal(t, name, ls.Name())
			require.Equal(t, "1", s.Do(t, "HGET", name, ls.OwnerID()))
			f := waiter.Lock(name).AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "the waiter listens", func() bool {
				return strings.HasSuffix(s.Do(t, "PUBSUB", "NUMSUB", testkit.Channel(name)), "\n1") && waiter.Stats().Waiting == 1
			})
			polls := waiter.Stats().WokenByPoll
			start := time.Now()
			testkit.Release(t, ls)
			got := testkit.Get(t, f)
			if time.Since(start) < 500*time.Millisecond { // or a busy machine let the poll come first
				require.Equal(t, polls, waiter.Stats().WokenByPoll, "the message came on the right channel")
			}
			info, err := holder.Lock(name).Inspect(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, info.Locked)
			require.False(t, info.Mine)
			require.Equal(t, got.OwnerID(), info.OwnerID)
			was, err := holder.Lock(name).ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, was)
			require.Empty(t, s.Keys(t))
			require.Error(t, got.Release(testkit.Limited(t)))
		})
	}
}

func TestC016C017_DurationsThatCannotBeAreRefusedBeforeAnythingIsSent(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	options := map[string]struct {
		option func(time.Duration) engine.Option
		least  time.Duration
	}{
		"WatchdogLease": {engine.WatchdogLease, time.Second},
		"FixedLease":    {engine.FixedLease, 100 * time.Millisecond},
		"MaxWait":       {engine.MaxWait, time.Millisecond},
		"MaxHold":       {engine.MaxHold, time.Second},
	}
	for name, o := range options {
		for _, d := range []time.Duration{
			0, -1, -time.Second, math.MinInt64, o.least - time.Millisecond,
			engine.MaxLease + 1, engine.MaxLease + time.Millisecond, math.MaxInt64, 1 << 62,
		} {
			t.Run(fmt.Sprint(name, d), func(t *testing.T) {
				apiRefused(t, s, e.Lock("name", o.option(d)), engine.ErrLease, true)
				apiRefused(t, s, e.Lock("name").With(o.option(d)), engine.ErrLease, true)
				apiRefused(t, s, e.Lock("name", o.option(d), engine.WatchdogLease(time.Minute)), engine.ErrLease, true)
			})
		}
		for _, d := range []time.Duration{
			o.least - 1, o.least - time.Millisecond + 1, o.least, o.least + 1, o.least + time.Millisecond,
			10 * o.least / 3, time.Hour, engine.MaxLease - 1, engine.MaxLease,
		} {
			require.NoError(t, e.Lock("name", o.option(d)).Err(), "%s(%v)", name, d)
		}
	}
	require.Empty(t, s.Keys(t))

	// A bad lease is no reason not to look at the lock, or not to free it.
	bad := e.Lock("name", engine.FixedLease(0))
	testkit.NewForeign(t, s).Lock("name", time.Minute)
	info, err := bad.Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, info.Locked)
	was, err := bad.ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
}

// A part of a millisecond is no reason to refuse a duration: what the server has lasts as long at least as was asked for.
func TestDurationsAreRoundedUpToWholeMilliseconds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	before := time.Now()
	ls := testkit.Acquire(t, e.Lock("third", engine.FixedLease(100*time.Second/3), engine.MaxWait(time.Until(time.Now().Add(time.Minute)))))
	least := testkit.Expiry(t, s, "third")
	require.GreaterOrEqual(t, least.Sub(before)+2*time.Millisecond, 33334*time.Millisecond) // the two clocks' own milliseconds
	require.LessOrEqual(t, least.Sub(before), 33334*time.Millisecond+testkit.TooLong)
	require.NoError(t, ls.Extend(testkit.Limited(t), 200*time.Second/3))
	require.Greater(t, testkit.Int(t, s, "PTTL", "third"), int64(40_000))
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// A deadline that has passed is what a caller meets under load: it is told like any other end of its time.
func TestAMaxWaitThatIsOverIsToldAsTheEndOfTime(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	deadline := time.Now()
	for _, d := range []time.Duration{time.Until(deadline), 0, -time.Hour} {
		l := e.Lock("name", engine.MaxWait(d))
		apiRefused(t, s, l, engine.ErrLease, true)
		require.ErrorIs(t, l.Err(), context.DeadlineExceeded)
		require.ErrorContains(t, l.Err(), "no time is left to wait")
	}
	require.NotErrorIs(t, e.Lock("name", engine.FixedLease(-1)).Err(), context.DeadlineExceeded)
}

func TestLongestAndShortestLeasesWorkOnTheServer(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	longest := testkit.Acquire(t, e.Lock("long", engine.FixedLease(engine.MaxLease)))
	require.InDelta(t, engine.MaxLease.Seconds(), float64(testkit.Int(t, s, "PTTL", "long"))/1000, 60)
	require.False(t, longest.Lost())
	require.NoError(t, longest.Context().Err())
	watched := testkit.Acquire(t, e.Lock("watched", engine.WatchdogLease(engine.MaxLease), engine.MaxWait(engine.MaxLease), engine.MaxHold(engine.MaxLease)))
	require.False(t, watched.Lost())
	shortest := testkit.Acquire(t, e.Lock("short", engine.FixedLease(engine.MinFixedLease)))
	require.LessOrEqual(t, testkit.Int(t, s, "PTTL", "short"), int64(100))
	testkit.Within(t, shortest.Context().Done(), testkit.TooLong, "it ends")
	require.ErrorIs(t, context.Cause(shortest.Context()), engine.ErrLost)
	testkit.Release(t, longest)
	testkit.Release(t, watched)
}

func TestNilOptionIsRefused(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	var none engine.Option
	apiRefused(t, s, e.Lock("name", none), engine.ErrLease, true)
	apiRefused(t, s, e.Lock("name").With(engine.FixedLease(time.Second), none), engine.ErrLease, true)
}

func TestWithLeavesTheHandleItWasMadeFromAlone(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	base := e.Lock("name", engine.FixedLease(10*time.Second))
	changed := base.With(engine.FixedLease(20 * time.Second))
	bad := base.With(engine.FixedLease(0))
	require.NoError(t, base.Err())
	require.Error(t, bad.Err())
	require.Equal(t, "name", changed.Name())
	ls := testkit.Acquire(t, changed)
	require.InDelta(t, 20_000, testkit.Int(t, s, "PTTL", "name"), 5000)
	testkit.Release(t, ls)
	ls = testkit.Acquire(t, base)
	require.InDelta(t, 10_000, testkit.Int(t, s, "PTTL", "name"), 5000)
	testkit.Release(t, ls)
}

// C-156: whatever stands in a name is an argument, never a command or a script.
func TestC156_NamesAreInert(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	s.Do(t, "SET", "witness", "1")
	for _, name := range []string{
		`x') redis.call('FLUSHALL') --`, `"] = 1; redis.call("FLUSHALL") --`, "*3 $3 DEL", "]] redis.call('FLUSHALL') [[", "witness' 'x",
	} {
		ls := testkit.Acquire(t, e.Lock(name))
		require.Equal(t, "1", s.Do(t, "HGET", name, ls.OwnerID()))
		testkit.Release(t, ls)
	}
	require.Equal(t, []string{"witness"}, s.Keys(t))
}

func TestC067_ValueOfAnotherKindIsErrWrongKindAndStays(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	s.Do(t, "SET", "string", "v")
	s.Do(t, "RPUSH", "list", "v")
	s.Do(t, "SADD", "set", "v")
	s.Do(t, "ZADD", "zset", "1", "v")
	s.Do(t, "XADD", "stream", "*", "f", "v")
	s.Do(t, "HSET", "readwrite", "mode", "read", "somebody:1", "1") // C-068
	before := s.Keys(t)
	for _, name := range before {
		start := time.Now()
		_, err := e.Lock(name).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind, name)
		require.False(t, engine.SafeToRetry(err))
		require.ErrorContains(t, err, fmt.Sprintf("%q", name))
		require.NotRegexp(t, "^.+holdfast: |server: ", err.Error(), "one prefix")
		_, err = e.Lock(name).TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind, name)
		_, err = e.Lock(name).Inspect(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind, name)
		require.Less(t, testkit.Ran(start), testkit.Soon, "not retried")
	}
	require.Equal(t, before, s.Keys(t))
	testkit.Release(t, testkit.Acquire(t, e.Lock("fine")))
	testkit.Idle(t, e)
}
