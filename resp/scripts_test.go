package resp

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// scriptRun runs a script of ours as a command would: KEYS is one key.
func scriptRun(t *testing.T, s *redistest.Server, name string, args ...string) string {
	t.Helper()
	return s.Do(t, append([]string{"EVAL", ScriptTexts()[name], "1"}, args...)...)
}

// Not-afters, in the server's ms: one that has passed, and one that has not.
func notAfters() (passed, ahead string) {
	return strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10), strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
}

func TestC029NoScriptTakesAKeyAfterItsNotAfter(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	passed, ahead := notAfters()
	for name, rest := range map[string]string{"acquire": "0", "reacquire": "1"} {
		scriptRun(t, s, name, "key", "30000", "field", passed, rest, "0")
		require.Empty(t, s.Keys(t), "%s takes a key after its not-after", name)
		scriptRun(t, s, name, "key", "30000", "field", ahead, rest, "0", "0")
		require.Equal(t, "field\n1", s.Do(t, "HGETALL", "key"), name)
		if name == "reacquire" {
			scriptRun(t, s, name, "key", "30000", "field", passed, "7", "1")
			require.Equal(t, "field\n1", s.Do(t, "HGETALL", "key"), "a count is changed after the not-after")
		}
		s.Do(t, "DEL", "key")
	}
}

func TestC017NoScriptMakesAKeyWithoutATTL(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for name, rest := range map[string]string{"acquire": "0", "reacquire": "1"} {
		scriptRun(t, s, name, "key", "30000", "field", ahead, rest, "0", "0")
		require.Equal(t, []string{"key"}, s.Keys(t), name)
		require.Empty(t, s.ImmortalKeys(t), name)
		s.Do(t, "DEL", "key")
	}
}

func TestC024ACountThatIsSentTwiceCountsOnce(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	scriptRun(t, s, "acquire", "key", "30000", "field", ahead, "0")
	for _, count := range []string{"2", "3", "2", "1"} {
		for range 2 {
			scriptRun(t, s, "reacquire", "key", "30000", "field", ahead, count, "1")
			require.Equal(t, count, s.Do(t, "HGET", "key", "field"))
		}
	}
}

// A copy of a release that comes late finds the next grant of the same engine: another wire id.
func TestC031LateCopyOfAReleaseTouchesNoLaterGrant(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	free := func(field string) {
		scriptRun(t, s, "release", "key", "PUBLISH", "0", "0", field, "1")
	}
	scriptRun(t, s, "acquire", "key", "30000", "engine:1", ahead, "0", "0")
	free("engine:1")
	require.Empty(t, s.Keys(t))
	scriptRun(t, s, "acquire", "key", "30000", "engine:2", ahead, "0", "0")
	free("engine:1")
	require.Equal(t, "engine:2\n1", s.Do(t, "HGETALL", "key"))
}
