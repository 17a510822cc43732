package security_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// C-157: a lock over TLS with a client certificate, and every peer that must not be talked to.
func TestC157_TLSVerifiesTheServerAndShowsTheClientCertificate(t *testing.T) {
	t.Parallel()
	ours, foreign := redistest.NewAuthority(t), redistest.NewAuthority(t)
	server, client := ours.Sign("server"), ours.Sign("client").Certificate
	s, addr := ours.Server(server)
	good := &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{client}, MinVersion: tls.VersionTLS12}

	e := testkit.Open(t, addr, func(cfg *engine.Config) { cfg.TLS = good })
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	waiter := testkit.Open(t, addr, func(cfg *engine.Config) { cfg.TLS = good })
	ls := testkit.Acquire(t, e.Lock("a"))
	f := waiter.Lock("a").AcquireAsync(testkit.Limited(t)) // subscribes, over TLS too
	testkit.Eventually(t, "it waits", func() bool { return waiter.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, ls)
	got, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, got)
	testkit.Finish(t, s, e, waiter)

	_, expired := ours.Server(ours.SignUntil(time.Now().Add(-time.Minute), "expired"))
	_, old := ours.Server(server, "--tls-protocols", "TLSv1.1")
	change := func(f func(*tls.Config)) *tls.Config {
		c := good.Clone()
		f(c)
		return c
	}
	stranger := foreign.Sign("client").Certificate
	for name, c := range map[string]struct {
		addr string
		tls  *tls.Config
	}{
		"NoClientCertificate":      {addr, change(func(c *tls.Config) { c.Certificates = nil })},
		"ForeignClientCertificate": {addr, change(func(c *tls.Config) { c.Certificates = []tls.Certificate{stranger} })},
		"UnknownAuthority":         {addr, change(func(c *tls.Config) { c.RootCAs = foreign.Pool() })},
		"AnotherName":              {addr, change(func(c *tls.Config) { c.ServerName = "redis.example" })},
		"Expired":                  {expired, good},
		"OldProtocol":              {old, good},
		"PlaintextToATLSPort":      {addr, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{c.addr}, TLS: c.tls, Password: testkit.Secret})
			require.Error(t, err)
			require.NotContains(t, err.Error(), testkit.Secret)
			require.ErrorContains(t, err, c.addr, "whose it is")
			if name == "UnknownAuthority" || name == "AnotherName" || name == "Expired" {
				require.ErrorContains(t, err, "has a certificate that is not trusted: ")
				require.ErrorIs(t, err, engine.ErrConfig)
				require.False(t, engine.SafeToRetry(err), "no retry mends it")
			}
		})
	}
}
