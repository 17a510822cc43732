package engine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func fencedAcquire(t *testing.T, l *engine.FencedLock) *engine.Lease {
	t.Helper()
	return acquire(t, l.Lock)
}

func TestFencedTokensRiseWithEveryGrantOfEveryEngine(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{openEngine(t, s.Addr()), openEngine(t, s.Addr())}
	last := int64(0)
	for i := range 6 {
		ls := fencedAcquire(t, engines[i%2].FencedLock("f"))
		require.Greater(t, ls.Token(), last)
		last = ls.Token()
		require.Equal(t, strconv.FormatInt(last, 10), s.Do(t, "GET", slot.FenceToken("f")))
		release(t, ls)
		if i == 3 {
			s.Do(t, "FLUSHALL")
		}
	}
	plain := acquire(t, engines[0].Lock("plain"))
	require.Zero(t, plain.Token())
	release(t, plain)
	s.Do(t, "DEL", slot.FenceToken("f"))
	finish(t, s, engines...)
}

// Tokens rise in the order of the grants, also where many wait here and elsewhere: no hand-off passes
// an old one on.
func TestFencedTokensRiseUnderContention(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
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
		require.NoError(t, await(t, done, "a caller"))
	}
	require.Zero(t, a.Stats().GrantsByHandOff+b.Stats().GrantsByHandOff)
	s.Do(t, "DEL", slot.FenceToken("f"))
	finish(t, s, a, b)
}

type staleError struct{ token, last int64 }

func (e *staleError) Error() string {
	return strconv.FormatInt(e.token, 10) + " after " + strconv.FormatInt(e.last, 10)
}

func TestFencedReentryHasTheSameTokenAndOtherKindsDoNotEnter(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	ctx := engine.WithOwner(limited(t), engine.NewOwner())
	l := e.FencedLock("f")
	first, err := l.Acquire(ctx)
	require.NoError(t, err)
	second, err := l.Acquire(ctx)
	require.NoError(t, err)
	require.Equal(t, first.Token(), second.Token())
	require.Equal(t, "2", countOf(t, s, first))
	_, err = e.Lock("f").Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind, "a mutex of that name would have no token")
	release(t, first)
	release(t, second)
	s.Do(t, "DEL", slot.FenceToken("f"))
	finish(t, s, e)
}

// The reply is lost after the script ran: the same token is answered when it is asked for again.
func TestFault_C021_FencedReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	for _, times := range []int{1, 5} {
		rule := p.DropReply(scriptCall("fenced"), times, faultproxy.Cut)
		ls := fencedAcquire(t, e.FencedLock("f"))
		require.Equal(t, times, rule.Hits())
		require.Equal(t, strconv.FormatInt(ls.Token(), 10), s.Do(t, "GET", slot.FenceToken("f")))
		require.Equal(t, "1", countOf(t, s, ls))
		release(t, ls)
	}
	s.Do(t, "DEL", slot.FenceToken("f"))
	finish(t, s, e)
}

func TestFencedLeaseKeepsToItsDuration(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	ls := fencedAcquire(t, e.FencedLock("f", engine.FixedLease(700*time.Millisecond)))
	require.WithinDuration(t, time.Now().Add(700*time.Millisecond), expiry(t, s, "f"), 300*time.Millisecond)
	await(t, ls.Context().Done(), "the end of the lease")
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	s.Do(t, "DEL", slot.FenceToken("f"))
	finish(t, s, e)
}
