package main

import (
	"crypto/sha1"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// An engine whose user may not load scripts works where an administrator has loaded them, by what this command writes.
func TestScriptsThatAnAdministratorHasLoadedAreEnough(t *testing.T) {
	needServer(t)
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-script", "-eval", "-@dangerous", "+info", "+keys")
	cfg := engine.Config{Addrs: []string{s.Addr()}, Username: "app", Password: "secret"}
	use := func() error {
		e, err := engine.Open(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(t.Context())) }()
		for _, l := range []*engine.Lock{e.Lock("a"), e.FencedLock("b").Lock, e.FairLock("c").Lock, e.RWLock("d").ReadLock(), e.RWLock("d").WriteLock()} {
			ls, err := l.Acquire(t.Context())
			if err != nil {
				return err
			}
			if _, err := l.Inspect(t.Context()); err != nil {
				return err
			}
			if err := ls.Release(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}
	require.ErrorContains(t, use(), "NOPERM", "nobody has loaded them")
	status, stdout, stderr := invoke(t, "scripts")
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	pipe(t, s.Addr(), stdout, len(resp.ScriptTexts()))
	require.NoError(t, use())
	for name, text := range resp.ScriptTexts() {
		require.Equal(t, "1", s.Do(t, "SCRIPT", "EXISTS", fmt.Sprintf("%x", sha1.Sum([]byte(text)))), name) //nolint:gosec // as above
	}
	status, _, stderr = invoke(t, "scripts", "all")
	require.Equal(t, report.StatusUsage, status)
	require.Contains(t, stderr, "unexpected argument")
}

// pipe sends commands as redis-cli --pipe does, and counts the replies.
func pipe(t *testing.T, addr, commands string, replies int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Write([]byte(commands))
	require.NoError(t, err)
	var got strings.Builder
	buffer := make([]byte, 4096)
	for strings.Count(got.String(), "\r\n") < 2*replies { // $40, and the SHA-1
		n, err := c.Read(buffer)
		require.NoError(t, err)
		got.Write(buffer[:n])
	}
	require.NotContains(t, got.String(), "-")
	require.Equal(t, replies, strings.Count(got.String(), "$40\r\n"))
}
