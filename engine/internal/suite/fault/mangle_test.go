package fault_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// HOLDFAST_FUZZ is for how long what servers say is changed, instead of some seconds; HOLDFAST_SEED repeats how.
const fuzzEnv = "HOLDFAST_FUZZ"

// mangleFor says for how long, and from which seed on.
func mangleFor(t *testing.T) (lasts time.Duration, seed uint64) {
	t.Helper()
	lasts, seed = time.Second, 1
	if text := os.Getenv(fuzzEnv); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err, fuzzEnv)
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(testkit.SeedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, testkit.SeedEnv)
	}
	return lasts, seed
}

// TestMangledReplies: what a real server says to two engines is changed on its way, while they fight over a few
// names. Nothing ends the process or hangs, memory stays bounded, and after it all is well. Where each changed reply
// can be known to be none, nobody holds what another holds, either. Where any byte, or any number, may be another one, the
// next reply may say "granted" to a command that was not: that cannot be known, and is not looked at.
func TestMangledReplies(t *testing.T) {
	for _, how := range []struct {
		name           string
		bytes, numbers bool
	}{{name: "Replies"}, {name: "Bytes", bytes: true}, {name: "Numbers", numbers: true}} {
		t.Run(how.name, func(t *testing.T) {
			lasts, seed := mangleFor(t)
			t.Logf("%s=%d", testkit.SeedEnv, seed)
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := testkit.Open(t, p.Addr()), testkit.Open(t, p.Addr())
			st := newStorm(t, s, 6, e, other)
			st.mangled, st.believed = true, how.bytes || how.numbers
			st.longest = 20 * time.Millisecond
			st.opts = []engine.Option{engine.WatchdogLease(time.Second)}
			normal := testkit.Memory()
			m := faultproxy.NewMangler(seed, map[bool]float64{false: 0.03, true: 0.15}[how.numbers])
			m.Bytes, m.Numbers = how.bytes, how.numbers
			p.Mangle(m)
			st.start(6)
			for _, e := range st.engines {
				st.wg.Go(func() { everything(e, seed, st.stop) })
			}
			most := uint64(0)
			for begun := time.Now(); time.Since(begun) < lasts; {
				testkit.LastUntil(time.Now().Add(10 * time.Millisecond))
				most = max(most, testkit.Memory())
			}
			st.end()
			p.Mangle(nil)
			st.log("%d changed, %d and %d connections closed, %d MB above normal", m.Changed(),
				e.Stats().ConnectionsRefused, other.Stats().ConnectionsRefused, (max(most, normal)-normal)>>20)
			require.Positive(t, m.Changed())
			if !how.numbers {
				require.Positive(t, e.Stats().ConnectionsRefused+other.Stats().ConnectionsRefused)
			}
			require.Positive(t, st.grants.Load())
			require.Less(t, max(most, normal)-normal, uint64(64<<20), "bytes above normal")
			for _, e := range []*engine.Engine{e, other} {
				testkit.Release(t, testkit.Acquire(t, e.Lock("afterwards")))
				ctx, cancel := context.WithTimeout(context.Background(), testkit.TooLong)
				err := e.Close(ctx)
				cancel()
				require.False(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
			}
		})
	}
}

// everything does what else there is to do, of whatever comes back, until stop ends.
func everything(e *engine.Engine, seed uint64, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(200))*time.Millisecond)
		lease, rw, fair := engine.WatchdogLease(time.Second), e.RWLock("any:rw"), e.FairLock("any:fair")
		l := []*engine.Lock{
			e.Lock("any:spin").With(engine.Spin(time.Millisecond, 100*time.Millisecond)), e.FencedLock("any:fenced").Lock, rw.ReadLock(), rw.WriteLock(), fair.Lock,
			e.Lock("any:acked").With(engine.WaitReplicas(1, time.Millisecond)), e.Lock("any:owned"),
		}[rng.IntN(7)].With(lease)
		if rng.IntN(4) == 0 {
			_, _ = l.Inspect(ctx)
			_, _ = fair.Queue(ctx)
		}
		if rng.IntN(8) == 0 {
			_, _ = l.ForceRelease(ctx)
		}
		if ls, err := l.Acquire(ctx); err == nil {
			_ = ls.Extend(ctx, 2*time.Second)
			_ = ls.Release(ctx)
		}
		cancel()
	}
}
