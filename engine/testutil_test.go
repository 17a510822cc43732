package engine_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// tooLong is how long a test waits for what must happen: whoever waits that long has failed.
const tooLong = 20 * time.Second

// limited returns a context for what must not block for ever.
func limited(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), tooLong)
	tb.Cleanup(cancel)
	return ctx
}

// openEngine opens an engine on addr and closes it at the test's end.
func openEngine(tb testing.TB, addr string, change ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	cfg := engine.Config{Addrs: []string{addr}}
	for _, c := range change {
		c(&cfg)
	}
	e, err := engine.Open(limited(tb), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tooLong)
		defer cancel()
		_ = e.Close(ctx)
	})
	return e
}

// acquire takes a lock or fails the test.
func acquire(tb testing.TB, l *engine.Lock) *engine.Lease {
	tb.Helper()
	ls, err := l.Acquire(limited(tb))
	require.NoError(tb, err)
	return ls
}

// release gives a lease back or fails the test.
func release(tb testing.TB, ls *engine.Lease) {
	tb.Helper()
	require.NoError(tb, ls.Release(limited(tb)))
}

// await receives from c or fails the test.
func await[T any](tb testing.TB, c <-chan T, what string) T {
	tb.Helper()
	timer := time.NewTimer(tooLong)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		require.FailNow(tb, "waited in vain", what)
		panic("unreachable")
	}
}

// eventually polls where there is no signal to wait for.
func eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	require.Eventually(tb, cond, tooLong, 2*time.Millisecond, what)
}

// lastUntil lets a fault last. It is no way to wait for anything to happen.
func lastUntil(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// finish closes the engines and checks what holds after every test: nothing is left on the server, and
// nothing was there without an expiry.
func finish(tb testing.TB, s *redistest.Server, engines ...*engine.Engine) {
	tb.Helper()
	require.Empty(tb, s.ImmortalKeys(tb), "keys without an expiry")
	for _, e := range engines {
		eventually(tb, "nothing goes on in the engine", func() bool { return e.Stats().Names == 0 })
		require.NoError(tb, e.Close(limited(tb)))
		require.Zero(tb, e.Stats().Names, "names left in the engine's table")
		require.Zero(tb, e.Stats().Held, "holds left in the engine's table")
	}
	require.Empty(tb, s.Keys(tb), "keys left behind")
}

// requireHeldOnce checks that the server shows exactly this lease, taken once, and lets it live for
// at least as long as its holder trusts it.
func requireHeldOnce(tb testing.TB, s *redistest.Server, ls *engine.Lease) {
	tb.Helper()
	require.Equal(tb, ls.OwnerID()+"\n1", s.Do(tb, "HGETALL", ls.Name()))
	require.False(tb, ls.Lost())
	trusted := ls.Deadline()
	require.False(tb, expiry(tb, s, ls.Name()).Before(trusted), "trusted for longer than the server keeps it")
}

// expiry returns when a key expires, as wall time of this machine.
func expiry(tb testing.TB, s *redistest.Server, key string) time.Time {
	tb.Helper()
	at := expiryOf(tb, s.Do(tb, "PEXPIRETIME", key))
	require.Positive(tb, at.UnixMilli(), "key %q has no expiry or is not there", key)
	return at
}

func exists(tb testing.TB, s *redistest.Server, key string) bool {
	tb.Helper()
	return s.Do(tb, "EXISTS", key) == "1"
}

// scriptCall matches the EVALSHA of scripts of ours, by their names in resp/scripts.
func scriptCall(names ...string) faultproxy.Match {
	var shas []string
	for _, name := range names {
		text, ok := resp.ScriptTexts()[name]
		if !ok {
			panic(fmt.Sprintf("no script %q", name))
		}
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		shas = append(shas, hex.EncodeToString(sum[:]))
	}
	return func(cmd []string) bool {
		return strings.EqualFold(cmd[0], "EVALSHA") && len(cmd) > 1 && slices.Contains(shas, cmd[1])
	}
}

// watchCommands signals each command that matches, and lets it pass.
func watchCommands(p *faultproxy.Proxy, match faultproxy.Match) <-chan []string {
	seen := make(chan []string, 4096)
	p.DropCommand(func(cmd []string) bool { // a rule that never applies

		if match(cmd) {
			select {
			case seen <- cmd:
			default:
			}
		}
		return false
	}, -1)
	return seen
}

// serverClass returns the class of a *ServerError, or resp.ClassNone.
func serverClass(err error) engine.Class {
	var server *engine.ServerError
	if errors.As(err, &server) {
		return server.Class
	}
	return resp.ClassNone
}

// A witness sees two holders of one name at once. Callers enter after the grant and leave before
// they ask for the release, so two inside are two that both believed to hold.
type witness struct {
	inside     atomic.Int64
	violations atomic.Int64
}

func (w *witness) enter() {
	if w.inside.Add(1) != 1 {
		w.violations.Add(1)
	}
}

func (w *witness) leave() { w.inside.Add(-1) }

func numbered(prefix string, i int) string { return prefix + ":" + strconv.Itoa(i) }

// expiryOf reads an answer of PEXPIRETIME.
func expiryOf(tb testing.TB, text string) time.Time {
	tb.Helper()
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(tb, err)
	return time.UnixMilli(ms)
}

func errorsIsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// watchScheduler measures how long this process was not scheduled: the function it returns says by how
// much a timer of 5 ms was late at worst, four times over, for a loss is told by the alarm's goroutine to the wheel's, to
// the watchdog's and to who waits, and each has to be scheduled. A holder can be told before its deadline only if all of
// them run; on a machine that leaves them time this is next to nothing.
func watchScheduler(tb testing.TB) (worst func() time.Duration) {
	tb.Helper()
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const pause = 5 * time.Millisecond
		timer := time.NewTimer(pause)
		defer timer.Stop()
		for {
			at := time.Now().Add(pause)
			timer.Reset(pause)
			select {
			case <-stop:
				return
			case <-timer.C:
				most.Store(max(most.Load(), int64(time.Since(at))))
			}
		}
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return func() time.Duration { return 4 * time.Duration(most.Load()) }
}
