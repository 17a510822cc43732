package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// apiLong bounds what must happen some time: a test that needs it has failed.
const apiLong = 20 * time.Second

// apiSoon is how long "at once" may take on a machine that is busy with other tests.
const apiSoon = 500 * time.Millisecond

// apiOpen opens an engine for one test; its Close must succeed.
func apiOpen(t testing.TB, addr string, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	e := apiOpenLoose(t, addr, change...)
	t.Cleanup(func() { assert.NoError(t, apiClose(e)) })
	return e
}

// apiOpenLoose is apiOpen for a test that leaves the engine in trouble.
func apiOpenLoose(t testing.TB, addr string, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := engine.Config{Addrs: []string{addr}}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiLong)
	defer cancel()
	e, err := engine.Open(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = apiClose(e) })
	return e
}

func apiClose(e *engine.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), apiLong)
	defer cancel()
	return e.Close(ctx)
}

// apiCtx is a context for one call that must not take long.
func apiCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), apiLong)
	t.Cleanup(cancel)
	return ctx
}

// apiAcquire takes a lock that must be free, or become so.
func apiAcquire(t testing.TB, l *engine.Lock) *engine.Lease {
	t.Helper()
	ls, err := l.Acquire(apiCtx(t))
	require.NoError(t, err)
	return ls
}

func apiRelease(t testing.TB, ls *engine.Lease) {
	t.Helper()
	require.NoError(t, ls.Release(apiCtx(t)))
}

// apiGet awaits a future that must succeed.
func apiGet[T any](t testing.TB, f *engine.Future[T]) T {
	t.Helper()
	v, err := f.Await(apiCtx(t))
	require.NoError(t, err)
	return v
}

// apiErr awaits a future that must fail.
func apiErr[T any](t testing.TB, f *engine.Future[T]) error {
	t.Helper()
	_, err := f.Await(apiCtx(t))
	require.Error(t, err)
	return err
}

// apiPending fails the test if the future has a result.
func apiPending[T any](t testing.TB, f *engine.Future[T]) {
	t.Helper()
	_, err, ok := f.Result()
	require.False(t, ok, "there is a result already, error %v", err)
}

// apiWithin fails the test unless c is closed or sends within the limit, and says how long it took.
func apiWithin[T any](t testing.TB, c <-chan T, limit time.Duration, what string) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-c:
	case <-time.After(apiLong):
		require.FailNow(t, "never: "+what)
	}
	took := time.Since(start)
	require.LessOrEqual(t, took, limit, what)
	return took
}

// apiUntil asks until ok says yes. What it waits for has no signal: a server's or an engine's state.
func apiUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(apiLong)
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for !ok() {
		require.True(t, time.Now().Before(deadline), "never: %s", what)
		<-pause.C
	}
}

// apiGone waits until the server has no keys.
func apiGone(t testing.TB, s *redistest.Server) {
	t.Helper()
	apiUntil(t, "the server has no keys", func() bool { return s.Do(t, "DBSIZE") == "0" })
}

// apiIdle waits until the engines have forgotten every name: after a release one may be remembered
// for a moment, out of courtesy to waiters elsewhere.
func apiIdle(t testing.TB, engines ...*engine.Engine) {
	t.Helper()
	for _, e := range engines {
		apiUntil(t, "the engine has forgotten every name", func() bool { return e.Stats().Names == 0 })
	}
}

// apiNoise are commands that are not the engine's, or that its client sends of itself.
//
//nolint:gochecknoglobals // a constant in all but name
var apiNoise = []string{"info", "ping", "auth", "hello", "time", "exec", "multi", "keys", "dbsize"}

// apiCalls is commandstats without the noise.
func apiCalls(t testing.TB, s *redistest.Server) map[string]int64 {
	t.Helper()
	calls, err := s.CommandStats()
	require.NoError(t, err)
	for name := range calls {
		if strings.HasPrefix(name, "client|") || strings.HasPrefix(name, "config|") {
			delete(calls, name)
		}
	}
	for _, name := range apiNoise {
		delete(calls, name)
	}
	return calls
}

// apiReset makes commandstats count from zero.
func apiReset(t testing.TB, s *redistest.Server) {
	t.Helper()
	require.Equal(t, "OK", s.Do(t, "CONFIG", "RESETSTAT"))
}

// apiInt reads a number from the server.
func apiInt(t testing.TB, s *redistest.Server, args ...string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s.Do(t, args...), 10, 64)
	require.NoError(t, err, "%q", args)
	return n
}

// apiForeign is a client that is not ours: a raw connection on which a test plays Redisson.
type apiForeign struct {
	t     testing.TB
	conn  *redistest.Conn
	field string
}

func apiNewForeign(t testing.TB, s *redistest.Server) *apiForeign {
	t.Helper()
	conn, err := s.Dial(apiCtx(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &apiForeign{t: t, conn: conn, field: "6e3814a1-e847-452b-a982-45baf93a1df2:57"}
}

func (f *apiForeign) do(args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), apiLong)
	defer cancel()
	v, err := f.conn.Do(ctx, args...)
	require.NoError(f.t, err, "%q", args)
	return redistest.Text(v)
}

// lock takes a name that must be free.
func (f *apiForeign) lock(name string, lease time.Duration) {
	f.t.Helper()
	require.True(f.t, f.tryLock(name, lease), "%q is not free", name)
}

// tryLock is what Redisson's acquire does: if the key is absent, one field and an expiry.
func (f *apiForeign) tryLock(name string, lease time.Duration) bool {
	f.t.Helper()
	return f.do("EVAL", `if redis.call('exists', KEYS[1]) == 1 then return 'held' end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		redis.call('pexpire', KEYS[1], ARGV[2])
		return 'taken'`, "1", name, f.field, strconv.FormatInt(lease.Milliseconds(), 10)) == "taken"
}

// unlock is what Redisson's release does: the key goes, the message comes.
func (f *apiForeign) unlock(name string) {
	f.t.Helper()
	f.do("EVAL", `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('not the holder') end
		redis.call('del', KEYS[1])
		redis.call('publish', ARGV[2], '0')
		return 'ok'`, "1", name, f.field, apiChannel(name))
}

// apiChannel is a lock's channel, from REDISSON.md appendix A, not from the product.
func apiChannel(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}

// apiParked waits until n acquires of an engine are queued and the channel of the name is heard by
// that many subscribers.
func apiParked(t testing.TB, s *redistest.Server, name string, subscribers int, waits int64, engines ...*engine.Engine) {
	t.Helper()
	apiUntil(t, fmt.Sprintf("%d subscribers and %d waiters for %q", subscribers, waits, name), func() bool {
		var woken, waiting int64
		for _, e := range engines {
			stats := e.Stats()
			waiting += stats.Waiting
			woken += stats.WokenBySubscribe
		}
		return waiting == waits && woken >= int64(len(engines)) &&
			s.Do(t, "PUBSUB", "NUMSUB", apiChannel(name)) == apiChannel(name)+"\n"+strconv.Itoa(subscribers)
	})
}

// apiLog is a slog.Handler that remembers what was said.
type apiLog struct {
	mu    sync.Mutex
	lines []string
}

func apiLogger() (*slog.Logger, *apiLog) {
	log := &apiLog{}
	return slog.New(log), log
}

func (l *apiLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *apiLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *apiLog) WithGroup(string) slog.Handler            { return l }

func (l *apiLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// with returns the lines that have all the parts.
func (l *apiLog) with(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
line:
	for _, text := range l.lines {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				continue line
			}
		}
		found = append(found, text)
	}
	return found
}
