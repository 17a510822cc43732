package resp

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// oneAnswer is what became of the one key of a call, by the reply of either form of a script: its number, or its error. The
// remaining time of a key is any.
func oneAnswer(t *testing.T, script string, reply any) string {
	t.Helper()
	said := func(v any) string {
		switch v := v.(type) {
		case redistest.ReplyError:
			return string(v)
		case int64:
			if v > 0 && (script == "acquire" || script == "acquireone") {
				return "a time"
			}
			return fmt.Sprint(v)
		}
		return fmt.Sprintf("%T", v)
	}
	values, many := reply.([]any)
	switch {
	case script == "acquireone" && !many:
		return "a time is the answer: " + said(reply)
	case many && len(values) == 1:
		return "too late"
	case script == "acquireone" && many && len(values) == 2:
		return said(values[1])
	case script == "acquire" && len(values) == 2:
		require.EqualValues(t, 1, values[1])
		return "a time is the answer: a time"
	case script == "releaseone":
		return said(reply)
	case script == "release" && len(values) == 2:
		require.EqualValues(t, 1, values[1])
		return "0"
	case len(values) == 4:
		require.EqualValues(t, 1, values[2])
		return said(values[3])
	}
	return said(reply)
}

// A script for a single key does, answers and tells what the one for several does for a single key: in each state of whatever
// kind of lock, whatever the server refuses, and too late.
func TestAScriptForASingleKeyIsTheOtherOneForASingleKey(t *testing.T) {
	t.Parallel()
	r := newRefusalRig(t)
	passed, ahead := notAfters()
	const channel = "redisson_lock__channel:{k}"
	hears, err := redistest.Dial(t.Context(), r.server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = hears.Close() })
	_, err = hears.Do(t.Context(), "SUBSCRIBE", channel)
	require.NoError(t, err)
	eval := func(script string, args []string) any {
		v, err := r.run.Do(t.Context(), slices.Concat([]string{"EVALSHA", r.shas[script], "1", "k"}, args)...)
		if refused, is := err.(redistest.ReplyError); is { //nolint:errorlint // it is never wrapped
			return refused
		}
		require.NoError(t, err)
		return v
	}
	ping := []string{"PING"}
	also := []refusal{{name: "nothing", begin: ping, end: ping}, {name: "an expiry", begin: []string{"PERSIST", "k"}, end: ping}}
	seen := map[string]int{}
	for _, c := range []struct {
		many, one         string
		manyArgs, oneArgs []string
	}{
		{"acquire", "acquireone", []string{"30000", "e1:02", ahead, "0"}, []string{"30000", "e1:02", ahead}},
		{"acquire", "acquireone", []string{"30000", "e1:02", passed, "0"}, []string{"30000", "e1:02", passed}},
		{"acquire", "acquireone", []string{"no number", "e1:02", ahead, "0"}, []string{"no number", "e1:02", ahead}},
		{"acquire", "acquireone", []string{"9223372036854775807", "e1:02", ahead, "0"}, []string{"9223372036854775807", "e1:02", ahead}},
		{"release", "releaseone", []string{"PUBLISH", "00", "0", "", "e1:02", "1"}, []string{"PUBLISH", channel, "00", "e1:02"}},
		{"release", "releaseone", []string{"", "0", "0", "", "e1:02", "1"}, []string{"", "", "0", "e1:02"}},
		{"release", "releaseone", []string{"NOSUCH", "0", "0", "", "e1:02", "1"}, []string{"NOSUCH", channel, "0", "e1:02"}},
	} {
		for state := range refusalStates(0) {
			for _, refusal := range slices.Concat(also, serverRefusals, rightsOf(c.many)) {
				if refusal.name == "copy" || refusal.name == "dump" || refusal.name == "restore" {
					continue // those are of several keys
				}
				var answers [2]string
				var left [2][]string
				for i, script := range []string{c.many, c.one} {
					r.put(state, refusal.begin)
					answers[i] = oneAnswer(t, script, eval(script, [][]string{c.manyArgs, c.oneArgs}[i]))
					left[i] = linesOf(r.all(refusal.end, askStanding)[1])
				}
				what := fmt.Sprintf("%s of what is %s, without %s", c.one, state, refusal.name)
				require.Equal(t, answers[0], answers[1], what)
				require.Equal(t, left[0], left[1], what)
				seen[c.one+": "+answers[1]]++
				for range 2 { // both have told the same
					if answers[0] != "1" {
						break
					}
					message, err := hears.Receive(t.Context())
					require.NoError(t, err, what)
					require.Equal(t, []any{"message", channel, "00"}, message, what)
				}
			}
		}
	}
	for _, answer := range []string{
		"acquireone: a time is the answer: a time", "acquireone: a time", "acquireone: -1", "acquireone: -3", "acquireone: too late",
		"releaseone: 1", "releaseone: 0", "releaseone: -1", "releaseone: -2",
	} {
		require.NotZero(t, seen[answer], "%s, of %v", answer, seen)
	}
}
