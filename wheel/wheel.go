package wheel

import (
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// Config says how a [Wheel] keeps time. The zero value is what production uses.
type Config struct {
	// Clock decides what is due. Default: clock.System().
	Clock clock.Clock

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

// Wheel owns the sources of time that all its sets share.
//
// Goroutines: the ticker's, the alarm's, two of the timing wheel and the one that talks to
// it, and one for each set that is delivering; all end in Stop, unless the timing wheel is
// stuck: then those three stay.
type Wheel struct {
	clock clock.Clock
	world *world.World

	timers  *timers     // nil: none
	timed   source      // the timing wheel
	alarm   clock.Alarm // nil: none
	alarmed source      // the alarm

	mu      sync.Mutex
	sets    []family // replaced, never changed, so that a reader may walk it unlocked
	stopped bool

	stop    sync.Once
	quit    chan struct{}  // ends the ticker
	ticking sync.WaitGroup // the ticker
	running world.Group    // deliveries; none begins once every set is closed
}

// A family is a [Set], whatever it delivers.
type family interface {
	earliest() clock.Instant
	kick()
	settle() (worked bool)
	close()
}

// New starts a wheel. Stop must be called to end its goroutines.
//
// Errors: what the operating system says to a new alarm.
func New(cfg Config) (*Wheel, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	w := &Wheel{clock: cfg.Clock, world: world.Of(cfg.Clock), quit: make(chan struct{})}
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

// Stop unschedules every item and ends the wheel: after it no function of a set is
// running and none will run. Schedule and Cancel then do nothing. It is idempotent, and
// a second caller waits as the first does.
//
// Blocks: until running functions have returned, so it must not be called from inside
// one; about a tick besides, a second if the timing wheel is stuck. Cost: a walk over all scheduled items.
func (w *Wheel) Stop() { w.stop.Do(w.shutdown) }

func (w *Wheel) shutdown() {
	// No set comes after these.
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
func (w *Wheel) snapshot() []family {
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
		// It arms the sources itself when it comes to rest.
		s.kick()
	}
	return earliest
}

// arm sees to it that both sources go off at at, or earlier.
func (w *Wheel) arm(at clock.Instant) {
	w.alarmed.arm(at)
	w.timed.arm(at)
}

// A source makes the wheel look at its clock when an instant has come. There are two, the alarm and the
// timing wheel; the ticker needs no arming.
type source struct {
	mu    sync.Mutex
	armed clock.Instant          // zero: to nothing
	set   func(at clock.Instant) // called with mu held, and never blocks; nil: there is no such source
}

// arm sees to it that the source goes off at at, or earlier. It never moves it to a later instant, so
// callers need not agree on an order; a look too many does no harm.
func (s *source) arm(at clock.Instant) {
	if s.set == nil || at == never {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed != 0 && !at.Before(s.armed) {
		return
	}
	s.armed = at
	s.set(at)
}

// spent notes that the source has gone off, and returns what it was armed to.
func (s *source) spent() clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.armed
	s.armed = 0
	return was
}

// aim is what the source is armed to now.
func (s *source) aim() clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed
}
