package clock

import "time"

// Instant is a point on a [Clock], in nanoseconds from an origin of that clock's
// own. Zero means never or unset; no clock shows it.
type Instant int64

// Add returns the instant d after t.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns how long t is after u; negative if t is before u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Instant) Before(u Instant) bool { return t < u }

// After reports whether t is later than u.
func (t Instant) After(u Instant) bool { return t > u }

// Clock reads the time and makes alarms on it. All methods may be called from any
// goroutine.
type Clock interface {
	// Now returns the current instant; it is never zero and never goes back.
	//
	// Blocks: never. Allocates: never.
	Now() Instant

	// Wall translates t to wall time, informative only: wall time can be stepped.
	// An unset instant gives the zero time.
	Wall(t Instant) time.Time

	// NewAlarm makes an alarm, disarmed, that calls fire from a goroutine of its
	// own when the clock has reached the armed instant.
	//
	// Errors: those of the operating system, such as too many open files.
	NewAlarm(fire func()) (Alarm, error)
}

// Alarm calls its function once for each arming. Calls of the function never
// overlap, and none begins before the armed instant.
type Alarm interface {
	// Arm sets the alarm to at, in place of the previous arming. An instant that
	// has passed already fires at once, still not in the caller's goroutine. If the
	// previous arming is just then coming due, it may still call the function.
	//
	// Blocks: never.
	Arm(at Instant)

	// Disarm takes the arming back, if it has not come due yet.
	Disarm()

	// Close disarms for good, ends the alarm's goroutine and waits for it. It may
	// be called more than once, but not from inside the alarm's function.
	Close() error
}

// wall translates t, read from a clock that shows now, to wall time.
func wall(t, now Instant) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Now().Add(t.Sub(now)).Round(0)
}
