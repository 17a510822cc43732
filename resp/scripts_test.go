package resp

import (
	"slices"
	"strconv"
	"strings"
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

// familyStates are the states of refusalStates that a script is called in.
func familyStates(script string) (states []string) {
	for state := range refusalStates(0) {
		if slices.Contains(refusalFamilies[script], refusalKind(state)) {
			states = append(states, state)
		}
	}
	return states
}

// Whatever stands there, a copy that comes late changes nothing: it takes no key and no place in a queue, raises no expiry
// and leaves no note.
func TestC029_NoScriptTakesAKeyAfterItsNotAfter(t *testing.T) {
	t.Parallel()
	var carry []string // a not-after
	for name, text := range ScriptTexts() {
		if strings.Contains(text, "  not-after: ") {
			carry = append(carry, name)
		}
	}
	require.ElementsMatch(t, []string{"acquire", "acquireone", "reacquire", "fenced", "read", "write", "fair", "force", "semaphore", "semaphoreset", "latch", "latchset", "permits", "permitsset", "group", "groupcount", "groupforce", "barrier", "barrierset"}, carry)
	r := newScriptRig(t)
	passed, ahead := notAfters()
	for _, script := range carry {
		changes := 0
		for _, state := range familyStates(script) {
			for i, late := range refusalCalls(passed)[script] {
				before := r.prepare(state)
				require.Len(t, r.call(script, late), 1, "%s of a lock that is %s says more than the time: %q", script, state, late)
				require.Equal(t, before, r.standing(), "%s of a lock that is %s, after the not-after: %q", script, state, late)
				r.call(script, refusalCalls(ahead)[script][i])
				if !slices.Equal(before, r.standing()) {
					changes++
				}
			}
		}
		require.GreaterOrEqual(t, changes, 2, "%s changes nothing before its not-after either", script)
	}
}

// mayStay reports whether a key without an expiry is one that Redisson gives none: queues, counters, permits, a latch.
func mayStay(script, key string) bool {
	return strings.HasPrefix(key, "redisson_lock_") || counts(script) && key == "k" ||
		strings.HasPrefix(script, "permits") && (key == "k" || key == "{k}:timeout")
}

// counts reports whether a script is of what is counted.
func counts(script string) bool {
	return strings.HasPrefix(script, "semaphore") || strings.HasPrefix(script, "latch")
}

// Of each script, in each state.
func TestC017_NoScriptMakesAKeyWithoutATTL(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	taken := map[string]bool{} // scripts that a field was written by
	for script, calls := range refusalCalls(ahead) {
		forms := []func(string, []string) any{r.call}
		if slices.Contains([]string{"acquire", "fenced", "read", "write"}, script) {
			forms = append(forms, r.callInline)
		}
		for _, state := range familyStates(script) {
			for _, args := range calls {
				for _, call := range forms {
					before := r.prepare(state)
					call(script, args)
					for _, line := range r.standing() {
						key, immortal := strings.CutSuffix(line, " lives for ever")
						require.False(t, immortal && !mayStay(script, key), "%s of a lock that is %s, %q: %s", script, state, args, line)
						if !slices.Contains(before, line) && strings.HasPrefix(line, "k e1:0") {
							taken[script] = true
						}
					}
				}
			}
		}
	}
	for _, script := range []string{"acquire", "acquireone", "reacquire", "fenced", "read", "write", "fair", "fairrelease"} {
		require.True(t, taken[script], "%s has taken nothing", script)
	}
}

// A copy that comes late may find one of its keys held for longer, under the same owner id.
func TestNoScriptGivesAKeyTheLeaseOfAnother(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for script, rest := range map[string][]string{
		"acquire": {"1"}, "fenced": {"1", "1"}, "read": {"1", ""}, "write": {"1", "0"},
	} {
		call := func(lease string, keys ...string) []string {
			return slices.Concat([]string{"EVAL", ScriptTexts()[script], strconv.Itoa(len(keys))}, keys, []string{lease, "field", ahead}, rest)
		}
		s.Do(t, call("60000", script+" long")...)
		s.Do(t, call("5000", script+" long", script+" short", script+" other")...)
		for _, short := range []string{script + " short", script + " other"} {
			left, err := strconv.Atoi(s.Do(t, "PTTL", short))
			require.NoError(t, err, script)
			require.Positive(t, left, script)
			require.LessOrEqual(t, left, 5000, script)
		}
		left, err := strconv.Atoi(s.Do(t, "PTTL", script+" long"))
		require.NoError(t, err, script)
		require.Greater(t, left, 30_000, script)
	}
}

func TestC024_ACountThatIsSentTwiceCountsOnce(t *testing.T) {
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

// A copy of a release that comes late finds the next grant of the same engine: another owner id.
func TestC031_LateCopyOfAReleaseTouchesNoLaterGrant(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for acquire, free := range map[string]func(field string){
		"acquire":    func(field string) { scriptRun(t, s, "release", "key", "PUBLISH", "0", "0", "", field, "1") },
		"acquireone": func(field string) { scriptRun(t, s, "releaseone", "key", "PUBLISH", "channel", "0", field) },
	} {
		scriptRun(t, s, acquire, "key", "30000", "engine:1", ahead, "0", "0")
		free("engine:1")
		require.Empty(t, s.Keys(t))
		scriptRun(t, s, acquire, "key", "30000", "engine:2", ahead, "0", "0")
		free("engine:1")
		require.Equal(t, "engine:2\n1", s.Do(t, "HGETALL", "key"))
		s.Do(t, "DEL", "key")
	}
}
