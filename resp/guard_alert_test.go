package resp

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A closedConn is one whose other end has closed: from then on writes fail, and what came before can be read.
type closedConn struct {
	net.Conn
	closed atomic.Bool
}

func (c *closedConn) Write(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return c.Conn.Write(b)
}

func TestAWriteThatFailsSaysWhyTheServerRefusesTheCertificate(t *testing.T) {
	ours, strangers := redistest.NewAuthority(t), redistest.NewAuthority(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ours.Sign("server").Certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool(),
	})
	require.NoError(t, err)
	defer listener.Close()
	refused := make(chan error)
	go func() {
		for range 2 {
			conn, err := listener.Accept()
			if err == nil {
				err = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}
			refused <- err
		}
	}()
	dial := func() (*closedConn, net.Conn) {
		plain, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		conn := &closedConn{Conn: plain}
		secure := tls.Client(conn, &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: "127.0.0.1", RootCAs: ours.Pool(),
			Certificates: []tls.Certificate{strangers.Sign("client").Certificate},
		})
		require.NoError(t, secure.Handshake())
		require.Error(t, <-refused)
		conn.closed.Store(true)
		return conn, new(Guard).Watch(secure)
	}
	plain, conn := dial()
	_, err = conn.Write([]byte("x"))
	require.ErrorContains(t, err, "unknown certificate authority")
	require.NoError(t, plain.Close())
	plain, conn = dial() // the reason cannot be read any more
	require.NoError(t, plain.Conn.Close())
	_, err = conn.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
}
