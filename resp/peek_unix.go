//go:build unix

package resp

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A peeker asks the system whether there is something to read from a connection.
type peeker struct {
	raw   syscall.RawConn
	ask   func(fd uintptr) // made once
	fds   [1]unix.PollFd
	there bool
}

func newPeeker(conn net.Conn) *peeker {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	at, is := conn.(syscall.Conn)
	if !is {
		return nil
	}
	raw, err := at.SyscallConn()
	if err != nil {
		return nil
	}
	p := &peeker{raw: raw}
	p.ask = func(fd uintptr) {
		// Takes nothing, and no memory, for a lane that polls asks often. An end or an error of the connection counts.
		p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} //nolint:gosec // descriptors are small
		n, _ := unix.Poll(p.fds[:], 0)
		p.there = n > 0
	}
	return p
}

// ready reports whether a read would not wait: there is something, or the connection has ended. Blocks: never.
func (p *peeker) ready() bool { return p != nil && (p.raw.Control(p.ask) != nil || p.there) }
