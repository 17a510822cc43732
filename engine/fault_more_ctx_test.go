package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestCtxBehindAbandonedAttempt(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	hold := p.Hold(scriptCall("acquire"), 1)
	f1 := e.Lock("a").AcquireAsync(context.Background())
	await(t, hold.C(), "held")
	time.Sleep(200 * time.Millisecond) // the run has been reported by tick
	require.True(t, f1.Cancel())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f2 := e.Lock("a").AcquireAsync(ctx)
	f3 := e.Lock("a", engine.MaxWait(100*time.Millisecond)).AcquireAsync(context.Background())
	_ = f3
	await(t, f2.Done(), "done")
	t.Log("ctx of 100 ms was seen after", time.Since(begun))
	_, err := f2.Await(limited(t))
	t.Log(err)
	took := time.Since(begun)
	p.ReleaseCommands()
	require.Less(t, took, 400*time.Millisecond)
}

func TestMaxWaitBehindAbandonedAttempt(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	hold := p.Hold(scriptCall("acquire"), 1)
	f1 := e.Lock("a").AcquireAsync(context.Background())
	await(t, hold.C(), "held")
	time.Sleep(200 * time.Millisecond)
	require.True(t, f1.Cancel())
	begun := time.Now()
	_, err := e.Lock("a", engine.MaxWait(100*time.Millisecond)).Acquire(limited(t))
	took := time.Since(begun)
	t.Log("MaxWait of 100 ms took", took, err)
	p.ReleaseCommands()
	require.Less(t, took, 400*time.Millisecond)
}

func TestCtxWhileCooling(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = true })
	ls := acquire(t, e.Lock("a"))
	w := e.Lock("a").AcquireAsync(context.Background())
	p.RefuseNew(true)
	p.CutAll()
	time.Sleep(50 * time.Millisecond)
	r := ls.ReleaseAsync() // cooling: w waits
	time.Sleep(20 * time.Millisecond)
	require.True(t, w.Cancel())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f2 := e.Lock("a").AcquireAsync(ctx)
	await(t, f2.Done(), "done")
	took := time.Since(begun)
	_, err := f2.Await(limited(t))
	t.Log("ctx of 100 ms was seen after", took, err)
	p.RefuseNew(false)
	<-r.Done()
	require.Less(t, took, 400*time.Millisecond)
}
