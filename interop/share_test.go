package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// TestCountersOfBothSidesAddUp has threads of Java and goroutines, in two engines, read a counter and
// write it one greater: without exclusion some would be lost.
func TestCountersOfBothSidesAddUp(t *testing.T) {
	const threads, turns = 4, 40
	eachKind(t, func(t *testing.T, p play) {
		name, counter := "shared:"+p.name, "counter:"+p.name
		p.do(t, "SET", counter, "0")
		var calls []*call
		for i := range threads {
			th := p.java.thread(t, fmt.Sprintf("%s/%d", t.Name(), i))
			calls = append(calls, th.lock(p.name, name).send("count", "times", strconv.Itoa(turns), "counter", counter))
		}
		var workers sync.WaitGroup
		for _, e := range []*engine.Engine{p.openGo(t), p.openGo(t)} {
			l := p.open(e, name)
			for range threads {
				workers.Go(func() { p.count(t, l, counter, turns) })
			}
		}
		workers.Wait()
		for _, c := range calls {
			require.NoError(t, c.waitFor(t, 4*patience).err)
		}
		require.Equal(t, strconv.Itoa(3*threads*turns), p.do(t, "GET", counter))
		require.Equal(t, "0", p.do(t, "EXISTS", name))
	})
}

// count does what Locks.count does.
func (p play) count(t *testing.T, l *engine.Lock, counter string, turns int) {
	at := p.at(t, counter)
	conn, err := at.Dial(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	for range turns {
		err := l.Do(t.Context(), func(ctx context.Context) error {
			before, err := conn.Do(ctx, "GET", counter)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(before.(string))
			if err != nil {
				return err
			}
			_, err = conn.Do(ctx, "SET", counter, strconv.Itoa(n+1))
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// TestJavaWaiterBesideSixtyFourBusyGoCallersGetsItsTurn: the lock goes from hand to hand inside the
// engine, but only for a turn.
func TestJavaWaiterBesideSixtyFourBusyGoCallersGetsItsTurn(t *testing.T) {
	const callers, turns = 64, 25
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kindOf("lock")}
		e := p.openGo(t)
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		l := e.Lock("busy")
		for range callers {
			busy.Go(func() {
				for ctx.Err() == nil {
					if ls, err := l.Acquire(ctx); err == nil {
						_ = ls.Release(context.Background())
					}
				}
			})
		}
		defer busy.Wait()
		defer cancel()
		testkit.Eventually(t, "the callers are busy", func() bool { return e.Stats().Grants > 10*callers })

		java := p.java.thread(t, t.Name()).lock("lock", "busy")
		r := java.send("cycle", "times", strconv.Itoa(turns), "pauseMs", "20").waitFor(t, 4*patience)
		require.NoError(t, r.err)
		waits := durations(t, r.values.Get("waits"))
		require.Len(t, waits, turns)
		slices.Sort(waits)
		t.Logf("a turn of Java beside %d busy callers: median %v, longest %v; %d grants of Go, %d by hand-off",
			callers, waits[turns/2], waits[turns-1], e.Stats().Grants, e.Stats().GrantsByHandOff)
		require.Less(t, waits[turns/2], 50*time.Millisecond)
	})
}

// durations reads nanoseconds with commas.
func durations(t *testing.T, list string) []time.Duration {
	t.Helper()
	var out []time.Duration
	for _, s := range strings.Split(list, ",") {
		ns, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		out = append(out, time.Duration(ns))
	}
	return out
}

// TestWatchdogsKeepWhatTheyHoldAndNothingElse holds, on each side, one lock that is watched and one with
// a fixed lease, beside a lock of nobody.
func TestWatchdogsKeepWhatTheyHoldAndNothingElse(t *testing.T) {
	const watched, fixed = 3 * time.Second, 4 * time.Second
	eachKind(t, func(t *testing.T, p play) {
		t.Parallel()
		e := p.openGo(t)
		c := p.openJava(t, "watchdogMs", "3000")
		th := c.thread(t, "holds")
		key := func(side, what string) string { return "{dog:" + p.name + "}" + side + ":" + what }

		p.do(t, "HSET", key("nobody", "fixed"), "6e3814a1-e847-452b-a982-45baf93a1df2:57", "1")
		p.do(t, "PEXPIRE", key("nobody", "fixed"), strconv.FormatInt(fixed.Milliseconds(), 10))
		th.lock(p.name, key("java", "watched")).do(t, "lock")
		th.lock(p.name, key("java", "fixed")).do(t, "lock", "leaseMs", strconv.FormatInt(fixed.Milliseconds(), 10))
		mine := testkit.Acquire(t, p.open(e, key("go", "watched"), engine.WatchdogLease(watched)))
		gone := testkit.Acquire(t, p.open(e, key("go", "fixed"), engine.FixedLease(fixed)))

		// Renewals are seen as a time to live that rises. The others' may only fall, and end.
		raised := map[string]int{}
		before := map[string]time.Duration{}
		names := []string{
			key("java", "watched"), key("java", "fixed"), key("go", "watched"), key("go", "fixed"),
			key("nobody", "fixed"),
		}
		testkit.Eventually(t, "both watchdogs renew, the fixed leases end", func() bool {
			over := true
			for _, name := range names {
				left := p.pttl(t, name)
				if last, ok := before[name]; ok && left > last+50*time.Millisecond {
					raised[name]++
				}
				before[name] = left
				over = over && (strings.HasSuffix(name, "fixed") && left == -2*time.Millisecond || raised[name] >= 5)
			}
			return over
		})
		for _, name := range names {
			if strings.HasSuffix(name, "fixed") {
				require.Zero(t, raised[name], "somebody renewed %s", name)
			}
		}
		require.False(t, mine.Lost())
		require.True(t, gone.Lost())
		require.Equal(t, "true", th.lock(p.name, key("java", "watched")).do(t, "isHeldByCurrentThread"))
		th.lock(p.name, key("java", "watched")).do(t, "unlock")
		testkit.Release(t, mine)
	})
}

// TestNamesAndPrefixesMeanTheSame has Java hold a name that Go waits for, and the other way round.
func TestNamesAndPrefixesMeanTheSame(t *testing.T) {
	const prefix = "app:"
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := play{d, kindOf("lock")}
		java := p.openJava(t, "prefix", prefix)
		th := java.thread(t, "names")
		e := p.openGo(t, func(c *engine.Config) { c.Prefix = prefix })
		for _, name := range []string{
			"plain", "a{tag}", "{tag}a", "späße und 锁", `with spaces 'and' "quotes"`, "a=b&c=d%41+e", "x:y{z}:w", "a}b",
		} {
			if d.cluster != nil && slot.Check(prefix+name, slot.KindLock, true) != nil {
				continue // refused by the engine: its channel would be elsewhere
			}
			t.Run(name, func(t *testing.T) {
				key := prefix + name
				jl, gl := th.lock("lock", name), e.Lock(name)
				jl.do(t, "lock")
				require.Equal(t, th.owner+"\n1", p.do(t, "HGETALL", key))
				f := gl.AcquireAsync(testkit.Limited(t))
				p.listening(t, key, "", 1)
				jl.do(t, "unlock")
				ls, err := f.Await(testkit.Limited(t))
				require.NoError(t, err)
				require.Equal(t, ls.OwnerID()+"\n1", p.do(t, "HGETALL", key))
				waiter := jl.start("lock")
				p.waits(t, th, key)
				released := time.Now()
				testkit.Release(t, ls)
				require.Less(t, waiter.ok(t).at.Sub(released), soon)
				jl.do(t, "unlock")
			})
		}
		require.Zero(t, e.Stats().GrantsByPoll)
	})
}

// TestJavaTakesTheMessageOfALockThatIsLeftToOthers publishes what an engine publishes now and then.
func TestJavaTakesTheMessageOfALockThatIsLeftToOthers(t *testing.T) {
	demand(t)
	d := deployments[0].start(t)
	d.java = d.openJava(t)
	for kind, message := range map[string]string{"lock": "00", "write": "01"} {
		p := play{d, kindOf(kind)}
		name := "left:" + kind
		p.do(t, "HSET", name, "mode", "write", p.field("6e3814a1-e847-452b-a982-45baf93a1df2:57"), "1")
		p.do(t, "PEXPIRE", name, "30000")
		th := p.java.thread(t, kind)
		c := th.lock(kind, name).start("lock")
		p.waits(t, th, name)
		p.do(t, "DEL", name)
		released := time.Now()
		p.do(t, "PUBLISH", p.channel(name, th.owner), message)
		require.Less(t, c.ok(t).at.Sub(released), soon)
		th.lock(kind, name).do(t, "unlock")
	}
}
