package resp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// What stands under a derived name and is of another type is neither a note nor in the way, and is left alone.
func TestWhatIsNoNoteIsLeftAlone(t *testing.T) {
	r := newFamilyRig(t)
	note := slot.WriterNote("rw")
	r.do("HSET", note, "f", "1")
	r.do("PEXPIRE", note, "60000")
	reader, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code, "no writer waits")
	_, got = r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeBusy, got.Code)
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, "1", r.do("HGET", note, "f"), "a note was written over it")
	_, got = r.ask(OpForce, FamilyRead, "rw", as(slot.RWChannel("rw")))
	require.Equal(t, CodeReleased, got.Code)
	w, got := r.ask(OpAcquire, FamilyWrite, "rw")
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpRelease, FamilyWrite, "rw", as(w.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "1", r.do("HGET", note, "f"), "it was deleted")
	_ = reader
}

// A read hold whose expiry cannot be written is none; one that is held says so when it is renewed.
func TestAMarkIsNotWrittenOverAnotherType(t *testing.T) {
	r := newFamilyRig(t)
	held, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	for _, field := range []string{others(1), held.Field} {
		mark := slot.ReadHold("rw", field, 1)
		r.do("DEL", mark)
		r.do("HSET", mark, "f", "1")
		_, got = r.ask(OpReacquire, FamilyRead, "rw", as(field))
		require.Equal(t, CodeError, got.Code)
		require.Equal(t, ClassWrongType, got.Err.Class)
		require.Equal(t, "1", r.do("HGET", mark, "f"))
	}
	require.Equal(t, "0", r.do("HEXISTS", "rw", others(1)))
	_, got = r.ask(OpExtend, FamilyRead, "rw", as(held.Field))
	require.Equal(t, CodeError, got.Code)
	require.Equal(t, "-1", r.do("PTTL", slot.ReadHold("rw", held.Field, 1)), "what is not ours was given an end")
}

// A fenced lock whose counter is another type is not granted.
func TestACounterIsNotWrittenOverAnotherType(t *testing.T) {
	r := newFamilyRig(t)
	counter := slot.FenceToken("f")
	r.do("HSET", counter, "f", "1")
	_, got := r.ask(OpAcquire, FamilyFenced, "f")
	require.Equal(t, CodeError, got.Code)
	require.Equal(t, "0", r.do("EXISTS", "f"))
	require.Equal(t, "1", r.do("HGET", counter, "f"))
}

// Asking again for less lowers neither the key's expiry nor that of the read hold.
func TestAskingAgainForLessLowersNothing(t *testing.T) {
	r := newFamilyRig(t)
	for _, f := range []Family{FamilyLock, FamilyFenced, FamilyFair, FamilyRead, FamilyWrite} {
		key := "k" + f.row().forced + f.row().message
		op, got := r.ask(OpAcquire, f, key, leased(60_000))
		require.Equal(t, CodeGranted, got.Code)
		kinds := []OpKind{OpReacquire, OpExtend}
		if f.row().count != nil {
			kinds = append(kinds, OpCount)
		}
		for _, kind := range kinds {
			_, got = r.ask(kind, f, key, as(op.Field), leased(1000), func(op *Op) { op.Count = 1 })
			require.Contains(t, []Code{CodeGranted, CodeOurs, CodeRenewed}, got.Code)
		}
		require.Greater(t, r.number("PTTL", key), int64(30_000), "%v", f)
		if f == FamilyRead {
			require.Greater(t, r.number("PTTL", slot.ReadHold(key, op.Field, 1)), int64(30_000))
		}
		r.do("FLUSHALL")
	}
}
