package resp

import (
	"context"
	"strconv"
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
				"fair":        {"30000", ahead, "1", "5000", "300000", "0", "e1:02", "1"},
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
	for _, count := range []string{"1e18", "inf", "nan", "1001"} {
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
