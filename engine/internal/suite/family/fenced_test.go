package family_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func fencedAcquire(t *testing.T, l *engine.FencedLock) *engine.Lease {
	t.Helper()
	return testkit.Acquire(t, l.Lock)
}

func TestFencedTokensRiseWithEveryGrantOfEveryEngine(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	last := int64(0)
	for i := range 6 {
		ls := fencedAcquire(t, engines[i%2].FencedLock("f"))
		require.Greater(t, ls.Token(), last)
		last = ls.Token()
		require.Equal(t, strconv.FormatInt(last, 10), s.Do(t, "GET", slot.FenceToken("f")))
		testkit.Release(t, ls)
		if i == 3 {
			s.Do(t, "FLUSHALL")
		}
	}
	plain := testkit.Acquire(t, engines[0].Lock("plain"))
	require.Zero(t, plain.Token())
	testkit.Release(t, plain)
	s.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, s, engines...)
}

// Tokens rise in the order of the grants, also where many wait here and elsewhere: no hand-off passes
// an old one on.
func TestFencedTokensRiseUnderContention(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	const callers, rounds = 16, 12
	var last int64 // guarded by the lock
	done := make(chan error, 2*callers)
	for i := range 2 * callers {
		l := a.FencedLock("f")
		if i%2 == 1 {
			l = b.FencedLock("f")
		}
		go func() {
			for range rounds {
				ls, err := l.Acquire(t.Context())
				if err != nil {
					done <- err
					return
				}
				if ls.Token() <= last {
					done <- &staleError{ls.Token(), last}
				}
				last = ls.Token()
				if err := ls.Release(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 * callers {
		require.NoError(t, testkit.Await(t, done, "a caller"))
	}
	require.Zero(t, a.Stats().GrantsByHandOff+b.Stats().GrantsByHandOff)
	s.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, s, a, b)
}

type staleError struct{ token, last int64 }

func (e *staleError) Error() string {
	return strconv.FormatInt(e.token, 10) + " after " + strconv.FormatInt(e.last, 10)
}

func TestFencedReentryHasTheSameTokenAndOtherKindsDoNotEnter(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	l := e.FencedLock("f")
	first, err := l.Acquire(ctx)
	require.NoError(t, err)
	second, err := l.Acquire(ctx)
	require.NoError(t, err)
	require.Equal(t, first.Token(), second.Token())
	require.Equal(t, "2", testkit.CountOf(t, s, first))
	_, err = e.Lock("f").Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind, "a mutex of that name would have no token")
	testkit.Release(t, first)
	testkit.Release(t, second)
	s.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, s, e)
}

// The reply is lost after the script ran: the same token is answered when it is asked for again.
func TestC021_FencedReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	for _, times := range []int{1, 5} {
		rule := p.DropReply(testkit.ScriptCall("fenced"), times, faultproxy.Cut)
		ls := fencedAcquire(t, e.FencedLock("f"))
		require.Equal(t, times, rule.Hits())
		require.Equal(t, strconv.FormatInt(ls.Token(), 10), s.Do(t, "GET", slot.FenceToken("f")))
		require.Equal(t, "1", testkit.CountOf(t, s, ls))
		testkit.Release(t, ls)
	}
	s.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, s, e)
}

func TestFencedLeaseKeepsToItsDuration(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls := fencedAcquire(t, e.FencedLock("f", engine.FixedLease(700*time.Millisecond)))
	require.WithinDuration(t, time.Now().Add(700*time.Millisecond), testkit.Expiry(t, s, "f"), 300*time.Millisecond)
	testkit.Await(t, ls.Context().Done(), "the end of the lease")
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	s.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, s, e)
}
