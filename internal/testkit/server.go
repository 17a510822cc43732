package testkit

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// NoKeys waits until the server has no keys.
func NoKeys(t testing.TB, s *redistest.Server) {
	t.Helper()
	Eventually(t, "the server has no keys", func() bool { return s.Do(t, "DBSIZE") == "0" })
}

// noise are commands that are not the engine's, or that its client sends of itself.
//
//nolint:gochecknoglobals // a constant in all but name
var noise = []string{"info", "ping", "auth", "hello", "time", "exec", "multi", "keys", "dbsize", "client", "config"}

// Calls is commandstats without the noise.
func Calls(t testing.TB, s *redistest.Server) map[string]int64 {
	t.Helper()
	calls, err := s.CommandStats()
	require.NoError(t, err)
	for name := range calls {
		if strings.HasPrefix(name, "client|") || strings.HasPrefix(name, "config|") { // from 7.0 on
			delete(calls, name)
		}
	}
	for _, name := range noise {
		delete(calls, name)
	}
	return calls
}

// ResetCalls makes commandstats count from zero.
func ResetCalls(t testing.TB, s *redistest.Server) {
	t.Helper()
	require.Equal(t, "OK", s.Do(t, "CONFIG", "RESETSTAT"))
}

// Int reads a number from the server.
func Int(t testing.TB, s *redistest.Server, args ...string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s.Do(t, args...), 10, 64)
	require.NoError(t, err, "%q", args)
	return n
}

// CallsOf counts how often the server has run a command.
func CallsOf(t testing.TB, s *redistest.Server, command string) int64 {
	t.Helper()
	stats, err := s.CommandStats()
	require.NoError(t, err)
	return stats[command]
}

// CountOf is the hold count that the server has for a lease.
func CountOf(t testing.TB, s *redistest.Server, ls *engine.Lease) string {
	t.Helper()
	return s.Do(t, "HGET", ls.Name(), ls.OwnerID())
}

// Expiry returns when a key expires, as wall time of this machine.
func Expiry(tb testing.TB, s *redistest.Server, key string) time.Time {
	tb.Helper()
	at := ExpiryOf(tb, ExpireTime(tb, s, key))
	require.Positive(tb, at.UnixMilli(), "key %q has no expiry or is not there", key)
	return at
}

// Exists reports whether the server has a key.
func Exists(tb testing.TB, s *redistest.Server, key string) bool {
	tb.Helper()
	return s.Do(tb, "EXISTS", key) == "1"
}

// ScriptCall matches the EVALSHA of scripts of ours, by their names in resp/scripts. What a script does for a single key
// another one may do: it is matched, too.
func ScriptCall(names ...string) faultproxy.Match {
	var shas []string
	for _, name := range names {
		text, ok := resp.ScriptTexts()[name]
		if !ok {
			panic(fmt.Sprintf("no script %q", name))
		}
		for _, text := range []string{text, resp.ScriptTexts()[name+"one"]} {
			sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
			shas = append(shas, hex.EncodeToString(sum[:]))
		}
	}
	return func(cmd []string) bool {
		return strings.EqualFold(cmd[0], "EVALSHA") && len(cmd) > 1 && slices.Contains(shas, cmd[1])
	}
}

// WatchCommands signals each command that matches, and lets it pass.
func WatchCommands(p *faultproxy.Proxy, match faultproxy.Match) <-chan []string {
	seen := make(chan []string, 4096)
	p.DropCommand(func(cmd []string) bool { // a rule that never applies
		if match(cmd) {
			select {
			case seen <- cmd:
			default:
			}
		}
		return false
	}, -1)
	return seen
}

// expireTime is PEXPIRETIME for servers before 7.0, which have no such command. It may be a millisecond off.
const expireTime = `local left = redis.call('PTTL', KEYS[1])
if left < 0 then return left end
local now = redis.call('TIME')
return now[1] * 1000 + math.floor(now[2] / 1000) + left`

// ExpireTime returns what PEXPIRETIME answers: when a key expires, in milliseconds since 1970; -1 if it does not, -2 if
// it is not there.
func ExpireTime(tb testing.TB, s *redistest.Server, key string) string {
	tb.Helper()
	v, err := s.Command(Limited(tb), "PEXPIRETIME", key)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		return s.Do(tb, "EVAL", expireTime, "1", key)
	}
	require.NoError(tb, err)
	return redistest.Text(v)
}

// ExpiryOf reads an answer of PEXPIRETIME.
func ExpiryOf(tb testing.TB, text string) time.Time {
	tb.Helper()
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(tb, err)
	return time.UnixMilli(ms)
}
