package resp

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// decode reads one reply, of the types that scripts answer.
func decode(text string) (m rueidis.RedisMessage, rest string, ok bool) {
	line, rest, ok := strings.Cut(text, "\r\n")
	if !ok || line == "" {
		return m, "", false
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	switch {
	case line[0] == '+':
		return mock.RedisString(line[1:]), rest, true
	case line[0] == '-':
		return mock.RedisError(line[1:]), rest, true
	case line[0] == '_', n == -1 && (line[0] == '$' || line[0] == '*'):
		return mock.RedisNil(), rest, true
	case err != nil:
		return m, "", false
	case line[0] == ':':
		return mock.RedisInt64(n), rest, true
	case line[0] == '$' && n >= 0 && n+2 <= int64(len(rest)):
		return mock.RedisBlobString(rest[:n]), rest[n+2:], true
	case line[0] == '*' && n >= 0 && n <= int64(len(rest)):
		values := make([]rueidis.RedisMessage, n)
		for i := range values {
			if values[i], rest, ok = decode(rest); !ok {
				return m, "", false
			}
		}
		return mock.RedisArray(values...), rest, true
	}
	return m, "", false
}

// replyOf makes a reply of its bytes, with every line break as a space.
func replyOf(t testing.TB, text string) rueidis.RedisResult {
	t.Helper()
	m, rest, ok := decode(strings.ReplaceAll(text, " ", "\r\n") + "\r\n")
	require.True(t, ok && rest == "", "%q is no reply", text)
	return mock.Result(m)
}

// asking makes a command of some ops.
func asking(kind OpKind, f Family, keys int) *command {
	c := &command{script: scriptOf(kind, f), results: make([]Result, keys)}
	for i := range keys {
		op := &Op{Kind: kind, Family: f, Key: strconv.Itoa(i)}
		if kind == OpRelease && f == FamilyFair {
			op.Sink = testator{heirs: []Heir{{Field: FairField("e", 7)}}}
		}
		c.ops = append(c.ops, op)
	}
	return c
}

var replyCommands = []struct {
	name   string
	kind   OpKind
	family Family
	keys   int
}{
	{"acquire", OpAcquire, FamilyLock, 3},
	{"one acquire", OpAcquire, FamilyWrite, 1},
	{"fenced", OpAcquire, FamilyFenced, 3},
	{"reacquire", OpReacquire, FamilyLock, 1},
	{"release", OpRelease, FamilyLock, 3},
	{"fair release", OpRelease, FamilyFair, 2},
	{"extend", OpExtend, FamilyRead, 1},
	{"force", OpForce, FamilyLock, 1},
	{"inspect", OpInspect, FamilyLock, 1},
	{"queue", OpQueue, FamilyFair, 1},
	{"renew", OpExtend, FamilyLock, 3}, // by readRenewals, too
	{"count", OpCount, FamilyLock, 1},
	{"leave", OpLeave, FamilyWrite, 1},
	{"take", OpReacquire, FamilySemaphore, 1},
	{"give", OpRelease, FamilySemaphore, 3},
	{"call", OpCall, FamilySemaphore, 1},
	{"look", OpReacquire, FamilyLatch, 1},
	{"count down", OpRelease, FamilyLatch, 3},
	{"meet", OpReacquire, FamilyBarrier, 1},
}

func TestMalformedRepliesAreAnUnknownOutcomeAndNeverAGrant(t *testing.T) {
	anywhere := []string{
		"_", "+OK", ":1", "$2 no", "*0", "*1 _", "*1 *0", "*1 +x", "*2 +x :1", "*2 _ :3", "*3 :1 :1 *0", "*4 :1 :1 :1 _",
		"*2 :-1 :3", "*5 :1 _ :1 :1 :1", "*4 :1 :1 *0 :1", "*4 :1 :1 :1 *1 :1", "*6 :1 :2 :1 :5 +x :5", "*5 :1 :2 :1 :5 :2",
	}
	for _, c := range replyCommands {
		replies := anywhere
		switch c.name {
		case "acquire":
			replies = append(replies, "*2 :1 :2", "*2 :1 :4", "*2 :1 :-1", "*3 :1 :3 :1", "*4 :1 :3 :1 :5", "*6 :1 :1 :1 :500 :1 :500",
				"*6 :1 :1 :2 :500 :1 :500", "*4 :1 :2 :4 :5", "*4 :1 :2 :-1 :5", "*4 :1 :2 :1 :-4", "*4 :1 :2 :1 +x", "*5 :1 :3 :0 :0 :1",
				"*4 :1 :9223372036854775807 :1 :5", "*4 :1 :2 :9223372036854775807 :5", "*7 :1 :2 :1 :5 :0 :0 :1")
		case "one acquire":
			replies = append(replies, "*2 :1 :0", "*2 :1 :2", "*4 :1 :1 :1 :5", "*6 :1 :0 :1 :5 :1 :5", "*4 :1 :0 :2 :5")
		case "fenced":
			replies = append(replies, "*2 :1 :3", "*3 :1 :3 :0", "*3 :1 :3 :-7", "*3 :1 :2 :7", "*3 :1 :3 +x", "*4 :1 :3 :7 :1",
				"*7 :1 :1 :7 :1 :-1 :1 :-1", "*5 :1 :2 :7 :1 :0", "*5 :1 :2 :7 :1 :-5", "*5 :1 :2 :7 :4 :-1", "*5 :1 :2 :7 :0 :0")
		case "reacquire":
			replies = append(replies, "*2 :1 :1", "*3 :1 :3 :0", "*3 :1 :-2 :0", "*3 :1 :1 _", "*4 :1 :1 :0 :0",
				"*3 :1 :-1 :0", "*3 :1 :0 :-3", "*3 :1 :0 :-9223372036854775808")
		case "count", "leave": // of a lock that has to be ours: there is nothing to be had, nor to be waited for
			replies = append(replies, "*3 :1 :1 :0", "*3 :1 :0 :5", "*3 :1 :0 :-1", "*3 :1 :3 :0", "*3 :1 :2 _")
		case "take":
			replies = append(replies, "*1 :-1", "*2 :1 :1", "*3 :1 :1 :0", "*3 :1 :1 :-4", "*3 :1 :2 :4", "*3 :1 :0 :4", "*5 :1 :1 :4 :1 :-1",
				"*5 :1 :0 :0 :0 :-1", "*5 :1 :0 :0 :2 :-1", "*5 :1 :0 :0 :1 :-2", "*5 :1 :0 :0 :1 :0", "*7 :1 :0 :0 :1 :-1 :1 :-1")
		case "look":
			replies = append(replies, "*1 :-1", "*2 :1 :1", "*3 :1 :5 :0", "*3 :1 :-1 :0", "*3 :1 :1 _", "*3 :0 :1 :0", "*4 :1 :1 :0 :0", "*5 :1 :0 :0 :1 :-1")
		case "call":
			replies = append(replies, "*2 :1 :1", "*3 :1 :2 :0", "*3 :1 :-1 :0", "*3 :1 :1 _", "*4 :1 :1 :0 :0", "*3 :0 :1 :0")
		case "release", "fair release", "give", "count down":
			replies = append(replies, "*4 :1 :2 :1 :-18", "*4 :1 :2 :1 :-9223372036854775808", // passed on to nobody who was named
				"*1 :1", "*4 :1 :2 :1 :-3", "*4 :1 :2 :1 :0", "*4 :1 :3 :0 :0", "*6 :1 :1 :1 :-1 :1 :-1", "*2 :1 :1")
		case "extend", "renew":
			replies = append(replies, "*1 :1", "*4 :1 :2 :1 :1", "*4 :1 :2 :1 :-2", "*6 :1 :1 :1 :-1 :1 :-1", "*2 :1 :4", "*4 :1 :3 :0 :0",
				"*2 :1 :0", "*2 :1 :2", "*4 :1 :1 :1 :-1")
		case "force":
			replies = append(replies, "*2 :1 :2", "*2 :1 :-1", "*3 :1 :1 :1")
		case "inspect", "queue":
			replies = []string{"_", "+OK", ":1", "*0", "*1 _", "*1 +x", "*1 :-3", "*2 :1 +a", "*3 :1 +a _", "*3 :1 +a *0", "*3 :1 :0 +a", "*3 :1 :-1 +a"}
		}
		for _, text := range replies {
			if text == "*3 :1 :1 *0" && c.name == "fenced" {
				continue
			}
			w, cmd := &wire{}, asking(c.kind, c.family, c.keys)
			require.Equal(t, settled, cmd.readReply(w, replyOf(t, text), 1, 2), "%s: %s", c.name, text)
			for _, r := range cmd.results {
				require.Equal(t, CodeError, r.Code, "%s: %s", c.name, text)
				require.False(t, r.Definite(), "%s: %s", c.name, text)
				require.Contains(t, r.Err.Text, cmd.script.name, "%s: %s", c.name, text)
				require.Zero(t, r.Value)
			}
			require.True(t, w.malformed.Load(), "%s: %s", c.name, text)
			require.False(t, w.noCopy.Load(), "%s: %s", c.name, text)
			if c.name != "renew" {
				continue
			}
			w = &wire{} // behind a malformed reply nothing is believed, whatever it says
			part := make([]Renewal, c.keys)
			require.Equal(t, settled, readRenewals(w, replyOf(t, text), part, exchange{1, 2}), text)
			for _, r := range part {
				require.Equal(t, CodeError, r.Code, text)
				require.False(t, r.Err.Class.Definite(), text)
			}
			require.True(t, w.malformed.Load(), text)
		}
	}
}

// A malformed reply may be there because a reply too many was: those behind it answer other commands than they seem to.
func TestRepliesBehindAMalformedOneAreNoAnswer(t *testing.T) {
	w, first, second := &wire{}, asking(OpAcquire, FamilyLock, 1), asking(OpAcquire, FamilyLock, 1)
	first.readReply(w, replyOf(t, "+OK"), 1, 2)
	second.readReply(w, replyOf(t, "*2 :1 :1"), 1, 2)
	require.Equal(t, CodeError, second.results[0].Code)
	require.Equal(t, ClassUnknown, second.results[0].Err.Class)
	part := make([]Renewal, 1)
	readRenewals(w, replyOf(t, "*2 :1 :1"), part, exchange{1, 2})
	require.Equal(t, CodeError, part[0].Code)
}

// What the scripts do answer stays what it was.
func TestWellFormedRepliesAreRead(t *testing.T) {
	codes := func(cmd *command) (codes []Code, values []int64) {
		for _, r := range cmd.results {
			codes, values = append(codes, r.Code), append(values, r.Value)
		}
		return codes, values
	}
	for _, c := range []struct {
		kind   OpKind
		family Family
		keys   int
		text   string
		codes  []Code
		values []int64
	}{
		{OpAcquire, FamilyLock, 3, "*2 :1 :3", []Code{CodeGranted, CodeGranted, CodeGranted}, []int64{0, 0, 0}},
		{OpAcquire, FamilyLock, 3, "*8 :1 :1 :1 :500 :0 :0 :3 :-3", []Code{CodeBusy, CodeGranted, CodeWrongKind}, []int64{500, 0, 0}},
		{OpAcquire, FamilyLock, 2, "*6 :1 :0 :1 :-1 :2 :9223372036854775807", []Code{CodeBusy, CodeBusy}, []int64{-1, longestMs}},
		{OpAcquire, FamilyLock, 2, "*4 :1 :1 :2 -NOPERM", []Code{CodeGranted, CodeError}, []int64{0, 0}},
		{OpAcquire, FamilyLock, 3, "*6 :1 :1 :1 -NOPERM :2 :5", []Code{CodeError, CodeBusy, CodeGranted}, []int64{0, 5, 0}},
		{OpAcquire, FamilyFenced, 3, "*7 :1 :1 :7 :1 :9 :3 :-15", []Code{CodeGranted, CodeGranted, CodeBusy}, []int64{9, 7, 5}},
		{OpAcquire, FamilyFenced, 1, "*5 :1 :0 :7 :1 :-9223372036854775808", []Code{CodeBusy}, []int64{longestMs}},
		{OpRelease, FamilyFair, 3, "*8 :1 :3 :1 :2 :2 :-17 :3 :-2", []Code{CodeReleased, CodePassed, CodeReleased}, []int64{2, 7, -1}},
		{OpRelease, FamilyLock, 1, "*4 :1 :0 :1 :-1", []Code{CodeNotOurs}, []int64{0}},
		{OpExtend, FamilyLock, 1, "*4 :1 :0 :1 :-1", []Code{CodeNotOurs}, []int64{0}},
		{OpReacquire, FamilyLock, 1, "*3 :1 :1 :0", []Code{CodeGranted}, []int64{0}},
		{OpCount, FamilyLock, 1, "*3 :1 :-1 :0", []Code{CodeGone}, []int64{0}},
		{OpLeave, FamilyWrite, 1, "*3 :1 :2 :0", []Code{CodeOurs}, []int64{0}},
		{OpReacquire, FamilyLock, 1, "*3 :1 :0 :9223372036854775807", []Code{CodeBusy}, []int64{longestMs}},
		{OpInspect, FamilyLock, 1, "*1 :-2", []Code{CodeInspected}, []int64{-2}},
		{OpInspect, FamilyLock, 1, "*3 :9223372036854775807 +a +1", []Code{CodeInspected}, []int64{longestMs}},
	} {
		w, cmd := &wire{}, asking(c.kind, c.family, c.keys)
		require.Equal(t, settled, cmd.readReply(w, replyOf(t, c.text), 1, 2), c.text)
		got, values := codes(cmd)
		require.Equal(t, c.codes, got, c.text)
		require.Equal(t, c.values, values, c.text)
		require.False(t, w.malformed.Load(), c.text)
	}
}

func TestMalformedRepliesAreShownQuotedAndCut(t *testing.T) {
	err := malformed("acquire", []rueidis.RedisMessage{
		mock.RedisInt64(5), mock.RedisString("\x1b[2J\nlevel=ERROR" + strings.Repeat("x", 1000)), mock.RedisNil(), mock.RedisArray(),
		mock.RedisError("ERR no"), mock.RedisInt64(1), mock.RedisInt64(1),
	})
	require.Equal(t, `malformed reply of the script acquire: 7 elements, 5, "\x1b[2J\nlevel=ERRORxxxxxxxx"…, nil, an aggregate, "no", 1, …`, err.Text)
}

func TestTimesOfTheServerAreBounded(t *testing.T) {
	for _, ms := range []int64{0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 / 1000, 1 << 53} {
		var e estimate
		now := clock.Instant(1_000_000_000_000)
		e.learn(ms, now)
		got := e.notAfter(now, 1000)
		require.GreaterOrEqual(t, got, int64(0), "%d", ms)
		require.LessOrEqual(t, got, longestMs+1, "%d", ms)
	}
	for _, text := range []string{"*0", "*1 :1", "*2 +x :1", "*2 :0 :0", "*2 :-5 :0", "*2 :9223372036854775807 :0", "*2 :1 :-1", "*2 :1 :1000000", "*2 *0 *0", "_", "+OK", "*3 :1 :1 :1"} {
		_, err := timeOf(replyOf(t, text))
		require.Error(t, err, text)
	}
	ms, err := timeOf(replyOf(t, "*2 $10 1763829999 $6 123456"))
	require.NoError(t, err)
	require.EqualValues(t, 1763829999123, ms)
}

func slotsReply(ranges ...string) string {
	return "*" + strconv.Itoa(len(ranges)) + " " + strings.Join(ranges, " ")
}

func slotRangeOf(first, last int, addrs ...string) string {
	text := "*" + strconv.Itoa(2+len(addrs)) + " :" + strconv.Itoa(first) + " :" + strconv.Itoa(last)
	for _, addr := range addrs {
		host, port, _ := strings.Cut(addr, ":")
		text += " *2 $" + strconv.Itoa(len(host)) + " " + host + " :" + port
	}
	return text
}

func TestTablesThatAreNoneAreRefused(t *testing.T) {
	read := func(text string) (*view, error) {
		ranges, err := mustArray(t, text)
		require.NoError(t, err)
		return parseView(ranges, "10.0.0.9:7000")
	}
	v, err := read(slotsReply(slotRangeOf(0, 100, "a:1", "b:2"), slotRangeOf(101, 16383, "b:2", "a:1")))
	require.NoError(t, err)
	require.Len(t, v.ranges, 2)
	require.Equal(t, []string{"a:1", "b:2"}, v.known)
	v, err = read("*1 *3 :0 :16383 *4 _ :7001 _ *0")
	require.NoError(t, err)
	require.Equal(t, "10.0.0.9:7001", v.ranges[0].master)

	for name, text := range map[string]string{
		"none":          "*0",
		"no range":      "*1 :1",
		"short":         "*1 *2 :0 :1",
		"no number":     "*1 *3 +x :1 *2 +a :1",
		"no slot":       slotsReply(slotRangeOf(0, 16384, "a:1")),
		"negative":      slotsReply(slotRangeOf(-1, 5, "a:1")),
		"backwards":     slotsReply(slotRangeOf(5, 4, "a:1")),
		"no node":       "*1 *3 :0 :1 +a",
		"no port":       "*1 *3 :0 :1 *2 +a +b",
		"port 0":        "*1 *3 :0 :1 *2 +a :0",
		"port too high": "*1 *3 :0 :1 *2 +a :65536",
		"no host":       "*1 *3 :0 :1 *2 *0 :1",
		"odd host":      "*1 *3 :0 :1 *2 +a\x1b[2J :1",
		"long host":     "*1 *3 :0 :1 *2 +" + strings.Repeat("a", 300) + " :1",
		"overlap":       slotsReply(slotRangeOf(0, 100, "a:1"), slotRangeOf(100, 200, "b:1")),
		"twice":         slotsReply(slotRangeOf(0, 16383, "a:1"), slotRangeOf(0, 16383, "a:1")),
	} {
		_, err := read(text)
		require.Error(t, err, name)
	}
	many := func(n int, of func(i int) string) string {
		ranges := make([]string, n)
		for i := range ranges {
			ranges[i] = of(i)
		}
		return slotsReply(ranges...)
	}
	_, err = read(many(maxTableNodes, func(i int) string { return slotRangeOf(i, i, "h"+strconv.Itoa(i)+":1") }))
	require.NoError(t, err)
	_, err = read(many(maxTableNodes+1, func(i int) string { return slotRangeOf(i, i, "h"+strconv.Itoa(i)+":1") }))
	require.ErrorContains(t, err, "more than 1000 nodes")
	_, err = read(many(slotCount+1, func(int) string { return slotRangeOf(0, 16383, "a:1") }))
	require.ErrorContains(t, err, "16385 ranges")
}

func mustArray(t testing.TB, text string) ([]rueidis.RedisMessage, error) {
	t.Helper()
	r := replyOf(t, text)
	return r.ToArray()
}
