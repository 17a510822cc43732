package engine_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestOnCompleteOfNothing(t *testing.T) {
	require.NotPanics(t, func() { engine.AllLeases().OnComplete(func([]*engine.Lease, error) {}) })
}

func TestGoexitInACallback(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	done := make(chan struct{})
	e.Lock("a").AcquireAsync(limited(t)).OnComplete(func(ls *engine.Lease, err error) {
		ls.ReleaseAsync()
		defer close(done)
		runtime.Goexit()
	})
	await(t, done, "callback")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(t, e.Close(ctx))
}

// The reacquire script takes EXISTS's refusal for "no key".
func TestReacquireWithoutExists(t *testing.T) {
	t.Parallel()
	s := aclServer(t, "-exists")
	x := openEngine(t, s.Addr())
	held := acquire(t, x.Lock("a"))
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr(), asApp)
	_, err := e.Lock("a").TryAcquire(limited(t))
	require.Equal(t, engine.ClassNoPerm, serverClass(err), "answered at all")
	p.DropReply(scriptCall("acquire"), 1)
	ls, err := e.Lock("a").TryAcquire(limited(t))
	require.Error(t, err, "unanswered, and asked again")
	require.Nil(t, ls)
	requireHeldOnce(t, s, held)
}

// Results of a run wait for its later rounds.
func TestResultsWaitForOthersRounds(t *testing.T) {
	s := aclServer(t, "resetkeys", "~ok:*")
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr(), asApp)
	p.Delay(0, time.Second) // while each lane waits for an answer the others collect, to travel together
	sent := watchCommands(p, scriptCall("acquire"))
	warm := make([]*engine.Future[*engine.Lease], 64)
	for i := range warm {
		warm[i] = e.Lock(numbered("ok:w", i)).AcquireAsync(limited(t))
	}
	for range 4 {
		await(t, sent, "each lane has one acquire under way")
	}
	var short []*engine.Future[*engine.Lease]
	for i := range 64 {
		short = append(short, e.Lock(numbered("ok:s", i), engine.FixedLease(time.Second)).AcquireAsync(limited(t)))
		e.Lock(numbered("bad:l", i)).AcquireAsync(limited(t))
		e.Lock(numbered("ok:l", i)).AcquireAsync(limited(t))
	}
	p.Delay(0, 0) // for answers that are still to come
	// hold the second round: single-key commands of the long lease
	held := p.Hold(func(cmd []string) bool {
		return cmd[0] == "EVALSHA" && len(cmd) > 4 && (cmd[3][:4] == "ok:l" || cmd[3][:4] == "bad:") && cmd[2] < "9" && len(cmd[2]) == 1
	}, -1)
	await(t, held.C(), "a later round is held")
	for _, f := range short { // while it is
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		require.False(t, ls.Lost(), "granted when it was lost")
	}
	held.Remove()
	p.ReleaseCommands()
}

func TestForceReleaseOfAGrantOnItsWay(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.Delay(0, 100*time.Millisecond)
	f := e.Lock("a").AcquireAsync(limited(t))
	eventually(t, "it is granted, and the answer on its way", func() bool { return exists(t, s, "a") })
	ok, err := e.Lock("a").ForceRelease(limited(t))
	require.NoError(t, err)
	require.True(t, ok)
	ls, err := f.Await(limited(t))
	require.NoError(t, err)
	other := openEngine(t, s.Addr())
	second, _ := other.Lock("a").TryAcquire(limited(t))
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
	e := openEngine(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = slog.New(h) })
	defer close(h.gate)
	good := acquire(t, e.Lock("good", engine.WatchdogLease(2*time.Second)))
	acquire(t, e.Lock("short", engine.FixedLease(100*time.Millisecond)))
	await(t, h.called, "the logger is told of the loss, and blocks")
	first := good.Deadline()
	eventually(t, "renewed all the same", func() bool { return good.Deadline().After(first.Add(2 * time.Second)) })
	require.False(t, good.Lost())
	require.NoError(t, good.Context().Err())
}

// FreeBy with a longer lease of an earlier copy.
func TestFreeByOfAnEarlierLongerLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.DropReply(scriptCall("acquire"), 1)
	long := e.Lock("a", engine.FixedLease(time.Hour)).AcquireAsync(context.Background())
	short := e.Lock("a", engine.FixedLease(100*time.Millisecond)).AcquireAsync(context.Background())
	eventually(t, "granted unanswered", func() bool { return exists(t, s, "a") })
	unreachable(t, e, p)
	long.Cancel()
	_, err := short.Await(limited(t))
	var unknown *engine.UnknownError
	require.ErrorAs(t, err, &unknown)
	really := expiry(t, s, "a")
	p.RefuseNew(false)
	require.False(t, unknown.FreeBy.Before(really.Add(-2*time.Second)))
}

func TestTryOfAShortLeaseOverASlowLink(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.Delay(0, 75*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	begun := time.Now()
	_, err := e.Lock("a", engine.FixedLease(100*time.Millisecond)).TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrLost, "the answer takes as long as the lease")
	require.Less(t, time.Since(begun), 2*time.Second)
}

func TestLostAfterReleaseSaidLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	ls := acquire(t, e.Lock("a"))
	ctx := ls.Context()
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	require.True(t, ls.Lost())
	require.ErrorIs(t, context.Cause(ctx), engine.ErrReleased, "it was given back before that was known")
}
