package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// permitsMost is how long anybody may wait for a permit of a semaphore that is given back all the time.
const permitsMost = 2 * time.Second

// A permitsMix is what callers of both sides do with one semaphore.
type permitsMix struct {
	permits int
	most    int // that one turn takes
	java    []*javaClient
	threads int // of Java, dealt out among its clients
	engines []*engine.Engine
	callers int // of Go, dealt out among the engines
	warmup  time.Duration
	counted time.Duration
	hold    time.Duration
	seed    uint64
	leased  bool // permits are leased
	abandon int  // percent of the turns that take a lease of a second and let it end
	count   bool // count in the server who is inside, for both sides together; else each side counts for itself
}

// A permitsShare is what one side got, and how often it saw more permits held than there are.
type permitsShare struct {
	share
	broken int
}

// play lets both sides want the permits at the same time, and checks that all of them are free at the end.
func (m permitsMix) play(t testing.TB, d *deployment) (javaShare, goShare permitsShare) {
	t.Helper()
	name := fmt.Sprintf("permits:%d", clientNumber())
	counter := "inside:" + name
	d.at(t, name).Do(t, "SET", name, strconv.Itoa(m.permits))
	d.at(t, counter).Do(t, "SET", counter, "0")
	var c *call
	if m.threads > 0 {
		c = m.startJava(name, counter)
	}
	if m.callers > 0 {
		goShare = m.goSide(func(err error) { t.Error(err) }, name, m.insideOf(t, d, counter))
	}
	if c != nil {
		r := c.waitFor(t, m.warmup+m.counted+3*patience)
		require.NoError(t, r.err)
		javaShare = m.shareOf(t, r.values)
	}
	if m.leased {
		m.requireAllFree(t, m.engines[0].PermitSemaphore(name))
	} else {
		require.Equal(t, strconv.Itoa(m.permits), d.at(t, name).Do(t, "GET", name), "permits are missing, or too many")
	}
	require.Equal(t, "0", d.at(t, counter).Do(t, "GET", counter))
	require.Zero(t, javaShare.broken, "Java saw more permits held than there are")
	require.Zero(t, goShare.broken, "Go saw more permits held than there are")
	return javaShare, goShare
}

// shareOf reads what a process answers.
func (m permitsMix) shareOf(t testing.TB, v url.Values) permitsShare {
	t.Helper()
	broken, err := strconv.Atoi(v.Get("broken"))
	require.NoError(t, err)
	return permitsShare{share: mix{counted: m.counted}.javaSide(t, v), broken: broken}
}

// requireAllFree waits until the leases that were abandoned are over.
func (m permitsMix) requireAllFree(t testing.TB, sem *engine.PermitSemaphore) {
	t.Helper()
	testkit.Eventually(t, "no lease is left", func() bool {
		n, err := sem.AcquiredPermits(testkit.Limited(t))
		require.NoError(t, err)
		return n == 0
	})
	n, err := sem.AvailablePermits(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, m.permits, n, "permits are missing, or too many")
}

func (m permitsMix) startJava(name, counter string) *call {
	var clients []string
	for _, c := range m.java {
		clients = append(clients, c.name)
	}
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	v := url.Values{
		"clients": {strings.Join(clients, " ")}, "name": {name}, "permits": {strconv.Itoa(m.permits)},
		"most": {strconv.Itoa(m.most)}, "threads": {strconv.Itoa(m.threads)}, "millis": {ms(m.counted)},
		"warmupMs": {ms(m.warmup)}, "holdUs": {ms(m.hold * 1000)}, "seed": {strconv.FormatUint(m.seed%1e9, 10)},
	}
	if m.count {
		v.Set("counter", counter)
	}
	if m.leased {
		v.Set("leaseMs", ms(mixPermitLease))
		v.Set("abandonPercent", strconv.Itoa(m.abandon))
	}
	return m.java[0].d.send("wantPermits", v)
}

// insideOf returns what a caller counts with who is inside: in the server, over a connection of its own, or here.
func (m permitsMix) insideOf(t testing.TB, d *deployment, counter string) func() (count insideCount, end func(), err error) {
	if !m.count {
		return countedHere()
	}
	return func() (insideCount, func(), error) {
		conn, err := d.at(t, counter).Dial(context.Background())
		if err != nil {
			return nil, nil, err
		}
		return func(n int) (int64, error) {
			v, err := conn.Do(context.Background(), "INCRBY", counter, strconv.Itoa(n))
			held, _ := v.(int64)
			return held, err
		}, func() { _ = conn.Close() }, nil
	}
}

// An insideCount adds n to the permits that are held, and returns how many are.
type insideCount func(n int) (held int64, err error)

func countedHere() func() (insideCount, func(), error) {
	var here atomic.Int64
	return func() (insideCount, func(), error) {
		return func(n int) (int64, error) { return here.Add(int64(n)), nil }, func() {}, nil
	}
}

// goSide does what Semaphores.run does.
func (m permitsMix) goSide(
	fail func(error), name string, insideOf func() (insideCount, func(), error),
) (s permitsShare) {
	from := time.Now().Add(m.warmup)
	until := from.Add(m.counted)
	waits := make([][]time.Duration, m.callers)
	longest := make([]time.Duration, m.callers) // who is served after the end may have waited all the time
	var broken atomic.Int64
	var callers sync.WaitGroup
	for i := range m.callers {
		take := m.taker(m.engines[i%len(m.engines)], name)
		rng := rand.New(rand.NewPCG(m.seed, uint64(i)))
		callers.Go(func() {
			inside, end, err := insideOf()
			if err != nil {
				fail(err)
				return
			}
			defer end()
			for began := time.Now(); began.Before(until); began = time.Now() {
				n, abandon := 1+rng.IntN(m.most), rng.IntN(100) < m.abandon
				at, most, err := m.turn(take, n, abandon, inside)
				if err != nil {
					fail(err)
					return
				}
				if most > int64(m.permits) {
					broken.Add(1)
				}
				if at.After(from) {
					longest[i] = max(longest[i], at.Sub(began))
				}
				if at.After(from) && at.Before(until) {
					waits[i] = append(waits[i], at.Sub(began))
				}
			}
		})
	}
	callers.Wait()
	s.broken = int(broken.Load())
	all := slices.Concat(waits...)
	slices.Sort(all)
	if s.grants = len(all); s.grants > 0 {
		s.p50, s.p99 = all[len(all)/2], all[len(all)*99/100]
	}
	s.longest = slices.Max(longest)
	s.rate = float64(s.grants) / m.counted.Seconds()
	return s
}

// mixPermitLease is how long a permit is leased: longer than any turn.
const mixPermitLease = time.Minute

// A takePermits takes n permits and returns what gives them back.
type takePermits func(ctx context.Context, n int, abandon bool) (give func(context.Context) error, err error)

// taker is what one caller uses. Every second one of leased permits has the watchdog renew them.
func (m permitsMix) taker(e *engine.Engine, name string) takePermits {
	if !m.leased {
		sem := e.Semaphore(name)
		return func(ctx context.Context, n int, _ bool) (func(context.Context) error, error) {
			return func(ctx context.Context) error { return sem.Release(ctx, n) }, sem.Acquire(ctx, n)
		}
	}
	sem := e.PermitSemaphore(name, engine.FixedLease(mixPermitLease))
	short := sem.With(engine.FixedLease(time.Second))
	if clientNumber()%2 == 0 {
		sem = sem.With(engine.WatchdogLease(mixPermitLease))
	}
	return func(ctx context.Context, n int, abandon bool) (func(context.Context) error, error) {
		of := sem
		if abandon {
			of = short
		}
		permit, err := of.Acquire(ctx, n)
		return permit.Release, err
	}
}

// turn takes n permits once, and says when it had them and how many were held then. What it abandons is not counted.
func (m permitsMix) turn(
	take takePermits, n int, abandon bool, inside insideCount,
) (at time.Time, held int64, err error) {
	ctx := context.Background()
	give, err := take(ctx, n, abandon)
	at = time.Now()
	if err != nil || abandon {
		return at, 0, err
	}
	if held, err = inside(n); err != nil {
		return at, held, err
	}
	if m.hold > 0 {
		time.Sleep(m.hold)
	}
	if _, err := inside(-n); err != nil {
		return at, held, err
	}
	return at, held, give(ctx)
}

// TestNobodyIsKeptFromPermitsByTheOtherSide: permits go from hand to hand inside the engine, but only for a tenure;
// and Redisson's threads ask whenever one is free.
func TestNobodyIsKeptFromPermitsByTheOtherSide(t *testing.T) {
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			java := []*javaClient{d.openJava(t, "connections", "64")}
			engines := []*engine.Engine{d.openGo(t), d.openGo(t), d.openGo(t), d.openGo(t)}
			for _, tc := range []struct{ permits, threads, callers, engines int }{
				{8, 8, 64, 1}, {8, 8, 64, 4}, {1, 8, 64, 1}, {1, 2, 64, 4}, {8, 64, 8, 1}, {1, 64, 8, 4}, {8, 64, 64, 4},
			} {
				t.Run(fmt.Sprintf("permits=%d/java=%d/go=%d/engines=%d", tc.permits, tc.threads, tc.callers, tc.engines), func(t *testing.T) {
					m := permitsMix{
						permits: tc.permits, most: 1, java: java, threads: tc.threads, engines: engines[:tc.engines], callers: tc.callers,
						warmup: 300 * time.Millisecond, counted: 2500 * time.Millisecond,
					}
					javaShare, goShare := m.play(t, d)
					t.Logf("Java %v", javaShare)
					t.Logf("Go   %v", goShare)
					assertAtLeast(t, javaShare.rate, 10, "Java's grants/s")
					assertAtLeast(t, goShare.rate, 10, "Go's grants/s")
					if goShare.longest > permitsMost {
						t.Errorf("Go's longest wait is %v", goShare.longest)
					}
					// Many threads of Redisson are served in no order: how long one of them waits is luck.
					if tc.threads <= mixJava && javaShare.longest > permitsMost {
						t.Errorf("Java's longest wait is %v", javaShare.longest)
					}
				})
			}
		})
	}
}

// TestPermitsOfBothSidesAddUp has both sides take one to three permits of eight. How many are inside is counted in the
// server, past both.
func TestPermitsOfBothSidesAddUp(t *testing.T) {
	for _, dep := range deployments {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			m := permitsMix{
				permits: 8, most: 3, java: []*javaClient{d.openJava(t, "connections", "64")}, threads: 12,
				engines: []*engine.Engine{d.openGo(t), d.openGo(t)}, callers: 24, counted: 2 * time.Second, seed: fairSeed(t), count: true,
			}
			javaShare, goShare := m.play(t, d)
			t.Logf("Java %v", javaShare)
			t.Logf("Go   %v", goShare)
			assertAtLeast(t, javaShare.rate, 10, "Java's grants/s")
			assertAtLeast(t, goShare.rate, 10, "Go's grants/s")
			require.Zero(t, javaShare.refused, "ten seconds passed beside permits that were given back")
		})
	}
}

// TestLeasedPermitsOfBothSidesAddUp does the same with leased permits, some of which nobody gives back.
func TestLeasedPermitsOfBothSidesAddUp(t *testing.T) {
	for _, dep := range deployments {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			for _, abandon := range []int{0, 5} {
				t.Run(fmt.Sprintf("abandoned=%d%%", abandon), func(t *testing.T) {
					m := permitsMix{
						permits: 8, most: 3, java: []*javaClient{d.openJava(t, "connections", "64")}, threads: 12,
						engines: []*engine.Engine{d.openGo(t), d.openGo(t)}, callers: 24, counted: 3 * time.Second, seed: fairSeed(t),
						count: true, leased: true, abandon: abandon,
					}
					javaShare, goShare := m.play(t, d)
					t.Logf("Java %v", javaShare)
					t.Logf("Go   %v", goShare)
					assertAtLeast(t, javaShare.rate, 1, "Java's grants/s")
					assertAtLeast(t, goShare.rate, 1, "Go's grants/s")
					require.Zero(t, javaShare.refused, "ten seconds passed beside permits that were given back")
				})
			}
		})
	}
}

// BenchmarkPermits has 64 callers want a permit of eight, all in one client or in four: Redisson's and the engine's in
// turn, released as soon as they are granted, or after a millisecond. It reports acquisitions a second and the waits' median, 99th hundredth and longest.
func BenchmarkPermits(b *testing.B) {
	for _, hold := range []time.Duration{0, time.Millisecond} {
		for _, clients := range []int{1, 4} {
			for _, impl := range []string{"redisson", "holdfast"} {
				name := fmt.Sprintf("impl=%s/permits=%d/callers=%d/clients=%d/hold=%v", impl, hotPermits, hotCallers, clients, hold)
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						hotSemaphore(b, impl, clients, hold)
					}
				})
			}
		}
	}
}

const hotPermits = 8

func hotSemaphore(b *testing.B, impl string, clients int, hold time.Duration) {
	s := redistest.Run(b, redistest.Options{})
	d := &deployment{addrs: []string{s.Addr()}, servers: []*redistest.Server{s}}
	m := permitsMix{permits: hotPermits, most: 1, hold: hold, warmup: hotWarmup, counted: time.Duration(hotSeconds(b)) * time.Second}
	for range clients {
		if impl == "redisson" {
			m.java, m.threads = append(m.java, openJava(b, s.Addr(), "connections", "64", "subscriptions", "50")), hotCallers
		} else {
			m.engines, m.callers = append(m.engines, d.openGo(b)), hotCallers
		}
	}
	got, golang := m.play(b, d)
	if m.callers > 0 {
		got = golang
	}
	got.reportTo(b)
}

func (got permitsShare) reportTo(b *testing.B) {
	b.Helper()
	b.ReportMetric(got.rate, "grants/s")
	b.ReportMetric(got.p50.Seconds()*1000, "p50-ms")
	b.ReportMetric(got.p99.Seconds()*1000, "p99-ms")
	b.ReportMetric(got.longest.Seconds()*1000, "longest-ms")
}
