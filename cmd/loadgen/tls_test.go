package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// All of a run speaks TLS: the engines, loadgen's own client, the yardstick, and the other process that is killed.
func TestARunOverTLS(t *testing.T) {
	needServer(t)
	t.Parallel()
	ours, foreign := redistest.NewAuthority(t), redistest.NewAuthority(t)
	server := ours.Sign("server")
	_, asks := ours.Server(server) // for a client's certificate
	_, open := ours.Server(server, "--tls-auth-clients", "no")
	_, named := ours.Server(ours.Sign("named", "redis.example"), "--tls-auth-clients", "no")
	client, stranger := ours.Sign("client"), foreign.Sign("client")
	identity := " --tls-cert " + client.CertFile + " --tls-key " + client.KeyFile
	for _, tc := range []struct{ name, args, says string }{
		{"Authority", "--tls --tls-ca " + ours.File + " --addr " + open, ""},
		{"URL", "--tls-ca " + ours.File + " --addr rediss://" + open + " --yardstick --rounds 1", ""},
		{"ClientCertificate", "--tls --tls-ca " + ours.File + identity + " --yardstick --rounds 1 --addr " + asks, ""},
		{"ServerName", "--tls --tls-ca " + ours.File + " --tls-server-name redis.example --addr " + named, ""},
		{"Insecure", "--tls --tls-insecure --addr " + open, ""},
		{"InsecureURL", "--addr rediss://" + open + "?skip_verify=true", ""},
		{
			"TheOtherClient", "--tls --tls-ca " + ours.File + identity + " --addr " + asks +
				" --scenario contend --clients 4 --lease 1s --duration 3500ms --chaos client", "",
		},
		{"UnknownAuthority", "--tls --addr " + open, "unknown authority"},
		{"AnotherAuthority", "--tls --tls-ca " + foreign.File + " --addr " + open, "unknown authority"},
		{"AnotherName", "--tls --tls-ca " + ours.File + " --addr " + named, "127.0.0.1"},
		{"NoClientCertificate", "--tls --tls-ca " + ours.File + " --addr " + asks, "certificate required"},
		{
			"ClientOfAnotherAuthority", "--tls --tls-ca " + ours.File + " --tls-cert " + stranger.CertFile + " --tls-key " + stranger.KeyFile + " --addr " + asks,
			"unknown certificate authority",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--duration", "300ms", "--warmup", "0s", "--inflight", "16", "--json", "-"}, strings.Fields(tc.args)...)
			if strings.Contains(tc.args, "contend") {
				args = append([]string{"run", "--warmup", "0s", "--json", "-"}, strings.Fields(tc.args)...)
			}
			status, stdout, stderr := invoke(t, args...)
			if tc.says != "" {
				require.Equal(t, report.StatusConnect, status, stderr+stdout)
				require.Regexp(t, tc.says, stderr)
				require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
				return
			}
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			requireReport(t, []byte(stdout))
		})
	}
}

// A master and sentinels that ask for different passwords.
func TestARunBySentinels(t *testing.T) {
	needServer(t)
	t.Parallel()
	const secret, theirs = "canary-dragon-42", "canary-lizard-43"
	g := redistest.RunSentinel(t, 1, 3)
	g.Master.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
	for _, one := range g.Sentinels {
		one.Do(t, "ACL", "SETUSER", "looker", "on", ">"+theirs, "~*", "&*", "+@all")
		one.Do(t, "ACL", "SETUSER", "default", "off")
	}
	dir := t.TempDir()
	mine, sentinels := filepath.Join(dir, "mine"), filepath.Join(dir, "sentinels")
	require.NoError(t, os.WriteFile(mine, []byte(secret), 0o600))
	require.NoError(t, os.WriteFile(sentinels, []byte(theirs), 0o600))
	login := []string{"--user", "app", "--password-file", mine, "--sentinel-user", "looker", "--sentinel-password-file", sentinels}
	addrs := g.Addrs()
	for name, args := range map[string][]string{
		"Addresses": {"--master-name", "holdfast", "--addr", addrs[0], "--addr", addrs[1], "--yardstick", "--rounds", "1", "--inflight", "16", "--duration", "300ms"},
		"URL":       {"--addr", "redis://" + addrs[0] + "?master_set=holdfast&addr=" + addrs[1], "--inflight", "16", "--duration", "2500ms"},
		"TheOtherClient": {
			"--master-name", "holdfast", "--addr", addrs[0], "--scenario", "contend", "--clients", "4", "--lease", "1s", "--duration", "3500ms", "--chaos", "client",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := invoke(t, append(append([]string{"run", "--warmup", "0s", "--json", "-"}, login...), args...)...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			require.NotContains(t, stdout+stderr, secret)
			require.NotContains(t, stdout+stderr, theirs)
			r := requireReport(t, []byte(stdout))
			require.Equal(t, "sentinel", r["topology"])
			if name != "TheOtherClient" {
				require.Contains(t, r["server_check"], "agrees", "what sentinels publish is allowed for")
			}
		})
	}
	status, _, stderr := invoke(t, "run", "--master-name", "holdfast", "--addr", addrs[0], "--user", "app", "--password-file", mine)
	require.Equal(t, report.StatusConnect, status)
	require.Contains(t, stderr, "it wants a password: --password-file or LOADGEN_PASSWORD, for sentinels theirs (NOAUTH)")
	require.NotContains(t, stderr, secret)
}

func TestWhoCannotHoldLocksIsRefusedAtOnce(t *testing.T) {
	needServer(t)
	t.Parallel()
	ours := redistest.NewAuthority(t)
	s, secure := ours.Server(ours.Sign("server"))
	replica := redistest.Run(t, redistest.Options{Args: []string{"--replicaof", "127.0.0.1", strconv.Itoa(s.Port())}})
	full := redistest.Run(t, redistest.Options{})
	full.Do(t, "CONFIG", "SET", "maxmemory", "1")
	silent, web := listen(t, nil), listen(t, []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
	mail := listen(t, []byte("220 mail.example ESMTP\r\n"))
	g := redistest.RunSentinel(t, 1, 1)
	for _, tc := range []struct{ name, args, says string }{
		{"Replica", "--addr " + replica.Addr(), "is a replica of 127.0.0.1:" + strconv.Itoa(s.Port()) + " and refuses to be written"},
		{"Full", "--addr " + full.Addr(), "is full: it uses "},
		{"Sentinel", "--addr " + g.Addrs()[0], "is a sentinel: give --master-name"},
		{"NoSentinel", "--master-name holdfast --addr " + s.Addr(), "it is no sentinel: omit --master-name"},
		{"OtherMaster", "--master-name other --addr " + g.Addrs()[0], `the sentinels know no master named "other"`},
		{"Silent", "--addr " + silent, "does not answer within"},
		{"HTTP", "--addr " + web, "it is an HTTP server, not Redis"},
		{"HTTPWithTLS", "--tls --addr " + web, "it is an HTTP server, not Redis"},
		{"Mail", "--addr " + mail, `it is no Redis: it answers PING with "220 mail.example ESMTP"`},
		{"PlainToTLS", "--addr " + secure, "expects TLS"},
		{"TLSToPlain", "--tls --addr " + s.Addr(), "does not speak TLS on this port"},
		{"NobodyThere", "--addr 127.0.0.1:1", "connect to 127.0.0.1:1: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			began := time.Now()
			status, stdout, stderr := invoke(t, append([]string{"run"}, strings.Fields(tc.args)...)...)
			took := time.Since(began)
			require.Equal(t, report.StatusConnect, status)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tc.says)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
			require.Less(t, took, 3*time.Second, "a second, and what a loaded machine takes")
		})
	}
}

// listen accepts connections and answers each with text, if any, once it was asked something.
func listen(t *testing.T, text []byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() { // ends with the test
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the other side
				defer conn.Close()
				for buf := make([]byte, 512); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					if text != nil {
						_, _ = conn.Write(text)
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
