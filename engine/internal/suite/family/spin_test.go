package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A server whose ACL refuses pub/sub altogether: a spin lock neither subscribes nor publishes.
func TestSpinWaitsWithoutPubSub(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	spin := engine.Spin(time.Millisecond, 16*time.Millisecond)
	ls := testkit.Acquire(t, a.Lock("s", spin))
	waiter := b.Lock("s", spin).AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "the waiter asks again and again", func() bool { return b.Stats().WokenByPoll > 20 })
	require.Empty(t, s.Do(t, "PUBSUB", "CHANNELS", "redisson*"))
	require.Zero(t, published(t, s))
	testkit.Release(t, ls)
	second, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, second)
	require.Zero(t, published(t, s))
	testkit.Finish(t, s, a, b)
}

func TestSpinExcludesLocksAndEntersAgainAsOne(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	first, err := a.Lock("s", engine.Spin(time.Millisecond, time.Second)).Acquire(ctx)
	require.NoError(t, err)
	second, err := a.Lock("s").Acquire(ctx)
	require.NoError(t, err)
	require.Equal(t, "2", testkit.CountOf(t, s, first))
	_, err = b.Lock("s").TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	testkit.Release(t, first)
	testkit.Release(t, second)
	testkit.Finish(t, s, a, b)
}

func TestSpinRefusesWhatItCannotDo(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for _, bad := range []engine.Option{
		engine.Spin(0, time.Second), engine.Spin(time.Second, time.Millisecond), engine.Spin(-time.Microsecond, time.Second),
	} {
		require.ErrorIs(t, e.Lock("s", bad).Err(), engine.ErrLease)
	}
	require.ErrorIs(t, e.FencedLock("s", engine.Spin(time.Millisecond, time.Second)).Err(), engine.ErrLease)
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}

func TestNonReentrantRefusesItsOwnerAndNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	l := e.Lock("n", engine.NonReentrant())
	ls, err := l.Acquire(ctx)
	require.NoError(t, err)
	for name, again := range map[string]func(context.Context) (*engine.Lease, error){"Acquire": l.Acquire, "TryAcquire": l.TryAcquire} {
		_, err := again(ctx)
		require.ErrorIs(t, err, engine.ErrReentry, name)
	}
	require.Equal(t, "1", testkit.CountOf(t, s, ls), "still held, once")
	require.Equal(t, 1, o.Holds(l))
	waiter := l.AcquireAsync(testkit.Limited(t)) // nobody's: it waits
	testkit.Release(t, ls)
	second, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, second)
	testkit.Finish(t, s, e)
}

// Two goroutines of one owner ask at once: one is granted, the other told.
func TestNonReentrantRefusesAnOwnerThatAskedTwice(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, other.Lock("n"))
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	l := e.Lock("n", engine.NonReentrant())
	fs := []*engine.Future[*engine.Lease]{l.AcquireAsync(ctx), l.AcquireAsync(ctx)}
	testkit.Release(t, held)
	first, err := fs[0].Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = fs[1].Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrReentry)
	testkit.Release(t, first)
	testkit.Finish(t, s, e, other)
}

// published counts the PUBLISH commands a server has run, those of scripts included.
func published(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	stats, err := s.CommandStats()
	require.NoError(t, err)
	return stats["publish"]
}
