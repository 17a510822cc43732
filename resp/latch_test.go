package resp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// knowing makes an op one of those who have seen a latch closed at this mark.
func knowing(mark int64) func(*Op) { return func(op *Op) { op.Sink = looker{op.Sink, mark} } }

type looker struct {
	Sink
	known int64
}

func (l looker) Known() int64 { return l.known }

// A latchRig sends the scripts of the latch k to a server, as an engine e does.
type latchRig struct{ permitRig }

func newLatchRig(t *testing.T) latchRig { return latchRig{newPermitRig(t)} }

// look answers the code and the mark.
func (r latchRig) look(known int64) (code, mark int64) {
	r.Helper()
	_, ahead := notAfters()
	v := r.call("latch", []string{"0", "0", ahead, "0", strconv.FormatInt(known, 10)}).([]any)
	require.Len(r, v, 3)
	return v[1].(int64), v[2].(int64)
}

// looks requires a code of a look.
func (r latchRig) looks(code, known int64, why string) {
	r.Helper()
	got, _ := r.look(known)
	require.Equal(r, code, got, why)
}

// down counts down, and answers how many heard that it is open; or -1, -2 or the error.
func (r latchRig) down(request string) any {
	r.Helper()
	v := r.call("latchdown", []string{"PUBLISH", "0", "0", "e:" + request, "1"}).([]any)
	if len(v) == 2 {
		require.Equal(r, int64(1), v[1])
		return int64(0)
	}
	require.Len(r, v, 4)
	require.Equal(r, int64(1), v[2])
	return v[3]
}

// set asks latchset, and answers {code, v}; or the error.
func (r latchRig) set(what, many string) any {
	r.Helper()
	_, ahead := notAfters()
	if v, is := r.call("latchset", []string{"PUBLISH", what, many, "0", ahead, "0"}).([]any); is {
		return v[1:]
	}
	return redistest.ReplyError("refused")
}

func (r latchRig) setTo(n string) {
	r.Helper()
	require.Equal(r, []any{int64(1), int64(0)}, r.set("set", n))
}

const (
	closed, open, openedSince, goneSince, deletedSince = int64(0), int64(1), int64(2), int64(3), int64(4)

	newcomer = int64(-1)
)

func TestALatchIsOpenWhenItHasNoCount(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	r.looks(open, newcomer, "it was never set")
	for _, closes := range []string{"1", "9007199254740991"} {
		r.do("SET", "k", closes)
		r.looks(closed, newcomer, closes)
	}
	for _, opens := range []string{"0", "-3"} {
		r.do("SET", "k", opens)
		r.looks(open, newcomer, opens)
	}
	r.do("SET", "k", "-3")
	r.looks(open, 5, "it stands at less than one: nobody has to have seen it open")
	r.do("DEL", "k")
	r.looks(open, newcomer, "to who comes only now")
	r.looks(goneSince, 5, "to who saw it closed it is gone")
}

func TestALatchIsCountedDownToItsOpening(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	r.setTo("5")
	_, known := r.look(newcomer)
	require.Zero(t, known)
	require.Equal(t, int64(0), r.down("1:1"))
	require.Equal(t, "4", r.stands("k"))
	require.Equal(t, int64(0), r.down("2:3"))
	require.Equal(t, "1", r.stands("k"))
	r.looks(closed, known, "one is missing")
	require.Nil(t, r.note("ended"))
	require.Equal(t, int64(0), r.down("3:7"), "more than there were")
	require.Nil(t, r.do("GET", "k"), "never below zero, and as Redisson leaves it")
	code, mark := r.look(known)
	require.Equal(t, open, code)
	require.InDelta(t, time.Now().UnixMicro(), mark, 60e6)
	require.Equal(t, fmt.Sprint(mark, " 0"), r.note("ended"))
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	r.setTo("2")
	r.looks(openedSince, known, "they are let in, though it is closed again")
	r.looks(closed, mark, "who has seen it closed since waits for the next opening")
	r.looks(closed, newcomer, "and so do newcomers")
	r.do("PEXPIRE", slot.CountedRequests("k"), "1000")
	r.looks(closed, mark, "")
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000, "as long as somebody looks it stays")
}

// A count that is sent again counts once; so does a copy that comes late, whatever has been set since.
func TestACountDownThatIsSentTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	r.setTo("9")
	for range 3 {
		require.Equal(t, int64(0), r.down("9:2"))
		require.Equal(t, "7", r.stands("k"))
	}
	require.Equal(t, int64(0), r.down("8:2"), "a late copy")
	require.Equal(t, int64(0), r.down("10:3"))
	require.Equal(t, int64(0), r.down("9:3"), "numbers are compared, not texts")
	require.Equal(t, "4", r.stands("k"))
	require.Equal(t, "10", r.note("e:given"))
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	require.Equal(t, int64(0), r.down("11:4"))
	r.setTo("1")
	require.Equal(t, int64(0), r.down("11:4"), "the copy of what opened it")
	require.Equal(t, "1", r.stands("k"), "opens it once")
}

// Whoever counts down what is open changes nothing, now or later.
func TestACountDownOfAnOpenLatchOpensNoLaterOne(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	require.Equal(t, int64(0), r.down("1:1"))
	require.Nil(t, r.do("GET", "k"))
	require.Nil(t, r.note("ended"), "it was not opened")
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	r.setTo("1")
	require.Equal(t, int64(0), r.down("1:1"), "a late copy")
	require.Equal(t, "1", r.stands("k"))
	require.Equal(t, int64(0), r.down("2:1"))
	require.Nil(t, r.do("GET", "k"))
}

func TestALatchThatWasDeletedIsNotOpen(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	require.Equal(t, []any{int64(0), int64(0)}, r.set("delete", "0"), "there is none")
	r.setTo("2")
	_, known := r.look(newcomer)
	require.Equal(t, []any{int64(1), int64(0)}, r.set("delete", "0"))
	require.Nil(t, r.do("GET", "k"))
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	r.looks(deletedSince, known, "it was not opened")
	r.looks(open, newcomer, "what has no count is open")
	r.setTo("2")
	r.looks(deletedSince, known, "whatever was set since then")
	code, mark := r.look(newcomer)
	require.Equal(t, closed, code)
	require.Equal(t, fmt.Sprint("0 ", mark), r.note("ended"))
	r.looks(closed, mark, "that is another latch")
	require.Equal(t, int64(0), r.down("1:2"))
	r.looks(open, mark, "")
	r.looks(open, known, "they were not told when it was deleted: then it is the opening that they see")
}

// Whatever ends it, the note of how it ended before stays.
func TestALatchThatWasDeletedAndOpenedKeepsBothMarks(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	r.setTo("1")
	r.set("delete", "0")
	r.setTo("1")
	_, known := r.look(newcomer)
	require.Equal(t, int64(0), r.down("1:1"))
	_, opened := r.look(known)
	require.Equal(t, fmt.Sprint(opened, " ", known), r.note("ended"))
	r.setTo("1")
	r.set("delete", "0")
	require.Regexp(t, fmt.Sprintf(`^%d \d+$`, opened), r.note("ended"))
}

// Marks rise, though the server's clock was set back, or another server has taken its place.
func TestMarksOfALatchRiseWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	for what, note := range map[string]string{"opened": fmt.Sprint(ahead, " 7"), "deleted": fmt.Sprint("7 ", ahead)} {
		for _, deletes := range []bool{false, true} {
			r.do("FLUSHDB")
			r.setTo("1")
			r.do("HSET", slot.CountedRequests("k"), "ended", note)
			code, known := r.look(newcomer)
			require.Equal(t, []int64{closed, ahead}, []int64{code, known}, what)
			if deletes {
				r.set("delete", "0")
				r.looks(deletedSince, known, "deleted after it was "+what)
				continue
			}
			require.Equal(t, int64(0), r.down("1:1"))
			r.looks(open, known, "opened after it was "+what)
			r.setTo("1")
			r.looks(openedSince, known, "opened after it was "+what)
		}
	}
}

// Notes may say anything, if somebody else has written them. Nobody is let in by them who cannot be by a number.
func TestNotesOfOthersOpenNoLatch(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	for _, note := range []string{
		"", "x", "5", "5 ", " 5", "-5 5", "5 -5", "5 5 5", "1e3 5", "007 007", "0x10 5", "nan nan",
		"99999999999999999999 99999999999999999999", "9007199254740992 0", "0 9007199254740992",
	} {
		r.do("FLUSHDB")
		r.setTo("1")
		r.do("HSET", slot.CountedRequests("k"), "ended", note)
		code, known := r.look(newcomer)
		require.Equal(t, closed, code, "%q", note)
		require.Contains(t, []int64{0, 5}, known, "%q", note)
		r.looks(closed, 5, note)
		require.Equal(t, int64(0), r.down("1:1"), "%q", note)
		r.looks(open, 5, note)
	}
	for note, counts := range map[string]bool{"x": true, "": true, "0 0": true, "2 ": true, "-1": true, "2": false, "3": false, "99999999999999999999": false} {
		r.do("FLUSHDB")
		r.setTo("5")
		r.do("HSET", slot.CountedRequests("k"), "e:given", note)
		require.Equal(t, int64(0), r.down("2:1"), "%q", note)
		require.Equal(t, map[bool]string{true: "4", false: "5"}[counts], r.stands("k"), "%q", note)
	}
}

func TestWhatIsNoNumberIsNoLatch(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	for _, value := range []string{
		"1e3", " 5", "5 ", "0x10", "nan", "inf", "-0", "+5", "007", "", "text", "2.5", "5\n",
		"9007199254740992", "-9007199254740992", "9223372036854775807", "99999999999999999999",
	} {
		r.do("SET", "k", value)
		r.looks(noNumber, newcomer, value)
		r.looks(noNumber, 5, value)
		for _, what := range []string{"get", "set", "delete"} {
			require.Equal(t, []any{noNumber, int64(0)}, r.set(what, "1"), "%s of %q", what, value)
		}
		require.Equal(t, int64(-1), r.down("1:1"), "%q", value)
		require.Equal(t, value, r.stands("k"))
		require.Equal(t, []any{"k"}, r.do("KEYS", "*"), "%q: it was noted", value)
	}
}

func TestALatchIsSetOnceAndDeletedOnce(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	for _, step := range []struct {
		what, many string
		code, v    int64
		stands     string
	}{
		{"get", "0", 0, 0, ""},
		{"delete", "0", 0, 0, ""},
		{"set", "5", 1, 0, "5"},
		{"set", "7", 0, 0, "5"},
		{"get", "0", 1, 5, "5"},
		{"delete", "0", 1, 0, ""},
		{"get", "0", 0, 0, ""},
		{"set", "7", 1, 0, "7"},
	} {
		require.Equal(t, []any{step.code, step.v}, r.set(step.what, step.many), "%s %s", step.what, step.many)
		require.Equal(t, step.stands, r.stands("k"), "%s %s", step.what, step.many)
	}
	require.Equal(t, int64(-1), r.do("TTL", "k"))
}

// A note is written before the count is changed. Where the count is refused, the notes are what they were.
func TestWhereTheCountOfALatchIsRefusedTheNotesAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	without := func(rights ...string) {
		r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all")
		r.do(append([]string{"ACL", "SETUSER", "caller"}, rights...)...)
		_, err := r.run.Do(t.Context(), "AUTH", "caller", "secret")
		require.NoError(t, err)
	}
	for _, noted := range []bool{false, true} {
		for name, rights := range map[string][]string{
			"count": {"-decrby", "-del"}, "count and undo": {"-decrby", "-del", "-hdel"}, "expiry": {"-pexpire"},
			"expiry and undo": {"-pexpire", "-hdel"}, "note": {"-hset"},
		} {
			for request, call := range map[string]func() any{
				"7:1": func() any { return r.down("7:1") }, "7:2": func() any { return r.down("7:2") },
				"delete": func() any { return r.set("delete", "0") },
			} {
				r.do("FLUSHDB")
				r.do("SET", "k", "2")
				given, ended := any(nil), any(nil)
				if noted {
					given, ended = "6", "5 4"
					r.do("HSET", slot.CountedRequests("k"), "e:given", "6", "ended", "5 4")
					r.do("PEXPIRE", slot.CountedRequests("k"), "60000")
				}
				what := fmt.Sprintf("%s without the right to %s, noted: %v", request, name, noted)
				without(rights...)
				require.IsType(t, redistest.ReplyError(""), call(), what)
				require.Equal(t, "2", r.stands("k"), what)
				for field, before := range map[string]any{"e:given": given, "ended": ended} {
					if before == nil && strings.HasSuffix(name, "undo") {
						require.Contains(t, []any{nil, "0 0"}, r.note(field), what)
						continue
					}
					require.Equal(t, before, r.note(field), what)
				}
				if noted {
					r.looks(closed, 5, what)
				}
				without()
				require.Equal(t, int64(0), r.down("7:1"), what)
				require.Equal(t, "1", r.stands("k"), what)
			}
		}
	}
}

// Whoever waits is told on Redisson's channel: '0' when it opens, '1' when it has another count or none.
func TestWaitersOfALatchAreTold(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	conn, err := r.server.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(t.Context(), "SUBSCRIBE", slot.LatchChannel("k"))
	require.NoError(t, err)
	hears := func(message string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), nodeLong)
		defer cancel()
		got, err := conn.Receive(ctx)
		require.NoError(t, err)
		require.Equal(t, []any{"message", slot.LatchChannel("k"), message}, got)
	}
	r.setTo("3")
	hears("1")
	require.Equal(t, int64(0), r.down("1:2"), "one is missing: nobody is told")
	require.Equal(t, int64(1), r.down("2:1"))
	hears("0")
	require.Equal(t, int64(0), r.down("3:1"), "it is open already")
	r.set("get", "0")
	r.set("delete", "0")
	r.setTo("1")
	hears("1")
	r.set("set", "1")
	r.set("delete", "0")
	hears("1")
	r.setTo("1")
	hears("1")
	r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-publish")
	_, err = r.run.Do(t.Context(), "AUTH", "caller", "secret")
	require.NoError(t, err)
	require.Equal(t, int64(-2), r.down("4:1"), "it is open, though nobody was told")
	r.setTo("1")
	require.Equal(t, []any{int64(1), int64(0)}, r.set("delete", "0"))
}

// In a cluster the channel is in the slot of the key; elsewhere it is Redisson's.
func TestTheChannelOfALatchWithAHashTag(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	_, ahead := notAfters()
	for _, key := range []string{"k", "a{t}", "{t}b"} {
		for tagged, channel := range map[string]string{"0": slot.LatchChannel(key), "tagged": slot.LatchChannelInCluster(key)} {
			conn, err := r.server.Dial(t.Context())
			require.NoError(t, err)
			_, err = conn.Do(t.Context(), "SUBSCRIBE", channel)
			require.NoError(t, err)
			r.do("DEL", key, slot.CountedRequests(key))
			r.do("EVAL", ScriptTexts()["latchset"], "1", key, "PUBLISH", "set", "1", "0", ahead, tagged)
			r.do("EVAL", ScriptTexts()["latchdown"], "1", key, "PUBLISH", tagged, "0", "e:1:1", "1")
			for _, message := range []string{"1", "0"} {
				ctx, cancel := context.WithTimeout(t.Context(), nodeLong)
				got, err := conn.Receive(ctx)
				cancel()
				require.NoError(t, err)
				require.Equal(t, []any{"message", channel, message}, got)
			}
			conn.Close()
		}
	}
}

// Several latches are counted down in one call, each by its own request.
func TestSeveralLatchesAreCountedDownInOneCall(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	r.do("MSET", "a", "5", "{c}d", "5", "e", "5", "f", "text")
	r.do("HSET", "b", "no", "latch")
	call := append([]string{"EVAL", ScriptTexts()["latchdown"], "0", "SPUBLISH", "tagged", "5", "a", "b", "{c}d", "e", "f"},
		"e:1:2", "3", "e:7:3", "2")
	v := r.do(call...).([]any)
	require.Equal(t, []any{int64(3), int64(2)}, v[1:3], "the second is named")
	require.IsType(t, redistest.ReplyError(""), v[3])
	require.Equal(t, []any{int64(5), int64(-1)}, v[4:], "and the last")
	require.Equal(t, []string{"3", "3", "2"}, []string{r.stands("a"), r.stands("{c}d"), r.stands("e")})
	for key, want := range map[string]any{"a": "1", "b": nil, "{c}d": "1", "e": "7", "f": nil} {
		require.Equal(t, want, r.do("HGET", slot.CountedRequests(key), "e:given"), key)
	}
}

func TestLongNotesOfALatchKeepNoServerBusy(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t)
	notes := slot.CountedRequests("k")
	r.do("EVAL", `for i = 1, 100000 do redis.call('HSET', KEYS[1], 'other:' .. i, 1) end`, "1", notes)
	_, ahead := notAfters()
	for request, long := range map[string]string{"1": "x", "2": strings.Repeat("9", 1_000_000), "3": strings.Repeat("9", 1_000_000) + " 1"} {
		r.do("SET", "k", "5")
		r.do("HSET", notes, "ended", long, "e:given", long)
		r.shortly("latch", "k", "0", "0", ahead, "0", "5")
		r.shortly("latchdown", "k", "PUBLISH", "0", "0", "e:"+request+":1", "1")
		r.shortly("latchset", "k", "PUBLISH", "delete", "0", "0", ahead, "0")
	}
	r.do("SET", "k", strings.Repeat("9", 1_000_000))
	r.shortly("latch", "k", "0", "0", ahead, "0", "5")
	r.shortly("latchset", "k", "PUBLISH", "get", "0", "0", ahead, "0")
	r.shortly("latchdown", "k", "PUBLISH", "0", "0", "e:4:1", "1")
}

// The same by ops, as an engine sends them.
func TestOpsOfALatch(t *testing.T) {
	t.Parallel()
	r := newFamilyRig(t)
	call := func(what string, n int32) Result {
		_, got := r.ask(OpCall, FamilyLatch, "l", as(what), counted(n), leased(0))
		return got
	}
	look := func(known int64) Result {
		_, got := r.ask(OpReacquire, FamilyLatch, "l", as("0"), knowing(known))
		return got
	}
	down := func(request string) Result {
		_, got := r.ask(OpRelease, FamilyLatch, "l", as(nodeID+":"+request))
		return got
	}
	require.Equal(t, CodeNone, call("get", 0).Code)
	require.Equal(t, CodeGranted, look(-1).Code)
	require.Equal(t, CodeDone, call("set", 2).Code)
	require.Equal(t, CodeNone, call("set", 2).Code)
	require.Equal(t, int64(2), call("get", 0).Value)
	got := look(-1)
	require.Equal(t, CodeBusy, got.Code)
	require.Equal(t, CodeReleased, down("1:1").Code)
	require.Equal(t, CodeBusy, look(got.Value).Code)
	require.Equal(t, CodeReleased, down("2:1").Code)
	opened := look(got.Value)
	require.Equal(t, CodeGranted, opened.Code)
	require.Equal(t, CodeDone, call("set", 2).Code)
	require.Equal(t, CodeOpened, look(got.Value).Code)
	require.Equal(t, CodeDone, call("delete", 0).Code)
	require.Equal(t, CodeDeleted, look(opened.Value).Code)
	require.Equal(t, CodeDone, call("set", 2).Code)
	again := look(-1)
	r.do("DEL", "l")
	require.Equal(t, CodeGone, look(again.Value).Code)
	r.do("SET", "l", "text")
	require.Equal(t, CodeWrongKind, look(-1).Code)
	require.Equal(t, CodeWrongKind, call("get", 0).Code)
	require.Equal(t, CodeNotOurs, down("3:1").Code)
	r.do("DEL", "l")
	r.do("HSET", "l", "f", "1")
	require.Equal(t, ClassWrongType, look(-1).Err.Class)
	require.Equal(t, ClassWrongType, call("get", 0).Err.Class)
	require.Equal(t, ClassWrongType, down("3:1").Err.Class)
}
