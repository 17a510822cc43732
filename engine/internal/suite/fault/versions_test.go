package fault_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// TestC182_TwoVersionsSideBySide: the processes of a service are replaced one by one, and the scripts
// of the two versions have other texts. Each finds its own on the server, they exclude each other, hear each
// other's releases, and a server that forgets all scripts gets both back.
func TestC182_TwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	older := runRewriter(t, s.Addr(), func(text string) string { return "-- the version before\n" + text })
	was, is := testkit.Open(t, older.addr()), testkit.Open(t, s.Addr())
	// All of them at once, for each has to wait for its renewals.
	type meeting struct {
		ls      *engine.Lease
		renewed time.Time
		waiter  *engine.Future[*engine.Lease]
	}
	const lease = 6 * time.Second
	var all []meeting
	for kind := range testkit.Family(is, "x") {
		for i, pair := range [][2]*engine.Engine{{was, is}, {is, was}} {
			holder, other, name := pair[0], pair[1], testkit.Numbered(kind, i)
			wanted := kind
			if kind == "Read" {
				wanted = "Write"
			}
			ls := testkit.Acquire(t, testkit.Family(holder, name)[kind].With(engine.WatchdogLease(lease)))
			waits := other.Stats().Waits
			waiter := testkit.Family(other, name)[wanted].With(engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "the other version waits", func() bool { return other.Stats().Waits > waits })
			all = append(all, meeting{ls: ls, waiter: waiter})
		}
	}
	s.Do(t, "SCRIPT", "FLUSH")
	for i := range all {
		all[i].renewed = all[i].ls.Deadline()
	}
	for _, m := range all {
		testkit.Eventually(t, m.ls.Name()+" is renewed", func() bool { return m.ls.Deadline().After(m.renewed.Add(lease / 10)) })
	}
	for _, m := range all {
		require.False(t, m.ls.Lost(), m.ls.Name())
		testkit.Release(t, m.ls)
		ls, err := m.waiter.Await(testkit.Limited(t))
		require.NoError(t, err, m.ls.Name())
		testkit.Release(t, ls)
	}
	for name, text := range resp.ScriptTexts() {
		if name == "acquireone" || name == "releaseone" || name == "renew" {
			require.Equal(t, "1\n1", s.Do(t, "SCRIPT", "EXISTS", shaOf(text), older.shas[shaOf(text)]), name)
		}
	}
	requireExclusion(t, "shared", was, is)
	for i := range 2 {
		s.Do(t, "DEL", "redisson_lock_token:{"+testkit.Numbered("Fenced", i)+"}")
	}
	testkit.Finish(t, s, was, is)
}

// requireExclusion lets callers of several engines meet on one name.
func requireExclusion(t *testing.T, name string, engines ...*engine.Engine) {
	t.Helper()
	var w testkit.Witness
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for c := range 8 {
		wg.Go(func() {
			l := engines[c%len(engines)].Lock(name)
			for range 40 {
				ls, err := l.Acquire(t.Context())
				if err != nil {
					errs <- fmt.Errorf("acquire: %w", err)
					return
				}
				w.Enter()
				w.Leave()
				if err := ls.Release(t.Context()); err != nil {
					errs <- fmt.Errorf("release: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)
	require.Zero(t, w.Violations.Load(), "two inside")
}
