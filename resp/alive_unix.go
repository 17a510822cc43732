//go:build unix

package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A look asks the system whether there is something to read from a connection.
type look struct {
	raw   syscall.RawConn
	ask   func(fd uintptr) // made once
	space [1]byte
	there bool
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
		// What has come stays: nothing is taken.
		_, _, err := unix.Recvfrom(int(fd), l.space[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		l.there = !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}
	return l
}

// ready reports whether a read would not wait: there is something, or the connection has ended. Blocks: never.
func (l *look) ready() bool { return l != nil && (l.raw.Control(l.ask) != nil || l.there) }
