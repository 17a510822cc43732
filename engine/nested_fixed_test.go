package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A handle that is not renewed keeps its own end, whoever enters beside it for longer, and leaves.
func TestALongEntryThatIsOverLeavesAShortLeaseItsEnd(t *testing.T) {
	t.Parallel()
	long := engine.FixedLease(10 * time.Minute)
	for name, c := range map[string]struct {
		lease    engine.Option
		stopped  bool
		canceled bool
	}{
		"a fixed lease":                     {engine.FixedLease(2 * time.Second), false, false},
		"one that is renewed no more":       {engine.WatchdogLease(2 * time.Second), true, false},
		"who enters leaves before it is in": {engine.FixedLease(2 * time.Second), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			o := engine.NewOwner()
			short := testkit.Acquire(t, e.Lock("name", engine.As(o), c.lease))
			if c.stopped {
				short.StopRenewing()
			}
			if c.canceled {
				held := p.Hold(testkit.ScriptCall("reacquire"), 1)
				f := e.Lock("name", engine.As(o), long).AcquireAsync(testkit.Limited(t))
				testkit.Await(t, held.C(), "it is on its way")
				require.True(t, f.Cancel())
				p.ReleaseCommands()
				testkit.Eventually(t, "taken back", func() bool { return !engine.Changing(short) })
			} else {
				testkit.Release(t, testkit.Acquire(t, e.Lock("name", engine.As(o), long)))
			}
			require.LessOrEqual(t, testkit.Int(t, s, "PTTL", "name"), int64(3000))
			require.LessOrEqual(t, time.Until(short.Deadline()), 3*time.Second)
			testkit.Release(t, short)
			testkit.Finish(t, s, e)
		})
	}
}
