package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// What each answer means to those who have seen a latch closed, and to newcomers.
func TestWhatALookAtALatchMeans(t *testing.T) {
	const at = clock.Instant(7_000_000_000)
	for name, c := range map[string]struct {
		state              latchState
		look               looking
		code               resp.Code
		deaf               bool
		waiters, newcomers lookVerdict
		after              latchState
	}{
		"open":    {code: resp.CodeGranted, waiters: lookOpen, newcomers: lookOpen},
		"opened":  {code: resp.CodeOpened, waiters: lookOpen, newcomers: lookAgain},
		"deleted": {code: resp.CodeDeleted, waiters: lookGone, newcomers: lookAgain},
		"closed":  {code: resp.CodeBusy, waiters: lookWaits, newcomers: lookWaits},
		"closed, and heard": {
			latchState{hears: false}, looking{hears: true}, resp.CodeBusy, false, lookWaits, lookWaits, latchState{hears: true},
		},
		"closed after word that it is open": {
			latchState{heard: 2}, looking{heard: 2}, resp.CodeBusy, false, lookWaits, lookWaits, latchState{},
		},
		"closed, with word that it is open on the way": {
			latchState{heard: 2}, looking{heard: 1}, resp.CodeBusy, false, lookWaits, lookWaits, latchState{heard: 2},
		},
		"back": {latchState{gone: at, hears: true}, looking{}, resp.CodeBusy, false, lookWaits, lookWaits, latchState{hears: true}},
		"gone, with word that it is open": {
			latchState{heard: 1, hears: true}, looking{}, resp.CodeGone, false, lookOpen, lookOpen, latchState{heard: 1, hears: true},
		},
		"gone before anybody could hear": {code: resp.CodeGone, waiters: lookOpen, newcomers: lookOpen},
		"gone, where nobody ever hears":  {code: resp.CodeGone, deaf: true, waiters: lookWaits, newcomers: lookOpen, after: latchState{gone: at}},
		"gone without a word":            {latchState{hears: true}, looking{}, resp.CodeGone, false, lookWaits, lookOpen, latchState{hears: true, gone: at}},
		"gone without a word, for a while": {
			latchState{hears: true, gone: at.Add(-goneFor + 1)},
			looking{},
			resp.CodeGone, false, lookWaits, lookOpen,
			latchState{hears: true, gone: at.Add(-goneFor + 1)},
		},
		"gone without a word, for long": {
			latchState{hears: true, gone: at.Add(-goneFor)}, looking{}, resp.CodeGone, false, lookGone, lookOpen, latchState{hears: true},
		},
	} {
		state := c.state
		waiters, newcomers := state.verdicts(&c.look, &resp.Result{Code: c.code, ReceivedAt: at}, !c.deaf)
		require.Equal(t, c.waiters, waiters, name)
		require.Equal(t, c.newcomers, newcomers, name)
		require.Equal(t, c.after, state, name)
	}
}
