package resp

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A waiter whose time is over is taken out by whoever asks next. Where the server lets nobody write it stays: the
// script must not try for ever, for a server that runs a script answers nobody.
func TestAFairScriptEndsWhereADeadWaiterCannotBeTakenOut(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	s.Do(t, "HSET", "held", "e1:07", "1")
	for _, key := range []string{"held", "free"} {
		s.Do(t, "RPUSH", "redisson_lock_queue:{"+key+"}", "dead:01")
		s.Do(t, "ZADD", "redisson_lock_timeout:{"+key+"}", "1", "dead:01")
	}
	for _, refusal := range [][]string{
		{"CONFIG", "SET", "min-replicas-to-write", "1"},
		{"REPLICAOF", "127.0.0.1", "1"},
		{"ACL", "SETUSER", "default", "-lpop"},
	} {
		s.Do(t, refusal...)
		for _, key := range []string{"held", "free"} {
			for name, argv := range map[string][]string{
				"fair":        {"30000", ahead, "1", "5000", "300000", "PUBLISH", "0", "e1:02", "1"},
				"fairrelease": {"PUBLISH", "0", "0", "0", "5000", "300000", "e1:07", "1"},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				_, err := s.Command(ctx, append([]string{"EVAL", ScriptTexts()[name], "1", key}, argv...)...)
				cancel()
				require.NoError(t, err, "%s of a lock that is %s, after %v", name, key, refusal)
			}
		}
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
		s.Do(t, "REPLICAOF", "NO", "ONE")
	}
}

// HLEN is needed for a ForceRelease, says docs/SECURITY.md, and for nothing else: who may not use it leaves the key the
// time that it has.
func TestAGiveBackOfAHandleNeedsNoRightToCount(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	s.Do(t, "HSET", "key", "field", "2")
	s.Do(t, "PEXPIRE", "key", "3600000")
	s.Do(t, "ACL", "SETUSER", "default", "-hlen")
	answer := scriptRun(t, s, "reacquire", "key", "30000", "field", ahead, "1", "2")
	require.Regexp(t, `^\d+\n2\n0$`, answer, "ours, and counted")
	require.Equal(t, "1", s.Do(t, "HGET", "key", "field"))
	left, err := strconv.Atoi(s.Do(t, "PTTL", "key"))
	require.NoError(t, err)
	require.Greater(t, left, 3_000_000)
}

// In the last millisecond of a key PTTL answers 0. A count that is changed then must not delete the key and make it anew,
// without an expiry.
func TestACountThatChangesInTheLastMillisecondLeavesAnExpiry(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for range 30 {
		s.Do(t, "HSET", "key", "field", "2")
		s.Do(t, "PEXPIRE", "key", "5")
		for i := range 150 {
			scriptRun(t, s, "reacquire", "key", "30000", "field", ahead, strconv.Itoa(1+i%2), "2")
			left := s.Do(t, "PTTL", "key")
			require.NotEqual(t, "-1", left, "held for ever")
			if left == "-2" {
				break
			}
		}
		s.Do(t, "DEL", "key")
	}
}

// A field of a read-write lock's hash may say anything. What a script does for it is bounded: the hash keeps its time.
func TestACountThatNobodyReachesKeepsNoServerBusy(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for _, count := range []string{"1e18", "inf", "nan", "1001", "9223372036854775807"} {
		for script, args := range map[string][]string{
			"readrelease":  {"PUBLISH", "0", "0", "field", "1"},
			"writerelease": {"PUBLISH", "0", "0", "field", "1"},
			"reacquire":    {"1000", "field", ahead, "1", "2"},
		} {
			mode := map[bool]string{true: "write", false: "read"}[script == "writerelease"]
			s.Do(t, "HSET", "rw", "mode", mode, "field", "2", "other", count)
			if script != "reacquire" {
				s.Do(t, "HSET", "rw", "field", "1")
			}
			s.Do(t, "PEXPIRE", "rw", "60000")
			scriptRun(t, s, script, append([]string{"rw"}, args...)...)
			left, err := strconv.Atoi(s.Do(t, "PTTL", "rw"))
			require.NoError(t, err)
			require.Greater(t, left, 50_000, "%s beside a count of %s", script, count)
			s.Do(t, "DEL", "rw")
		}
	}
}

// Whatever is refused to a script of the fair lock, it ends, in an answer for each key, and the server answers others.
func TestNoRefusalEndsAFairScriptHalfWay(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	rights := map[string]bool{}
	for _, name := range []string{"fair", "fairrelease"} {
		for _, m := range regexp.MustCompile(`(?:call|must)\('([A-Z]+)'`).FindAllStringSubmatch(ScriptTexts()[name], -1) {
			rights[strings.ToLower(m[1])] = true
		}
	}
	delete(rights, "time") // is asked for before anything is done
	refusals := map[string][2][]string{
		"no replica": {{"CONFIG", "SET", "min-replicas-to-write", "1"}, {"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"read only":  {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
		"no memory":  {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"nothing":    {{"PING"}, {"PING"}},
	}
	for right := range rights {
		refusals["without "+right] = [2][]string{{"ACL", "SETUSER", "default", "-" + right}, {"ACL", "SETUSER", "default", "+" + right}}
	}
	ask := []string{"30000", ahead, "1", "5000", "300000", "PUBLISH", "0"}
	give := []string{"PUBLISH", "0", "0", "0", "5000", "300000"}
	pass := []string{"PUBLISH", "0", "0", "1", "5000", "300000"}
	calls := [][]string{
		append([]string{"fair"}, append(ask, "e1:02", "1")...), append([]string{"fair"}, append(ask, "e1:04", "1")...),
		append([]string{"fairrelease"}, append(give, "e1:07", "1")...), append([]string{"fairrelease"}, append(give, "e1:02", "1")...),
		append([]string{"fairrelease"}, append(pass, "e1:07", "1", "1", "e1:02", "30000")...),
	}
	queues := map[string][]string{ // of each the one who waits, its score and when it was heard of, as seconds from now
		"nobody": nil, "a dead one": {"e1:01 1 -60", "e1:02 3 0", "j:5 300 x"}, "one unheard": {"e1:03 3 x", "e1:02 3 0"},
		"one of Redisson's": {"j:5 -1 x", "e1:02 100 0", "j:6 400 x"}, "without scores": {"j:5 x x", "e1:02 x 0"},
		"whose place is wrong": {"e1:02 -200 0", "j:6 100 x"}, "one that may have it": {"e1:02 4 0"},
	}
	at := func(seconds string) string {
		n, err := strconv.Atoi(seconds)
		require.NoError(t, err)
		return strconv.FormatInt(time.Now().Add(time.Duration(n)*time.Second).UnixMilli(), 10)
	}
	has := func(command ...string) bool {
		v, err := s.Command(t.Context(), command...)
		require.NoError(t, err)
		return v != nil
	}
	for why, refusal := range refusals {
		for who, queue := range queues {
			for _, call := range calls {
				s.Do(t, "FLUSHALL")
				for _, w := range queue {
					f := strings.Fields(w)
					s.Do(t, "RPUSH", "redisson_lock_queue:{q}", f[0])
					if f[1] != "x" {
						s.Do(t, "ZADD", "redisson_lock_timeout:{q}", at(f[1]), f[0])
					}
					if f[2] != "x" {
						s.Do(t, "ZADD", "{q}:fair_heard", at(f[2]), f[0])
						s.Do(t, "ZADD", "{q}:fair_asked", "1", f[0])
						s.Do(t, "HSET", "{q}:fair_notes", "told", "nobody")
					}
				}
				s.Do(t, "PEXPIRE", "{q}:fair_heard", "60000")
				s.Do(t, "PEXPIRE", "{q}:fair_asked", "60000")
				s.Do(t, "PEXPIRE", "{q}:fair_notes", "60000")
				for _, held := range []bool{true, false} {
					if held {
						s.Do(t, "HSET", "q", "e1:07", "1")
						s.Do(t, "PEXPIRE", "q", "60000")
					} else {
						s.Do(t, "DEL", "q")
					}
					s.Do(t, refusal[0]...)
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					answer, err := s.Command(ctx, append([]string{"EVAL", ScriptTexts()[call[0]], "1", "q"}, call[1:]...)...)
					cancel()
					require.NoError(t, err, "%s, %s, the queue has %s, held: %v", call[0], why, who, held)
					from := time.Now()
					require.Equal(t, "PONG", s.Do(t, "PING"))
					require.Less(t, time.Since(from), time.Second)
					s.Do(t, refusal[1]...)
					if waiter := "e1:04"; slices.Contains(call, waiter) && len(answer.([]any)) > 3 {
						stands := []bool{has("LPOS", "redisson_lock_queue:{q}", waiter), has("ZSCORE", "redisson_lock_timeout:{q}", waiter), has("ZSCORE", "{q}:fair_heard", waiter)}
						_, busy := answer.([]any)[3].(int64)
						if busy || !slices.Contains([]string{"without lrem", "without zrem", "without zcard", "without zscore", "without lrange"}, why) {
							require.Equal(t, []bool{stands[0], stands[0], stands[0]}, stands, "half a place: %s, the queue has %s, held: %v, answer %v", why, who, held, answer)
						}
						require.True(t, stands[0] || !busy, "%s, the queue has %s, held: %v, answer %v", why, who, held, answer)
					}
					require.Empty(t, slices.DeleteFunc(s.ImmortalKeys(t), func(key string) bool {
						return strings.HasPrefix(key, "redisson_") || key == "q" && why == "without pexpire"
					}),
						"%s, %s, the queue has %s, held: %v", call[0], why, who, held)
				}
			}
		}
	}
}
