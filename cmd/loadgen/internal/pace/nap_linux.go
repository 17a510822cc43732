package pace

import (
	"syscall"
	"time"
)

// nap sleeps for d, to within the system's timer slack (some 50 µs).
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // a signal ends it early, which the caller's clock will show
}
