package wheel

import (
	"fmt"
	"sync"
	"time"

	"github.com/RussellLuo/timingwheel"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

const (
	defaultTick  = 5 * time.Millisecond
	defaultEvery = 50 * time.Millisecond
	maxTick      = time.Second

	// wheelSize slots of 5 ms reach 1.28 s on the first level, 23 h on the third.
	wheelSize = 256

	// horizon is how far ahead a bucket is given a timer on the timing wheel.
	horizon = 24 * time.Hour
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

	// after replaces the timing wheel in this package's tests.
	after afterFunc
}

// afterFunc calls f in a goroutine of its own after d, roughly.
type afterFunc func(d time.Duration, f func()) stopper

// stopper takes a timer back; false means that it may fire or have fired.
type stopper interface{ Stop() bool }

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
// Goroutines: the ticker's, the alarm's, two of the timing wheel, and one for each
// set that is delivering; all end in Stop.
type Wheel struct {
	clock clock.Clock
	tick  time.Duration
	after afterFunc                // nil: no timing wheel
	tw    *timingwheel.TimingWheel // nil: none, or replaced

	alarmMu sync.Mutex
	alarm   clock.Alarm   // nil: none
	armed   clock.Instant // what the alarm is armed to, zero if nothing

	mu      sync.Mutex
	sets    []*Set // replaced, never changed, so that a reader may walk it unlocked
	stopped bool

	stop    sync.Once
	quit    chan struct{}  // ends the ticker
	ticking sync.WaitGroup // the ticker
	running sync.WaitGroup // deliveries; none begins once every set is closed
}

// New starts a wheel. Stop must be called to end its goroutines.
//
// Errors: a Config out of range; what the operating system says to a new alarm.
func New(cfg Config) (*Wheel, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w := &Wheel{clock: cfg.Clock, tick: cfg.Tick, after: cfg.after, quit: make(chan struct{})}
	if err := w.startAlarm(cfg); err != nil {
		return nil, err
	}
	w.startTimingWheel(cfg)
	w.startTicker(cfg)
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
	w.alarm = alarm
	return nil
}

func (w *Wheel) startTimingWheel(cfg Config) {
	if cfg.NoTimingWheel || w.after != nil {
		return
	}
	w.tw = timingwheel.NewTimingWheel(cfg.Tick, wheelSize)
	w.after = func(d time.Duration, f func()) stopper { return w.tw.AfterFunc(d, f) }
	w.tw.Start()
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
			w.sweep()
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
// one; about a tick besides. Cost: a walk over all scheduled items.
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
	w.stopTimingWheel()
}

// stopTimingWheel stops it while nothing is cascading. The goroutine that moves timers
// to a lower level hands them to the polling goroutine, and would wait for ever for one
// that Stop has sent home. All our timers have been taken out, so once a timer set now
// has come through that goroutine, it has nothing left to move. If a stepped wall clock
// keeps that timer from coming, we stop waiting for it.
func (w *Wheel) stopTimingWheel() {
	if w.tw == nil {
		return
	}
	through := make(chan struct{})
	w.tw.AfterFunc(w.tick, func() { close(through) })
	patience := time.NewTimer(2*w.tick + defaultEvery)
	defer patience.Stop()
	select {
	case <-through:
	case <-patience.C:
	}
	w.tw.Stop()
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
	w.alarmMu.Lock()
	w.armed = 0
	w.alarmMu.Unlock()
	w.arm(w.sweep())
}

// arm sees to it that the alarm goes off at at, or earlier. It never moves the alarm to
// a later instant, so callers need not agree on an order; a look too many does no harm.
func (w *Wheel) arm(at clock.Instant) {
	if w.alarm == nil || at == never {
		return
	}
	w.alarmMu.Lock()
	defer w.alarmMu.Unlock()
	if w.armed != 0 && !at.Before(w.armed) {
		return
	}
	w.armed = at
	w.alarm.Arm(at)
}
