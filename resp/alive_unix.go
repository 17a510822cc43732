//go:build unix

package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A look asks the system whether a connection that nobody reads from has ended.
type look struct {
	raw   syscall.RawConn
	ask   func(fd uintptr) // made once
	space [1]byte
	ended bool
	there bool // something is there to be read, or the end
}

func newLook(conn net.Conn) *look {
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
	l := &look{raw: raw}
	l.ask = func(fd uintptr) {
		// What has come stays: nothing is taken. Nothing to read, and not the end, is what is expected.
		n, _, err := unix.Recvfrom(int(fd), l.space[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		l.there = !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
		l.ended = n == 0 && err == nil ||
			err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}
	return l
}

// ready reports whether a read would not wait. Blocks: never.
func (l *look) ready() bool { return l.raw.Control(l.ask) != nil || l.there }

// over reports whether it has. Blocks: never.
func (l *look) over() bool {
	if l == nil {
		return false
	}
	return l.raw.Control(l.ask) != nil || l.ended
}
