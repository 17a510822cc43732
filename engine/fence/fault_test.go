package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/fence"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A register is what locks guard: who holds one reads it, and writes one more.
type register struct {
	mu    sync.Mutex
	value int
	wrote int // increments that were acknowledged
	gate  *fence.Gate
}

// read and write go past the gate with the holder's token, if there is a gate: a later holder's read shuts
// out earlier holders' writes.
func (r *register) read(token int64) (value int, err error) {
	err = r.pass(token, func() error { value = r.value; return nil })
	return value, err
}

func (r *register) write(token int64, value int) error {
	return r.pass(token, func() error { r.value, r.wrote = value, r.wrote+1; return nil })
}

func (r *register) pass(token int64, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate == nil {
		return do()
	}
	return r.gate.Pass("register", token, do)
}

// sleepers increments a register from ten holders, of whom some sleep past their lease between reading and
// writing, until somebody else has written, and look neither at the clock nor at Lost.
func sleepers(t *testing.T, r *register) (refused int) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const holders, rounds = 10, 8
	engines := make([]*engine.Engine, 2)
	for i := range engines {
		e, err := engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(ctx))) })
		engines[i] = e
	}
	errs := make(chan error, holders)
	var mu sync.Mutex
	for h := range holders {
		go func() {
			random := rand.New(rand.NewPCG(uint64(h), 1))
			l := engines[h%2].FencedLock("register", engine.FixedLease(100*time.Millisecond))
			for range rounds {
				stale, err := increment(ctx, l, r, random.IntN(4) == 0)
				if err != nil {
					errs <- err
					return
				}
				if stale {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
			errs <- nil
		}()
	}
	for range holders {
		require.NoError(t, <-errs)
	}
	return refused
}

// increment adds one, and says whether the store refused that.
func increment(ctx context.Context, l *engine.FencedLock, r *register, sleeps bool) (stale bool, err error) {
	ls, err := l.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if e := ls.Release(ctx); e != nil && !errors.Is(e, engine.ErrLost) {
			err = e
		}
	}()
	value, err := r.read(ls.Token())
	if errors.Is(err, fence.ErrStale) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if sleeps {
		<-ls.Context().Done()
		next, err := l.Acquire(ctx) // it is somebody else's turn now, and this one sleeps on
		if err != nil {
			return false, err
		}
		other, err := r.read(next.Token())
		if err == nil {
			err = r.write(next.Token(), other+1)
		}
		if err != nil && !errors.Is(err, fence.ErrStale) {
			return false, err
		}
		if err := next.Release(ctx); err != nil && !errors.Is(err, engine.ErrLost) {
			return false, err
		}
	}
	err = r.write(ls.Token(), value+1)
	if errors.Is(err, fence.ErrStale) {
		return true, nil
	}
	return false, err
}

// TestC100_AFencedRegisterLosesNothing: holders sleep past their leases and write all the same. The
// store refuses them, and every increment that it acknowledged is there.
func TestC100_AFencedRegisterLosesNothing(t *testing.T) {
	r := &register{gate: new(fence.Gate)}
	require.Positive(t, sleepers(t, r), "nobody slept")
	require.Equal(t, r.wrote, r.value)
}

// TestC101_WithoutAFenceUpdatesAreLost: the same without looking at the tokens. It shows that C100 can
// fail, and what a lock alone does not promise.
func TestC101_WithoutAFenceUpdatesAreLost(t *testing.T) {
	r := &register{}
	require.Zero(t, sleepers(t, r))
	require.Less(t, r.value, r.wrote)
}
