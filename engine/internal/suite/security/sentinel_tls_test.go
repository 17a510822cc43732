package security_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const tlsHandshake = 0x16 // the type of the record that a TLS connection begins with

// Whoever stands between an engine and a sentinel names the master. So what holds for the master holds for the sentinels:
// with TLS to the one, no byte goes to the others in plain text.
func TestSentinelsAreAskedOverTLSWhereTheMasterIs(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	cert := a.Sign("server")
	s, master := a.Server(cert, "--tls-auth-clients", "no")
	here := &testimony{master: master, epoch: "1"}
	secured := startFake(t, &tls.Config{Certificates: []tls.Certificate{cert.Certificate}, MinVersion: tls.VersionTLS12}, here.answer)
	roots := &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}

	e := testkit.Open(t, secured.addr(), func(c *engine.Config) { c.MasterName, c.TLS = "m", roots })
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
	require.True(t, secured.only(tlsHandshake))
	require.Contains(t, secured.asked, "SENTINEL GET-MASTER-ADDR-BY-NAME")

	// The same with a URL, which can say nothing of roots but that none are needed; and with a client of one's own.
	url := "rediss://" + secured.addr() + "?master_set=m&skip_verify=true"
	e = testkit.Open(t, url)
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
	client, err := rueidis.NewClient(engine.ClientOption(engine.Config{Addrs: []string{url}}))
	require.NoError(t, err)
	defer client.Close()
	e, err = engine.Open(testkit.Limited(t), engine.Config{Client: client, Topology: engine.TopologySentinel})
	require.NoError(t, err)
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
	require.True(t, secured.only(tlsHandshake))

	// A sentinel that speaks plain text is not asked, and hears neither a command nor a password.
	for name, cfg := range map[string]engine.Config{
		"URL":  {Addrs: []string{"rediss://user:" + testkit.Secret + "@PLAIN?master_set=m&skip_verify=true"}, SentinelPassword: testkit.Secret},
		"TLS":  {Addrs: []string{"PLAIN"}, MasterName: "m", TLS: roots, Password: testkit.Secret, SentinelPassword: testkit.Secret},
		"Ours": {Addrs: []string{"PLAIN"}, MasterName: "m", SentinelTLS: roots, SentinelPassword: testkit.Secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := startFake(t, nil, here.answer)
			cfg.Addrs[0] = strings.ReplaceAll(cfg.Addrs[0], "PLAIN", plain.addr())
			_, err := engine.Open(testkit.Limited(t), cfg)
			require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err), "%v", err)
			require.True(t, plain.only(tlsHandshake), "%q", plain.said())
			require.NotContains(t, plain.said(), "HELLO")
			require.NotContains(t, plain.said(), testkit.Secret)
		})
	}
}

// Who wants it otherwise says so.
func TestSentinelsAreAskedInPlainTextWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	s, master := a.Server(a.Sign("server"), "--tls-auth-clients", "no")
	plain := startFake(t, nil, (&testimony{master: master, epoch: "1"}).answer)
	roots := &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
	e := testkit.Open(t, plain.addr(), func(c *engine.Config) { c.MasterName, c.TLS, c.NoSentinelTLS = "m", roots, true })
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
	require.True(t, plain.only('*'))
	for _, cfg := range []engine.Config{
		{Addrs: []string{plain.addr()}, MasterName: "m", SentinelTLS: roots, NoSentinelTLS: true},
		{Addrs: []string{plain.addr()}, NoSentinelTLS: true},
	} {
		_, err := engine.Open(testkit.Limited(t), cfg)
		require.ErrorIs(t, err, engine.ErrConfig)
	}
}

// Whoever is believed once can name another server. It hears no password where only a private authority is trusted, or one
// name is asked of every server.
func TestARedirectionToAnothersServerTellsItNoPassword(t *testing.T) {
	t.Parallel()
	ours, public := redistest.NewAuthority(t), redistest.NewAuthority(t)
	secured := func(c redistest.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12}
	}
	both := ours.Pool(public)
	evil := startFake(t, secured(public.Sign("evil")), nil)
	sentinel := startFake(t, secured(ours.Sign("sentinel")), (&testimony{master: evil.addr(), epoch: "1"}).answer)
	open := func(sentinels, master *tls.Config) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		e, err := engine.Open(ctx, engine.Config{Addrs: []string{sentinel.addr()}, MasterName: "m", TLS: master, SentinelTLS: sentinels, Password: testkit.Secret})
		if err == nil {
			_ = e.Close(ctx)
		}
		return err
	}
	heard := func() int {
		evil.mu.Lock()
		defer evil.mu.Unlock()
		return len(evil.asked)
	}
	private := &tls.Config{RootCAs: ours.Pool(), MinVersion: tls.VersionTLS12}
	require.ErrorContains(t, open(private, private), "certificate")
	require.ErrorContains(t, open(private, &tls.Config{RootCAs: both, ServerName: "redis.example", MinVersion: tls.VersionTLS12}), "certificate")
	require.Zero(t, heard())
	// With the roots that signed it, and its own address for a name, it is one of ours.
	require.Error(t, open(private, &tls.Config{RootCAs: both, MinVersion: tls.VersionTLS12}), "it answers nothing of use")
	require.Positive(t, heard())
}
