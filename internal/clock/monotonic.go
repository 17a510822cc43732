package clock

import (
	"sync"
	"time"
)

// processStart is the origin of the monotonic clock. It is shared by the process
// because instants read through two calls of System must compare.
var processStart = time.Now()

// monotonic is the runtime's monotonic clock.
type monotonic struct{}

// Now begins at one second, so that it is never zero.
func (monotonic) Now() Instant { return Instant(time.Since(processStart) + time.Second) }

func (c monotonic) Wall(t Instant) time.Time { return wall(t, c.Now()) }

func (c monotonic) NewAlarm(fire func()) (Alarm, error) {
	a := &monoAlarm{
		clock: c, fire: fire, timer: time.NewTimer(time.Hour),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	a.timer.Stop()
	go a.loop()
	return a, nil
}

// monoAlarm is an alarm on a runtime timer.
type monoAlarm struct {
	clock monotonic
	fire  func()
	timer *time.Timer   // guarded by arming.mu, but for its channel
	quit  chan struct{} // closed by Close
	done  chan struct{} // closed when the goroutine has ended

	arming
}

func (a *monoAlarm) Arm(at Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.at = max(at, 1)
	a.timer.Reset(a.at.Sub(a.clock.Now()))
}

func (a *monoAlarm) Disarm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = 0
	a.timer.Stop()
}

func (a *monoAlarm) Close() error {
	if a.shut() {
		close(a.quit)
	}
	<-a.done
	a.timer.Stop()
	return nil
}

func (a *monoAlarm) loop() {
	defer close(a.done)
	for {
		select {
		case <-a.timer.C:
			if a.take(a.clock.Now()) {
				a.fire()
			}
		case <-a.quit:
			return
		}
	}
}

// arming is what an alarm is set to. An expiry of the operating system is only a
// hint to look here, so one that raced with a new arming calls nothing.
type arming struct {
	mu     sync.Mutex
	at     Instant // zero: disarmed
	closed bool
}

// take reports whether the arming has come due at now, and if so uses it up.
//
// If Arm replaces an instant that has just expired by a later one, the expiry finds
// the later one not due and is dropped; the later one has an expiry of its own. If it
// replaces it by an earlier one, the first expiry takes that, the second finds nothing.
func (a *arming) take(now Instant) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.at == 0 || now.Before(a.at) {
		return false
	}
	a.at = 0
	return true
}

// shut closes the arming and reports whether it was open.
func (a *arming) shut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.closed
	a.closed, a.at = true, 0
	return !was
}
