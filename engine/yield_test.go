package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A writer of this engine that waits behind its readers listens to the channel of the read-write lock. It is
// nobody else, so it is asked for as soon as the last reader's release is answered.
func TestAnEngineThatIsAlonePaysNoCourtesyToItself(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	for i := range 20 {
		rw := e.RWLock("name:" + strconv.Itoa(i))
		read, err := rw.ReadLock().Acquire(ctx)
		require.NoError(t, err)
		f := rw.WriteLock().AcquireAsync(ctx)
		state := func(of func(*entry) bool) bool {
			sh := e.shard(read.hold.ent.hash)
			sh.mu.Lock()
			defer sh.mu.Unlock()
			ent := sh.names.get(read.hold.ent.hash, read.hold.ent.key)
			return ent == nil || of(ent)
		}
		require.Eventually(t, func() bool { // it listens, has looked again, and the turn is over
			return state(func(ent *entry) bool {
				return ent.WokenBy() == lockstate.WakeLook && ent.Parked() && ent.firstChild().hold.TenureOver(e.clock.Now())
			})
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, read.Release(ctx))
		require.True(t, state(func(ent *entry) bool { return !ent.Parked() && !ent.Paused() }), "it is asked for, or has the lock")
		write, err := f.Await(ctx)
		require.NoError(t, err)
		require.NoError(t, write.Release(ctx))
	}
}
