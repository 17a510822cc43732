//go:build !linux

package resp

import (
	"net"
	"time"
)

// setUserTimeout has no portable form.
func setUserTimeout(*net.TCPConn, time.Duration) {}
