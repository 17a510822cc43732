package engine_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Close with many waiters parked on different names.
func TestCloseWithManyNamesParked(t *testing.T) {
	const n = 8000
	s := redistest.Run(t, redistest.Options{})
	other := openEngine(t, s.Addr())
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		fs[i] = other.Lock(numbered("a", i)).AcquireAsync(limited(t))
	}
	_, err := engine.AllLeases(fs...).Await(limited(t))
	require.NoError(t, err)
	e := openEngine(t, s.Addr())
	waiting := make([]*engine.Future[*engine.Lease], n)
	for i := range waiting {
		waiting[i] = e.Lock(numbered("a", i)).AcquireAsync(limited(t))
	}
	eventually(t, "all wait", func() bool { return e.Stats().Waits == n })
	time.Sleep(50 * time.Millisecond)
	func() {
		defer func() {
			if r := recover(); r != nil {
				println("PANIC in Close")
				debug.PrintStack()
				panic(r)
			}
		}()
		err = e.Close(limited(t))
	}()
	done := 0
	for _, f := range waiting {
		if _, _, ok := f.Result(); ok {
			done++
		}
	}
	t.Log("close:", err, "answered:", done)
	require.Equal(t, n, done)
}
