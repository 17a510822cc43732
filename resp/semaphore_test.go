package resp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// demand is the sink of a take for some who wait.
type demand struct {
	Sink
	wants []int32
}

func (d demand) Wanted() []int32 { return d.wants }

func wanting(wants ...int32) func(*Op) { return func(op *Op) { op.Sink = demand{op.Sink, wants} } }
func counted(n int32) func(*Op)        { return func(op *Op) { op.Count = n } }

// A permitRig sends the scripts of the semaphore k to a server, as an engine e does.
type permitRig struct{ *refusalRig }

func newPermitRig(t *testing.T) permitRig { return permitRig{newScriptRig(t)} }

// take asks for permits and answers what was taken; or -1, -3 or the error.
func (r permitRig) take(request int, wants ...string) any {
	r.Helper()
	_, ahead := notAfters()
	v := r.call("semaphore", append([]string{"0", fmt.Sprint("e:", request), ahead, "0"}, wants...)).([]any)
	if len(v) == 5 {
		require.Equal(r, []any{int64(0), int64(0), int64(1)}, v[1:4])
		return v[4]
	}
	require.Len(r, v, 3)
	require.Equal(r, int64(1), v[1])
	return v[2]
}

// give sends a request to give, and answers how many heard of it; or -1, -2 or the error.
func (r permitRig) give(request string) any {
	r.Helper()
	v := r.call("semaphorerelease", []string{"PUBLISH", "0", "0", "e:" + request, "1"}).([]any)
	if len(v) == 2 {
		require.Equal(r, int64(1), v[1])
		return int64(0)
	}
	require.Len(r, v, 4)
	require.Equal(r, int64(1), v[2])
	return v[3]
}

// set asks semaphoreset, and answers {code, v}.
func (r permitRig) set(what, many string) []any {
	r.Helper()
	_, ahead := notAfters()
	return r.call("semaphoreset", []string{"PUBLISH", what, many, "0", ahead}).([]any)[1:]
}

// stands is what a key says; "": it is not there.
func (r permitRig) stands(key string) string {
	r.Helper()
	if v := r.do("GET", key); v != nil {
		return redistest.Text(v)
	}
	return ""
}

// note is what is noted of this engine's takes, or gives.
func (r permitRig) note(field string) any {
	r.Helper()
	return r.do("HGET", slot.CountedRequests("k"), field)
}

const many, one, tooFew, noNumber = int64(5), int64(1), int64(-1), int64(-3)

func TestPermitsAreTakenForAsManyAsThereAreEnoughForInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	for request, c := range []struct {
		free  string
		wants []string
		taken int64
	}{
		{"5", []string{"2", "3", "1"}, 5},
		{"4", []string{"2", "3", "1"}, 2}, // the third does not overtake the second
		{"1", []string{"2", "1"}, tooFew},
		{"0", []string{"1"}, tooFew},
		{"-3", []string{"1"}, tooFew},
		{"9007199254740991", []string{"2147483647", "2147483647"}, 4294967294},
	} {
		r.do("SET", "k", c.free)
		require.Equal(t, c.taken, r.take(request+1, c.wants...), "of %s", c.free)
		if c.taken < 0 {
			require.Equal(t, c.free, r.stands("k"))
		}
	}
	require.Equal(t, "9007194959773697", r.stands("k"), "all of the digits")
	r.do("DEL", "k")
	require.Equal(t, tooFew, r.take(20, "1"))
	require.Nil(t, r.do("GET", "k"))
}

// A take that is sent again answers what it took, once and for all; a copy of an older one takes nothing.
func TestATakeThatIsSentTwiceTakesOnce(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	r.set("set", "9")
	for range 3 {
		require.Equal(t, int64(2), r.take(5, "2"))
		require.Equal(t, "7", r.stands("k"))
	}
	require.Equal(t, int64(2), r.take(5, "1"), "what it took, whoever waits by now")
	require.Equal(t, tooFew, r.take(4, "1"), "a late copy")
	require.Equal(t, int64(3), r.take(10, "3"))
	require.Equal(t, tooFew, r.take(9, "1"), "numbers are compared, not texts")
	require.Equal(t, "4", r.stands("k"))
	require.Equal(t, "10 3", r.note("e"))
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	r.do("DEL", "k")
	require.Equal(t, int64(3), r.take(10, "3"), "it has them, whatever stands there")
}

func TestPermitsThatAreGivenTwiceAreGivenOnce(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	for range 3 {
		require.Equal(t, int64(0), r.give("9:2"))
		require.Equal(t, "2", r.stands("k"))
	}
	require.Equal(t, int64(0), r.give("8:2"), "a late copy")
	require.Equal(t, int64(0), r.give("10:3"))
	require.Equal(t, int64(0), r.give("9:3"), "numbers are compared, not texts")
	require.Equal(t, "5", r.stands("k"))
	require.Equal(t, "10", r.note("e:given"))
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	require.Equal(t, many, r.take(1, "5"), "numbers of takes and of gives are apart")
}

// What a take took is given back once, and what it might take later is not taken.
func TestATakeThatNobodyWantsIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	r.set("set", "5")
	require.Equal(t, int64(2), r.take(3, "2"))
	require.Equal(t, int64(0), r.give("3"))
	for range 2 {
		require.Equal(t, int64(-1), r.give("3"), "it has nothing any more")
		require.Equal(t, tooFew, r.take(3, "2"), "a late copy")
		require.Equal(t, "5", r.stands("k"))
	}
	require.Equal(t, int64(-1), r.give("4"), "it has not come yet")
	require.InDelta(t, 3_600_000, r.do("PTTL", slot.CountedRequests("k")), 10_000)
	require.Equal(t, tooFew, r.take(4, "2"), "and takes nothing when it comes")
	require.Equal(t, int64(2), r.take(5, "2"))
	require.Equal(t, int64(-1), r.give("4"), "older than what is noted")
	require.Equal(t, "5 2", r.note("e"))
	require.Equal(t, int64(0), r.give("5"))
	require.Equal(t, "5", r.stands("k"))
}

// The first time of a name there is no note: a request that was given back before it came has one from then on.
func TestATakeThatWasGivenBackBeforeItCameTakesNothing(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	r.set("set", "5")
	require.Equal(t, int64(-1), r.give("1"))
	require.Equal(t, tooFew, r.take(1, "2"))
	require.Equal(t, "5", r.stands("k"))
	require.Equal(t, int64(2), r.take(2, "2"))
}

// Notes may say anything, if somebody else has written them. They end nothing half-way, and give nothing that was not taken.
func TestNotesOfOthersGiveNothing(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	for note, took := range map[string]any{
		"x": one, "": one, "3": one, "3 ": one, "3 x": one, "2 7": one, "2 7 1": one, // no notes, or older ones
		"3 7": int64(7), "3 0": tooFew, "4 7": tooFew, "3 007": tooFew, "3 99999999999999999999": tooFew, "99999999999999999999 1": tooFew,
	} {
		r.do("FLUSHDB")
		r.do("SET", "k", "9")
		r.do("HSET", slot.CountedRequests("k"), "e", note)
		require.Equal(t, took, r.take(3, "1"), "%q", note)
		require.Equal(t, map[bool]string{true: "8", false: "9"}[took == one], r.stands("k"), "%q", note)
	}
	for _, note := range []string{"3", "3 ", "3 x", "3 0", "2 7"} {
		r.do("FLUSHDB")
		r.do("SET", "k", "9")
		r.do("HSET", slot.CountedRequests("k"), "e", note)
		require.Equal(t, int64(-1), r.give("3"), "%q", note)
		require.Equal(t, "9", r.stands("k"), "%q", note)
	}
}

// What INCRBY takes for no number is none to us either, nor is one that Lua cannot calculate with.
func TestWhatIsNoNumberOfPermitsIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	for _, value := range []string{
		"1e3", " 5", "5 ", "0x10", "nan", "inf", "-0", "+5", "007", "", "text", "2.5", "5\n",
		"9007199254740992", "-9007199254740992", "9223372036854775807", "99999999999999999999",
	} {
		r.do("SET", "k", value)
		require.Equal(t, noNumber, r.take(1, "1"), "%q", value)
		for _, what := range []string{"get", "set", "add", "some", "drain", "delete"} {
			require.Equal(t, []any{noNumber, int64(0)}, r.set(what, "1"), "%s of %q", what, value)
		}
		if len(value) < 16 {
			require.IsType(t, redistest.ReplyError(""), r.give("1:1"), "%q", value)
		}
		require.Equal(t, value, r.stands("k"))
		require.Equal(t, []any{"k"}, r.do("KEYS", "*"), "%q: it was noted", value)
	}
}

// A note is written before the count is changed. Where the count is refused, the note is what it was.
func TestWhereTheCountIsRefusedTheNoteIsWhatItWas(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	without := func(rights ...string) {
		r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all")
		r.do(append([]string{"ACL", "SETUSER", "caller"}, rights...)...)
		_, err := r.run.Do(t.Context(), "AUTH", "caller", "secret")
		require.NoError(t, err)
	}
	for _, noted := range []bool{false, true} {
		for name, rights := range map[string][]string{
			"count": {"-incrby", "-decrby"}, "count and undo": {"-incrby", "-decrby", "-hdel"}, "expiry": {"-pexpire"},
			"expiry and undo": {"-pexpire", "-hdel"}, "note": {"-hset"},
		} {
			r.do("FLUSHDB")
			r.do("SET", "k", "5")
			e, given := any(nil), any(nil)
			if noted {
				e, given = "6 2", "6"
				r.do("HSET", slot.CountedRequests("k"), "e", "6 2", "e:given", "6")
				r.do("PEXPIRE", slot.CountedRequests("k"), "60000")
			} else if strings.HasSuffix(name, "undo") {
				e, given = "0 0", "0 0"
			}
			what := fmt.Sprintf("without the right to %s, noted: %v", name, noted)
			without(rights...)
			answers := []any{r.take(7, "2"), r.give("7:2")}
			if noted {
				answers = append(answers, r.give("6"))
			}
			for _, answer := range answers {
				require.IsType(t, redistest.ReplyError(""), answer, what)
				byHand := strings.Contains(fmt.Sprint(answer), "delete them by hand: {k}:counted_requests")
				require.Equal(t, name == "expiry and undo" && !noted, byHand, "%s: %v", what, answer)
			}
			require.Equal(t, "5", r.stands("k"), what)
			require.Equal(t, []any{e, given}, []any{r.note("e"), r.note("e:given")}, what)
			without()
			require.Equal(t, int64(2), r.take(7, "2"), what)
			require.Equal(t, int64(0), r.give("7:2"), what)
			require.Equal(t, "5", r.stands("k"), what)
		}
	}
}

func TestASemaphoreIsSetOnceAndChangedAsAsked(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	nothing, done := int64(0), int64(1)
	for _, step := range []struct {
		what, many string
		code, v    int64
		stands     string
	}{
		{"get", "0", nothing, 0, ""},
		{"some", "2", nothing, 0, ""},
		{"drain", "0", nothing, 0, ""},
		{"delete", "0", nothing, 0, ""},
		{"set", "5", done, 5, "5"},
		{"set", "7", nothing, 0, "5"},
		{"get", "0", done, 5, "5"},
		{"some", "2", done, 7, "7"},
		{"add", "-9", done, -2, "-2"},
		{"drain", "0", nothing, 0, "-2"},
		{"get", "0", done, -2, "-2"},
		{"add", "5", done, 3, "3"},
		{"drain", "0", done, 3, "0"},
		{"set", "5", nothing, 0, "0"},
		{"delete", "0", done, 0, ""},
		{"add", "4", done, 4, "4"},
	} {
		require.Equal(t, []any{step.code, step.v}, r.set(step.what, step.many), "%s %s", step.what, step.many)
		require.Equal(t, step.stands, r.stands("k"), "%s %s", step.what, step.many)
		require.NotContains(t, r.do("KEYS", "*"), slot.CountedRequests("k"))
	}
	_, ahead := notAfters()
	r.set("delete", "0")
	r.call("semaphoreset", []string{"PUBLISH", "set", "3", "60000", ahead})
	require.InDelta(t, 60_000, r.do("PTTL", "k"), 10_000)
	r.set("drain", "0")
	require.InDelta(t, 60_000, r.do("PTTL", "k"), 10_000, "its end stays")
}

// Whoever waits is told how many are free, on Redisson's channel. Where nobody can take any nobody is told: a listener of
// Redisson's fails on a number below 0.
func TestWaitersAreToldHowManyPermitsAreFree(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	conn, err := r.server.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(t.Context(), "SUBSCRIBE", slot.SemaphoreChannel("k"))
	require.NoError(t, err)
	hears := func(message string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), nodeLong)
		defer cancel()
		got, err := conn.Receive(ctx)
		require.NoError(t, err)
		require.Equal(t, []any{"message", slot.SemaphoreChannel("k"), message}, got)
	}
	r.set("set", "3")
	hears("3")
	r.set("add", "-5")
	require.Equal(t, int64(0), r.give("1:1"), "-1 are free: nobody is told")
	require.Equal(t, int64(0), r.give("2:1"), "none")
	require.Equal(t, int64(1), r.give("3:1"))
	hears("1")
	r.set("some", "8")
	hears("9")
	require.Equal(t, int64(2), r.take(1, "2"))
	require.Equal(t, int64(1), r.give("1"))
	hears("9")
	r.set("drain", "0")
	r.set("delete", "0")
	r.set("set", "0")
	r.set("add", "9007199254740000")
	hears("9007199254740000")
	r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-publish")
	_, err = r.run.Do(t.Context(), "AUTH", "caller", "secret")
	require.NoError(t, err)
	require.Equal(t, int64(-2), r.give("4:1"), "given back, though nobody was told")
	require.Equal(t, []any{int64(1), int64(9007199254740002)}, r.set("add", "1"))
}

// Names with a brace keep their notes and their channel in their slot, and several semaphores are given to in one call.
func TestSeveralSemaphoresAreGivenToInOneCall(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	r.do("HSET", "b", "no", "permits")
	call := append([]string{"EVAL", ScriptTexts()["semaphorerelease"], "0", "SPUBLISH", "0", "4", "a", "b", "{c}d", "e"},
		"e:1:2", "3", "e:7", "1")
	v := r.do(call...).([]any)
	require.Equal(t, []any{int64(2), int64(2)}, v[1:3], "the second is named")
	require.IsType(t, redistest.ReplyError(""), v[3])
	require.Equal(t, []any{int64(4), int64(-1)}, v[4:])
	require.Equal(t, []string{"2", "2"}, []string{r.stands("a"), r.stands("{c}d")})
	for key, want := range map[string]any{"a": "1", "b": nil, "{c}d": "1", "e": nil} {
		require.Equal(t, want, r.do("HGET", slot.CountedRequests(key), "e:given"), key)
	}
	require.Equal(t, "7 0", r.do("HGET", slot.CountedRequests("e"), "e"))
}

// Whoever may write to the keys can make them long: what a call does is the same.
func TestLongNotesKeepNoServerBusy(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	notes := slot.CountedRequests("k")
	r.do("EVAL", `for i = 1, 100000 do redis.call('HSET', KEYS[1], 'other:' .. i, 1) end`, "1", notes)
	r.do("SET", "k", "5")
	_, ahead := notAfters()
	for request, long := range map[string]string{"1": "x", "2": strings.Repeat("9", 1_000_000), "3": strings.Repeat("9", 1_000_000) + " 1"} {
		r.do("HSET", notes, "e", long, "e:given", long)
		r.shortly("semaphore", "k", "0", "e:"+request, ahead, "0", "1")
		r.shortly("semaphorerelease", "k", "PUBLISH", "0", "0", "e:"+request+":1", "1")
		r.shortly("semaphorerelease", "k", "PUBLISH", "0", "0", "e:"+request, "1")
	}
	r.do("SET", "k", strings.Repeat("9", 1_000_000))
	r.shortly("semaphore", "k", "0", "e:4", ahead, "0", "1")
	r.shortly("semaphoreset", "k", "PUBLISH", "get", "0", "0", ahead)
	r.shortly("semaphorerelease", "k", "PUBLISH", "0", "0", "e:4:1", "1")
}

// The same by ops, as an engine sends them.
func TestOpsOfASemaphore(t *testing.T) {
	t.Parallel()
	r := newFamilyRig(t)
	call := func(what string, n int32) Result {
		_, got := r.ask(OpCall, FamilySemaphore, "s", as(what), counted(n), leased(0))
		return got
	}
	take := func(request string, wants ...int32) Result {
		_, got := r.ask(OpReacquire, FamilySemaphore, "s", as(nodeID+":"+request), wanting(wants...))
		return got
	}
	give := func(request string) Result {
		_, got := r.ask(OpRelease, FamilySemaphore, "s", as(nodeID+":"+request))
		return got
	}
	require.Equal(t, CodeNone, call("get", 0).Code)
	require.Equal(t, CodeDone, call("set", 5).Code)
	got := take("1", 2, 2, 2)
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, int64(4), got.Value)
	require.Equal(t, CodeBusy, take("2", 2).Code)
	require.Equal(t, CodeReleased, give("1:3").Code)
	require.Equal(t, CodeReleased, give("1").Code, "what it took, as if nothing had been given")
	require.Equal(t, CodeNotOurs, give("2").Code)
	require.Equal(t, int64(8), call("drain", 0).Value)
	r.do("SET", "s", "text")
	require.Equal(t, CodeWrongKind, take("3", 1).Code)
	require.Equal(t, CodeWrongKind, call("add", 1).Code)
	require.Equal(t, CodeError, give("2:1").Code)
	r.do("DEL", "s")
	r.do("HSET", "s", "f", "1")
	require.Equal(t, ClassWrongType, take("3", 1).Err.Class)
	require.Equal(t, ClassWrongType, call("add", 1).Err.Class)
	require.Equal(t, ClassWrongType, give("2:1").Err.Class)
}
