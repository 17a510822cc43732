//go:build unix

package meter

import (
	"syscall"
	"time"
)

// cpuTime is the user and system time this process has used; false where unknown.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
