package resp

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialTimeout bounds a connect and its handshake.
const dialTimeout = 2 * time.Second

// Dial connects as lock connections should: a connection that is closed drops what it has not sent
// (SO_LINGER 0), and one whose peer stops acknowledging is given up by the kernel
// (TCP_USER_TIMEOUT, where there is one). Both help on dead links only; a stopped server's socket
// still holds what it received, which is what the not-after of every acquire is for.
func Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := *dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		setUserTimeout(tcp, dialTimeout)
	}
	if config == nil {
		return conn, nil
	}
	secured := config
	if secured.ServerName == "" {
		secured = config.Clone()
		secured.ServerName, _, _ = net.SplitHostPort(addr)
	}
	wrapped := tls.Client(conn, secured)
	if err := handshake(ctx, wrapped); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return wrapped, nil
}
