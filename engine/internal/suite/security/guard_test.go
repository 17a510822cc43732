package security_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Whatever leads to a server, what its client could not bear does not reach it.
func TestTheGuardStandsInFrontOfEveryKindOfConnection(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	cert := a.Sign("server").Certificate
	secured := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	roots := &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
	socket := filepath.Join(t.TempDir(), "s")
	for name, c := range map[string]struct {
		network, at string
		server      *tls.Config
		change      func(cfg *engine.Config)
	}{
		"TCP":       {"tcp", "127.0.0.1:0", nil, func(*engine.Config) {}},
		"TLS":       {"tcp", "127.0.0.1:0", secured, func(cfg *engine.Config) { cfg.TLS = roots }},
		"Unix":      {"unix", socket, nil, func(cfg *engine.Config) { cfg.Addrs = []string{"unix://" + socket} }},
		"Sentinels": {"tcp", "127.0.0.1:0", nil, func(cfg *engine.Config) { cfg.MasterName = "m" }},
		"Cluster":   {"tcp", "127.0.0.1:0", nil, func(cfg *engine.Config) { cfg.Topology = engine.TopologyCluster }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen(c.network, c.at)
			require.NoError(t, err)
			if c.server != nil {
				l = tls.NewListener(l, c.server)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					_, _ = io.WriteString(conn, "$-2\r\n")
					t.Cleanup(func() { _ = conn.Close() })
				}
			}()
			cfg := engine.Config{Addrs: []string{l.Addr().String()}}
			c.change(&cfg)
			option := engine.ClientOption(cfg)
			conn, err := option.DialCtxFn(testkit.Limited(t), l.Addr().String(), &net.Dialer{}, option.TLSConfig)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			n, err := conn.Read(make([]byte, 100))
			require.ErrorIs(t, err, resp.ErrReply)
			require.Zero(t, n)

			_, err = engine.Open(testkit.Limited(t), cfg)
			require.ErrorIs(t, err, resp.ErrReply)
		})
	}
}

// A server that goes on sending what no server sends costs a line in the log each second, not each connection.
func TestTheLogSaysOnceASecondWhyConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	var log testkit.Journal
	e := testkit.Open(t, p.Addr(), func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	m := faultproxy.NewMangler(1, 1)
	m.Bytes = true
	p.Mangle(m)
	begun := time.Now()
	testkit.Eventually(t, "there are many", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = e.Ping(ctx)
		return e.Stats().ConnectionsRefused > 5
	})
	p.Mangle(nil)
	lines := func() int { return strings.Count(log.String(), "a connection was closed for what the server sent") }
	testkit.Eventually(t, "the log has a line", func() bool { return lines() > 0 })
	require.LessOrEqual(t, lines(), 1+int(time.Since(begun)/time.Second))
	require.Contains(t, log.String(), "connections=")
}
