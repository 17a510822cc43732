//go:build !unix

package meter

import "time"

// cpuTime is the user and system time this process has used; false where unknown.
func cpuTime() (time.Duration, bool) { return 0, false }
