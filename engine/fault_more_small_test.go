package engine_test

import (
	"context"
	"fmt"
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
	s := aclServer(t, "-exists")
	x := openEngine(t, s.Addr())
	held := acquire(t, x.Lock("a"))
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr(), asApp)
	// Answered at all, the acquire is refused with NOPERM. Unanswered ...
	_, err := e.Lock("a").TryAcquire(limited(t))
	t.Log("answered:", err)
	p.DropReply(scriptCall("acquire"), 1)
	ls, err := e.Lock("a").TryAcquire(limited(t))
	t.Log("unanswered, asked again:", ls, err)
	t.Log(s.Do(t, "HGETALL", "a"))
	if err == nil {
		require.False(t, !held.Lost() && !ls.Lost(), "two holders")
	}
}

// Results of a run wait for its later rounds.
func TestResultsWaitForOthersRounds(t *testing.T) {
	s := aclServer(t, "resetkeys", "~ok:*")
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr(), asApp)
	before := p.Count("EVALSHA")
	_ = before
	// one lane for all: the same lane is chosen by the hash, so use many names
	p.Delay(0, 100*time.Millisecond)
	warm := make([]*engine.Future[*engine.Lease], 64)
	for i := range warm {
		warm[i] = e.Lock(numbered("ok:w", i)).AcquireAsync(limited(t))
	}
	time.Sleep(20 * time.Millisecond)
	p.Delay(0, 0)
	var short []*engine.Future[*engine.Lease]
	for i := range 64 {
		short = append(short, e.Lock(numbered("ok:s", i), engine.FixedLease(300*time.Millisecond)).AcquireAsync(limited(t)))
		e.Lock(numbered("bad:l", i)).AcquireAsync(limited(t))
		e.Lock(numbered("ok:l", i)).AcquireAsync(limited(t))
	}
	// hold the second round: single-key commands of the long lease
	p.Hold(func(cmd []string) bool {
		return cmd[0] == "EVALSHA" && len(cmd) > 4 && (cmd[3][:4] == "ok:l" || cmd[3][:4] == "bad:") && cmd[2] < "9" && len(cmd[2]) == 1
	}, -1)
	time.AfterFunc(1200*time.Millisecond, func() { p.ReleaseCommands() })
	born := 0
	for _, f := range short {
		ls, err := f.Await(limited(t))
		if err == nil && ls.Lost() {
			born++
		}
	}
	t.Log("leases granted that were lost at birth:", born)
	require.Zero(t, born)
}

func TestForceReleaseOfAGrantOnItsWay(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.Delay(0, 100*time.Millisecond)
	f := e.Lock("a").AcquireAsync(limited(t))
	time.Sleep(30 * time.Millisecond)
	ok, err := e.Lock("a").ForceRelease(limited(t))
	require.NoError(t, err)
	require.True(t, ok)
	ls, err := f.Await(limited(t))
	require.NoError(t, err)
	other := openEngine(t, s.Addr())
	second, err := other.Lock("a").TryAcquire(limited(t))
	t.Log("other:", second != nil, err, "first lost:", ls.Lost())
	require.False(t, second != nil && !ls.Lost(), "two believe")
}

type blockingHandler struct {
	slog.Handler
	gate chan struct{}
}

func (h blockingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockingHandler) Handle(_ context.Context, r slog.Record) error {
	fmt.Println(r.Message)
	<-h.gate
	return nil
}
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h blockingHandler) WithGroup(string) slog.Handler      { return h }

func TestALoggerThatBlocksStopsAllRenewals(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	gate := make(chan struct{})
	e := openEngine(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = slog.New(blockingHandler{gate: gate}) })
	defer close(gate)
	good := acquire(t, e.Lock("good", engine.WatchdogLease(time.Second)))
	acquire(t, e.Lock("short", engine.FixedLease(100*time.Millisecond)))
	ctx := good.Context()
	time.Sleep(1500 * time.Millisecond)
	t.Log("lost:", good.Lost(), "exists:", exists(t, s, "good"), "Done closed:", func() bool {
		select {
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}())
	require.False(t, good.Lost())
}

// FreeBy with a longer lease of an earlier copy.
func TestFreeByOfAnEarlierLongerLease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.DropReply(scriptCall("acquire"), 1)
	long := e.Lock("a", engine.FixedLease(time.Hour)).AcquireAsync(context.Background())
	short := e.Lock("a", engine.FixedLease(100*time.Millisecond)).AcquireAsync(context.Background())
	eventually(t, "granted unanswered", func() bool { return exists(t, s, "a") })
	p.RefuseNew(true)
	p.CutAll()
	time.Sleep(20 * time.Millisecond)
	long.Cancel()
	_, err := short.Await(limited(t))
	var unknown *engine.UnknownError
	require.ErrorAs(t, err, &unknown)
	really := expiry(t, s, "a")
	t.Log("FreeBy in", time.Until(unknown.FreeBy), "really", time.Until(really))
	p.RefuseNew(false)
	require.False(t, unknown.FreeBy.Before(really.Add(-2*time.Second)))
}
