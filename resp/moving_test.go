package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
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
