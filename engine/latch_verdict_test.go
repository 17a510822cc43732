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

// What is known of a latch is for those who wait: who comes when they have gone begins anew.
func TestALookKnowsWhatThoseKnowWhoAsk(t *testing.T) {
	known := latchState{known: 5, heard: 1, hears: true, gone: 3}
	ent := newParent(nil, "l", 0, 0)
	ent.ensureWakeups().hears = true
	a := &attempt{ent: ent}
	a.op.Family = resp.FamilyLatch
	op := &acquireOp{lock: &Lock{set: defaults[resp.FamilyLatch]}}
	op.set = op.lock.set
	op.Of = op
	ent.Push(&op.Waiter)
	for _, saw := range []bool{true, false} {
		op.SawClosed = saw
		ent.children().latch = known
		a.look()
		k := a.op.Sink.(*looking)
		require.Equal(t, []*acquireOp{op}, k.asks)
		require.True(t, k.hears)
		if saw {
			require.Equal(t, []int64{5, 1}, []int64{k.known, int64(k.heard)})
			require.Equal(t, known, ent.children().latch)
			continue
		}
		require.Equal(t, []int64{-1, 0}, []int64{k.known, int64(k.heard)})
		require.Equal(t, latchState{}, ent.children().latch)
	}
}
