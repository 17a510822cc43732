package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsAPauseWhereThereIsAReason(t *testing.T) {
	for _, c := range []struct {
		err    error
		middle time.Duration
	}{
		{nil, 0},
		{errors.New("anything"), 0},
		{ErrLease, 0},
		{context.Canceled, 0},
		{&WaitError{"name", context.Canceled, &HeldError{Remaining: time.Second}}, 0},
		{&ranError{ErrOverloaded}, 0},
		{&HeldError{Remaining: 300 * time.Millisecond}, 300 * time.Millisecond},
		{&HeldError{Remaining: time.Hour}, time.Second},
		{&HeldError{Remaining: -1}, time.Second},
		{&HeldError{}, 50 * time.Millisecond},
		{&NoPermitsError{}, 100 * time.Millisecond},
		{ErrOverloaded, 100 * time.Millisecond},
		{ErrLost, time.Second},
		{&ranError{ErrLost}, time.Second},
		{&UnknownError{}, time.Second},
		{&ServerError{Class: ClassReadOnly}, time.Second},
		{&ServerError{Class: ClassOOM}, time.Second},
		{&ServerError{Class: ClassNoScript}, 50 * time.Millisecond},
		{&ServerError{Class: ClassNoPerm}, 0},
	} {
		seen := make(map[time.Duration]bool)
		for range 100 {
			pause := RetryAfter(c.err)
			require.GreaterOrEqual(t, pause, c.middle/2, "%v", c.err)
			require.LessOrEqual(t, pause, c.middle*3/2, "%v", c.err)
			seen[pause] = true
		}
		require.Equal(t, c.middle > 0, len(seen) > 1, "%v: it is spread", c.err)
	}
}

// The function's error and that of giving back are one line of a log.
func TestTheErrorsOfADoStandOnOneLine(t *testing.T) {
	err := &ranError{errors.Join(errors.New("no money"), ErrLost)}
	require.EqualError(t, err, "no money; "+ErrLost.Error())
	require.ErrorIs(t, err, ErrLost)
}
