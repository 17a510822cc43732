//go:build unix

package yardstick

import (
	"syscall"
	"time"
)

// cpuTime is the time this process has spent on a core so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
