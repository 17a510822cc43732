package resp

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A connection that is closed drops what it has not sent, and one whose peer is gone is given up after 2 s: with TLS
// and without.
func TestConnectionsAreDialledToEndSoon(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {RootCAs: roots, MinVersion: tls.VersionTLS12}} {
		conn, err := Dial(t.Context(), web.Listener.Addr().String(), &net.Dialer{}, config)
		require.NoError(t, err, name)
		tcp := conn
		if secured, ok := conn.(*tls.Conn); ok {
			tcp = secured.NetConn()
		}
		raw, err := tcp.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			on, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
			require.NoError(t, err)
			require.Equal(t, 1, on, "%s: SO_LINGER is on", name)
			limit, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			require.NoError(t, err)
			require.Equal(t, 2000, limit, "%s: TCP_USER_TIMEOUT, ms", name)
		}))
		require.NoError(t, conn.Close())
	}
}

// Whoever answers is verified by the address that was dialled, unless a name is asked for. The configuration is the
// caller's: another node's name is not left in it.
func TestWhoAnswersIsVerifiedByTheAddressThatWasDialled(t *testing.T) {
	web := httptest.NewTLSServer(nil) // it is 127.0.0.1, and example.com
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	require.NoError(t, err)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		host, name string
		fails      bool
	}{
		{"127.0.0.1", "", false},
		{"localhost", "", true},
		{"127.0.0.1", "", false},
		{"localhost", "example.com", false},
		{"127.0.0.1", "redis.example", true},
	} {
		config.ServerName = c.name
		conn, err := Dial(t.Context(), net.JoinHostPort(c.host, port), &net.Dialer{}, config)
		require.Equal(t, c.name, config.ServerName)
		if c.fails {
			require.ErrorContains(t, err, "certificate", "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.NoError(t, conn.Close())
	}
}
