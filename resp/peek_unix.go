//go:build unix

package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A peeker asks the system whether there is something to read from a connection.
type peeker struct {
	raw   syscall.RawConn
	ask   func(fd uintptr) // made once
	space [1]byte
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
		// What has come stays: nothing is taken.
		_, _, err := unix.Recvfrom(int(fd), p.space[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		p.there = !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}
	return p
}

// ready reports whether a read would not wait: there is something, or the connection has ended. Blocks: never.
func (p *peeker) ready() bool { return p != nil && (p.raw.Control(p.ask) != nil || p.there) }
