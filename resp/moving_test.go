package resp

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// While its slot is on its way a read hold's mark is made and raised by single commands. One that lives for longer, by a
// longer lease or a newer renewal, is left alone: its reader may believe in it.
func TestAMarkIsMadeOrRaisedAndNeverLoweredOnItsWay(t *testing.T) {
	r := newFamilyRig(t)
	w := bareWire(capabilities{Greater: true})
	const lease = 30_000
	renewal := &Renewal{Key: "rw", Field: "field", LeaseMs: lease}
	mark := readMark("rw", "field")
	for before, c := range map[string]struct{ least, most int64 }{
		"":      {lease - 5000, lease},
		"9000":  {lease - 5000, lease},
		"90000": {lease + 5000, 90_000},
	} {
		r.do("DEL", mark)
		if before != "" {
			r.do("SET", mark, "1", "PX", before)
		}
		for _, cmd := range markCommands(w, renewal) {
			r.do(cmd.Commands()...)
		}
		left := r.number("PTTL", mark)
		require.GreaterOrEqual(t, left, c.least, "it had %q ms", before)
		require.LessOrEqual(t, left, c.most, "it had %q ms", before)
		require.Equal(t, "1", r.do("GET", mark))
	}
}

// As where the mark is on the other side of a slot on its way: it cannot be written, but the hold was there
// before, and its reader believes it.
func TestAReadHoldThatIsAskedForAgainStaysIfItsMarkCannotBeWritten(t *testing.T) {
	r := newFamilyRig(t)
	op, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	for _, command := range []string{"set", "pexpire"} {
		r.do("ACL", "SETUSER", "default", "-"+command)
		_, got = r.ask(OpReacquire, FamilyRead, "rw", as(op.Field), leased(2*op.LeaseMs))
		require.Equal(t, CodeError, got.Code, command)
		require.Equal(t, "1", r.do("HEXISTS", "rw", op.Field), command)
		r.do("ACL", "SETUSER", "default", "+"+command)
	}
	_, got = r.ask(OpReacquire, FamilyRead, "rw", as(op.Field))
	require.Equal(t, CodeGranted, got.Code)
}

// A take or a give goes to the target of a slot on its way only when its notes are not left at the source: the target would
// see none, and carry out what was carried out before.
func TestARequestGoesToTheTargetWhenItsNotesHaveGone(t *testing.T) {
	ask := &ServerError{Class: ClassAsk, Text: "ASK 5 b:1"}
	for _, kind := range []OpKind{OpReacquire, OpRelease, OpCall} {
		for answer, stays := range map[rueidis.RedisResult]bool{
			mock.Result(mock.RedisInt64(1)): true, mock.Result(mock.RedisInt64(0)): true, mock.Result(mock.RedisError("NOPERM no")): true,
			mock.Result(mock.RedisError("ASK 5 b:1")): false,
		} {
			op := &Op{Kind: kind, Family: FamilySemaphore, Key: "k", alone: true}
			c := &command{ops: []*Op{op}, results: []Result{{Code: CodeError, Err: ask}}}
			var o outbox
			o.begin(bareWire(capabilities{}))
			c.addProbes(&o)
			probes := o.built
			if kind == OpCall {
				require.Empty(t, probes, "it looks at no notes")
				break
			}
			require.Len(t, probes, 1)
			require.Equal(t, []string{"EXISTS", slot.CountedRequests("k")}, probes[0].Commands())
			c.probed([]rueidis.RedisResult{answer})
			want := map[bool]*ServerError{true: errSplit, false: ask}[stays]
			require.Equal(t, want, c.results[0].Err, "kind %v, answered %v", kind, answer.Error())
		}
	}
}
