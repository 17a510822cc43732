package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A server whose ACL refuses pub/sub altogether: a spin lock neither subscribes nor publishes.
func TestSpinWaitsWithoutPubSub(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	spin := engine.Spin(time.Millisecond, 16*time.Millisecond)
	ls := acquire(t, a.Lock("s", spin))
	waiter := b.Lock("s", spin).AcquireAsync(limited(t))
	eventually(t, "the waiter asks again and again", func() bool { return b.Stats().WokenByPoll > 20 })
	require.Empty(t, s.Do(t, "PUBSUB", "CHANNELS", "redisson*"))
	require.Zero(t, published(t, s))
	release(t, ls)
	second, err := waiter.Await(limited(t))
	require.NoError(t, err)
	release(t, second)
	require.Zero(t, published(t, s))
	finish(t, s, a, b)
}

func TestSpinExcludesLocksAndEntersAgainAsOne(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	ctx := engine.WithOwner(limited(t), engine.NewOwner())
	first, err := a.Lock("s", engine.Spin(time.Millisecond, time.Second)).Acquire(ctx)
	require.NoError(t, err)
	second, err := a.Lock("s").Acquire(ctx)
	require.NoError(t, err)
	require.Equal(t, "2", countOf(t, s, first))
	_, err = b.Lock("s").TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	release(t, first)
	release(t, second)
	finish(t, s, a, b)
}

func TestSpinRefusesWhatItCannotDo(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	for _, bad := range []engine.Option{
		engine.Spin(0, time.Second), engine.Spin(time.Second, time.Millisecond), engine.Spin(time.Microsecond, time.Second),
	} {
		require.ErrorIs(t, e.Lock("s", bad).Err(), engine.ErrLease)
	}
	require.ErrorIs(t, e.FencedLock("s", engine.Spin(time.Millisecond, time.Second)).Err(), engine.ErrWrongKind)
	require.Empty(t, s.Keys(t))
	finish(t, s, e)
}

func TestNonReentrantRefusesItsOwnerAndNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(limited(t), o)
	l := e.Lock("n", engine.NonReentrant())
	ls, err := l.Acquire(ctx)
	require.NoError(t, err)
	for name, again := range map[string]func(context.Context) (*engine.Lease, error){"Acquire": l.Acquire, "TryAcquire": l.TryAcquire} {
		_, err := again(ctx)
		require.ErrorIs(t, err, engine.ErrReentry, name)
	}
	require.Equal(t, "1", countOf(t, s, ls), "still held, once")
	require.Equal(t, 1, o.Holds(l))
	waiter := l.AcquireAsync(limited(t)) // nobody's: it waits
	release(t, ls)
	second, err := waiter.Await(limited(t))
	require.NoError(t, err)
	release(t, second)
	finish(t, s, e)
}

// Two goroutines of one owner ask at once: one is granted, the other told.
func TestNonReentrantRefusesAnOwnerThatAskedTwice(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	held := acquire(t, other.Lock("n"))
	ctx := engine.WithOwner(limited(t), engine.NewOwner())
	l := e.Lock("n", engine.NonReentrant())
	fs := []*engine.Future[*engine.Lease]{l.AcquireAsync(ctx), l.AcquireAsync(ctx)}
	release(t, held)
	first, err := fs[0].Await(limited(t))
	require.NoError(t, err)
	_, err = fs[1].Await(limited(t))
	require.ErrorIs(t, err, engine.ErrReentry)
	release(t, first)
	finish(t, s, e, other)
}

// published counts the PUBLISH commands a server has run, those of scripts included.
func published(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	stats, err := s.CommandStats()
	require.NoError(t, err)
	return stats["publish"]
}
