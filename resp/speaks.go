package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// ErrPlain says that a server speaks plain text where TLS is asked for.
var ErrPlain = errors.New("the server speaks plain text, and TLS is asked for")

// handshakeSoon is how long a TLS handshake mostly takes at most. A server that speaks plain text waits for the end of
// a line in it: it is asked then, instead of at the end of the dial's time.
const handshakeSoon = 300 * time.Millisecond

// speakLimit bounds a look at what a server speaks.
const speakLimit = 500 * time.Millisecond

// handshake makes a connection one of TLS. It says so if the server at its other end speaks plain text.
func handshake(ctx context.Context, wrapped *tls.Conn) error {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	looked := make(chan struct{})
	look := time.AfterFunc(handshakeSoon, func() {
		defer close(looked)
		if speaksPlain(asking, wrapped.RemoteAddr()) {
			cancel(ErrPlain)
		}
	})
	err := wrapped.HandshakeContext(asking)
	plain := errors.Is(context.Cause(asking), ErrPlain)
	cancel(nil)
	if !look.Stop() {
		<-looked
	}
	var header tls.RecordHeaderError
	if err != nil && (plain || errors.As(err, &header)) {
		return ErrPlain
	}
	return err
}

// speaksPlain reports whether a server answers a PING in plain text as a Redis server does. Nothing else is sent.
func speaksPlain(ctx context.Context, addr net.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, speakLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	first := make([]byte, 1)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, _ := conn.Read(first)
	return n == 1 && (first[0] == '+' || first[0] == '-')
}

// SpeaksTLS reports whether a server answers the beginning of a TLS handshake. Nothing else is sent, so its
// certificate does not matter.
func SpeaksTLS(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, speakLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	look := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // nothing is said over it
	wrapped := tls.Client(conn, look)
	err = wrapped.HandshakeContext(ctx)
	var alert tls.AlertError
	var refused *net.OpError // as the other side's alerts come
	return err == nil || errors.As(err, &alert) || errors.As(err, &refused) && refused.Op == "remote error"
}
