package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// OpenChecked is [Open] for an engine whose Close must succeed at the test's end.
func OpenChecked(t testing.TB, addr string, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	e := Open(t, addr, change...)
	t.Cleanup(func() { assert.NoError(t, Close(e)) })
	return e
}

// Close closes an engine within [TooLong].
func Close(e *engine.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	defer cancel()
	return e.Close(ctx)
}

// Get awaits a future that must succeed.
func Get[T any](t testing.TB, f *engine.Future[T]) T {
	t.Helper()
	v, err := f.Await(Limited(t))
	require.NoError(t, err)
	return v
}

// GetError awaits a future that must fail.
func GetError[T any](t testing.TB, f *engine.Future[T]) error {
	t.Helper()
	_, err := f.Await(Limited(t))
	require.Error(t, err)
	return err
}

// Pending fails the test if the future has a result.
func Pending[T any](t testing.TB, f *engine.Future[T]) {
	t.Helper()
	_, err, ok := f.Result()
	require.False(t, ok, "there is a result already, error %v", err)
}

// Idle waits until the engines have forgotten every name: after a release one may be remembered
// for a moment, to let waiters elsewhere come first.
func Idle(t testing.TB, engines ...*engine.Engine) {
	t.Helper()
	for _, e := range engines {
		Eventually(t, "the engine has forgotten every name", func() bool { return e.Stats().Names == 0 })
	}
}

// Parked waits until n acquires of an engine are queued and the channel of the name is heard by
// that many subscribers.
func Parked(t testing.TB, s *redistest.Server, name string, subscribers int, waits int64, engines ...*engine.Engine) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d subscribers and %d waiters for %q", subscribers, waits, name), func() bool {
		var woken, waiting int64
		for _, e := range engines {
			stats := e.Stats()
			waiting += stats.Waiting
			woken += stats.WokenBySubscribe
		}
		return waiting == waits && woken >= int64(len(engines)) &&
			s.Do(t, "PUBSUB", "NUMSUB", Channel(name)) == Channel(name)+"\n"+strconv.Itoa(subscribers)
	})
}

// Family lists a lock of each family on a name.
func Family(e *engine.Engine, name string) map[string]*engine.Lock {
	return map[string]*engine.Lock{
		"Lock": e.Lock(name), "Spin": e.Lock(name, engine.Spin(time.Millisecond, 64*time.Millisecond)),
		"Fenced": e.FencedLock(name).Lock, "Fair": e.FairLock(name).Lock,
		"Read": e.RWLock(name).ReadLock(), "Write": e.RWLock(name).WriteLock(),
	}
}

// LostOf counts the leases that are lost.
func LostOf(leases []*engine.Lease) (lost int) {
	for _, ls := range leases {
		if ls.Lost() {
			lost++
		}
	}
	return lost
}

// KindsOf reads n events.
func KindsOf(t testing.TB, s *engine.Events, n int) (kinds []engine.EventKind, last engine.Event) {
	t.Helper()
	for range n {
		last = Await(t, s.C(), "an event")
		kinds = append(kinds, last.Kind)
	}
	return kinds, last
}

// LineUp starts n waiters one after the other, each seen in the queue before the next.
func LineUp(t testing.TB, s *redistest.Server, n int, lock func(i int) *engine.FairLock) []*engine.Future[*engine.Lease] {
	t.Helper()
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		l := lock(i)
		fs[i] = l.AcquireAsync(Limited(t))
		Eventually(t, "it stands in the queue", func() bool {
			return s.Do(t, "LLEN", slot.FairQueue(l.Name())) == fmt.Sprint(i+1)
		})
	}
	return fs
}

// AttemptLimit is how late a copy of an acquire may run: P4's bound on an orphan.
const AttemptLimit = 2500 * time.Millisecond

// LimitSlack comes on top of it, for clock rates, the wheel's tick and a busy machine.
const LimitSlack = 400 * time.Millisecond

// RequireKept waits until a lease has been renewed so often, and requires that it was never worth less than
// it asks for.
func RequireKept(t testing.TB, e *engine.Engine, ls *engine.Lease, least time.Duration, renewals int64) {
	t.Helper()
	sent := e.Stats().Renewals.Sent
	for began := time.Now(); e.Stats().Renewals.Sent < sent+renewals; {
		require.False(t, ls.Lost())
		require.Greater(t, time.Until(ls.Deadline()), least)
		require.Less(t, time.Since(began), TooLong, "it is not renewed")
		LastUntil(time.Now().Add(5 * time.Millisecond))
	}
}

// Open opens an engine on addr and closes it at the test's end. If the test fails, it tells what the engine said.
func Open(tb testing.TB, addr string, change ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	cfg := engine.Config{Addrs: []string{addr}}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Logger == nil {
		cfg.Logger = onFailure(tb)
	}
	e, err := engine.Open(Limited(tb), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), TooLong)
		defer cancel()
		_ = e.Close(ctx)
	})
	return e
}

// Acquire takes a lock or fails the test.
func Acquire(tb testing.TB, l *engine.Lock) *engine.Lease {
	tb.Helper()
	ls, err := l.Acquire(Limited(tb))
	require.NoError(tb, err)
	return ls
}

// Release gives a lease back or fails the test.
func Release(tb testing.TB, ls *engine.Lease) {
	tb.Helper()
	require.NoError(tb, ls.Release(Limited(tb)))
}

// Finish closes the engines and checks what holds after every test: nothing is left on the server, and
// nothing was there without an expiry.
func Finish(tb testing.TB, s *redistest.Server, engines ...*engine.Engine) {
	tb.Helper()
	require.Empty(tb, s.ImmortalKeys(tb), "keys without an expiry")
	for _, e := range engines {
		Eventually(tb, "nothing goes on in the engine", func() bool { return e.Stats().Names == 0 })
		require.NoError(tb, e.Close(Limited(tb)))
		require.Zero(tb, e.Stats().Names, "names left in the engine's table")
		require.Zero(tb, e.Stats().Held, "holds left in the engine's table")
	}
	require.Empty(tb, s.Keys(tb), "keys left behind")
}

// RequireHeldOnce checks that the server shows exactly this lease, taken once, and lets it live for
// at least as long as its holder trusts it.
func RequireHeldOnce(tb testing.TB, s *redistest.Server, ls *engine.Lease) {
	tb.Helper()
	require.Equal(tb, ls.OwnerID()+"\n1", s.Do(tb, "HGETALL", ls.Name()))
	require.False(tb, ls.Lost())
	trusted := ls.Deadline()
	require.False(tb, Expiry(tb, s, ls.Name()).Before(trusted), "trusted for longer than the server keeps it")
}

// ServerClass returns the class of a *ServerError, or resp.ClassNone.
func ServerClass(err error) engine.Class {
	var server *engine.ServerError
	if errors.As(err, &server) {
		return server.Class
	}
	return resp.ClassNone
}

// Numbered is the i-th name with a prefix.
func Numbered(prefix string, i int) string { return prefix + ":" + strconv.Itoa(i) }

// ErrorIsAny reports whether err is one of the targets.
func ErrorIsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
