//go:build !linux

package pace

import "time"

// nap sleeps for d.
func nap(d time.Duration) { time.Sleep(d) }
