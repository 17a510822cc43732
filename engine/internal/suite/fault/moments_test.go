package fault_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestOnCompleteOfNothing(t *testing.T) {
	require.NotPanics(t, func() { engine.AllLeases().OnComplete(func([]*engine.Lease, error) {}) })
}

func TestGoexitInACallback(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	done := make(chan struct{})
	e.Lock("a").AcquireAsync(testkit.Limited(t)).OnComplete(func(ls *engine.Lease, err error) {
		ls.ReleaseAsync()
		defer close(done)
		runtime.Goexit()
	})
	testkit.Await(t, done, "callback")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(t, e.Close(ctx))
}

// The reacquire script takes EXISTS's refusal for "no key".
func TestReacquireWithoutExists(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t, "-exists")
	x := testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, x.Lock("a"))
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), testkit.AsApp)
	_, err := e.Lock("a").TryAcquire(testkit.Limited(t))
	require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "answered at all")
	p.DropReply(testkit.ScriptCall("acquire"), 1)
	ls, err := e.Lock("a").TryAcquire(testkit.Limited(t))
	require.Error(t, err, "unanswered, and asked again")
	require.Nil(t, ls)
	testkit.RequireHeldOnce(t, s, held)
}

// Results of a run wait for its later rounds. All in one lane: what the server refuses one lane, the others learn at any
// moment, and then have no later round.
func TestResultsWaitForOthersRounds(t *testing.T) {
	s := testkit.ACLServer(t, "resetkeys", "~ok:*")
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), testkit.AsApp)
	sent := p.Hold(testkit.ScriptCall("acquire"), 1) // while the lane waits for an answer the others collect, to travel together
	e.Lock(ofOneLane("ok:w", 1)[0]).AcquireAsync(testkit.Limited(t))
	testkit.Await(t, sent.C(), "the lane has one acquire under way")
	var short []*engine.Future[*engine.Lease]
	bad, long := ofOneLane("bad:l", 16), ofOneLane("ok:l", 16)
	for i, name := range ofOneLane("ok:s", 16) {
		short = append(short, e.Lock(name, engine.FixedLease(time.Second)).AcquireAsync(testkit.Limited(t)))
		e.Lock(bad[i]).AcquireAsync(testkit.Limited(t))
		e.Lock(long[i]).AcquireAsync(testkit.Limited(t))
	}
	// hold the second round: single-key commands of the long lease
	held := p.HoldNext(func(cmd []string) bool {
		return cmd[0] == "EVALSHA" && len(cmd) > 4 && (cmd[3][:4] == "ok:l" || cmd[3][:4] == "bad:") && cmd[2] < "9" && len(cmd[2]) == 1
	}, -1)
	testkit.Await(t, held.C(), "a later round is held")
	for _, f := range short { // while it is
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.False(t, ls.Lost(), "granted when it was lost")
	}
	held.Remove()
	p.ReleaseCommands()
}

// ofOneLane returns names that begin so, and whose commands travel over the first lane.
func ofOneLane(prefix string, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := testkit.Numbered(prefix, i); xxhash.Sum64String(name)>>32%4 == 0 {
			names = append(names, name)
		}
	}
	return names
}

func TestForceReleaseOfAGrantOnItsWay(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Delay(0, 100*time.Millisecond)
	f := e.Lock("a").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it is granted, and the answer on its way", func() bool { return testkit.Exists(t, s, "a") })
	ok, err := e.Lock("a").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, ok)
	ls, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	other := testkit.Open(t, s.Addr())
	second, _ := other.Lock("a").TryAcquire(testkit.Limited(t))
	require.False(t, second != nil && !ls.Lost(), "two believe")
}

type blockingHandler struct {
	slog.Handler
	called, gate chan struct{}
}

func (h blockingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockingHandler) Handle(context.Context, slog.Record) error {
	select {
	case h.called <- struct{}{}:
	default:
	}
	<-h.gate
	return nil
}
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h blockingHandler) WithGroup(string) slog.Handler      { return h }

func TestALoggerThatBlocksStopsAllRenewals(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	h := blockingHandler{called: make(chan struct{}, 1), gate: make(chan struct{})}
	e := testkit.Open(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = slog.New(h) })
	defer close(h.gate)
	good := testkit.Acquire(t, e.Lock("good", engine.WatchdogLease(2*time.Second)))
	testkit.Acquire(t, e.Lock("short", engine.FixedLease(100*time.Millisecond)))
	testkit.Await(t, h.called, "the logger is told of the loss, and blocks")
	first := good.Deadline()
	testkit.Eventually(t, "renewed all the same", func() bool { return good.Deadline().After(first.Add(2 * time.Second)) })
	require.False(t, good.Lost())
	require.NoError(t, good.Context().Err())
}

// FreeBy with a longer lease of an earlier copy.
func TestFreeByOfAnEarlierLongerLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.DropReply(testkit.ScriptCall("acquire"), 1)
	long := e.Lock("a", engine.FixedLease(time.Hour)).AcquireAsync(context.Background())
	short := e.Lock("a", engine.FixedLease(100*time.Millisecond)).AcquireAsync(context.Background())
	testkit.Eventually(t, "granted unanswered", func() bool { return testkit.Exists(t, s, "a") })
	unreachable(t, e, p)
	long.Cancel()
	_, err := short.Await(testkit.Limited(t))
	var unknown *engine.UnknownError
	require.ErrorAs(t, err, &unknown)
	really := testkit.Expiry(t, s, "a")
	p.RefuseNew(false)
	require.False(t, unknown.FreeBy.Before(really.Add(-2*time.Second)))
}

func TestTryOfAShortLeaseOverASlowLink(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Delay(0, 75*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	begun := time.Now()
	_, err := e.Lock("a", engine.FixedLease(100*time.Millisecond)).TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrLost, "the answer takes as long as the lease")
	require.Less(t, testkit.Ran(begun), 2*time.Second)
}

func TestLostAfterReleaseSaidLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("a"))
	ctx := ls.Context()
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	require.True(t, ls.Lost())
	require.ErrorIs(t, context.Cause(ctx), engine.ErrReleased, "it was given back before that was known")
}
