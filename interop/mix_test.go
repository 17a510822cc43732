package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
)

const (
	mixJava    = 8  // threads, in one client
	mixGo      = 64 // callers
	mixEngines = 4  // among which they are dealt out
	// mixFactor is how far a side may be from its fair share: of what it reaches alone, as much as it is of all callers.
	mixFactor = 10
	// mixSpins is how many plays more there are of a spin lock, until each side has had its share of one.
	mixSpins = 8
	// mixLease is the lease of both watchdogs. A writer of Java that misses a message sleeps as long.
	mixLease = 5 * time.Second
	// freeMost is how long the lock may be free while somebody waits.
	freeMost = 3 * time.Second
)

// A mix is what callers of both sides do with one lock.
type mix struct {
	kind    string
	java    int // threads
	callers int // of Go
	engines int // among which the callers are dealt out
	warmup  time.Duration
	counted time.Duration
	hold    time.Duration // the longest
	pause   time.Duration // the longest
	trying  int           // percent that wait for 5 s at most, with a lease of 10 s
	abandon int           // percent that take a lease of 300 ms and let it end
	seed    uint64
}

// A share is what one side got.
type share struct {
	rate              float64 // grants a second
	grants, refused   int
	p50, p99, longest time.Duration
}

func (s share) String() string {
	return fmt.Sprintf("%.0f grants/s, waits median %v, p99 %v, longest %v, %d refused", s.rate,
		s.p50.Round(10*time.Microsecond), s.p99.Round(10*time.Microsecond), s.longest.Round(time.Millisecond), s.refused)
}

// play lets both sides do it at the same time, and returns what each got and how long the lock was free.
func (m mix) play(t testing.TB, d *deployment, java *javaClient, engines []*engine.Engine) (javaShare, goShare share, free time.Duration) {
	t.Helper()
	name := fmt.Sprintf("mix:%s:%d", m.kind, clientNumber())
	ctx, cancel := context.WithTimeout(context.Background(), m.warmup+m.counted) // then nobody asks anew
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { free = d.longestFree(ctx, t, name) })
	var c *call
	if m.java > 0 {
		ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
		c = java.d.send("mix", url.Values{
			"client": {java.name}, "kind": {m.kind}, "name": {name}, "threads": {strconv.Itoa(m.java)},
			"millis": {ms(m.counted)}, "warmupMs": {ms(m.warmup)}, "seed": {strconv.FormatUint(m.seed%1e9, 10)},
			"holdUs": {ms(m.hold * 1000)}, "pauseUs": {ms(m.pause * 1000)},
			"tryPercent": {strconv.Itoa(m.trying)}, "abandonPercent": {strconv.Itoa(m.abandon)},
		})
	}
	goShare = m.goSide(t, name, engines)
	if c != nil {
		r := c.waitFor(t, m.warmup+m.counted+3*patience)
		require.NoError(t, r.err)
		javaShare = m.javaSide(t, r.values)
	}
	cancel()
	watching.Wait()
	return javaShare, goShare, free
}

func (m mix) javaSide(t testing.TB, v url.Values) share {
	t.Helper()
	number := func(key string) int {
		if !v.Has(key) {
			return 0
		}
		n, err := strconv.Atoi(v.Get(key))
		require.NoError(t, err, key)
		return n
	}
	s := share{grants: number("grants"), refused: number("refused")}
	s.rate = float64(s.grants) / m.counted.Seconds()
	s.p50, s.p99, s.longest = time.Duration(number("p50")), time.Duration(number("p99")), time.Duration(number("longest"))
	return s
}

// goSide does what Mix.java does.
func (m mix) goSide(t testing.TB, name string, engines []*engine.Engine) share {
	from := time.Now().Add(m.warmup)
	until := from.Add(m.counted)
	waits := make([][]time.Duration, m.callers)
	refused := make([]int, m.callers)
	var callers sync.WaitGroup
	for i := range m.callers {
		rng := rand.New(rand.NewPCG(m.seed, uint64(i)))
		e := engines[i%m.engines]
		callers.Go(func() {
			for began := time.Now(); began.Before(until); began = time.Now() {
				granted, at := m.turn(t, e, name, rng)
				switch {
				case at.Before(from) || !at.Before(until):
				case granted:
					waits[i] = append(waits[i], at.Sub(began))
				default:
					refused[i]++
				}
			}
		})
	}
	callers.Wait()
	var s share
	for _, n := range refused {
		s.refused += n
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	if s.grants = len(all); s.grants > 0 {
		s.p50, s.p99, s.longest = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	s.rate = float64(s.grants) / m.counted.Seconds()
	return s
}

// turn asks once, and says when that was answered.
func (m mix) turn(t testing.TB, e *engine.Engine, name string, rng *rand.Rand) (granted bool, at time.Time) {
	ctx := context.Background()
	draw := rng.IntN(100)
	opts := []engine.Option{engine.WatchdogLease(mixLease)}
	switch {
	case draw < m.abandon:
		opts = []engine.Option{engine.FixedLease(300 * time.Millisecond)}
	case draw < m.abandon+m.trying:
		opts = []engine.Option{engine.FixedLease(10 * time.Second), engine.MaxWait(5 * time.Second)}
	default:
	}
	kind := m.kind
	if kind == "rw" {
		kind = "read"
		if rng.IntN(4) == 0 {
			kind = "write"
		}
	}
	ls, err := anyKind(kind).open(e, name, opts...).Acquire(ctx)
	at = time.Now()
	switch {
	case errors.Is(err, engine.ErrHeld) && draw < m.abandon+m.trying:
	case err != nil:
		t.Error(err)
		time.Sleep(100 * time.Millisecond) // so that no flood of errors comes
	case draw < m.abandon:
		granted = true
	default:
		granted = true
		restFor(rng, m.hold)
		if err := ls.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	restFor(rng, m.pause)
	return granted, at
}

func restFor(rng *rand.Rand, most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
	}
}

// anyKind is kindOf that knows the read lock, too.
func anyKind(name string) kind {
	if name == readKind.name {
		return readKind
	}
	return kindOf(name)
}

// longestFree looks at a lock again and again until ctx ends, and returns the longest time for which it was free
// whenever it was looked at.
func (d *deployment) longestFree(ctx context.Context, t testing.TB, name string) (longest time.Duration) {
	conn, err := d.at(t, name).Dial(ctx)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.Close() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return longest
		case now := <-tick.C:
			v, err := conn.Do(ctx, "EXISTS", name)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return longest
			}
			if v.(int64) == 1 {
				last = now
			}
			longest = max(longest, now.Sub(last))
		}
	}
}

// TestMixesOfBothSides has 8 threads of Java and 64 callers of Go want one lock of each kind. Neither side may be kept
// out by the other: each gets at least a tenth of its fair share, and waits ten times as long at most.
func TestMixesOfBothSides(t *testing.T) {
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			java := d.openJava(t, "connections", "64", "watchdogMs", strconv.FormatInt(mixLease.Milliseconds(), 10))
			var e []*engine.Engine
			for range mixEngines {
				e = append(e, d.openGo(t))
			}
			seed := fairSeed(t)
			for _, kind := range []string{"lock", "fair", "fenced", "write", "rw", "spin", "nonReentrant"} {
				t.Run(kind, func(t *testing.T) {
					m := mix{
						kind: kind, java: mixJava, callers: mixGo, engines: mixEngines, seed: seed,
						warmup: 300 * time.Millisecond, counted: 2500 * time.Millisecond,
						hold: 200 * time.Microsecond, pause: time.Millisecond,
					}
					requireShares(t, m, d, java, e)
				})
			}
		})
	}
}

// requireShares compares what each side gets beside the other with what it gets alone.
func requireShares(t *testing.T, m mix, d *deployment, java *javaClient, engines []*engine.Engine) {
	t.Helper()
	alone := m
	alone.warmup, alone.counted = 200*time.Millisecond, 400*time.Millisecond
	alone.callers = 0
	javaAlone, _, _ := alone.play(t, d, java, engines)
	alone.callers, alone.java = m.callers, 0
	_, goAlone, _ := alone.play(t, d, java, engines)
	javaShare, goShare, free := m.play(t, d, java, engines)
	all := float64(m.java + m.callers)
	fairJava, fairGo := javaAlone.rate*float64(m.java)/all, goAlone.rate*float64(m.callers)/all
	if m.kind == "spin" {
		javaShare, goShare = m.playOn(t, d, java, engines, javaShare, goShare, fairJava/mixFactor, fairGo/mixFactor)
	}
	t.Logf("Java %v; fair are %.0f, alone %.0f", javaShare, fairJava, javaAlone.rate)
	t.Logf("Go   %v; fair are %.0f, alone %.0f", goShare, fairGo, goAlone.rate)
	t.Logf("longest free %v", free)
	for _, s := range []struct {
		side    string
		share   share
		fair    float64
		callers int
	}{{"Java", javaShare, fairJava, m.java}, {"Go", goShare, fairGo, m.callers}} {
		assertAtLeast(t, s.share.rate, s.fair/mixFactor, s.side+"'s grants/s")
		fairWait := time.Duration(float64(s.callers) / s.fair * float64(time.Second))
		if s.share.p50 > mixFactor*fairWait {
			t.Errorf("%s's median wait is %v, and %v would be fair", s.side, s.share.p50, fairWait)
		}
		if m.kind != "spin" && s.share.longest > freeMost { // who spins is told nothing: how long that takes is luck
			t.Errorf("%s's longest wait is %v", s.side, s.share.longest)
		}
	}
	if free > freeMost {
		t.Errorf("free for %v while everybody waits", free)
	}
}

// playOn plays again while a side has less than its least grants/s, for mixSpins at most, and adds up the grants, as if
// all had been in the time of one play. Who spins is told nothing: it asks eight times a second at most, and has the
// lock if that happens to be free just then. In a few seconds it may have no luck; it is not kept out for long.
func (m mix) playOn(t *testing.T, d *deployment, java *javaClient, engines []*engine.Engine, j, g share, leastJava, leastGo float64) (javaShare, goShare share) {
	t.Helper()
	for range mixSpins {
		if j.rate >= leastJava && g.rate >= leastGo {
			break
		}
		t.Logf("plays on: Java %.0f grants/s, Go %.0f", j.rate, g.rate)
		moreJava, moreGo, _ := m.play(t, d, java, engines)
		j.rate += moreJava.rate
		g.rate += moreGo.rate
		j.p50, g.p50 = moreJava.p50, moreGo.p50
	}
	return j, g
}

func assertAtLeast(t *testing.T, got, least float64, what string) {
	t.Helper()
	if got < least {
		t.Errorf("%s: %.1f, not %.1f", what, got, least)
	}
}

// TestFairMixWithAbandonedLeases: some take a short lease and let it end, others wait for 5 s at most.
func TestFairMixWithAbandonedLeases(t *testing.T) {
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			java := d.openJava(t, "connections", "64", "watchdogMs", strconv.FormatInt(mixLease.Milliseconds(), 10))
			var engines []*engine.Engine
			for range 4 {
				engines = append(engines, d.openGo(t))
			}
			m := mix{
				kind: "fair", java: 4, callers: 16, engines: len(engines), seed: fairSeed(t),
				warmup: 200 * time.Millisecond, counted: 8 * time.Second,
				hold: 200 * time.Microsecond, pause: time.Millisecond, trying: 60, abandon: 1,
			}
			javaShare, goShare, free := m.play(t, d, java, engines)
			t.Logf("Java %v", javaShare)
			t.Logf("Go   %v", goShare)
			t.Logf("longest free %v", free)
			for _, s := range []share{javaShare, goShare} {
				assertAtLeast(t, s.rate, 10, "grants/s")
				if s.longest > freeMost || s.refused > 0 {
					t.Errorf("a wait of %v, %d refused after 5 s", s.longest, s.refused)
				}
			}
			if free > freeMost {
				t.Errorf("free for %v while everybody waits", free)
			}
		})
	}
}
