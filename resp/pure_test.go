package resp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestParseInfoKnowsWhatAVersionPromises(t *testing.T) {
	for _, c := range []struct {
		info string
		want capabilities
	}{
		{"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", capabilities{Version: "7.0.15", Copy: true, Greater: true}},
		{"redis_version:6.2.0\nredis_mode:cluster\n", capabilities{Version: "6.2.0", Copy: true, Cluster: true}},
		{"redis_version:6.0.16\r\n", capabilities{Version: "6.0.16"}},
		{"redis_version:5.0.14\r\n", capabilities{Version: "5.0.14"}},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\nredis_mode:sentinel\r\n", capabilities{Version: "7.2.4", Copy: true, Greater: true, Sentinel: true}},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:cluster\r\n", capabilities{Version: "7.2.4", Copy: true, Greater: true, Cluster: true}},
		{"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_mode:sentinel\r\n", capabilities{Version: "7.2.4", Copy: true, Greater: true, Sentinel: true}},
		{"redis_version:10.0\r\n", capabilities{Version: "10.0", Copy: true, Greater: true}},
		{"redis_version:7\r\n", capabilities{Version: "7", Copy: true, Greater: true}},
		{"redis_version:6\r\n", capabilities{Version: "6"}},
		{"redis_version:255.255.255\r\n", capabilities{Version: "255.255.255", Copy: true, Greater: true}}, // unstable builds
		{"redis_version:\r\n", capabilities{}},
		{"redis_version:unknown\r\n", capabilities{Version: "unknown"}},
		{"redis_version:99999999999999999999.1\r\n", capabilities{Version: "99999999999999999999.1", Copy: true, Greater: true}},
		{"nothing of interest", capabilities{}},
		{"", capabilities{}},
	} {
		require.Equal(t, c.want, parseInfo(c.info), "%q", c.info)
	}
}

// The estimate is a lower bound of the server's clock: a not-after made from it is never late.
func TestEstimateNeverMakesANotAfterLate(t *testing.T) {
	const now = clock.Instant(1_000_000_000_000)
	const limit = 2500 * time.Millisecond
	for _, ahead := range []time.Duration{0, time.Hour, -10 * time.Minute, 50 * 365 * 24 * time.Hour} {
		for _, trip := range []time.Duration{0, time.Millisecond, 2 * time.Second} {
			var e estimate
			server := func(t clock.Instant) int64 { return (int64(t) + int64(ahead)) / int64(time.Millisecond) }
			e.learn(server(now.Add(-trip)), now) // the server read its clock, then the reply travelled
			sent := now.Add(time.Minute)
			got := e.notAfter(sent, limit)
			require.LessOrEqual(t, got, server(sent.Add(limit)), "ahead %v, trip %v", ahead, trip)
			require.GreaterOrEqual(t, got, server(sent.Add(limit-trip))-1, "not earlier than the trip explains")

			e.learn(server(now.Add(-time.Millisecond)), now) // a later reply replaces it
			require.GreaterOrEqual(t, e.notAfter(sent, limit), server(sent.Add(limit-time.Millisecond))-1)
		}
	}
}

func pureOp(kind OpKind, key string, lease int64) *Op {
	return &Op{Kind: kind, Key: key, Hash: xxhash.Sum64String(key), LeaseMs: lease, Field: "field of " + key}
}

// cut runs appendCommands and returns the keys of each command.
func cut(t *testing.T, ops []*Op) ([]command, [][]string) {
	t.Helper()
	results := make([]Result, len(ops))
	cmds := appendCommands(nil, ops, results, &Node{opts: Options{ID: "engine"}})
	var keys [][]string
	seen := 0
	for _, c := range cmds {
		require.Len(t, c.results, len(c.ops))
		require.Same(t, &results[seen], &c.results[0], "results stay parallel to ops")
		var names []string
		for _, op := range c.ops {
			require.Same(t, ops[seen], op, "nothing is lost or reordered")
			names = append(names, op.Key)
			seen++
		}
		keys = append(keys, names)
	}
	require.Equal(t, len(ops), seen)
	return cmds, keys
}

func TestBatchIsCutAtADuplicateKey(t *testing.T) {
	ops := []*Op{}
	for _, key := range []string{"a", "b", "a", "c", "b", "b"} {
		ops = append(ops, pureOp(OpAcquire, key, 1000))
	}
	cmds, keys := cut(t, ops)
	require.Equal(t, [][]string{{"a", "b"}, {"a", "c", "b"}, {"b"}}, keys)
	require.NotEqual(t, cmds[0].field, cmds[1].field, "each batch has an owner id of its own")
	require.NotEqual(t, cmds[1].field, cmds[2].field)
}

func TestBatchIsCutAtItsLimitOfKeys(t *testing.T) {
	for family, most := range map[Family]int{FamilyLock: 256, FamilySpin: 256, FamilyFenced: 128, FamilyRead: 128, FamilyWrite: 128} {
		for _, kind := range []OpKind{OpAcquire, OpRelease} {
			var ops []*Op
			for i := range 2*most + 1 {
				op := pureOp(kind, fmt.Sprint("name:", i), 1000)
				op.Family = family
				ops = append(ops, op)
			}
			limit := most
			if scriptOf(kind, family) == scriptRelease { // a fenced lock's, too
				limit = 256
			}
			_, keys := cut(t, ops)
			for len(ops) > 0 {
				require.Len(t, keys[0], min(limit, len(ops)), "%v %v", family, kind)
				ops, keys = ops[len(keys[0]):], keys[1:]
			}
			require.Empty(t, keys)
		}
	}
}

func TestBatchHoldsOneLease(t *testing.T) {
	ops := []*Op{pureOp(OpAcquire, "a", 1000), pureOp(OpAcquire, "b", 1000), pureOp(OpAcquire, "c", 2000), pureOp(OpAcquire, "d", 2000)}
	cmds, keys := cut(t, ops)
	require.Equal(t, [][]string{{"a", "b"}, {"c", "d"}}, keys)
	for _, c := range cmds {
		for _, op := range c.ops {
			require.Equal(t, c.field, op.Field, "the owner reads its owner id from the op")
		}
	}
	// Releases carry no lease: what differs does not part them.
	_, keys = cut(t, []*Op{pureOp(OpRelease, "a", 1), pureOp(OpRelease, "b", 2)})
	require.Equal(t, [][]string{{"a", "b"}}, keys)
}

func TestBatchNeverMixesKindsAndSinglesStandAlone(t *testing.T) {
	ops := []*Op{
		pureOp(OpRelease, "a", 0), pureOp(OpRelease, "b", 0),
		pureOp(OpReacquire, "c", 1000), pureOp(OpReacquire, "d", 1000), pureOp(OpExtend, "e", 1000),
		pureOp(OpInspect, "f", 0), pureOp(OpForce, "g", 0), pureOp(OpAcquire, "h", 1000), pureOp(OpAcquire, "i", 1000),
	}
	cmds, keys := cut(t, ops)
	require.Equal(t, [][]string{{"a", "b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}, {"h", "i"}}, keys)
	var scripts []*script
	for _, c := range cmds {
		scripts = append(scripts, c.script)
	}
	require.Equal(t, []*script{scriptRelease, scriptReacquire, scriptReacquire, scriptRenew, scriptInspect, scriptForce, scriptAcquire}, scripts)
	require.Equal(t, "field of c", ops[2].Field, "only a first acquire gets an owner id here")
	require.Equal(t, "field of a", ops[0].Field)
}

func TestKeySetFindsDuplicatesAmongCollidingHashes(t *testing.T) {
	var set keySet
	for i := range maxKeys {
		require.True(t, set.add(&Op{Key: fmt.Sprint(i), Hash: 7}), "%d", i)
	}
	for i := range maxKeys {
		require.False(t, set.add(&Op{Key: fmt.Sprint(i), Hash: 7}), "%d", i)
	}
	var last keySet // the end of the table wraps to its start
	for i := range 10 {
		require.True(t, last.add(&Op{Key: fmt.Sprint(i), Hash: uint64(len(last.slots) - 1)}))
	}
	require.False(t, last.add(&Op{Key: "9", Hash: uint64(len(last.slots) - 1)}))
}

func TestWireIDIsAUUIDAndAPositiveLong(t *testing.T) {
	seen := make(map[string]bool)
	form := regexp.MustCompile(`^engine:[1-9][0-9]{0,18}$`)
	for range 10_000 {
		id := newWireID(nil, "engine")
		require.Regexp(t, form, id)
		require.Contains(t, "13579", id[len(id)-1:], "never 0")
		require.False(t, seen[id])
		seen[id] = true
	}
}

// keysOf, args and the like are what a script's header must say: STYLE section 3.
func TestEveryScriptBeginsWithItsContractAndHasNoShebang(t *testing.T) {
	texts := ScriptTexts()
	require.Len(t, texts, 37)
	for name, text := range texts {
		require.True(t, strings.HasPrefix(text, "-- "+name+": "), "%s: the first line says what it does", name)
		require.NotContains(t, text, "#!lua", "%s: a shebang breaks cluster batches, OOM and miniredis", name)
		header, _, _ := strings.Cut(text, "\nlocal ")
		for line := range strings.Lines(header) {
			require.True(t, strings.HasPrefix(line, "--"), "%s: %q in the header", name, line)
		}
		require.Regexp(t, `(?m)^-- KEYS`, header, name)
		require.Regexp(t, `(?m)^-- returns `, header, name)
		require.Regexp(t, `(?m)^-- cost `, header, name)
		if strings.Contains(text, "ARGV") {
			require.Regexp(t, `(?m)^-- ARGV\[1\]`, header, name)
		}
		require.NotContains(t, text, "-- needs:", "%s: a fragment that it needs was not given to it", name)
		require.NotContains(t, text, "math.random", name)
		require.NotContains(t, strings.ToLower(text), "'keys'", name)
	}
	for _, s := range catalogue {
		require.Len(t, s.sha, 40)
		require.Equal(t, texts[s.name], s.text)
	}
}

// luaReads are the commands of scripts that write nothing.
var luaReads = []string{
	"TIME", "EXISTS", "PTTL", "GET", "DUMP", "HGET", "HEXISTS", "HLEN", "HGETALL", "HSCAN", "LINDEX", "LRANGE", "LPOS", "ZSCORE", "ZCARD",
	"ZRANGEBYSCORE", "PUBSUB",
}

var (
	luaComment = regexp.MustCompile(`(?m)--.*$`)
	luaRedis   = regexp.MustCompile(`\bredis\b(\.call\('[A-Z]+'|\.pcall\b)?`)
	luaPcall   = regexp.MustCompile(`local call\b[a-z, ]* = redis\.pcall\b`)
	luaAlias   = regexp.MustCompile(`local ([a-z, ]+) = [^\n]*\bredis\.pcall\b[^(]`)
	luaCommand = regexp.MustCompile(`(redis\.call|redis\.pcall|\bcall|\bmust)\((?:'([A-Z]+)')?`)
)

// raisesAfterWrite says where a script could end in an error although it has written; "": nowhere. A command whose name
// is not in the text counts as one that writes. Of must, which raises what its try catches, refused_test.go has each refusal.
func raisesAfterWrite(text string) string {
	text = luaComment.ReplaceAllString(text, "")
	for _, m := range luaRedis.FindAllStringSubmatchIndex(text, -1) {
		if m[2] < 0 {
			return "redis.call by another name: " + text[m[0]:min(m[0]+40, len(text))]
		}
	}
	for _, m := range luaAlias.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "call") || !luaPcall.MatchString(m[0]) {
			return "redis.pcall by another name: " + m[0]
		}
	}
	wrote := ""
	for _, m := range luaCommand.FindAllStringSubmatch(text, -1) {
		if wrote != "" && m[1] == "redis.call" {
			return m[0] + " behind " + wrote
		}
		if !slices.Contains(luaReads, m[2]) {
			wrote = m[0]
		}
	}
	if strings.Contains(strings.ReplaceAll(text, "error({refusal = ", ""), "error(") {
		return "error()"
	}
	return ""
}

// A script that fails after its first write has run partly (FAULTS 4.4). So no write may be able to
// raise: every one is a pcall, and so is whatever may come after one.
func TestC035_NoScriptCanRaiseAnErrorAfterAWrite(t *testing.T) {
	for name, text := range ScriptTexts() {
		text = luaComment.ReplaceAllString(text, "")
		require.Empty(t, raisesAfterWrite(text), name)
		for _, m := range luaCommand.FindAllStringSubmatch(text, -1) { // force: its one write is the last thing that can raise
			require.True(t, m[1] != "redis.call" || slices.Contains(luaReads, m[2]) || name == "force", "%s: a write through redis.call: %s", name, m[0])
		}
		require.NotContains(t, text, "HINCRBY", "%s: a repeated count step would count twice", name)
	}
	for text, want := range map[string]string{
		"local call = redis.call\ncall('HSET', key, 1)":                                       "redis.call by another name",
		"local call, find = redis.call, string.find":                                          "redis.call by another name",
		"local call = redis['call']":                                                          "redis.call by another name",
		"local r = redis\nr.call('GET', key)":                                                 "redis.call by another name",
		"local find, pcalled = string.find, redis.pcall\n":                                    "redis.pcall by another name",
		"local call = redis.pcall\ncall('RPUSH', key, 1)\nredis.call('GET', key)":             "redis.call('GET' behind call('RPUSH'",
		"local call = redis.pcall\ncall('ZINCRBY', key, 1, a)\nredis.call('TIME')":            "redis.call('TIME' behind call('ZINCRBY'",
		"local call = redis.pcall\nmust('LREM', key, 1, a)\nredis.call('GET', key)":           "redis.call('GET' behind must('LREM'",
		"local call = redis.pcall\ncall(publish, channel, message)\nredis.call('GET', key)":   "redis.call('GET' behind call(",
		"redis.pcall(ARGV[1], channel)\nredis.call('GET', key)":                               "redis.call('GET' behind redis.pcall(",
		"redis.call('DEL', key)\nredis.call('GET', key)":                                      "redis.call('GET' behind redis.call('DEL'",
		"local call = redis.pcall\ncall('HSET', key, 1)\nerror('x')":                          "error()",
		"local call, find = redis.pcall, string.find\nredis.call('TIME')\ncall('HSET', k, 1)": "",
	} {
		got := raisesAfterWrite(text)
		require.True(t, strings.HasPrefix(got, want) && (want != "" || got == ""), "%q: %q", text, got)
	}
}
