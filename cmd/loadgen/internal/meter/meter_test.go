package meter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func TestGaps(t *testing.T) {
	var none *Gaps
	none.Granted(7)
	var s span
	for _, at := range []int64{10, 12, 40, 41} {
		s.granted(at)
	}
	require.EqualValues(t, 28, s.most.Load())
}

func TestLedger(t *testing.T) {
	name := func(int) string { return "k" }
	t.Run("TakeAndGive", func(t *testing.T) {
		l := NewLedger(2, name)
		l.Take(0, 1)
		l.Take(1, 2)
		l.Give(0, 1)
		l.Take(0, 3)
		require.Zero(t, l.Violations.Load())
	})
	t.Run("ASecondHolderIsCaught", func(t *testing.T) {
		l := NewLedger(1, name)
		l.Take(0, 1)
		l.Take(0, 2)
		require.EqualValues(t, 1, l.Violations.Load())
		require.Equal(t, []string{`"k" was granted to holder 2 while holder 1 has it`}, l.Told())
	})
	t.Run("AReleaseOfAnothersLockIsCaught", func(t *testing.T) {
		l := NewLedger(1, name)
		l.Take(0, 1)
		l.Give(0, 2)
		require.EqualValues(t, 1, l.Violations.Load())
	})
}

func TestErrorClass(t *testing.T) {
	for err, class := range map[error]string{
		engine.ErrHeld:                              "held",
		fmt.Errorf("so: %w", engine.ErrLost):        "lost",
		context.DeadlineExceeded:                    "unanswered",
		errors.New("x"):                             "other",
		&engine.ServerError{Class: engine.ClassOOM}: "server:" + engine.ClassOOM.String(),
	} {
		require.Equal(t, class, errorClass(err))
	}
}

func TestLedgerOfReaders(t *testing.T) {
	name := func(int) string { return "k" }
	t.Run("ReadersShare", func(t *testing.T) {
		l := NewLedger(1, name)
		require.True(t, l.TakeShared(0, 1))
		require.True(t, l.TakeShared(0, 2))
		l.GiveShared(0, 1)
		l.GiveShared(0, 2)
		l.Take(0, 3)
		l.Give(0, 3)
		require.Zero(t, l.Violations.Load())
		require.EqualValues(t, 2, l.Together.Load())
	})
	t.Run("AWriterBesideReadersIsCaught", func(t *testing.T) {
		l := NewLedger(1, name)
		require.True(t, l.TakeShared(0, 1))
		require.True(t, l.TakeShared(0, 2))
		l.Take(0, 3)
		require.Equal(t, []string{`"k" was granted to holder 3 while 2 readers have it`}, l.Told())
	})
	t.Run("AReaderBesideAWriterIsCaught", func(t *testing.T) {
		l := NewLedger(1, name)
		l.Take(0, 3)
		require.False(t, l.TakeShared(0, 1))
		l.Give(0, 3)
		require.Equal(t, []string{`"k" was granted to reader 1 while holder 3 has it`}, l.Told())
		l.GiveShared(0, 1)
		require.EqualValues(t, 2, l.Violations.Load())
	})
}
