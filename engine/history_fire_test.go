package engine_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/history"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// fireNames are the locks of a history: mostly watched ones of the shortest lease, and some of a fixed
// one, which their holders overrun now and then.
func fireNames(texts []string) (names []history.Name, options [][]engine.Option) {
	for i, text := range texts {
		lease, option := engine.MinWatchdogLease, engine.WatchdogLease(engine.MinWatchdogLease)
		if i%4 == 3 {
			lease = 250 * time.Millisecond
			option = engine.FixedLease(lease)
		}
		names = append(names, history.Name{Text: text, Lease: lease})
		options = append(options, []engine.Option{option})
	}
	return names, options
}

// A single server, three engines, two of them behind proxies of their own that lose, hold and delay.
func handOffUnderFire(t *testing.T) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	texts := make([]string, 8)
	for i := range texts {
		texts[i] = "fire:" + strconv.Itoa(i)
	}
	names, options := fireNames(texts)
	f := newFire(t, names, options)
	proxies := []*faultproxy.Proxy{faultproxy.Run(t, s.Addr()), faultproxy.Run(t, s.Addr())}
	opened := 0
	for _, addr := range []string{proxies[0].Addr(), proxies[1].Addr(), s.Addr()} {
		f.join(16, func() *engine.Engine {
			opened++
			return testkit.Open(t, addr, func(cfg *engine.Config) { cfg.NoHandOff = opened > 3 && opened%2 == 0 })
		})
	}
	for id := range uint32(2) {
		f.joinForeigner(s, id)
	}
	t.Cleanup(func() { f.stop(); f.callers.Wait() })
	blows := slices.Concat(serverBlows(f, s), holderBlows(f, s, proxies), proxyBlows(proxies))
	if f.ops > historyOps { // no answer for so long that releases are told to be of unknown outcome
		blows = append(blows, blow{what: "black hole past all patience", rare: true, strike: func(random *rand.Rand) {
			p := proxies[random.IntN(len(proxies))]
			p.Pause()
			letLast(random, 8*time.Second, 12*time.Second)
			p.Resume()
		}})
	}
	f.burn(blows)
	f.out()
	require.Positive(t, f.foreign.Load(), "grants of foreigners")
	testkit.Eventually(t, "what nobody holds expires", func() bool { return len(s.Keys(t)) == 0 })
	testkit.Finish(t, s, f.engines()...)
}

// serverBlows strike the server, or an engine as a whole.
func serverBlows(f *fire, s *redistest.Server) []blow {
	const lease = engine.MinWatchdogLease
	run := func(args ...string) bool {
		_, err := s.Command(testkit.Limited(f.tb), args...)
		if err != nil {
			f.failed(err)
		}
		return err == nil
	}
	stop := func(random *rand.Rand, least, most time.Duration) {
		s.Pause()
		letLast(random, least, most)
		s.Resume()
	}
	return []blow{
		{what: "ForceRelease", strike: f.forceRelease},
		{what: "many ForceReleases", strike: func(random *rand.Rand) {
			for range 50 {
				f.forceRelease(random)
			}
		}},
		{what: "DEL", strike: func(random *rand.Rand) {
			for range 10 {
				name := uint32(random.IntN(len(f.names)))
				f.takeAway(name, "DEL", func() bool { return run("DEL", f.names[name].Text) })
			}
		}},
		{what: "FLUSHALL", strike: func(*rand.Rand) {
			f.takeAway(history.Everything, "FLUSHALL", func() bool { return run("FLUSHALL") })
		}},
		{what: "SIGSTOP within the lease", strike: func(random *rand.Rand) { stop(random, lease/20, lease/2) }},
		{what: "SIGSTOP past the lease", strike: func(random *rand.Rand) { stop(random, lease, lease*3/2) }},
		{what: "CLIENT KILL", strike: func(random *rand.Rand) {
			for range 3 {
				run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				letLast(random, time.Millisecond, 100*time.Millisecond)
			}
		}},
		{what: "CLIENT KILL of pub/sub", strike: func(*rand.Rand) { run("CLIENT", "KILL", "TYPE", "pubsub") }},
		{what: "SCRIPT FLUSH", strike: func(*rand.Rand) { run("SCRIPT", "FLUSH") }},
		{what: "CLIENT PAUSE", strike: func(random *rand.Rand) {
			mode := []string{"ALL", "WRITE"}[random.IntN(2)]
			pause := 20 + random.IntN(1200)
			run("CLIENT", "PAUSE", strconv.Itoa(pause), mode)
			testkit.LastUntil(time.Now().Add(time.Duration(pause) * time.Millisecond))
		}},
		{what: "Close", strike: func(random *rand.Rand) { f.reopen(f.members[random.IntN(len(f.members))]) }},
	}
}

// holderBlows strike locks whose holders stay: what they believe then is what the bound is about.
func holderBlows(f *fire, s *redistest.Server, proxies []*faultproxy.Proxy) []blow {
	const lease = engine.MinWatchdogLease
	flush := func() {
		f.takeAway(history.Everything, "FLUSHALL", func() bool {
			_, err := s.Command(testkit.Limited(f.tb), "FLUSHALL")
			return err == nil
		})
	}
	return []blow{
		{what: "FLUSHALL under holders", strike: func(random *rand.Rand) {
			f.underHolders(func() {
				flush()
				letLast(random, lease/20, lease/2)
			})
		}},
		{what: "FLUSHALL, no renewal gets through", strike: func(random *rand.Rand) {
			f.underHolders(func() {
				var rules []*faultproxy.Rule
				for _, p := range proxies {
					rules = append(rules, p.DropReply(testkit.ScriptCall("renew"), -1))
				}
				flush()
				letLast(random, lease/2, lease*5/4)
				for _, r := range rules {
					r.Remove()
				}
			})
		}},
		{what: "SIGSTOP under holders", strike: func(random *rand.Rand) {
			f.underHolders(func() {
				s.Pause()
				letLast(random, lease/2, lease*5/4)
				s.Resume()
			})
		}},
		{what: "Close under holders", strike: func(random *rand.Rand) {
			f.underHolders(func() { f.reopen(f.members[random.IntN(len(f.members))]) })
		}},
	}
}

// proxyBlows strike the connections of one engine.
func proxyBlows(proxies []*faultproxy.Proxy) []blow {
	const lease = engine.MinWatchdogLease
	var blows []blow
	add := func(what string, strike func(p *faultproxy.Proxy, random *rand.Rand)) {
		blows = append(blows, blow{what: what, strike: func(random *rand.Rand) { strike(proxies[random.IntN(len(proxies))], random) }})
	}
	add("renewals unanswered", func(p *faultproxy.Proxy, random *rand.Rand) {
		rule := p.DropReply(testkit.ScriptCall("renew"), -1)
		letLast(random, lease/4, lease*3/2)
		rule.Remove()
	})
	add("renewals not delivered", func(p *faultproxy.Proxy, random *rand.Rand) {
		rule := p.DropCommand(testkit.ScriptCall("renew"), -1)
		letLast(random, lease/4, lease*3/2)
		rule.Remove()
	})
	add("replies lost", func(p *faultproxy.Proxy, random *rand.Rand) {
		for range 4 {
			script := []string{"acquire", "reacquire", "release", "renew"}[random.IntN(4)]
			rule := p.DropReply(testkit.ScriptCall(script), 1+random.IntN(4))
			letLast(random, time.Millisecond, 60*time.Millisecond)
			rule.Remove()
		}
	})
	add("commands delivered late", func(p *faultproxy.Proxy, random *rand.Rand) {
		rule := p.Hold(testkit.ScriptCall([]string{"acquire", "reacquire", "release", "renew"}[random.IntN(4)]), 1+random.IntN(3))
		letLast(random, time.Millisecond, 3*time.Second)
		rule.Remove()
		p.ReleaseCommands()
	})
	add("connections cut", func(p *faultproxy.Proxy, random *rand.Rand) {
		for range 1 + random.IntN(5) {
			p.CutAll()
			letLast(random, time.Millisecond, 50*time.Millisecond)
		}
	})
	add("connections refused", func(p *faultproxy.Proxy, random *rand.Rand) {
		p.RefuseNew(true)
		p.CutAll()
		letLast(random, lease/20, lease*3/2)
		p.RefuseNew(false)
	})
	add("black hole", func(p *faultproxy.Proxy, random *rand.Rand) {
		p.Pause()
		letLast(random, lease/20, lease*3/2)
		p.Resume()
	})
	add("slow network", func(p *faultproxy.Proxy, random *rand.Rand) {
		p.Delay(time.Duration(random.IntN(30))*time.Millisecond, time.Duration(random.IntN(30))*time.Millisecond)
		letLast(random, lease/20, lease/2)
		p.Delay(0, 0)
	})
	add("messages lost", func(p *faultproxy.Proxy, random *rand.Rand) {
		rule := p.DropMessages(faultproxy.Probability(0.5, random.Uint64()))
		letLast(random, lease/20, lease/2)
		rule.Remove()
	})
	return blows
}
