package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Scenes of leases that are one piece with their acquire.

// pieces is how many holds of an engine keep the piece that their lease came in.
func (sc *scene) pieces() (n int) {
	for i := range sc.e.shards {
		n += sc.e.shards[i].pieces
	}
	return n
}

// Only so many holds of a shard keep it, and each gives it back at its end: a release, a loss, a hand-off, Close.
func TestFewHoldsKeepThePieceOfTheirLease(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		var locks []*Lock
		for i := 0; len(locks) < 2*mostPieces; i++ {
			if l := sc.e.Lock(fmt.Sprint("n", i)); len(locks) == 0 || sc.e.shard(l.hash) == sc.e.shard(locks[0].hash) {
				locks = append(locks, l)
			}
		}
		for range 2 {
			var leases []*Lease
			for i, l := range locks {
				leases = append(leases, sc.acquire(l))
				require.Equal(t, min(i+1, mostPieces), sc.pieces())
			}
			for _, ls := range leases {
				sc.release(ls)
			}
			require.Zero(t, sc.pieces())
		}

		ls := sc.acquire(sc.e.Lock("lost", FixedLease(time.Second)))
		require.Equal(t, 1, sc.pieces())
		sc.w.Sleep(2 * time.Second)
		require.True(t, ls.Lost())
		require.Zero(t, sc.pieces())

		ls = sc.acquire(locks[0])
		next := locks[0].AcquireAsync(context.Background())
		f := ls.ReleaseAsync()
		heir, err := result(sc, next)
		require.NoError(t, err)
		require.Same(t, ls.hold, heir.hold, "it was handed over")
		require.Equal(t, 1, sc.pieces())
		_, err = result(sc, f)
		require.NoError(t, err)
		sc.release(heir)
		require.Zero(t, sc.pieces())
	})
}

// What a lease says of itself stays, whoever has the lock since, and its second release is refused.
func TestALeaseThatWasGivenBackSeesNobodyElsesHold(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		first := sc.acquire(sc.e.Lock("a"))
		id, until := first.OwnerID(), first.Deadline()
		f := first.ReleaseAsync()
		_, err := result(sc, f)
		require.NoError(t, err)
		sc.w.Sleep(time.Second)
		for _, name := range []string{"a", "b"} {
			second := sc.acquire(sc.e.Lock(name))
			_, err = result(sc, first.ReleaseAsync())
			sc.wants(ErrNotHeld, err, "a second release")
			require.Equal(t, []any{"a", id, until, false}, []any{first.Name(), first.OwnerID(), first.Deadline(), first.Lost()})
			sc.wants(ErrReleased, context.Cause(first.Context()), "its context")
			_, err, done := f.Result()
			require.True(t, done)
			require.NoError(t, err, "its first release")
			require.False(t, second.Lost())
			require.NoError(t, second.Context().Err())
			sc.release(second)
		}
	})
}
