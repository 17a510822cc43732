package twin

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// expected are the codes that each script of package resp answers, as its header says: the differential test has to
// see them all.
var expected = map[string][]string{
	"acquire":      {"too late", "granted", "busy", "no expiry", "another kind", "refused here", "error of a key"},
	"acquireone":   {"too late", "granted", "busy", "no expiry", "another kind", "error of a key"},
	"releaseone":   {"released", "heard", "not ours", "publish refused", "error"},
	"reacquire":    {"too late", "granted", "ours", "busy", "no expiry", "gone", "another kind", "error"},
	"release":      {"released", "heard", "not ours", "publish refused", "refused here", "error of a key"},
	"renew":        {"renewed", "not ours", "error of a key"},
	"inspect":      {"fields", "no key", "error"},
	"force":        {"too late", "released", "none", "another kind", "error"},
	"fenced":       {"too late", "granted", "token", "busy", "no expiry", "another kind", "error of a key"},
	"read":         {"too late", "granted", "busy", "no expiry", "another kind", "refused here", "error of a key"},
	"readrenew":    {"renewed", "not ours", "error of a key"},
	"readrelease":  {"released", "heard", "not ours", "publish refused", "error of a key"},
	"write":        {"too late", "granted", "busy", "no expiry", "another kind", "refused here", "error of a key"},
	"writerelease": {"released", "heard", "not ours", "publish refused", "error of a key"},
	"fair":         {"too late", "granted", "busy", "no expiry", "another kind", "error of a key"},
	"fairrelease":  {"released", "heard", "not ours", "publish refused", "passed on", "error of a key"},
	"queue":        {"waiting", "nobody", "error"},

	"semaphore":        {"too late", "granted", "too few", "another kind", "error of a key"},
	"semaphorerelease": {"released", "heard", "not ours", "publish refused", "error of a key"},
	"semaphoreset":     {"too late", "done", "nothing done", "another kind", "error"},

	"latch":          {"too late", "open", "opened", "closed", "gone", "deleted", "another kind", "error"},
	"latchdown":      {"counted", "heard", "another kind", "publish refused", "error of a key"},
	"latchset":       {"too late", "done", "nothing done", "another kind", "error"},
	"permits":        {"too late", "granted", "busy", "no expiry", "another kind", "error of a key", "error"},
	"permitsrelease": {"released", "heard", "not ours", "publish refused", "error of a key"},
	"permitsrenew":   {"renewed", "not ours", "error of a key"},
	"permitsset":     {"too late", "done", "nothing done", "another kind", "error"},
	"permitsleased":  {"waiting", "nobody", "error"},

	"group":        {"too late", "granted", "busy", "another kind", "error"},
	"groupcount":   {"too late", "ours", "gone", "error"},
	"grouprelease": {"released", "heard", "not ours", "publish refused", "error of a key"},
	"grouprenew":   {"renewed", "not ours", "error of a key"},
	"groupforce":   {"too late", "released", "none", "another kind", "error"},
	"groupheld":    {"waiting", "nobody", "error"},
	"barrier":      {"too late", "waits", "passes", "broken", "differs", "unknown", "overtaken", "another kind", "error"},
	"barrierleave": {"left", "heard", "another kind", "publish refused", "error of a key"},
	"barrierset":   {"too late", "done", "nothing done", "another kind", "error"},
}

// everyCode lists what the differential test has to see: of Redisson's scripts that each is called and refused.
func everyCode() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(resp.ScriptTexts())) {
		for _, code := range expected[name] {
			out = append(out, name+": "+code)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(RedissonTexts())) {
		out = append(out, name+": answer", name+": error")
	}
	return out
}

// missing are those of every code that were not seen.
func missing(codes map[string]int) []string {
	return slices.DeleteFunc(everyCode(), func(code string) bool { return codes[code] > 0 })
}

func TestEveryScriptHasATwinAndItsCodes(t *testing.T) {
	for name := range resp.ScriptTexts() {
		require.Contains(t, scriptNames[idAcquire:idRedissonLock], name, "a script without a twin")
		require.NotEmpty(t, expected[name], "codes of %s", name)
	}
	require.Len(t, resp.ScriptTexts(), int(idRedissonLock-idAcquire), "a twin without a script")
}

// codesOf names what a script has answered.
func codesOf(script string, r Reply) []string {
	if r.Kind == Error {
		return []string{"error"}
	}
	if strings.HasPrefix(script, "redisson ") {
		return []string{"answer"}
	}
	switch script {
	case "reacquire", "groupcount":
		return reacquireCodes(r.Array)
	case "acquireone":
		switch {
		case r.Kind == Int:
			return []string{"granted"}
		case len(r.Array) == 1:
			return []string{"too late"}
		}
		return []string{codeOf("granted", false, 1, r.Array[1])}
	case "releaseone":
		return []string{map[int64]string{1: "heard", 0: "released", -1: "not ours", -2: "publish refused"}[min(r.Int, 1)]}
	case "force", "groupforce":
		if len(r.Array) == 1 {
			return []string{"too late"}
		}
		return []string{map[int64]string{1: "released", 0: "none", -3: "another kind"}[r.Array[1].Int]}
	case "semaphore":
		return semaphoreCodes(r.Array)
	case "latch":
		return latchCodes(r.Array)
	case "latchdown":
		return countDownCodes(r.Array)
	case "barrier":
		return partyCodes(r.Array)
	case "barrierleave":
		return leftCodes(r.Array)
	case "semaphoreset", "latchset", "permitsset", "barrierset":
		if len(r.Array) == 1 {
			return []string{"too late"}
		}
		return []string{map[int64]string{1: "done", 0: "nothing done", -3: "another kind"}[r.Array[1].Int]}
	case "inspect":
		if len(r.Array) == 1 {
			return []string{"no key"}
		}
		return []string{"fields"}
	case "queue", "permitsleased", "groupheld":
		if len(r.Array) == 1 {
			return []string{"nobody"}
		}
		return []string{"waiting"}
	}
	if len(r.Array) == 1 {
		return []string{"too late"}
	}
	normal, from := "granted", 2
	switch {
	case strings.HasSuffix(script, "release"):
		normal = "released"
	case strings.HasSuffix(script, "renew"):
		normal = "renewed"
	case script == "fenced":
		from = 3
	}
	var out []string
	if r.Array[1].Int > 0 {
		out = append(out, normal)
	}
	for i := from; i+1 < len(r.Array); i += 2 {
		out = append(out, codeOf(normal, script == "fenced", r.Array[i].Int, r.Array[i+1]))
	}
	return out
}

// codeOf names what a script has answered for one key.
func codeOf(normal string, fenced bool, at int64, v Reply) string {
	switch {
	case at == 0:
		return "refused here"
	case v.Kind == Error:
		return "error of a key"
	case normal == "released" && v.Int <= -10:
		return "passed on"
	case normal == "released" && v.Int > 0:
		return "heard"
	case normal == "released" && v.Int == -2:
		return "publish refused"
	case normal != "granted":
		return "not ours"
	case v.Int == -3:
		return "another kind"
	case v.Int == -1:
		return "no expiry"
	case fenced && v.Int > 0:
		return "token"
	default:
		return "busy"
	}
}

func reacquireCodes(words []Reply) []string {
	if len(words) == 1 {
		return []string{"too late"}
	}
	switch words[1].Int {
	case 1:
		return []string{"granted"}
	case 2:
		return []string{"ours"}
	case -1:
		return []string{"gone"}
	case -3:
		return []string{"another kind"}
	}
	if words[2].Int == -1 {
		return []string{"no expiry"}
	}
	return []string{"busy"}
}

func semaphoreCodes(words []Reply) []string {
	switch len(words) {
	case 1:
		return []string{"too late"}
	case 3:
		return []string{"granted"}
	}
	if v := words[4]; v.Kind == Error {
		return []string{"error of a key"}
	} else if v.Int == -3 {
		return []string{"another kind"}
	}
	return []string{"too few"}
}

func latchCodes(words []Reply) []string {
	if len(words) == 1 {
		return []string{"too late"}
	}
	return []string{map[int64]string{0: "closed", 1: "open", 2: "opened", 3: "gone", 4: "deleted", -3: "another kind"}[words[1].Int]}
}

func countDownCodes(words []Reply) (out []string) {
	if words[1].Int > 0 {
		out = append(out, "counted")
	}
	for i := 2; i+1 < len(words); i += 2 {
		switch v := words[i+1]; {
		case v.Kind == Error:
			out = append(out, "error of a key")
		case v.Int == -1:
			out = append(out, "another kind")
		case v.Int == -2:
			out = append(out, "publish refused")
		default:
			out = append(out, "heard")
		}
	}
	return out
}

// partyCodes names what has become of parties.
func partyCodes(words []Reply) (out []string) {
	switch {
	case len(words) == 1:
		return []string{"too late"}
	case words[1].Int == -3:
		return []string{"another kind"}
	case words[3].Text == "":
		return []string{"overtaken"}
	}
	for _, verdict := range words[3].Text {
		out = append(out, map[rune]string{'w': "waits", 'p': "passes", 'b': "broken", 'n': "differs", 'u': "unknown"}[verdict])
	}
	return out
}

// leftCodes names what has become of barriers that parties have left.
func leftCodes(words []Reply) (out []string) {
	for _, code := range countDownCodes(words) {
		out = append(out, strings.Replace(code, "counted", "left", 1))
	}
	return out
}
