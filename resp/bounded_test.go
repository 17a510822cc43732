package resp

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// busyMost is how long a call may keep the server from answering others, ms of its main thread. Where the machine is slow,
// or has other work, it is so many times what a script of a known cost takes there: without a bound it is a hundred times.
const (
	busyMost  = 50.0
	busyYards = 6
)

// brief requires that a call has kept the server from answering others for less than most; a multiple of busyMost.
func (r *refusalRig) brief(busy, most float64, what string) {
	r.Helper()
	if busy < most {
		return
	}
	yard := 0.0
	for range 3 {
		began := r.busyMs()
		r.do("EVAL", "for _ = 1, 15000 do redis.call('TIME') end", "0")
		yard = max(yard, r.busyMs()-began)
	}
	require.Less(r, busy, yard*busyYards*most/busyMost, "ms in which the server answers nobody, a yard is %v: %s", yard, what)
}

// shortly runs a script and fails if the server is busy with it for long.
func (r *refusalRig) shortly(script string, args ...string) []any {
	r.Helper()
	busy := r.busyMs()
	v, err := r.run.Do(r.Context(), append([]string{"EVAL", ScriptTexts()[script], "1"}, args...)...)
	require.NoError(r, err)
	r.brief(r.busyMs()-busy, busyMost, script)
	return v.([]any)
}

// many makes a hash of so many fields.
func (r *refusalRig) many(key string, fields int, more ...string) {
	r.Helper()
	r.do("EVAL", `for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'other:' .. i, ARGV[2]) end`, "1", key, strconv.Itoa(fields), more[0])
	r.do(append([]string{"HSET", key}, more[1:]...)...)
	r.do("PEXPIRE", key, "60000")
}

// Whoever may write to a lock's key can make a hash of it that takes seconds to read.
func TestAHashOfManyFieldsIsNotReadWhole(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	for _, count := range []string{"1", "-1", "x"} {
		for script, args := range map[string][]string{
			"readrelease":  {"PUBLISH", "0", "0", "field", "1"},
			"writerelease": {"PUBLISH", "0", "0", "field", "1"},
			"reacquire":    {"1000", "field", ahead, "1", "2"},
		} {
			r.many("rw", 100_000, count, "mode", map[bool]string{true: "write", false: "read"}[script == "writerelease"], "field", "1")
			r.shortly(script, append([]string{"rw"}, args...)...)
			require.Greater(t, r.do("PTTL", "rw"), int64(50_000), "%s", script)
			r.do("DEL", "rw")
		}
	}
	r.many("rw", 100_000, "1", "mode", "read")
	v := r.shortly("inspect", "rw")
	require.Len(t, v, 3)
	require.Equal(t, []any{int64(100_001), "read"}, v[1:])
}

// calls counts how often a script has called a command since the last resetCalls.
func (r *refusalRig) calls(command string) int {
	r.Helper()
	stats := redistest.Text(r.do("INFO", "commandstats"))
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	require.NoError(r, err)
	return n
}

func (r *refusalRig) resetCalls() { r.do("CONFIG", "RESETSTAT") }

// large makes hashes of so many readers each with so many bytes for a count.
func (r *refusalRig) large(fields, size int, mode string, keys ...string) {
	r.Helper()
	for _, key := range keys {
		r.many(key, fields, strings.Repeat("x", size), "mode", mode, "field", "1")
	}
}

// Whoever may write to a lock's key can put so much into few fields that reading them takes a second. From three fields on
// a hash is read one by one, up to a megabyte.
func TestAHashOfLargeFieldsIsNotReadWhole(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	for script, args := range map[string][]string{
		"inspect":      nil,
		"readrelease":  {"PUBLISH", "0", "0", "field", "1"},
		"writerelease": {"PUBLISH", "0", "0", "field", "1"},
		"reacquire":    {"1000", "field", ahead, "1", "2"},
	} {
		r.large(1000, 100_000, map[bool]string{true: "write", false: "read"}[script == "writerelease"], "rw")
		r.resetCalls()
		v := r.shortly(script, append([]string{"rw"}, args...)...)
		require.Zero(t, r.calls("hgetall"), "%s", script)
		require.LessOrEqual(t, r.calls("hscan"), 30, "%s", script) // where more than one comes at once fewer are enough
		require.Greater(t, r.do("PTTL", "rw"), int64(50_000), "%s", script)
		if script == "inspect" {
			require.Equal(t, []any{int64(1002), "read"}, v[1:])
		}
		r.do("UNLINK", "rw")
	}
}

// The bytes that a call reads are counted over all its keys.
func TestTheBytesThatACallReadsAreCounted(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	var keys []string
	for i := range 64 {
		keys = append(keys, "rw"+strconv.Itoa(i))
	}
	r.large(9, 100_000, "read", keys...)
	r.resetCalls()
	v, err := r.run.Do(t.Context(), slices.Concat([]string{"EVAL", ScriptTexts()["readrelease"], "64"}, keys, []string{"PUBLISH", "0", "0", "field", "64"})...)
	require.NoError(t, err)
	require.Equal(t, []any{int64(64)}, v.([]any)[1:], "all are given back")
	require.Zero(t, r.calls("hgetall"))
	require.LessOrEqual(t, r.calls("hscan"), 40)
}

// A hash of many small readers is read, as is one of few.
func TestAHashOfUpToAMegabyteIsReadWhole(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	for _, fields := range []int{1, 2, 3, 200, 4000} {
		r.many("rw", fields, "1", "mode", "read", "field", "1")
		r.do("SET", "{rw}:other:1:rwlock_timeout:1", "1", "PX", "30000")
		v := r.shortly("inspect", "rw")
		require.Len(t, v, 1+2*(fields+2), "%d readers", fields)
		require.Contains(t, v, any("other:"+strconv.Itoa(fields)))
		r.shortly("readrelease", "rw", "PUBLISH", "0", "0", "field", "1")
		require.LessOrEqual(t, r.do("PTTL", "rw"), int64(30_000), "%d readers", fields)
		r.do("DEL", "rw")
	}
}

// Without the right to HSCAN everything is as it was before scripts called it: a hash is read at once, and not sent where
// it has more than a megabyte.
func TestAHashIsReadWithoutTheRightToHSCAN(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-hscan")
	_, err := r.run.Do(t.Context(), "AUTH", "caller", "secret")
	require.NoError(t, err)
	r.many("rw", 200, "1", "mode", "read", "field", "1")
	r.do("SET", "{rw}:other:1:rwlock_timeout:1", "1", "PX", "30000")
	require.Len(t, r.shortly("inspect", "rw"), 1+2*202)
	r.shortly("readrelease", "rw", "PUBLISH", "0", "0", "field", "1")
	require.LessOrEqual(t, r.do("PTTL", "rw"), int64(30_000))
	r.large(30, 100_000, "read", "rw2")
	require.Equal(t, []any{int64(32), "read"}, r.shortly("inspect", "rw2")[1:])
}

// A thousand holds each of ten thousand readers would be ten million marks to look at.
func TestTheReadHoldsThatACallLooksAtAreCounted(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	for fields, lowered := range map[int]bool{5: true, 15: false} {
		r.many("rw", fields, "1000", "mode", "read", "field", "1")
		r.do("SET", "{rw}:other:1:rwlock_timeout:1000", "1", "PX", "30000")
		r.shortly("readrelease", "rw", "PUBLISH", "0", "0", "field", "1")
		require.Equal(t, lowered, r.do("PTTL", "rw").(int64) <= 30_000, "%d readers of a thousand holds", fields)
		r.do("DEL", "rw")
	}
}

// A look spells out the field: a thousand holds under a name of 300 KB are 300 MB of text.
func TestAReadHoldUnderALongNameIsNotLookedAt(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	for size, lowered := range map[int]bool{256: true, 257: false, 300_000: false} {
		r.do("HSET", "rw", "mode", "read", "field", "1", strings.Repeat("n", size), "1000")
		r.do("PEXPIRE", "rw", "60000")
		r.do("SET", "{rw}:"+strings.Repeat("n", size)+":rwlock_timeout:1000", "1", "PX", "30000")
		r.shortly("readrelease", "rw", "PUBLISH", "0", "0", "field", "1")
		require.Equal(t, lowered, r.do("PTTL", "rw").(int64) <= 30_000, "%d bytes", size)
		r.do("DEL", "rw")
	}
}

// What Inspect is told of a hash that was not read.
func TestAnInspectIsToldThatTheHashWasNotRead(t *testing.T) {
	t.Parallel()
	r := newFamilyRig(t)
	r.do("EVAL", `for i = 1, 10001 do redis.call('HSET', KEYS[1], 'other:' .. i, 1) end`, "1", "many")
	_, got := r.ask(OpInspect, FamilyRead, "many")
	require.Equal(t, CodeInspected, got.Code)
	require.Equal(t, int64(10_001), got.More)
	require.Equal(t, []string{""}, got.Fields)
	r.do("HDEL", "many", "other:1")
	_, got = r.ask(OpInspect, FamilyRead, "many")
	require.Zero(t, got.More)
	require.Len(t, got.Fields, 20_000)
	r.do("HSET", "number", "20000", "1")
	_, got = r.ask(OpInspect, FamilyRead, "number")
	require.Zero(t, got.More)
	require.Equal(t, []string{"20000", "1"}, got.Fields)
}

// deadQueue makes a queue of those who do not ask any more: ours, in no order, or Redisson's.
func (r *refusalRig) deadQueue(n int, ours bool) {
	r.Helper()
	kind := map[bool]string{true: "0", false: ""}[ours]
	r.do("EVAL", `
for i = 1, tonumber(ARGV[1]) do
  local field = i * 7919 % 1000003 .. ':' .. ARGV[2] .. i
  redis.call('RPUSH', KEYS[1], field)
  redis.call('ZADD', KEYS[2], 1, field)
  if ARGV[2] == '0' then
    redis.call('ZADD', KEYS[3], 1, field)
  end
end`, "3", "redisson_lock_queue:{q}", "redisson_lock_timeout:{q}", "{q}:fair_heard", strconv.Itoa(n), kind)
}

// A queue of dead places is taken apart a page with each question, wherever they stand in what order; who asks has its
// place meanwhile, and is told to come again.
func TestAQueueOfManyDeadPlacesKeepsTheServerBusyForNobody(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	ask := func(field string) []any {
		return r.shortly("fair", "q", "30000", ahead, "1", "5000", "300000", "PUBLISH", "0", field, "1")
	}
	for _, ours := range []bool{true, false} {
		r.do("FLUSHDB")
		r.deadQueue(250_000, ours)
		v := ask("e1:02")
		require.Equal(t, []any{int64(0), int64(1), int64(1), int64(-1)}, v[1:5], "it stands there now, and is to come again")
		require.Equal(t, "e1:02", r.do("LINDEX", "redisson_lock_queue:{q}", "-1"))
		ask("e1:04")
		ask("e1:02")
		require.Equal(t, int64(250_002-300), r.do("LLEN", "redisson_lock_queue:{q}"))
		r.do("HSET", "q", "e1:07", "1")
		r.shortly("fairrelease", "q", "PUBLISH", "0", "0", "0", "5000", "300000", "e1:07", "1")
		r.shortly("fairrelease", "q", "PUBLISH", "0", "0", "0", "5000", "300000", "e1:04", "1")
		require.Equal(t, int64(250_001-500), r.do("LLEN", "redisson_lock_queue:{q}"))

		r.do("FLUSHDB")
		r.deadQueue(20_000, ours)
		var got []string
		for range 300 {
			for _, field := range []string{"e1:02", "e1:04"} {
				if !slices.Contains(got, field) && ask(field)[1] == int64(1) {
					got = append(got, field)
					r.do("DEL", "q")
				}
			}
		}
		require.Equal(t, []string{"e1:02", "e1:04"}, got)
		require.Empty(t, slices.DeleteFunc(r.do("KEYS", "*").([]any), func(key any) bool { return strings.Contains(key.(string), "fair_notes") }))
	}
}

// longQueues makes queues of a thousand places that are kept; heard: that is known of each.
func (r *refusalRig) longQueues(n int, heard bool) (keys []string) {
	r.Helper()
	for i := range n {
		key := "k" + strconv.Itoa(i)
		keys = append(keys, key)
		tag := "{" + key + "}"
		r.do("EVAL", `
for i = 1, 1000 do
  redis.call('RPUSH', KEYS[1], 'e2:0' .. i)
  redis.call('ZADD', KEYS[2], ARGV[1], 'e2:0' .. i)
  if ARGV[2] == '1' then
    redis.call('ZADD', KEYS[3], ARGV[1], 'e2:0' .. i)
  end
end
redis.call('HSET', KEYS[4], 'e1:07', 1)`, "4", "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag, slot.FairHeard(key), key,
			strconv.FormatInt(time.Now().UnixMilli()+60_000, 10), map[bool]string{true: "1", false: "0"}[heard])
		r.do("PEXPIRE", key, "60000")
	}
	return keys
}

// askForAll asks for fair locks with one call, and counts those that are to be asked for again in a moment.
func (r *refusalRig) askForAll(keys []string, most float64, field string) (soon int) {
	r.Helper()
	_, ahead := notAfters()
	busy := r.busyMs()
	v, err := r.run.Do(r.Context(), slices.Concat([]string{"EVAL", ScriptTexts()["fair"], strconv.Itoa(len(keys))}, keys,
		[]string{"30000", ahead, "1", "5000", "300000", "PUBLISH", "0", field, strconv.Itoa(len(keys))})...)
	require.NoError(r, err)
	r.brief(r.busyMs()-busy, most, "fair locks of many names")
	for _, left := range v.([]any)[2:] {
		if left == int64(1) {
			soon++
		}
	}
	return soon
}

// lifted counts the queues of which it is known until when their places are kept.
func (r *refusalRig) lifted(keys []string) (n int) {
	r.Helper()
	for _, key := range keys {
		if r.do("HGET", slot.FairNotes(key), "base") != nil {
			n++
		}
	}
	return n
}

// A call for many keys, each with a long queue whose places are to be kept, keeps those of some, and the caller comes again
// for the others.
func TestTheQueuesOfOneCallAreKeptAFewAtATime(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	keys := r.longQueues(128, true)
	for _, want := range []int{10, 20, 30} {
		rest := keys[want-10:]
		soon := r.askForAll(rest, busyMost, "e1:02")
		require.Equal(t, want, r.lifted(keys))
		require.GreaterOrEqual(t, soon, len(rest)-10, "they come again in a moment")
	}
}

// A call for many keys, each with a long queue of which nobody has heard, begins to hear of those of some, each whole; the
// caller asks for the same keys again, and goes on where it was.
func TestTheQueuesOfOneCallAreAdoptedAFewAtATime(t *testing.T) {
	t.Parallel()
	for field, alone := range map[string][]int64{"e1:02": {1, 1001}, "e2:01": {0, 1000}} { // behind them, or the head of each
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			r := newScriptRig(t)
			keys := r.longQueues(32, false)
			adopted := func() (n int) {
				for _, key := range keys {
					heard, asked := r.do("ZCARD", slot.FairHeard(key)).(int64), r.do("ZCARD", slot.FairAsked(key)).(int64)
					require.Contains(t, alone, heard, "the caller's own place, or all of them")
					require.Equal(t, heard, asked)
					if heard == alone[1] {
						n++
					}
				}
				return n
			}
			for want := 5; want < len(keys); want += 5 {
				soon := r.askForAll(keys, 2*busyMost, field)
				require.Equal(t, want, adopted())
				require.GreaterOrEqual(t, soon, len(keys)-want, "they come again in a moment")
			}
			r.askForAll(keys, 2*busyMost, field)
			require.Equal(t, len(keys), adopted())
			for _, key := range keys {
				require.Equal(t, "e2:01", r.do("LINDEX", slot.FairQueue(key), "0"))
				require.Equal(t, alone[1], r.do("LLEN", slot.FairQueue(key)))
				for _, own := range []string{slot.FairHeard(key), slot.FairAsked(key)} {
					require.Positive(t, r.do("PTTL", own), own)
				}
			}
		})
	}
}

// queues makes a held lock and a queue for each of so many keys. fill is Lua with queue, timeouts, heard, asked, now.
func (r *refusalRig) queues(n int, fill string) (keys []string) {
	r.Helper()
	for i := range n {
		key := "k" + strconv.Itoa(i)
		keys = append(keys, key)
		r.do("EVAL", `
local queue, timeouts, heard, asked, now = KEYS[2], KEYS[3], KEYS[4], KEYS[5], tonumber(ARGV[1])
redis.call('HSET', KEYS[1], 'e1:07', 1)
redis.call('PEXPIRE', KEYS[1], 60000)
for i = 1, 999 do
`+fill+`
end`, "5", key, slot.FairQueue(key), slot.FairTimeouts(key), slot.FairHeard(key), slot.FairAsked(key), strconv.FormatInt(time.Now().UnixMilli(), 10))
	}
	return keys
}

// What a call does for its keys is bounded for all of them together, whatever it is that long queues need; who asks again
// gets to all of them.
func TestTheWorkOfACallIsCountedOverItsQueues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill, field, commands string
		done                  func(r *refusalRig, key string) bool
	}{
		"the last of ours is dead": {
			`local java = i == 1 and 'e2:09' or 'java:' .. i
redis.call('RPUSH', queue, java)
redis.call('ZADD', timeouts, now + 60000, java)
redis.call('ZADD', heard, 1, 'e2:09')`,
			"e1:02", "zincrby", func(r *refusalRig, key string) bool {
				return r.do("LINDEX", slot.FairQueue(key), "0") == "java:2" && r.do("LINDEX", slot.FairQueue(key), "-1") == "e1:02"
			},
		},
		"the last of ours is the next": {
			`local java = i == 1 and 'e2:09' or 'java:' .. i
redis.call('DEL', KEYS[1])
redis.call('RPUSH', queue, java)
redis.call('ZADD', timeouts, now + 4500, java)
redis.call('ZADD', heard, now, 'e2:09')`,
			"e2:09", "zincrby", func(r *refusalRig, key string) bool {
				return r.do("HEXISTS", key, "e2:09") == int64(1) && r.do("LINDEX", slot.FairQueue(key), "0") == "java:2"
			},
		},
		"the server stood still": {
			`redis.call('RPUSH', queue, 'e2:0' .. i)
redis.call('ZADD', timeouts, now + 60000, 'e2:0' .. i)
redis.call('ZADD', heard, now - 6000, 'e2:0' .. i)`,
			"e2:05", "zadd", func(r *refusalRig, key string) bool {
				return r.do("HGET", slot.FairNotes(key), "stood") != nil && r.do("LLEN", slot.FairQueue(key)) == int64(999)
			},
		},
		"one comes again that was taken out": {
			`redis.call('RPUSH', queue, 'e2:0' .. i)
redis.call('ZADD', timeouts, now + 60000, 'e2:0' .. i)
redis.call('ZADD', heard, now + 60000, 'e2:0' .. i)
redis.call('ZADD', asked, i, 'e2:0' .. i)
redis.call('ZADD', asked, 500.5, 'e1:02')`,
			"e1:02", "zscore", func(r *refusalRig, key string) bool { return r.do("LINDEX", slot.FairQueue(key), "500") == "e1:02" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newScriptRig(t)
			keys := r.queues(24, c.fill)
			done := func() (n int) {
				for _, key := range keys {
					if c.done(r, key) {
						n++
					}
				}
				return n
			}
			before := 0
			for range 40 { // where the machine is slow, some questions only keep what others began
				r.resetCalls()
				r.askForAll(keys, 2*busyMost, c.field)
				require.LessOrEqual(t, r.calls(c.commands), 15_000)
				after := done()
				require.LessOrEqual(t, after, before+11, "some with each question")
				if before = after; after == len(keys) {
					break
				}
			}
			require.Len(t, keys, before, "who asks again gets to all of them")
		})
	}
}

// Whoever may write to one lock's queue spoils that one, and none that is asked for with it.
func TestALongNameInOneQueueSpoilsNoOther(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	now := time.Now().UnixMilli()
	kept := strconv.FormatInt(now+60_000, 10)
	for _, key := range []string{"bad", "good"} {
		r.do("HSET", key, "e1:07", "1")
		r.do("PEXPIRE", key, "60000")
	}
	long := strings.Repeat("j", 2<<20)
	r.do("RPUSH", "redisson_lock_queue:{bad}", long)
	r.do("ZADD", "redisson_lock_timeout:{bad}", kept, long)
	ask := func(field string, keys ...string) []any {
		v, err := r.run.Do(t.Context(), slices.Concat([]string{"EVAL", ScriptTexts()["fair"], strconv.Itoa(len(keys))}, keys,
			[]string{"30000", ahead, "1", "5000", "300000", "PUBLISH", "0", field, strconv.Itoa(len(keys))})...)
		require.NoError(t, err)
		return v.([]any)
	}
	ask("e2:01", "good")
	r.do("RPUSH", "redisson_lock_queue:{good}", "java:7")
	r.do("ZADD", "redisson_lock_timeout:{good}", kept, "java:7")
	base := r.do("HGET", slot.FairNotes("good"), "base")
	require.NotNil(t, base)
	got := ask("e1:02", "bad", "good")
	require.Equal(t, base, r.do("HGET", slot.FairNotes("good"), "base"), "what is known of the others stays")
	require.Equal(t, []any{int64(2), int64(-2)}, []any{got[len(got)-4], got[len(got)-2]})
	require.Greater(t, got[len(got)-3], int64(1000), "it has a place for a while")
	require.Equal(t, "e1:02", r.do("LINDEX", "redisson_lock_queue:{good}", "-1"))
	// Where many are spoiled, the others come again in a moment, and what is known of them stays.
	var keys []string
	for i := range 9 {
		key := "bad" + strconv.Itoa(i)
		keys = append(keys, key)
		r.do("HSET", key, "e1:07", "1")
		r.do("PEXPIRE", key, "60000")
		r.do("RPUSH", slot.FairQueue(key), long)
		r.do("ZADD", slot.FairTimeouts(key), kept, long)
	}
	got = ask("e1:03", append(keys, "good")...)
	require.Equal(t, int64(1), got[len(got)-1])
	require.Equal(t, base, r.do("HGET", slot.FairNotes("good"), "base"))
	require.Equal(t, int64(3), r.do("LLEN", "redisson_lock_queue:{good}"))
}

// older makes what is known of queues so many ms older.
func (r *refusalRig) older(keys []string, ms int) {
	r.Helper()
	for _, key := range keys {
		r.do("EVAL", `for i = 1, 3 do
  local scores = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  for j = 1, #scores, 2 do
    redis.call('ZADD', KEYS[i], string.format('%.0f', scores[j + 1] - ARGV[1]), scores[j])
  end
end
for _, field in ipairs({'base', 'stood', 'at', 'left'}) do
  local v = tonumber(redis.call('HGET', KEYS[4], field) or nil)
  if v then
    redis.call('HSET', KEYS[4], field, string.format('%.0f', v - ARGV[1]))
  end
end`, "4", slot.FairTimeouts(key), slot.FairHeard(key), slot.FairAsked(key), slot.FairNotes(key), strconv.Itoa(ms))
	}
}

// The places of a queue are kept anew twice a second. Who asks more seldom still comes to the last of many long queues.
func TestWhoAsksSlowlyComesToTheLastQueue(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	keys := r.longQueues(14, true)
	for asked := 0; r.lifted(keys) < len(keys); asked++ {
		require.Less(t, asked, 3)
		r.askForAll(keys, 2*busyMost, "e1:02")
		r.older(keys, 600)
	}
}

// The same of a release that passes locks on: of the others the next are told, and ask.
func TestTheLocksThatAReleasePassesOnAreCounted(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	keys := r.queues(32, `local java = i == 1 and 'e2:09' or 'java:' .. i
redis.call('RPUSH', queue, java)
redis.call('ZADD', timeouts, now + 4500, java)
redis.call('ZADD', heard, now, 'e2:09')`)
	args := slices.Concat([]string{"EVAL", ScriptTexts()["fairrelease"], "32"}, keys, []string{"PUBLISH", "0", "0", "32", "5000", "300000", "e1:07", "32"})
	for i := range keys {
		args = append(args, strconv.Itoa(i+1), "e2:09", "30000")
	}
	v, err := r.run.Do(t.Context(), args...)
	require.NoError(t, err)
	require.Equal(t, int64(32), v.([]any)[1], "all are given back")
	passed, left := 0, 0
	for _, key := range keys {
		if r.do("HEXISTS", key, "e2:09") == int64(1) {
			passed++
		} else if r.do("EXISTS", key) == int64(0) && r.do("LINDEX", slot.FairQueue(key), "0") == "e2:09" {
			left++
		}
	}
	require.Equal(t, []int{6, 26}, []int{passed, left}, "passed on, and still the next ones'")
}

// The names in a queue may be as long as somebody likes.
func TestAQueueOfLongNamesIsNotReadWhole(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	for _, kind := range []string{"0", ""} {
		keys := r.queues(1, `local m = 'e2:`+kind+`' .. i .. string.rep('x', 100000)
redis.call('RPUSH', queue, m)
redis.call('ZADD', timeouts, now + 60000, m)`)
		for range 2 {
			r.resetCalls()
			r.askForAll(keys, busyMost, "e1:02")
			require.LessOrEqual(t, r.calls("lrange"), 2)
			require.Equal(t, "e1:02", r.do("LINDEX", slot.FairQueue(keys[0]), "-1"), "it has a place all the same")
		}
		r.do("FLUSHDB", "ASYNC")
	}
}

// Where a queue has an unknown head those behind it that are known stay as they are: a dead one is found in time.
func TestAnAdoptionLeavesWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	_, ahead := notAfters()
	now := time.Now().UnixMilli()
	kept, asked := strconv.FormatInt(now+60_000, 10), strconv.FormatInt(now-3000, 10)
	r.do("HSET", "k", "e1:07", "1")
	r.do("RPUSH", "redisson_lock_queue:{k}", "e2:01", "e2:02", "java:7", "e2:03")
	r.do("ZADD", "redisson_lock_timeout:{k}", kept, "e2:01", kept, "e2:02", kept, "java:7", kept, "e2:03")
	r.do("ZADD", slot.FairHeard("k"), asked, "e2:02")
	r.do("ZADD", slot.FairAsked("k"), "5", "e2:02")
	r.shortly("fair", "k", "30000", ahead, "1", "5000", "300000", "PUBLISH", "0", "e1:04", "1")
	for field, fresh := range map[string]bool{"e2:01": true, "e2:02": false, "e2:03": true, "e1:04": true} {
		heard, came := redistest.Text(r.do("ZSCORE", slot.FairHeard("k"), field)), redistest.Text(r.do("ZSCORE", slot.FairAsked("k"), field))
		require.Equal(t, fresh, heard != asked && heard != "", "%s was heard of at %q", field, heard)
		require.Equal(t, fresh, came != "5" && came != "", "%s came at %q", field, came)
	}
	require.Equal(t, int64(4), r.do("ZCARD", slot.FairHeard("k")), "of Redisson's nobody is")
}

// Who waits for a fair lock is listed up to a bound.
func TestTheListOfAQueueHasABound(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	r.deadQueue(200_000, true)
	require.Len(t, r.shortly("queue", "redisson_lock_queue:{q}"), 1+2*10_000)
	r.do("EVAL", `for i = 1, 1000 do redis.call('RPUSH', KEYS[1], string.rep('x', 100000) .. i) end`, "1", "redisson_lock_queue:{large}")
	r.resetCalls()
	require.Len(t, r.shortly("queue", "redisson_lock_queue:{large}"), 1+2*10)
	require.LessOrEqual(t, r.calls("lrange"), 10, "they are read two by two, up to a megabyte")
}

// Each place of a list may stand on a page of its own, and a look at the ten thousandth goes past all of them.
func TestTheListOfAScatteredQueueHasABound(t *testing.T) {
	t.Parallel()
	r := newScriptRig(t)
	r.do("EVAL", `
local large = string.rep('x', 9000)
for i = 1, 12000 do
  redis.call('RPUSH', KEYS[1], large, 'e1:0' .. i)
end
redis.call('LREM', KEYS[1], 0, large)`, "1", "redisson_lock_queue:{q}")
	r.resetCalls()
	v, err := r.run.Do(t.Context(), "EVAL", ScriptTexts()["queue"], "1", "redisson_lock_queue:{q}")
	require.NoError(t, err)
	require.Len(t, v, 1+2*10_000)
	require.LessOrEqual(t, r.calls("lrange"), 5000)
}

// A counter that cannot rise by one, exactly, is a fencing token no more: nothing is taken, and it stays as it is.
func TestACounterThatCannotRiseIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	counter := slot.FenceToken("f")
	for _, swaps := range []string{"0", "1"} {
		for _, value := range []string{"9007199254740992", "9007199254740993", "9223372036854775807", "18446744073709551616", "1e300", "inf", "nan", "x", ""} {
			s.Do(t, "SET", counter, value)
			answer := scriptRun(t, s, "fenced", "f", "30000", "e1:1", ahead, "1", swaps)
			require.Contains(t, answer, "the fencing token is not a number that can be counted up", "%q", value)
			require.Equal(t, []string{counter}, s.Keys(t), "%q", value)
			require.Equal(t, value, s.Do(t, "GET", counter))
		}
		for value, token := range map[string]string{"9007199254740991": "9007199254740992", "9007199254740990": "9007199254740991", "-9223372036854775808": "", "-inf": ""} {
			s.Do(t, "SET", counter, value)
			from := time.Now().UnixMicro()
			answer := strings.Split(scriptRun(t, s, "fenced", "f", "30000", "e1:1", ahead, "1", swaps), "\n")
			if token != "" {
				require.Equal(t, []string{"1", token}, answer[3:], "%q", value)
				require.Equal(t, token, s.Do(t, "GET", counter))
			} else {
				got, err := strconv.ParseInt(s.Do(t, "GET", counter), 10, 64)
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, from, "the server's time, in µs")
			}
			s.Do(t, "DEL", "f")
		}
	}
}
