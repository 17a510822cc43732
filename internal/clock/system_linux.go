package clock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System returns the machine's clock: CLOCK_BOOTTIME, which counts suspend. A
// sandbox that refuses that clock gets the runtime's monotonic one.
func System() Clock {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return monotonic{}
	}
	return boottime{}
}

// boottime is CLOCK_BOOTTIME.
type boottime struct{}

// Now reads the clock with a raw system call: it cannot block, so the scheduler
// need not be told, and with a valid clock id and pointer it cannot fail.
func (boottime) Now() Instant {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0)
	return Instant(ts.Nano())
}

func (c boottime) Wall(t Instant) time.Time { return wall(t, c.Now()) }

func (c boottime) NewAlarm(fire func()) (Alarm, error) { return newBootAlarm(c, fire) }
