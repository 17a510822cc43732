package fault_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// requireMortal checks that everything on the server expires by itself, now, while it is held or waited for. What does not by
// Redisson's format: counters of fenced locks, which are to outlive their holders, and the queue of a fair lock, whose places
// each have a time of their own.
func requireMortal(tb testing.TB, s *redistest.Server, when string) {
	tb.Helper()
	require.NotEmpty(tb, s.Keys(tb), when)
	require.Empty(tb, slices.DeleteFunc(s.ImmortalKeys(tb), func(key string) bool {
		return strings.HasPrefix(key, "redisson_lock_token:") ||
			strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
	}), "%s: keys without an expiry", when)
}

// Whatever step of a lock's life a process dies in, nothing of it stays for ever.
func TestC017_WhateverIsHeldOrWaitedForExpires(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(e *engine.Engine, o ...engine.Option) *engine.Lock{
		"Lock":   func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.Lock("name", o...) },
		"Fenced": func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.FencedLock("name", o...).Lock },
		"Fair":   func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.FairLock("name", o...).Lock },
		"Read":   func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.RWLock("name", o...).ReadLock() },
		"Write":  func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.RWLock("name", o...).WriteLock() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
			as := engine.As(engine.NewOwner())
			first := testkit.Acquire(t, of(e, as))
			requireMortal(t, s, "held")
			again := testkit.Acquire(t, of(e, as))
			requireMortal(t, s, "entered again")
			blocked := of(other)
			if name == "Read" {
				blocked = other.RWLock("name").WriteLock()
			}
			theirs, ours := blocked.AcquireAsync(testkit.Limited(t)), of(e).AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "who waits elsewhere listens", func() bool { return other.Stats().WokenBySubscribe > 0 })
			requireMortal(t, s, "waited for")
			testkit.Release(t, again)
			requireMortal(t, s, "one of two is given back")
			testkit.Release(t, first)
			select {
			case <-theirs.Done():
			case <-ours.Done():
			}
			requireMortal(t, s, "the next has it")
			for _, f := range []*engine.Future[*engine.Lease]{ours, theirs} {
				f.OnComplete(func(ls *engine.Lease, err error) {
					if err == nil {
						ls.ReleaseAsync()
					}
				})
			}
			for _, f := range []*engine.Future[*engine.Lease]{ours, theirs} {
				_, err := f.Await(testkit.Limited(t))
				require.NoError(t, err)
			}
			fixed := testkit.Acquire(t, of(e, engine.FixedLease(30*time.Second)))
			require.NoError(t, fixed.Extend(testkit.Limited(t), time.Minute))
			requireMortal(t, s, "extended")
			testkit.Release(t, fixed)
			s.Do(t, "DEL", "redisson_lock_token:{name}")
			testkit.Finish(t, s, e, other)
		})
	}
}
