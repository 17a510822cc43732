package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
