package several_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// One engine uses two names again and again, and they linger; callers of it and of another one want both at once.
func TestSeveralLocksBesideOnesThatLinger(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	names := []string{"a", "b"}
	witnesses := make([]testkit.Witness, len(names))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i, name := range names {
		l := e.Lock(name, engine.Linger(20*time.Millisecond))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ls, err := l.Acquire(testkit.Limited(t))
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				witnesses[i].Enter()
				witnesses[i].Leave()
				if err := ls.Release(testkit.Limited(t)); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	for round := range 5 {
		lingered := e.Stats().GrantsByLinger
		testkit.Eventually(t, "they linger", func() bool { return e.Stats().GrantsByLinger > lingered+100 })
		for _, from := range []*engine.Engine{e, other} {
			both, err := from.MultiLock(names[round%2], names[1-round%2]).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			for i := range witnesses {
				witnesses[i].Enter()
			}
			for i := range witnesses {
				witnesses[i].Leave()
			}
			require.NoError(t, both.Release(testkit.Limited(t)))
		}
	}
	close(stop)
	all.Wait()
	for i := range witnesses {
		require.Zero(t, witnesses[i].Violations.Load(), names[i])
	}
	require.Positive(t, e.Stats().GrantsByLinger)
	testkit.Eventually(t, "nothing lingers any more", func() bool { return len(s.Keys(t)) == 0 })
	testkit.Finish(t, s, e, other)
}
