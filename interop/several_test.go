package interop

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A javaSeveral is several locks that a thread of Java takes together.
type javaSeveral struct {
	th      *javaThread
	form    string        // multi, red
	clients []*javaClient // of each name; of fewer the last has the rest
	names   []string
}

func (s javaSeveral) values() url.Values {
	var clients []string
	for _, c := range s.clients {
		clients = append(clients, c.name)
	}
	return url.Values{"form": {s.form}, "clients": {strings.Join(clients, " ")}, "names": {strings.Join(s.names, " ")}}
}

// start begins an operation; args are leaseMs and waitMs, in pairs.
func (s javaSeveral) start(op string, args ...string) *call {
	v := s.values()
	v.Set("thread", s.th.name)
	v.Set("op", op)
	for i := 0; i < len(args); i += 2 {
		v.Set(args[i], args[i+1])
	}
	return s.th.c.d.send("several", v)
}

func (s javaSeveral) do(t *testing.T, op string, args ...string) string {
	t.Helper()
	return s.start(op, args...).ok(t).value()
}

// A multiPlay is three locks in a deployment, as both sides take them together: Java names them in the reverse of the
// order in which the engine takes them.
type multiPlay struct {
	play
	names []string
	e     *engine.Engine
	multi *engine.MultiLock
	java  javaSeveral
}

// eachMulti runs fn in every deployment. In the cluster the locks are on several masters.
func eachMulti(t *testing.T, fn func(t *testing.T, p multiPlay)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := multiPlay{play: play{d, kindOf("lock")}, names: []string{"a", "b", "c"}, e: d.openGo(t)}
		p.multi = p.e.MultiLock(p.names...)
		p.java = p.javaSeveral(t, d.java, p.names...)
		slices.Reverse(p.java.names)
		fn(t, p)
	})
}

func (p multiPlay) javaSeveral(t *testing.T, c *javaClient, names ...string) javaSeveral {
	t.Helper()
	th := c.thread(t, fmt.Sprintf("%s/%d", t.Name(), clientNumber()))
	return javaSeveral{th: th, form: "multi", clients: []*javaClient{c}, names: slices.Clone(names)}
}

func (p multiPlay) requireNothingLeft(t *testing.T) {
	t.Helper()
	for _, s := range p.servers {
		testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
	}
}

// requireLeft checks which of the locks are held.
func (p multiPlay) requireLeft(t *testing.T, want ...string) {
	t.Helper()
	var keys []string
	for _, s := range p.servers {
		keys = append(keys, s.Keys(t)...)
	}
	require.ElementsMatch(t, want, keys)
}

func TestMultiLockThatGoHasKeepsJavaOut(t *testing.T) {
	eachMulti(t, func(t *testing.T, p multiPlay) {
		ls, err := p.multi.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		for _, view := range ls.Leases() {
			p.requireHeld(t, view.Name(), view.OwnerID(), 1)
		}
		require.Equal(t, "false", p.java.do(t, "tryLock"))
		require.Equal(t, "false", p.java.do(t, "tryLock", "waitMs", "300"))
		for _, name := range p.names {
			require.Equal(t, "false", p.java.th.lock("lock", name).do(t, "tryLock"), name)
			pair := p.javaSeveral(t, p.deployment.java, "free", name)
			require.Equal(t, "false", pair.do(t, "tryLock"), "one of the two is held")
		}
		p.requireLeft(t, p.names...)
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireNothingLeft(t)
	})
}

func TestMultiLockThatJavaHasKeepsGoOut(t *testing.T) {
	eachMulti(t, func(t *testing.T, p multiPlay) {
		p.java.do(t, "lock")
		require.Equal(t, "true", p.java.do(t, "isHeldByCurrentThread"))
		for _, name := range p.names {
			p.requireHeld(t, name, p.java.th.owner, 1)
			_, err := p.e.Lock(name).TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld)
			_, err = p.e.MultiLock(name, "free").TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld)
		}
		_, err := p.multi.TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		_, err = p.multi.With(engine.MaxWait(200 * time.Millisecond)).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		p.requireLeft(t, p.names...)
		p.java.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

func TestJavaWaitsForAMultiLockOfGoAndGetsIt(t *testing.T) {
	eachMulti(t, func(t *testing.T, p multiPlay) {
		ls, err := p.multi.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		c := p.java.start("lock")
		p.waits(t, p.java.th, p.java.names[0])
		require.False(t, c.answered())
		released := time.Now()
		require.NoError(t, ls.Release(testkit.Limited(t)))
		require.Less(t, c.ok(t).at.Sub(released), soon, "its leases would have been over after 30 s")
		for _, name := range p.names {
			p.requireHeld(t, name, p.java.th.owner, 1)
		}
		p.java.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

func TestGoWaitsForAMultiLockOfJavaAndGetsIt(t *testing.T) {
	eachMulti(t, func(t *testing.T, p multiPlay) {
		p.java.do(t, "lock")
		f := p.multi.AcquireAsync(testkit.Limited(t))
		p.listening(t, p.names[0], "", 1)
		testkit.Pending(t, f)
		released := time.Now()
		p.java.do(t, "unlock")
		ls := testkit.Get(t, f)
		require.Less(t, time.Since(released), soon)
		p.requireWokenByMessage(t, p.e)
		require.Equal(t, "false", p.java.do(t, "tryLock"))
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireNothingLeft(t)
	})
}

// TestMultiLocksThatShareOneNameExcludeEachOther: each side has one name of its own beside the one that they share. A
// wait that is given up gives back what it has.
func TestMultiLocksThatShareOneNameExcludeEachOther(t *testing.T) {
	eachMulti(t, func(t *testing.T, p multiPlay) {
		java := p.javaSeveral(t, p.deployment.java, "d", "b")
		golang := p.e.MultiLock("a", "b")
		ls, err := golang.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		c := java.start("tryLock", "waitMs", "500")
		require.Equal(t, "false", c.ok(t).value())
		p.requireLeft(t, "a", "b")
		require.NoError(t, ls.Release(testkit.Limited(t)))
		java.do(t, "lock")
		ctx, cancel := context.WithCancel(testkit.Limited(t))
		f := golang.AcquireAsync(ctx)
		p.listening(t, "b", "", 1)
		p.requireLeft(t, "a", "b", "d")
		cancel()
		require.ErrorIs(t, testkit.GetError(t, f), context.Canceled)
		testkit.Eventually(t, "a is given back", func() bool { return p.do(t, "EXISTS", "a") == "0" })
		java.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

// A severalMix is what callers of both sides do with the same locks, taken together.
type severalMix struct {
	java    javaSeveral
	both    bool // every second thread of Java names the locks in the reverse order
	threads int
	locks   []severalLock // one for each caller of Go
	counted time.Duration
}

// A severalLock is a MultiLock or a RedLock.
type severalLock interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// play has both sides read a counter and write it one greater under the locks, and returns how often each did and what
// it waited at most.
func (m severalMix) play(t *testing.T, at *redistest.Server, counter string) (javaShare, goShare share) {
	t.Helper()
	at.Do(t, "SET", counter, "0")
	v := m.java.values()
	for key, value := range map[string]string{
		"threads": strconv.Itoa(m.threads), "millis": strconv.FormatInt(m.counted.Milliseconds(), 10), "counter": counter,
		"both": strconv.FormatBool(m.both),
	} {
		v.Set(key, value)
	}
	c := m.java.clients[0].d.send("wantSeveral", v)
	until := time.Now().Add(m.counted)
	var mu sync.Mutex
	var callers sync.WaitGroup
	for _, l := range m.locks {
		callers.Go(func() {
			grants, longest := m.caller(t, at, counter, l, until)
			mu.Lock()
			defer mu.Unlock()
			goShare.grants += grants
			goShare.longest = max(goShare.longest, longest)
		})
	}
	callers.Wait()
	r := c.waitFor(t, m.counted+3*patience)
	require.NoError(t, r.err)
	n, err := strconv.Atoi(r.values.Get("grants"))
	require.NoError(t, err)
	javaShare.grants = n
	javaShare.longest = durations(t, r.values.Get("longest"))[0]
	require.Equal(t, strconv.Itoa(javaShare.grants+goShare.grants), at.Do(t, "GET", counter), "turns were lost: two had the locks")
	at.Do(t, "DEL", counter)
	return javaShare, goShare
}

// caller does what Several.run does in a thread.
func (m severalMix) caller(
	t *testing.T, at *redistest.Server, counter string, l severalLock, until time.Time,
) (grants int, longest time.Duration) {
	conn, err := at.Dial(t.Context())
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithDeadline(t.Context(), until)
	defer cancel()
	for ctx.Err() == nil {
		began := time.Now()
		granted := false
		err := l.Do(ctx, func(ctx context.Context) error {
			ctx, granted = context.WithoutCancel(ctx), true
			longest = max(longest, time.Since(began))
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
		switch {
		case !granted && ctx.Err() != nil:
			return grants, max(longest, time.Since(began))
		case err != nil:
			t.Error(err)
			return grants, longest
		}
		grants++
	}
	return grants, longest
}

// TestMultiLocksOfBothSidesAddUp: Java names the locks in the engine's order, in the reverse, or in both. In any but the
// engine's, a thread of Java that has some of them waits for one of a caller that waits for one of its own, until it
// gives them back after 4.5 s and begins anew: then turns are few, as they are of Redisson alone, but there are some.
func TestMultiLocksOfBothSidesAddUp(t *testing.T) {
	type contention struct {
		order            string // two: of every other thread
		threads, callers int
		counted          time.Duration
		least            int // turns of both together
	}
	for dep, all := range [][]contention{
		{{"abc", 4, 8, 5 * time.Second, 40}, {"cba", 4, 8, 30 * time.Second, 2}, {"cba abc", 4, 8, 15 * time.Second, 1}},
		{{"abc", 4, 8, 5 * time.Second, 40}, {"cba", 1, 1, 15 * time.Second, 1}},
	} {
		t.Run(deployments[dep].name, func(t *testing.T) {
			demand(t)
			d := deployments[dep].start(t)
			p := multiPlay{play: play{d, kindOf("lock")}, names: []string{"a", "b", "c"}}
			p.deployment.java = d.openJava(t, "connections", "64")
			engines := []*engine.Engine{d.openGo(t), d.openGo(t)}
			for _, tc := range all {
				t.Run(fmt.Sprintf("java=%s/threads=%d/callers=%d", tc.order, tc.threads, tc.callers), func(t *testing.T) {
					java := p.javaSeveral(t, p.deployment.java, strings.Split(tc.order[:3], "")...)
					m := severalMix{java: java, both: len(tc.order) > 3, threads: tc.threads, counted: tc.counted}
					for i := range tc.callers {
						names := slices.Clone(p.names)
						if i%4 >= 2 { // the engine sorts them
							slices.Reverse(names)
						}
						m.locks = append(m.locks, engines[i%2].MultiLock(names...))
					}
					javaShare, goShare := m.play(t, d.at(t, "turns"), "turns")
					t.Logf("Java: %d turns, longest wait %v", javaShare.grants, javaShare.longest)
					t.Logf("Go:   %d turns, longest wait %v", goShare.grants, goShare.longest)
					if tc.order == "abc" {
						require.Greater(t, javaShare.grants, 20)
						require.Greater(t, goShare.grants, 20)
						require.Less(t, max(javaShare.longest, goShare.longest), soon)
					}
					require.GreaterOrEqual(t, javaShare.grants+goShare.grants, tc.least)
					p.requireNothingLeft(t)
				})
			}
		})
	}
}
