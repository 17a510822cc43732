package enginetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Every kind of lock works on the in-process server: taken, waited for, entered again, given back.
func TestEveryKindOfLock(t *testing.T) {
	s := enginetest.Start(t)
	a, b := s.NewEngine(), s.NewEngine()
	for kind, lock := range map[string]func(*engine.Engine) *engine.Lock{
		"Lock":   func(e *engine.Engine) *engine.Lock { return e.Lock("Lock") },
		"Spin":   func(e *engine.Engine) *engine.Lock { return e.Lock("Spin", engine.Spin(time.Millisecond, time.Second)) },
		"Fenced": func(e *engine.Engine) *engine.Lock { return e.FencedLock("Fenced").Lock },
		"Fair":   func(e *engine.Engine) *engine.Lock { return e.FairLock("Fair").Lock },
		"Read":   func(e *engine.Engine) *engine.Lock { return e.RWLock("Read").ReadLock() },
		"Write":  func(e *engine.Engine) *engine.Lock { return e.RWLock("Write").WriteLock() },
	} {
		t.Run(kind, func(t *testing.T) {
			ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
			ls, err := lock(a).Acquire(ctx)
			require.NoError(t, err)
			again, err := lock(a).Acquire(ctx)
			require.NoError(t, err)
			if kind == "Fenced" {
				require.Positive(t, ls.Token())
			}
			waiter := lock(b).AcquireAsync(testkit.Limited(t))
			releaseIt(again, nil)
			releaseIt(ls, nil)
			got, err := waiter.Await(testkit.Limited(t))
			require.NoError(t, err)
			releaseIt(got, nil)
		})
	}
}
