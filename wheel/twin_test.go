package wheel

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// twin is a set without buckets: a map from item to what it is due for.
type twin struct {
	width time.Duration
	due   map[int]clock.Instant
	fine  map[int]bool // the precise ones
}

// fire removes and returns the items whose bucket has ended.
func (tw *twin) fire(now clock.Instant) []int {
	var fired []int
	for id, due := range tw.due {
		width := int64(tw.width)
		if tw.fine[id] {
			width = max(width/finer, 1)
		}
		if end := (int64(due) + width - 1) / width * width; end <= int64(now) {
			fired = append(fired, id)
			delete(tw.due, id)
		}
	}
	return slices.Sorted(slices.Values(fired))
}

// pair is a set and its twin, with what the set delivered.
type pair struct {
	set   *Set[*thing]
	twin  twin
	items []*thing

	mu    sync.Mutex
	more  sync.Cond
	fired []int
}

func newPair(t *rapid.T, w *Wheel, width time.Duration, n int) *pair {
	p := &pair{twin: twin{width, map[int]clock.Instant{}, map[int]bool{}}}
	p.more.L = &p.mu
	p.set = NewSet(w, width, func(_ clock.Instant, due []*thing) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, it := range due {
			p.fired = append(p.fired, it.id)
		}
		p.more.Broadcast()
	})
	for i := range n {
		p.items = append(p.items, &thing{id: i})
	}
	return p
}

// wait returns what was delivered once it is n items.
func (p *pair) wait(n int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.fired) < n {
		p.more.Wait()
	}
	return slices.Clone(p.fired)
}

// check compares the deliveries with the twin's. Only then does it let Settle help, to
// find what was delivered in excess.
func (p *pair) check(t *rapid.T, w *Wheel, now clock.Instant) {
	want := p.twin.fire(now)
	p.wait(len(want))
	w.Settle()
	got := p.wait(len(want))
	require.Equal(t, want, slices.Sorted(slices.Values(got)))
	require.Equal(t, len(p.twin.due), p.set.Len())
	for id, it := range p.items {
		_, due := p.twin.due[id]
		require.Equal(t, due, scheduled(p.set, it))
	}
	p.fired = nil
}

func TestTwin(t *testing.T) {
	modes := map[string]Config{
		"alarm":  {NoTimingWheel: true},
		"ticker": {NoTimingWheel: true, NoAlarm: true},
		"all":    {},
	}
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		t.Run("by="+name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { runTwin(t, modes[name]) })
		})
	}
}

func scheduled[T Scheduled[T]](s *Set[T], it T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return it.Scheduled().bucket != nil
}

// runTwin plays random operations; time is in nanoseconds so that bounds are hit.
func runTwin(t *rapid.T, cfg Config) {
	fake, ticks := clock.NewFake(1), make(chan time.Time)
	cfg.Clock, cfg.Ticks = fake, ticks
	if !cfg.NoTimingWheel { // a timing wheel that looks at random moments, mostly early
		cfg.After = func(_ time.Duration, f func()) Stopper { go f(); return noStop{} }
	}
	w, err := New(cfg)
	require.NoError(t, err)
	defer w.Stop()
	pairs := []*pair{
		newPair(t, w, time.Duration(rapid.IntRange(1, 40).Draw(t, "width")), 30),
		newPair(t, w, 7, 5),
	}
	draw := func() (*pair, int) {
		p := pairs[rapid.IntRange(0, 1).Draw(t, "set")]
		return p, rapid.IntRange(0, len(p.items)-1).Draw(t, "item")
	}
	advance := func(t *rapid.T) {
		d := time.Duration(rapid.IntRange(0, 60).Draw(t, "by"))
		if rapid.Bool().Draw(t, "jump") {
			fake.Set(fake.Now().Add(d))
		} else {
			fake.Advance(d)
		}
		if cfg.NoAlarm {
			ticks <- time.Time{}
		}
		for _, p := range pairs {
			p.check(t, w, fake.Now())
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"schedule": func(t *rapid.T) {
			p, id := draw()
			due := fake.Now().Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "in")))
			if p.twin.fine[id] = rapid.Bool().Draw(t, "precisely"); p.twin.fine[id] {
				p.set.SchedulePrecisely(p.items[id], due)
			} else {
				p.set.Schedule(p.items[id], due)
			}
			p.twin.due[id] = due
		},
		"schedule many": func(t *rapid.T) {
			p, _ := draw()
			var plans []Plan[*thing]
			for range rapid.IntRange(0, 4).Draw(t, "how many") {
				id := rapid.IntRange(0, len(p.items)-1).Draw(t, "which") // one may come twice
				due := fake.Now().Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "in")))
				plans = append(plans, Plan[*thing]{p.items[id], due})
				p.twin.due[id], p.twin.fine[id] = due, false
			}
			p.set.ScheduleAll(plans)
		},
		"cancel": func(t *rapid.T) {
			p, id := draw()
			_, was := p.twin.due[id]
			require.Equal(t, was, p.set.Cancel(&p.items[id].item))
			delete(p.twin.due, id)
		},
		"past": func(t *rapid.T) {
			p, id := draw()
			due := max(1, fake.Now()-clock.Instant(rapid.IntRange(50, 100).Draw(t, "ago")))
			p.set.Schedule(p.items[id], due)
			p.twin.due[id], p.twin.fine[id] = due, false
			advance(t) // it is delivered at once, so the twin must be too
		},
		"advance": advance,
	})
}

// owner is what a lock would be: its own lock decides whether a delivery means anything.
type owner struct {
	item      Item[*owner]
	mu        sync.Mutex
	wanted    bool
	due       clock.Instant
	delivered int
	scheduled int
}

func (o *owner) Scheduled() *Item[*owner] { return &o.item }

// TestOwnersUnderRace lets goroutines schedule, move and cancel the same items while
// they fire. Every schedule must end in exactly one of: moved, cancelled, delivered.
func TestOwnersUnderRace(t *testing.T) {
	w, err := New(Config{})
	require.NoError(t, err)
	defer w.Stop()
	var early atomic.Int64
	var sets [2]*Set[*owner]
	for i := range sets {
		sets[i] = NewSet(w, ms, func(now clock.Instant, due []*owner) {
			for _, o := range due {
				o.mu.Lock()
				// A delivery may be of a schedule that was replaced meanwhile.
				if o.wanted && !scheduled(sets[i], o) {
					if now.Before(o.due) {
						early.Add(1)
					}
					o.wanted = false
					o.delivered++
				}
				o.mu.Unlock()
			}
		})
	}
	owners := make([]*owner, 300)
	for i := range owners {
		owners[i] = &owner{}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() { hammer(sets[:], owners, w.clock, g) })
	}
	wg.Wait()
	end := w.clock.Now().Add(30 * ms)
	settled := make(chan struct{})
	last := NewSet(w, ms, func(clock.Instant, []*thing) { close(settled) })
	last.Schedule(&thing{}, end)
	await(t, settled)
	w.Settle()
	for _, o := range owners {
		require.False(t, o.wanted, "neither delivered nor cancelled")
	}
	require.Zero(t, early.Load())
	require.Zero(t, sets[0].Len()+sets[1].Len())
}

// hammer works on all owners in an order of its own.
func hammer(sets []*Set[*owner], owners []*owner, c clock.Clock, g int) {
	for n := range 5000 {
		i := (n*7 + g*31) % len(owners)
		o, s := owners[i], sets[i%len(sets)]
		o.mu.Lock()
		if n%5 == 0 {
			if s.Cancel(&o.item) {
				o.wanted = false
			}
		} else {
			o.due = c.Now().Add(time.Duration(n*g%5000-500) * time.Microsecond)
			o.wanted = true
			o.scheduled++
			s.Schedule(o, o.due)
		}
		o.mu.Unlock()
	}
}
