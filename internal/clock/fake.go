package clock

import (
	"slices"
	"sync"
	"time"
)

// Fake is a clock for tests that moves only when told to. Alarms that come due fire
// in the goroutine that moves the clock, before the move returns.
type Fake struct {
	moving sync.Mutex // one move at a time; taken before mu

	mu     sync.Mutex
	now    Instant
	inMove bool         // a move is firing alarms, and will see new armings
	alarms []*fakeAlarm // open alarms, in the order they were made
}

// NewFake returns a fake clock that shows start, or 1 if start is not positive.
func NewFake(start Instant) *Fake { return &Fake{now: max(start, 1)} }

// Now returns the instant the clock was moved to.
func (f *Fake) Now() Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Wall translates t as if instant zero had been the first moment of the year 2000.
func (f *Fake) Wall(t Instant) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(t))
}

// Advance lets d pass. The clock stops at each armed instant on the way and fires
// that alarm there, so an alarm that arms itself anew fires as often as it would have.
// It must not be called from inside an alarm's function.
func (f *Fake) Advance(d time.Duration) {
	f.moving.Lock()
	defer f.moving.Unlock()
	f.move(f.Now().Add(d))
}

// Set jumps to t in one step, as a clock that counts suspend does on resume, then
// fires what has come due. It must not be called from inside an alarm's function.
func (f *Fake) Set(t Instant) {
	f.moving.Lock()
	defer f.moving.Unlock()
	f.mu.Lock()
	f.now = max(t, 1)
	f.mu.Unlock()
	f.move(max(t, 1))
}

// move goes on to the instant to, firing alarms in the order of their instants.
func (f *Fake) move(to Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inMove = true
	for a := f.earliestLocked(to); a != nil; a = f.earliestLocked(to) {
		f.now = max(f.now, a.at)
		a.startLocked()
		f.mu.Unlock()
		a.run()
		f.mu.Lock()
	}
	f.now, f.inMove = to, false
}

// earliestLocked returns the alarm that comes due first, not after limit.
func (f *Fake) earliestLocked(limit Instant) *fakeAlarm {
	var first *fakeAlarm
	for _, a := range f.alarms {
		if a.at != 0 && !a.at.After(limit) && (first == nil || a.at.Before(first.at)) {
			first = a
		}
	}
	return first
}

// NewAlarm makes an alarm on the fake clock. It never fails.
func (f *Fake) NewAlarm(fire func()) (Alarm, error) {
	a := &fakeAlarm{clock: f, fire: fire}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms = append(f.alarms, a)
	return a, nil
}

// fakeAlarm is an alarm on a fake clock, guarded by its clock's mu.
type fakeAlarm struct {
	clock  *Fake
	fire   func()
	at     Instant // zero: disarmed
	closed bool

	serial sync.Mutex     // keeps calls of fire apart
	runs   sync.WaitGroup // calls begun; none begins after closed
}

// Arm sets the alarm. An instant that has passed fires from a goroutine of its own,
// or from the move that is going on.
func (a *fakeAlarm) Arm(at Instant) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	if a.closed {
		return
	}
	a.at = max(at, 1)
	if a.clock.inMove || a.at.After(a.clock.now) {
		return
	}
	a.startLocked()
	go a.run()
}

func (a *fakeAlarm) Disarm() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.at = 0
}

func (a *fakeAlarm) Close() error {
	a.clock.mu.Lock()
	a.closed, a.at = true, 0
	a.clock.alarms = slices.DeleteFunc(a.clock.alarms, func(b *fakeAlarm) bool { return a == b })
	a.clock.mu.Unlock()
	a.runs.Wait()
	return nil
}

// startLocked uses the arming up for one call of run.
func (a *fakeAlarm) startLocked() {
	a.at = 0
	a.runs.Add(1)
}

func (a *fakeAlarm) run() {
	defer a.runs.Done()
	a.serial.Lock()
	defer a.serial.Unlock()
	a.fire()
}
