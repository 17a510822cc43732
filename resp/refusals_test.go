package resp

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A refusalRig is a server that can be made to refuse, a connection that nothing is refused to, and one of a user who
// misses a right.
type refusalRig struct {
	*testing.T
	server     *redistest.Server
	admin, run *redistest.Conn
	shas       map[string]string // of the scripts, which the server has
}

func newRefusalRig(t *testing.T) *refusalRig {
	t.Helper()
	r := newScriptRig(t)
	r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all")
	_, err := r.run.Do(t.Context(), "AUTH", "caller", "secret")
	require.NoError(t, err)
	// Where the file of a snapshot should come stands a directory: no snapshot can be written.
	require.NoError(t, os.MkdirAll(filepath.Join(r.server.Dir(), "dump.rdb", "x"), 0o700))
	r.do("CONFIG", "SET", "save", "86400 1")
	r.do("SET", "any", "1")
	r.do("BGSAVE")
	require.Eventually(t, func() bool {
		return strings.Contains(redistest.Text(r.do("INFO", "persistence")), "rdb_last_bgsave_status:err")
	}, 10*time.Second, 5*time.Millisecond)
	r.do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	t.Cleanup(func() { // or the server would not end, for it cannot save
		_, _ = r.server.Command(context.Background(), "CONFIG", "SET", "save", "")
	})
	return r
}

// newScriptRig is a server that refuses nothing.
func newScriptRig(t *testing.T) *refusalRig {
	t.Helper()
	r := &refusalRig{T: t, server: redistest.Run(t, redistest.Options{})}
	dial := func() *redistest.Conn {
		c, err := redistest.Dial(t.Context(), r.server.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	r.admin, r.run = dial(), dial()
	r.shas = map[string]string{}
	for script, text := range ScriptTexts() {
		r.shas[script] = redistest.Text(r.do("SCRIPT", "LOAD", text))
	}
	return r
}

func (r *refusalRig) do(args ...string) any {
	r.Helper()
	v, err := r.admin.Do(r.Context(), args...)
	require.NoError(r, err, "%q", args)
	return v
}

// A refusal is how a server is made to refuse, how that ends, and the class of its error.
type refusal struct {
	name       string
	begin, end []string
	class      Class
}

var serverRefusals = []refusal{
	{"MISCONF", []string{"CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"}, []string{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}, ClassMisconf},
	{"NOREPLICAS", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, ClassNoReplicas},
	{"READONLY", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, ClassReadOnly},
	{"OOM", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, ClassOOM},
}

// rightsOf are the commands that a script calls.
func rightsOf(script string) (refusals []refusal) {
	seen := map[string]bool{"time": true} // is asked for before anything is done
	text := ScriptTexts()[script]
	commands := regexp.MustCompile(`(?:call|must)\('([A-Z]+)'`).FindAllStringSubmatch(text, -1)
	if strings.Contains(text, "call(publish") || strings.Contains(text, "call(ARGV[1]") {
		commands = append(commands, []string{"", "PUBLISH"})
	}
	for _, m := range commands {
		right := strings.ToLower(m[1])
		if !seen[right] {
			seen[right] = true
			refusals = append(refusals, refusal{right, []string{"ACL", "SETUSER", "caller", "-" + right}, []string{"ACL", "SETUSER", "caller", "+" + right}, ClassNoPerm})
		}
	}
	return refusals
}

// Two ids of permits.
const idA, idB = "ours: 0123456789", "ours: abcdefghij"

// Values of a group, and what an owner has of it.
const (
	valueA, valueB, valueC = "the value that is an A", "the value that is a B.", "the value that is a C."

	ownsAB = "e1:02\x00" + valueA + valueB
)

const refusalsTTL = "60000"

// refusalStates are what may stand under the name k when a script is called.
func refusalStates(now int64) map[string][][]string {
	at := func(seconds int64) string { return strconv.FormatInt(now+1000*seconds, 10) }
	expire := func(keys ...string) (out [][]string) {
		for _, key := range keys {
			out = append(out, []string{"PEXPIRE", key, refusalsTTL})
		}
		return out
	}
	mark := func(field string) []string {
		return []string{"SET", "{k}:" + field + ":rwlock_timeout:1", "1", "PX", refusalsTTL}
	}
	queue := func(waiters ...string) (out [][]string) {
		for i, w := range waiters {
			out = append(out, []string{"RPUSH", "redisson_lock_queue:{k}", w})
			heard := now
			if strings.HasPrefix(w, "dead") {
				heard = 1
			}
			out = append(out, []string{"ZADD", "redisson_lock_timeout:{k}", at(4 + int64(i)), w})
			if strings.Contains(w, ":0") {
				out = append(out, []string{"ZADD", "{k}:fair_heard", strconv.FormatInt(heard, 10), w}, []string{"ZADD", "{k}:fair_asked", strconv.Itoa(i), w})
			}
		}
		out = append(out, []string{"HSET", "{k}:fair_notes", "base", at(4)})
		return append(out, expire("{k}:fair_heard", "{k}:fair_asked", "{k}:fair_notes")...)
	}
	held := func(fields ...string) [][]string {
		return append([][]string{append([]string{"HSET", "k"}, fields...)}, expire("k")...)
	}
	has := func(value, owner string, seconds int64) []string {
		return []string{value, owner, value + ":" + owner + ":expire_time", at(seconds), value + ":" + owner + ":lock_count", "1"}
	}
	values := func(fields ...[]string) [][]string { return held(slices.Concat(fields...)...) }
	gathered := func(head string, engines ...string) [][]string {
		return [][]string{{"SET", "k", "barrier " + head + "\n" + strings.Join(engines, "\n"), "PX", refusalsTTL}}
	}
	return map[string][][]string{
		"group, free":            nil,
		"group, ours":            values(has(valueA, "e1:02", 60), has(valueB, "e1:02", 60)),
		"group, ours and theirs": values(has(valueA, "e1:02", 60), has(valueB, "e1:02", 60), has(valueC, "x:9", 60)),
		"group, one is ours":     values(has(valueA, "e1:02", 60), has(valueB, "x:9", 60)),
		"group, theirs":          values(has(valueB, "x:9", 60)),
		"group, theirs, over":    values(has(valueA, "x:9", -5), has(valueB, "x:9", -5), has(valueC, "x:8", 60)),
		"group, ours, over":      values(has(valueA, "e1:02", -5), has(valueB, "e1:02", -5)),
		"group, no numbers":      held(valueA, "x:9", valueA+":x:9:expire_time", "text", valueB, "x:9"),
		"free":                   nil,
		"ours":                   held("e1:02", "1"),
		"ours twice":             held("e1:02", "2"),
		"theirs":                 held("x:9", "1"),
		"fenced":                 append(held("e1:02", "1"), []string{"SET", "redisson_lock_token:{k}", "5"}),
		"free, a bad counter":    {{"SET", "redisson_lock_token:{k}", "no number"}},
		"read by both":           append(held("mode", "read", "e1:02", "1", "x:9", "1"), mark("e1:02"), mark("x:9")),
		"read by four":           append(held("mode", "read", "e1:02", "1", "x:9", "1", "x:10", "1", "x:11", "1"), mark("e1:02"), mark("x:9"), mark("x:11")),
		"read by us":             append(held("mode", "read", "e1:02", "1"), mark("e1:02")),
		"read by us, no mark":    held("mode", "read", "e1:02", "1"),
		"read by us and a ghost": append(held("mode", "read", "e1:02", "1", "x:9", "1"), mark("e1:02")),
		"read by them":           append(held("mode", "read", "x:9", "1"), mark("x:9")),
		"written by us":          held("mode", "write", "e1:02:write", "1"),
		"written and read by us": append(held("mode", "write", "e1:02:write", "1", "e1:03", "1"), mark("e1:03")),
		"written, one waits":     append(held("mode", "write", "e1:02:write", "1"), []string{"SET", "{k}:rwlock_writer", "e1", "PX", refusalsTTL}),
		"free, a writer waits":   {{"SET", "{k}:rwlock_writer", "x", "PX", refusalsTTL}},
		"permits":                {{"SET", "k", "5"}},
		"permits, none":          {{"SET", "k", "0"}},
		"permits, none yet":      nil,
		"permits, expiring":      {{"SET", "k", "5", "PX", refusalsTTL}},
		"permits, noted":         append(append([][]string{{"SET", "k", "5"}}, []string{"HSET", "{k}:counted_requests", "e1", "6 2", "e1:given", "6"}), expire("{k}:counted_requests")...),
		"permits, noted late":    append(append([][]string{{"SET", "k", "5"}}, []string{"HSET", "{k}:counted_requests", "e1", "9 2", "e1:given", "9"}), expire("{k}:counted_requests")...),
		"permits, no number":     {{"SET", "k", "1e3"}},
		"latch":                  {{"SET", "k", "5"}},
		"latch, the last":        {{"SET", "k", "1"}},
		"latch, open":            nil,
		"latch, noted":           append([][]string{{"SET", "k", "1"}, {"HSET", "{k}:counted_requests", "e1:given", "6", "ended", "3 2"}}, expire("{k}:counted_requests")...),
		"latch, noted late":      append([][]string{{"SET", "k", "5"}, {"HSET", "{k}:counted_requests", "e1:given", "9", "ended", "2 3"}}, expire("{k}:counted_requests")...),
		"latch, no number":       {{"SET", "k", "1e3"}},
		"barrier, none yet":      nil,
		"barrier, one waits":     gathered("5 3 1 0 0 ", "x 3 "+at(60)+" 9=5"),
		"barrier, two wait":      gathered("5 3 2 0 0 4", "x 3 "+at(60)+" 9=5", "e1 6 "+at(60)+" 1=5"),
		"barrier, noted late":    gathered("5 3 1 0 0 ", "e1 9 "+at(60)+" 1=5"),
		"barrier, one is dead":   gathered("5 3 2 0 0 ", "x 3 "+at(-5)+" 9=5", "e1 6 "+at(60)+" 1=5"),
		"barrier, broken":        gathered("5 3 0 1 0 3", "x 3 "+at(60)+" 9=5", "e1 6 "+at(60)+" 1=5"),
		"barrier, no barrier":    {{"SET", "k", "text", "PX", refusalsTTL}},
		"leased, free":           {{"SET", "k", "5"}},
		"leased, none yet":       nil,
		"leased, ours":           {{"SET", "k", "1"}, {"ZADD", "{k}:timeout", at(60), idA, at(60), idB}},
		"leased, ours, forever":  {{"SET", "k", "-1"}, {"ZADD", "{k}:timeout", "922337203685477", idA, "922337203685477", idB}},
		"leased, one is ours":    {{"SET", "k", "3"}, {"ZADD", "{k}:timeout", at(60), idA, at(60), "somebody else's "}},
		"leased, expired":        {{"SET", "k", "0"}, {"ZADD", "{k}:timeout", at(-5), "somebody else's ", at(-4), "and another one "}},
		"leased, ours, expired":  {{"SET", "k", "0"}, {"ZADD", "{k}:timeout", at(-5), idA, at(-4), idB}},
		"leased, for a while":    append([][]string{{"SET", "k", "3"}, {"ZADD", "{k}:timeout", at(60), idA, at(60), idB}}, expire("k", "{k}:timeout")...),
		"leased, no set yet":     append([][]string{{"SET", "k", "3"}}, expire("k")...),
		"leased, gone":           {{"ZADD", "{k}:timeout", at(60), idA, at(60), idB}},
		"leased, no number":      {{"SET", "k", "1e3"}, {"ZADD", "{k}:timeout", at(60), idA, at(-5), idB}},
		"queue, dead, free":      queue("dead:01", "dead:5", "e1:02", "x:6"),
		"queue, dead, held":      slices.Concat(held("e1:07", "1"), queue("dead:01", "dead:5", "e1:02", "x:6")),
		"queue, held":            slices.Concat(held("e1:07", "1"), queue("e1:02", "x:6")),
		"queue, free":            queue("e1:02", "x:6"),
	}
}

// refusalCalls are the calls of each script, with this not-after where there is one.
func refusalCalls(ahead string) map[string][][]string {
	ask := func(field string) []string {
		return []string{"30000", ahead, "1", "5000", "300000", "PUBLISH", "0", field, "1"}
	}
	give := func(field string) []string { return []string{"PUBLISH", "0", "0", "0", "5000", "300000", field, "1"} }
	calls := map[string][][]string{
		"acquire":      {{"30000", "e1:02", ahead, "1"}, {"30000", "e1:02", ahead, "0"}},
		"reacquire":    {{"30000", "e1:02", ahead, "1", "0"}, {"90000", "e1:02", ahead, "3", "1"}, {"30000", "e1:02", ahead, "1", "2"}},
		"release":      {{"PUBLISH", "0", "0", "", "e1:02", "1"}, {"PUBLISH", "0", "0", "alone", "e1:02", "1"}},
		"acquireone":   {{"30000", "e1:02", ahead}, {"90000", "e1:02", ahead}},
		"releaseone":   {{"PUBLISH", "redisson_lock__channel:{k}", "0", "e1:02"}, {"", "", "0", "e1:02"}},
		"renew":        {{"90000", "1", "0", "e1:02"}, {"90000", "0", "0", "e1:02"}},
		"inspect":      {{}},
		"force":        {{"PUBLISH", "0", "channel", "", ahead}, {"PUBLISH", "0", "channel", "read", ahead}, {"PUBLISH", "0", "channel", "write", ahead}, {"PUBLISH", "0", "channel", "fair", ahead}},
		"fenced":       {{"90000", "e1:02", ahead, "1", "1"}, {"90000", "e1:02", ahead, "1", "0"}},
		"read":         {{"90000", "e1:02", ahead, "1", ""}, {"90000", "e1:04", ahead, "1", ""}, {"90000", "e1:04", ahead, "1", "e1:02:write"}},
		"readrenew":    {{"90000", "1", "0", "e1:02"}, {"90000", "0", "0", "e1:02"}},
		"readrelease":  {{"PUBLISH", "0", "0", "e1:02", "1"}, {"PUBLISH", "0", "0", "x:9", "1"}},
		"write":        {{"90000", "e1:02:write", ahead, "1", "2500"}, {"90000", "e1:04:write", ahead, "1", "2500"}},
		"writerelease": {{"PUBLISH", "0", "0", "e1:02:write", "1"}, {"PUBLISH", "0", "0", "e1:04:write", "1"}},
		"fair":         {ask("e1:02"), ask("e1:04")},
		"fairrelease":  {give("e1:07"), give("e1:02"), {"PUBLISH", "0", "0", "1", "5000", "300000", "e1:07", "1", "1", "e1:02", "30000"}},
		"queue":        {{}},

		"semaphore": {{"0", "e1:7", ahead, "0", "2", "9"}, {"0", "e1:6", ahead, "0", "2"}, {"0", "e1:7", ahead, "0", "9", "2"}},
		"semaphorerelease": {
			{"PUBLISH", "0", "0", "e1:7:3", "1"}, {"PUBLISH", "0", "0", "e1:6", "1"}, {"PUBLISH", "0", "0", "e1:7", "1"},
		},
		"semaphoreset": {
			{"PUBLISH", "get", "0", "0", ahead},
			{"PUBLISH", "set", "7", "0", ahead},
			{"PUBLISH", "set", "7", "90000", ahead},
			{"PUBLISH", "add", "2", "0", ahead},
			{"PUBLISH", "add", "-9", "0", ahead},
			{"PUBLISH", "some", "2", "0", ahead},
			{"PUBLISH", "drain", "0", "0", ahead},
			{"PUBLISH", "delete", "0", "0", ahead},
		},
		"latch":     {{"0", "0", ahead, "0", "-1"}, {"0", "0", ahead, "0", "2"}, {"0", "0", ahead, "0", "5"}},
		"latchdown": {{"PUBLISH", "0", "0", "e1:7:1", "1"}, {"PUBLISH", "tagged", "0", "e1:7:9", "1"}},
		"latchset": {
			{"PUBLISH", "get", "0", "0", ahead, "0"}, {"PUBLISH", "set", "7", "0", ahead, "0"}, {"PUBLISH", "delete", "0", "0", ahead, "tagged"},
		},
	}
	calls["barrier"] = [][]string{
		{"30000", "e1:7:1/3", ahead, "0", "PUBLISH"},
		{"30000", "e1:7:1/3+,2/3", ahead, "0", "PUBLISH"},
		{"30000", "e1:7:2/2", ahead, "0", "PUBLISH"},
		{"30000", "e2:7:1/2,2/2", ahead, "0", "PUBLISH"},
	}
	calls["barrierleave"] = [][]string{{"PUBLISH", "0", "0", "e1:7:1", "1"}, {"PUBLISH", "0", "0", "e2:7:1", "1"}}
	for _, what := range []string{"waiting", "broken", "reset"} {
		calls["barrierset"] = append(calls["barrierset"], []string{"PUBLISH", what, "0", "0", ahead})
	}
	maps.Copy(calls, permitCalls(ahead))
	maps.Copy(calls, map[string][][]string{
		"group":        {{"30000", ownsAB, ahead, "0"}, {"90000", ownsAB, ahead, "0"}, {"90000", "e1:04\x00" + valueC, ahead, "0"}},
		"groupcount":   {{"30000", ownsAB, ahead, "3", "1"}, {"90000", ownsAB, ahead, "2", "1"}, {"30000", ownsAB, ahead, "1", "2"}},
		"grouprelease": {{"PUBLISH", "0", "0", ownsAB, "1"}, {"PUBLISH", "0", "0", "x:9\x00" + valueA, "1"}},
		"grouprenew":   {{"90000", "1", "0", ownsAB}},
		"groupforce":   {{"PUBLISH", "0", "channel", "", ahead, valueA + valueB}, {"PUBLISH", "0", "channel", "", ahead, valueC}},
		"groupheld":    {{valueA, valueB, valueC}},
	})
	return calls
}

// permitCalls are the calls of a semaphore's scripts whose permits are leased.
func permitCalls(ahead string) map[string][][]string {
	calls := map[string][][]string{
		"permits":        {{"30000", idA + idB, ahead, "0", "PUBLISH"}, {"90000", idA, ahead, "0", "PUBLISH"}},
		"permitsrelease": {{"PUBLISH", "0", "0", idA + idB, "1"}, {"PUBLISH", "0", "0", idB, "1"}},
		"permitsrenew":   {{"90000", "1", "0", idA + idB}, {"90000", "1", "0", idA}},
		"permitsleased":  {{}},
	}
	for _, what := range []string{
		"free 0", "leased 0", "total 0", "set 7", "resize 7", "resize 1", "add 2", "add -9", "delete 0", "give:" + idA + idB + " 0",
		"give:" + idB + " 0", "left:" + idA + " 0", "lease:" + idA + " 0",
	} {
		at := strings.LastIndexByte(what, ' ')
		calls["permitsset"] = append(calls["permitsset"], []string{"PUBLISH", what[:at], what[at+1:], "90000", ahead})
	}
	return calls
}

// standingScript lists each field and member of each key, but for times, which differ from run to run.
const standingScript = `
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, left, items = redis.call('TYPE', key).ok, redis.call('PTTL', key), {}
  local life = left > 75000 and '90 s' or left > 45000 and '60 s' or left > 10000 and '30 s' or left >= 0 and 'short' or 'for ever'
  if kind == 'hash' then
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do items[#items + 1] = all[i] .. '=' .. all[i + 1] end
  elseif kind == 'list' then
    items = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then
    items = redis.call('ZRANGE', key, 0, -1)
  else
    items = {redis.call('GET', key)}
  end
  for _, item in ipairs(items) do
    out[#out + 1] = key .. ' ' .. string.gsub(item, '%d%d%d%d%d%d%d%d%d%d%d%d+', 'T')
  end
  out[#out + 1] = key .. ' lives ' .. life
end
table.sort(out)
return out`

// permitsIn is how many permits there are in all, free and leased, by what stands there.
func permitsIn(standing []string) string {
	leased, free := 0, ""
	for _, line := range standing {
		switch {
		case strings.Contains(line, " lives "):
		case strings.HasPrefix(line, "{k}:timeout "):
			leased++
		case strings.HasPrefix(line, "k "):
			free = line[2:]
		}
	}
	n, err := strconv.Atoi(free)
	if err != nil {
		return "none"
	}
	return strconv.Itoa(n + leased)
}

// standing is what stands on the server.
func (r *refusalRig) standing() []string {
	r.Helper()
	return linesOf(r.do(askStanding...))
}

var askStanding = []string{"EVAL", standingScript, "0"}

func linesOf(reply any) (out []string) {
	for _, line := range reply.([]any) {
		out = append(out, line.(string))
	}
	return out
}

// withoutLives are the lines of standing but for those that say how long a key lives.
func withoutLives(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, " lives ") })
}

// errorsIn are the errors of a reply.
func errorsIn(v any) (out []string) {
	switch v := v.(type) {
	case redistest.ReplyError:
		return []string{string(v)}
	case []any:
		for _, e := range v {
			out = append(out, errorsIn(e)...)
		}
	}
	return out
}

// busyMs is the time that the server's main thread has run.
func (r *refusalRig) busyMs() float64 {
	r.Helper()
	return r.busyBy(r.do(askBusy...))
}

var askBusy = []string{"INFO", "cpu"}

func (r *refusalRig) busyBy(reply any) float64 {
	r.Helper()
	info := redistest.Text(reply)
	sum := 0.0
	for _, m := range regexp.MustCompile(`used_cpu_(?:sys|user)_main_thread:([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		require.NoError(r, err)
		sum += seconds
	}
	return sum * 1000
}

// calling is the command that runs a script.
func (r *refusalRig) calling(script string, args []string) []string {
	keys := []string{"1", "k"}
	switch script {
	case "permitsrenew", "permitsleased":
		keys[1] = "{k}:timeout"
	case "queue":
		keys[1] = "redisson_lock_queue:{k}"
	case "acquire", "read", "write", "fenced":
		keys = []string{"2", "k", "k2"}
	}
	return slices.Concat([]string{"EVALSHA", r.shas[script]}, keys, args)
}

// call runs a script as the user who may be refused something.
func (r *refusalRig) call(script string, args []string) any {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	v, err := r.run.Do(ctx, r.calling(script, args)...)
	if e, refused := err.(redistest.ReplyError); refused { //nolint:errorlint // it is never wrapped
		return e
	}
	require.NoError(r, err, "%s %q does not end", script, args)
	return v
}

// callInline is call as in a cluster: with the keys of any slots among the arguments, at the end.
func (r *refusalRig) callInline(script string, args []string) any {
	r.Helper()
	v, err := r.run.Do(r.Context(), slices.Concat([]string{"EVALSHA", r.shas[script], "0"}, args, []string{"k", "k2"})...)
	require.NoError(r, err, "%s %q", script, args)
	return v
}

// silent are the refusals that a script goes on without, and what that costs.
var silent = map[string]map[string]string{
	"acquire":     {"copy": "keys are taken one by one"},
	"fenced":      {"copy": "keys are taken one by one"},
	"read":        {"copy": "keys are taken one by one", "get": "a waiting writer is overtaken", "pttl": "a waiting writer is overtaken", "hexists": "who writes waits for itself"},
	"write":       {"copy": "keys are taken one by one", "get": "readers overtake", "set": "readers overtake"},
	"release":     {"publish": "who waits polls"},
	"releaseone":  {"publish": "who waits polls"},
	"force":       {"publish": "who waits polls", "get": "the note ends by itself", "lindex": "who waits polls"},
	"reacquire":   {"hlen": "the expiry is not lowered", "hexists": "the expiry is not lowered", "hgetall": "the expiry is not lowered"},
	"readrelease": {"publish": "who waits polls", "del": "the mark ends by itself", "hget": "the hash keeps its time", "hgetall": "the hash keeps its time", "pttl": "the hash keeps its time", "exists": "the hash keeps its time", "pexpire": "the hash keeps its time"},
	"writerelease": {
		"publish": "who waits polls", "get": "the note ends by itself", "del": "the note ends by itself", "hgetall": "the hash keeps its time", "pttl": "the hash keeps its time",
		"exists": "the hash keeps its time", "pexpire": "the hash keeps its time",
	},
	"fair":        {"*": "what is granted is granted, and a place that is not asked for ends by itself"},
	"fairrelease": {"*": "what is given back is given back; who waits polls"},

	"semaphorerelease": {"hdel": "a note of no request stays where there was none"},
	"latch":            {"*": "the notes keep their time"},

	"barrier":      {"publish": "who waits polls"},
	"barrierleave": {"publish": "who waits polls"},
	"barrierset":   {"publish": "who waits polls"},

	"permits":        {"publish": "who waits polls"},
	"permitsrelease": {"publish": "who waits polls"},
	"permitsset":     {"publish": "who waits polls"},

	"group":        {"hdel": "what others have left of a value stays"},
	"grouprelease": {"publish": "who waits polls"},
	"groupforce":   {"publish": "who waits polls"},
}

// Whatever the server refuses to a script, the script ends at once, in that refusal; and what it leaves is what it
// found, or what it leaves where nothing is refused: in each field of the lock, and each place in its queue. Where the
// refusal goes unsaid, silent has the reason. Of fair locks see TestNoRefusalEndsAFairScriptHalfWay, too.
func TestARefusalEndsItsScriptAndLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	r := newRefusalRig(t)
	_, ahead := notAfters()
	met := map[string]bool{} // refusals, by script
	for script, calls := range refusalCalls(ahead) {
		for state := range refusalStates(0) {
			if !slices.Contains(refusalFamilies[script], refusalKind(state)) || script == "fenced" && state == "ours twice" {
				continue
			}
			for _, args := range calls {
				before := r.prepare(state)
				normal := r.call(script, args)
				after := r.standing()
				for _, refusal := range slices.Concat(serverRefusals, rightsOf(script)) {
					busy := r.busyBy(r.put(state, refusal.begin, askBusy))
					answer := r.call(script, args)
					replies := r.all(askBusy, refusal.end, askStanding)
					busy = r.busyBy(replies[0]) - busy
					what := fmt.Sprintf("%s, of a lock that is %s, without %s: %v, normally %v", script, state, refusal.name, answer, normal)
					r.brief(busy, busyMost, what)
					left := linesOf(replies[2])
					errs := slices.DeleteFunc(errorsIn(answer), func(e string) bool { return slices.Contains(errorsIn(normal), e) })
					byHand := slices.ContainsFunc(errs, func(e string) bool { return strings.Contains(e, "undone, delete it by hand") })
					unsaid, reason := len(errs) == 0, silent[script][refusal.name] != "" || silent[script]["*"] != ""
					met[script+" without "+refusal.name] = met[script+" without "+refusal.name] || !unsaid || !slices.Equal(left, after)
					for _, e := range errs {
						require.True(t, byHand || classOfReply(e) == refusal.class, "%s", what)
					}
					switch {
					case unsaid && !reason && !slices.Equal(left, after):
						require.Equal(t, after, left, "nothing says that it was refused: %s", what)
					case !unsaid && refusal.class != ClassNoPerm:
						require.Equal(t, before, left, "%s", what)
					}
					for _, line := range left {
						if !slices.Contains(before, line) && !slices.Contains(after, line) && strings.HasPrefix(line, "k ") && script != "permits" { // see permitsIn
							require.True(t, byHand || unsaid && reason, "%s stands there: %s", line, what)
						}
						key, immortal := strings.CutSuffix(line, " lives for ever")
						require.False(t, immortal && !mayStay(script, key), "%s stands there: %s", line, what)
					}
					if strings.HasPrefix(script, "permits") {
						require.Contains(t, []string{permitsIn(before), permitsIn(after)}, permitsIn(left), "%s", what)
					}
					if counts(script) && !unsaid {
						require.Equal(t, withoutLives(before), withoutLives(left), "%s", what)
					}
				}
			}
		}
	}
	for _, script := range []string{"acquire", "acquireone", "reacquire", "release", "releaseone", "renew", "force", "fenced", "read", "readrenew", "readrelease", "write", "writerelease", "fair", "fairrelease", "semaphore", "semaphorerelease", "semaphoreset", "latch", "latchdown", "latchset", "permits", "permitsrelease", "permitsrenew", "permitsset", "group", "groupcount", "grouprelease", "grouprenew", "groupforce", "barrier", "barrierleave", "barrierset"} {
		for _, refusal := range serverRefusals {
			needs := refusal.class != ClassOOM || !slices.Contains([]string{"release", "releaseone", "renew", "force", "readrenew", "readrelease", "writerelease", "fairrelease", "latch", "permitsrelease", "permitsrenew", "groupcount", "grouprelease", "grouprenew", "groupforce"}, script)
			require.True(t, met[script+" without "+refusal.name] || !needs, "%s was never refused: %s", script, refusal.name)
		}
	}
}

// What stands under a name of a lock may be of any type: no script ends in the middle of its work by that.
func TestNoScriptBreaksOffBecauseAKeyIsOfAnotherType(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	names := []string{
		"k", "{k}:rwlock_writer", "{k}:e1:02:rwlock_timeout:1", "{k}:x:9:rwlock_timeout:1", "redisson_lock_token:{k}",
		"redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "{k}:fair_heard", "{k}:fair_asked", "{k}:fair_notes", "{k}:counted_requests", "{k}:timeout",
	}
	values := [][]string{{"SET", "NAME", "text"}, {"HSET", "NAME", "e1:02", "text"}, {"HSET", "NAME", "e1", "text", "e1:given", "7"}, {"HSET", "NAME", "e1:given", "text", "ended", "text"}, {"RPUSH", "NAME", "e1:02", "dead:01"}, {"ZADD", "NAME", "1", "e1:02"}}
	for script, calls := range refusalCalls(ahead) {
		for state := range refusalStates(0) {
			if !slices.Contains(refusalFamilies[script], refusalKind(state)) {
				continue
			}
			for _, name := range names {
				var commands, spoilt [][]string // spoilt: by which each of the commands was preceded, if it is a call
				for _, value := range values {
					spoils := slices.Clone(value)
					spoils[1] = name
					commands = append(commands, r.putting(state, []string{"DEL", name}, spoils)...)
					spoilt = append(spoilt, make([][]string, len(commands)-len(spoilt))...)
					for _, args := range calls {
						commands, spoilt = append(commands, r.calling(script, args)), append(spoilt, spoils)
					}
				}
				for i, reply := range r.pipe(commands) {
					for _, e := range errorsIn(reply) {
						require.NotNil(t, spoilt[i], "%q: %s", commands[i], e)
						require.False(t, classOfReply(e) == ClassPartly || strings.Contains(e, "attempt to"), "%s of a lock that is %s, where %q: %s", script, state, spoilt[i], e)
					}
				}
			}
		}
	}
}

// prepare makes a state, and says what stands then.
func (r *refusalRig) prepare(state string) []string {
	r.Helper()
	return linesOf(r.put(state, askStanding))
}

// putting are the commands that make a state, and further ones.
func (r *refusalRig) putting(state string, extra ...[]string) [][]string {
	flush := [][]string{{"FLUSHDB"}} // FLUSHALL would write a snapshot
	return slices.Concat(flush, refusalStates(time.Now().UnixMilli())[state], extra)
}

// put makes a state and sends further commands, and returns the reply to the last.
func (r *refusalRig) put(state string, extra ...[]string) any {
	r.Helper()
	replies := r.all(r.putting(state, extra...)...)
	return replies[len(replies)-1]
}

// all is pipe for commands of which none may be refused.
func (r *refusalRig) all(commands ...[]string) []any {
	r.Helper()
	replies := r.pipe(commands)
	for i, reply := range replies {
		require.Empty(r, errorsIn(reply), "%q", commands[i])
	}
	return replies
}

// pipe sends commands in one write, and returns their replies.
func (r *refusalRig) pipe(commands [][]string) []any {
	r.Helper()
	var b []byte
	for _, command := range commands {
		b = redistest.AppendCommand(b, command...)
	}
	_, err := r.admin.Write(b)
	require.NoError(r, err)
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	replies := make([]any, len(commands))
	for i, command := range commands {
		v, err := r.admin.Receive(ctx)
		if refused, is := err.(redistest.ReplyError); is { //nolint:errorlint // it is never wrapped
			v, err = refused, nil
		}
		require.NoError(r, err, "%q", command)
		replies[i] = v
	}
	return replies
}

// refusalFamilies are the states that a script is called in.
var refusalFamilies = map[string][]string{
	"acquire": {"lock"}, "acquireone": {"lock"}, "release": {"lock"}, "releaseone": {"lock"}, "renew": {"lock"}, "inspect": {"lock", "read-write"}, "fenced": {"lock"},
	"reacquire": {"lock", "read-write"}, "force": {"lock", "read-write", "fair"}, "read": {"lock", "read-write"}, "readrenew": {"read-write"},
	"readrelease": {"read-write"}, "write": {"lock", "read-write"}, "writerelease": {"read-write"},
	"fair": {"lock", "fair"}, "fairrelease": {"lock", "fair"}, "queue": {"fair"},
	"semaphore": {"semaphore"}, "semaphorerelease": {"semaphore"}, "semaphoreset": {"semaphore"},
	"latch": {"latch"}, "latchdown": {"latch"}, "latchset": {"latch"},
	"barrier": {"barrier"}, "barrierleave": {"barrier"}, "barrierset": {"barrier"},
	"permits": {"permits"}, "permitsrelease": {"permits"}, "permitsrenew": {"permits"}, "permitsset": {"permits"}, "permitsleased": {"permits"},
	"group": {"group"}, "groupcount": {"group"}, "grouprelease": {"group"}, "grouprenew": {"group"}, "groupforce": {"group", "read-write"}, "groupheld": {"group"},
}

func refusalKind(state string) string {
	switch {
	case strings.HasPrefix(state, "queue"):
		return "fair"
	case strings.HasPrefix(state, "group"):
		return "group"
	case strings.HasPrefix(state, "barrier"):
		return "barrier"
	case strings.HasPrefix(state, "leased"):
		return "permits"
	case strings.HasPrefix(state, "permits"):
		return "semaphore"
	case strings.HasPrefix(state, "latch"):
		return "latch"
	case strings.Contains(state, "read") || strings.Contains(state, "writ"):
		return "read-write"
	default:
		return "lock"
	}
}
