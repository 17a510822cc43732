package fault_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What an acquire without an answer may have taken is given back. Where a value of another type has come to stand in its
// place there is nothing to give back: neither the engine nor its Close goes on with that.
func TestNothingGoesOnForWhatAnotherTypeHasReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	testkit.Release(t, testkit.Acquire(t, e.Lock("name"))) // the script is loaded
	taken := p.DropReply(testkit.ScriptCall("acquire"), 1, faultproxy.Hang)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	f := e.Lock("name").AcquireAsync(ctx)
	testkit.Await(t, taken.C(), "the server has granted it")
	s.Do(t, "SET", "name", "text")
	sent := p.Count("EVALSHA") + p.Count("EVAL")
	cancel()
	p.CutAll()
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	testkit.Eventually(t, "it is tried to give it back", func() bool { return p.Count("EVALSHA")+p.Count("EVAL") > sent })
	require.NoError(t, e.Close(testkit.Limited(t)), "it waits for what may still run, and for no more")
	require.Zero(t, e.Stats().Abandoned)
	require.Equal(t, "text", s.Do(t, "GET", "name"))
}
