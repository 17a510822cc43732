package api_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// answering is a server that does one thing with each connection.
func answering(t *testing.T, does func(net.Conn)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			does(conn)
		}
	}()
	return l.Addr().String()
}

// TestOpenSaysAtOnceWhatIsTheMatter: somebody who has mistaken a port, or TLS, reads one sentence, and need not wait for
// it.
func TestOpenSaysAtOnceWhatIsTheMatter(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.EnableHTTP2 = false
	secure.StartTLS()
	t.Cleanup(secure.Close)
	trusting := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // what is tested is not trust
	ssh := answering(t, func(c net.Conn) { _, _ = fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n") })
	closes := answering(t, func(c net.Conn) { _ = c.Close() })
	silent := answering(t, func(net.Conn) {})
	httpSaid := ` answers, and is no Redis server: it says "HTTP/1.1 400 Bad Request\r\nContent-Type: text/pla"`
	const sshSaid = ` answers, and is no Redis server: it says "SSH-2.0-OpenSSH_9.2\r\n"`
	at := func(addr string) []string { return []string{addr} }
	webAddr, secureAddr := web.Listener.Addr().String(), secure.Listener.Addr().String()
	const asked = " speaks plain text, and TLS is asked for"
	for what, c := range map[string]struct {
		cfg    engine.Config
		config bool
		text   string // all that is said, after "holdfast: " or that of ErrConfig
	}{
		"TLSToPlain":    {engine.Config{Addrs: at(s.Addr()), TLS: trusting}, true, s.Addr() + asked},
		"TLSURLToPlain": {engine.Config{Addrs: at("rediss://" + s.Addr())}, true, "rediss://" + s.Addr() + asked},
		"PlainToTLS": {
			engine.Config{Addrs: at(secureAddr)},
			true,
			secureAddr + " speaks TLS, and neither Config.TLS nor a rediss:// URL asks for it",
		},
		"Web":      {engine.Config{Addrs: at(webAddr)}, true, webAddr + httpSaid},
		"WebByTLS": {engine.Config{Addrs: at(secureAddr), TLS: trusting}, true, secureAddr + httpSaid},
		"SSH": {
			engine.Config{Addrs: at(ssh)},
			true,
			ssh + sshSaid,
		},
		"Closes": {engine.Config{Addrs: at(closes)}, false, closes + " closes connections without an answer: is it a Redis server?"},
		"Silent": {engine.Config{Addrs: at(silent)}, false, silent + " accepts connections and does not answer"},
		"Several": {
			engine.Config{Addrs: []string{s.Addr(), ssh, closes}, TLS: trusting},
			false,
			"no address can be used: " + s.Addr() + asked + "; " + ssh + asked + "; " + closes +
				" closes connections without an answer: is it a Redis server?",
		},
		"SeveralAndAllWrong": {
			engine.Config{Addrs: []string{ssh, webAddr}}, true, "no address can be used: " + ssh + sshSaid + "; " + webAddr + httpSaid,
		},
		"Many": {
			engine.Config{Addrs: []string{secureAddr, ssh, webAddr, webAddr}},
			false,
			"no address can be used: " + secureAddr + " speaks TLS, and neither Config.TLS nor a rediss:// URL asks for it; " +
				ssh + sshSaid + "; " + webAddr + httpSaid + "; and 1 more",
		},
		"Sentinels": {
			engine.Config{Addrs: at(webAddr), MasterName: "main"}, true, webAddr + httpSaid,
		},
		"NoSentinel": {
			engine.Config{Addrs: at(s.Addr()), MasterName: "main"}, true, s.Addr() + " is not a sentinel",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			e, err := engine.Open(testkit.Limited(t), c.cfg)
			took := time.Since(began)
			require.Nil(t, e)
			prefix := "holdfast: "
			if c.config {
				prefix = engine.ErrConfig.Error() + ": "
				require.ErrorIs(t, err, engine.ErrConfig)
				require.False(t, engine.SafeToRetry(err))
			}
			require.EqualError(t, err, prefix+c.text)
			if what != "NoSentinel" {
				require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
			}
			most := time.Second + testkit.Soon
			if what == "Silent" { // it may be slow
				most = 2*time.Second + testkit.Soon
			}
			require.Less(t, took, most)
		})
	}
}

// refusing are servers that answer, and take no writes, each with its way to get there and back.
func refusing() map[string]struct {
	class      engine.Class
	begin, end func(t *testing.T, s *redistest.Server)
} {
	set := func(option, value string) func(*testing.T, *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			s.Do(t, "CONFIG", "SET", option, value)
		}
	}
	return map[string]struct {
		class      engine.Class
		begin, end func(t *testing.T, s *redistest.Server)
	}{
		"Replica": {
			engine.ClassReadOnly,
			func(t *testing.T, s *redistest.Server) { t.Helper(); s.Do(t, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, s *redistest.Server) { t.Helper(); s.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		"Full": {engine.ClassOOM, set("maxmemory", "1"), set("maxmemory", "0")},
	}
}

// TestOpenAndPingRefuseAServerThatTakesNoWrites: it would give no lock, however well it answers.
func TestOpenAndPingRefuseAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	for what, how := range refusing() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Prefix = "some:" })
			require.NoError(t, e.Ping(testkit.Limited(t)))
			how.begin(t, s)
			began := time.Now()
			err := e.Ping(testkit.Limited(t))
			require.Equal(t, how.class, testkit.ServerClass(err), "%v", err)
			require.ErrorContains(t, err, s.Addr()+" takes no writes: ")
			second, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}})
			require.Nil(t, second)
			require.Equal(t, how.class, testkit.ServerClass(err), "%v", err)
			require.ErrorContains(t, err, s.Addr()+" takes no writes: ")
			require.True(t, engine.SafeToRetry(err), "a failover ends that, or somebody makes room")
			require.Less(t, testkit.Ran(began), time.Second+testkit.Soon)
			how.end(t, s)
			require.NoError(t, e.Ping(testkit.Limited(t)))
			testkit.Release(t, testkit.Acquire(t, testkit.Open(t, s.Addr()).Lock("name")))
			testkit.Finish(t, s, e)
		})
	}
}

// A readiness probe fails where no lock can be had: also where no replica is there that writes would wait for, and where
// a snapshot has failed.
func TestPingSeesThatAServerRefusesWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  engine.Class
		refuse func(s *redistest.Server)
		again  func(s *redistest.Server)
	}{
		{
			engine.ClassNoReplicas,
			func(s *redistest.Server) { s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1") },
			func(s *redistest.Server) { s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0") },
		},
		{
			engine.ClassMisconf,
			func(s *redistest.Server) {
				s.Do(t, "CONFIG", "SET", "save", "3600 1000000")
				s.Do(t, "SET", "x", "1")
				require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700)) // a file cannot take its place
				s.Do(t, "BGSAVE")
				testkit.Eventually(t, "the snapshot fails", func() bool {
					status, err := s.InfoField("persistence", "rdb_last_bgsave_status")
					return err == nil && status == "err"
				})
			},
			func(s *redistest.Server) { s.Do(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") },
		},
		{
			engine.ClassOOM,
			func(s *redistest.Server) { s.Do(t, "CONFIG", "SET", "maxmemory", "1") },
			func(s *redistest.Server) { s.Do(t, "CONFIG", "SET", "maxmemory", "0") },
		},
	} {
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		require.NoError(t, e.Ping(testkit.Limited(t)))
		c.refuse(s)
		err := e.Ping(testkit.Limited(t))
		require.Equal(t, c.class, testkit.ServerClass(err), "%v", err)
		require.ErrorContains(t, err, s.Addr()+" takes no writes: ")
		_, err = e.Lock("a").TryAcquire(testkit.Limited(t))
		require.Equal(t, c.class, testkit.ServerClass(err), "%v", err)
		c.again(s)
		require.NoError(t, e.Ping(testkit.Limited(t)))
	}
}

// TestPingOfAUserWithoutTheRightToInfoAsksOnce: a Ping each second would fill the log of refused commands.
func TestPingOfAUserWithoutTheRightToInfoAsksOnce(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t, "~*", "&*", "+@all", "-info")
	e := testkit.Open(t, s.Addr(), testkit.AsApp)
	opened := s.Do(t, "INFO", "errorstats")
	for range 5 {
		require.NoError(t, e.Ping(context.Background()))
	}
	require.Equal(t, opened, s.Do(t, "INFO", "errorstats"), "Open has asked")
	testkit.Finish(t, s, e)
}

// The same of one who may load no scripts: somebody else has loaded the engine's.
func TestPingOfAUserWhoMayLoadNoScriptAsksOnce(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t, "~*", "&*", "+@all", "-script|load")
	e := testkit.Open(t, s.Addr(), testkit.AsApp)
	require.NoError(t, e.Ping(testkit.Limited(t)))
	asked := s.Do(t, "INFO", "errorstats")
	for range 5 {
		require.NoError(t, e.Ping(testkit.Limited(t)))
	}
	require.Equal(t, asked, s.Do(t, "INFO", "errorstats"))
	require.NoError(t, e.Close(testkit.Limited(t)))
}
