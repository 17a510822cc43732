package wheel

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const (
	defaultTick  = 5 * time.Millisecond
	defaultEvery = 50 * time.Millisecond
	maxTick      = time.Second

	// wheelSize slots of 5 ms reach 1.28 s on the first level, 23 h on the third.
	wheelSize = 256

	// horizon is how far ahead a timer on the timing wheel is aimed at most.
	horizon = 24 * time.Hour

	// stuckAfter is how long Stop waits for a timing wheel that may be stuck, and how late it is when it counts
	// as stuck.
	stuckAfter = time.Second
)

// Config says how a [Wheel] keeps time. The zero value is what production uses.
type Config struct {
	// Clock decides what is due. Default: clock.System().
	Clock clock.Clock

	// Tick is the resolution of the timing wheel, in whole milliseconds from 1 ms to
	// 1 s. Default 5 ms. Larger: items may be later by as much. Smaller: more wake-ups
	// while something is scheduled.
	Tick time.Duration

	// Every is the period of the monotonic ticker that catches whatever the timing
	// wheel has missed. Default, and at most, 50 ms. Smaller: more wake-ups always.
	Every time.Duration

	// Ticks replaces the ticker, for tests: each value received is one tick.
	Ticks <-chan time.Time

	// NoTimingWheel leaves the timing wheel out, for tests: what remains is what
	// happens when the wall clock has been stepped back.
	NoTimingWheel bool

	// NoAlarm leaves the alarm out, for tests.
	NoAlarm bool

	// After replaces the timing wheel, for tests: it calls f in a goroutine of its own after d, roughly.
	After func(d time.Duration, f func()) Stopper
}

// A Stopper takes a timer back; false means that it may fire or have fired.
type Stopper interface{ Stop() bool }

// complete fills in the defaults and refuses what cannot be kept.
func (cfg *Config) complete() error {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Tick == 0 {
		cfg.Tick = defaultTick
	}
	if cfg.Every == 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Tick < time.Millisecond || cfg.Tick > maxTick {
		return fmt.Errorf("wheel: tick %v is not within 1ms and %v", cfg.Tick, maxTick)
	}
	if cfg.Every < 0 || cfg.Every > defaultEvery {
		return fmt.Errorf("wheel: ticker period %v is not within 0 and %v", cfg.Every, defaultEvery)
	}
	return nil
}

// Wheel owns the sources of time that all its sets share.
//
// Goroutines: the ticker's, the alarm's, two of the timing wheel and the one that talks to
// it, and one for each set that is delivering; all end in Stop, unless the timing wheel is
// stuck: then those three stay.
type Wheel struct {
	clock clock.Clock
	world *world.World
	tick  time.Duration

	alarm   clock.Alarm // nil: none
	alarmed source      // the alarm
	timers  *timers     // nil: none
	timed   source      // the timing wheel

	mu      sync.Mutex
	sets    []*Set // replaced, never changed, so that a reader may walk it unlocked
	stopped bool

	stop    sync.Once
	quit    chan struct{}  // ends the ticker
	ticking sync.WaitGroup // the ticker
	running world.Group    // deliveries; none begins once every set is closed
}

// New starts a wheel. Stop must be called to end its goroutines.
//
// Errors: a Config out of range; what the operating system says to a new alarm.
func New(cfg Config) (*Wheel, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w := &Wheel{clock: cfg.Clock, world: world.Of(cfg.Clock), tick: cfg.Tick, quit: make(chan struct{})}
	w.running.Init(w.world)
	if err := w.startAlarm(cfg); err != nil {
		return nil, err
	}
	if w.world == nil { // its alarm is exact: nothing has to watch over it
		w.startTimers(cfg)
		w.startTicker(cfg)
	}
	return w, nil
}

func (w *Wheel) startAlarm(cfg Config) error {
	if cfg.NoAlarm {
		return nil
	}
	alarm, err := w.clock.NewAlarm(w.onAlarm)
	if err != nil {
		return fmt.Errorf("wheel: %w", err)
	}
	w.alarm, w.alarmed.set = alarm, alarm.Arm
	return nil
}

func (w *Wheel) startTicker(cfg Config) {
	ticks, stop := cfg.Ticks, func() {}
	if ticks == nil {
		ticker := time.NewTicker(cfg.Every)
		ticks, stop = ticker.C, ticker.Stop
	}
	w.ticking.Go(func() {
		defer stop()
		w.tickLoop(ticks)
	})
}

func (w *Wheel) tickLoop(ticks <-chan time.Time) {
	for {
		select {
		case <-ticks:
			w.arm(w.sweep())
			w.timers.look()
		case <-w.quit:
			return
		}
	}
}

// Stop unschedules every item and ends the wheel: after it no function of a set is
// running and none will run. Schedule and Cancel then do nothing. It is idempotent, and
// a second caller waits as the first does.
//
// Blocks: until running functions have returned, so it must not be called from inside
// one; about a tick besides, a second if the timing wheel is stuck. Cost: a walk over all scheduled items.
func (w *Wheel) Stop() { w.stop.Do(w.shutdown) }

func (w *Wheel) shutdown() {
	w.mu.Lock()
	w.stopped = true
	sets := w.sets
	w.sets = nil
	w.mu.Unlock()
	for _, s := range sets {
		s.close()
	}
	close(w.quit)
	w.ticking.Wait()
	if w.alarm != nil {
		_ = w.alarm.Close() // a descriptor of ours, nothing to write back
	}
	w.running.Wait()
	w.timers.wait()
}

// Stuck is how often the timing wheel was found stuck. Items are then delivered by the alarm, or where there is
// none by the ticker.
func (w *Wheel) Stuck() int64 {
	if w.timers == nil {
		return 0
	}
	return w.timers.stuck.Load()
}

// Settle delivers what is due now and returns when every set is at rest with nothing
// overdue. It is for tests with a fake clock: Advance, then Settle. It must not be
// called from inside a set's function, and returns only if functions stop scheduling
// items in the past.
func (w *Wheel) Settle() {
	for worked := true; worked; {
		worked = false
		for _, s := range w.snapshot() {
			worked = s.settle() || worked
		}
	}
}

// snapshot returns the sets of this moment.
func (w *Wheel) snapshot() []*Set {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sets
}

// sweep wakes the sets that have something overdue, and returns the earliest end of
// what is not, or never.
func (w *Wheel) sweep() clock.Instant {
	now := w.clock.Now()
	earliest := never
	for _, s := range w.snapshot() {
		next := s.earliest()
		if next.After(now) {
			earliest = min(earliest, next)
			continue
		}
		s.kick()
	}
	return earliest
}

// onAlarm is the alarm's function.
//
// A set that opens a new earliest bucket while this runs arms the alarm itself: it finds
// armed either cleared or not earlier than its own. A set that was kicked arms it when it
// comes to rest.
func (w *Wheel) onAlarm() {
	w.alarmed.spent()
	w.arm(w.sweep())
}

// arm sees to it that both sources go off at at, or earlier.
func (w *Wheel) arm(at clock.Instant) {
	w.alarmed.arm(at)
	w.timed.arm(at)
}
