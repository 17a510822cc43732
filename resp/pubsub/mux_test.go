package pubsub_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

const subTestWait = 20 * time.Second

type subWake struct {
	cause   pubsub.WakeCause
	payload string
}

// subWaiter records its wakes.
type subWaiter struct{ wakes chan subWake }

func newSubWaiter() *subWaiter { return &subWaiter{make(chan subWake, 1024)} }

func (w *subWaiter) Wake(cause pubsub.WakeCause, payload string) { w.wakes <- subWake{cause, payload} }

func (w *subWaiter) next(t testing.TB) subWake {
	t.Helper()
	select {
	case got := <-w.wakes:
		return got
	case <-time.After(subTestWait):
		t.Fatal("no wake")
		return subWake{}
	}
}

func (w *subWaiter) expect(t testing.TB, causes ...pubsub.WakeCause) {
	t.Helper()
	for _, want := range causes {
		require.Equal(t, want, w.next(t).cause)
	}
}

// subCount counts wakes by cause.
type subCount struct{ by [5]atomic.Int64 }

func (w *subCount) Wake(cause pubsub.WakeCause, _ string) { w.by[cause].Add(1) }

func (w *subCount) await(t testing.TB, cause pubsub.WakeCause, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return w.by[cause].Load() >= n }, subTestWait, time.Millisecond,
		"%v: %d of %d", cause, w.by[cause].Load(), n)
	require.Equal(t, n, w.by[cause].Load())
}

func subClient(t testing.TB, opt rueidis.ClientOption) rueidis.Client {
	t.Helper()
	opt.DisableCache, opt.AlwaysPipelining, opt.DisableRetry = true, true, true
	opt.ForceSingleClient = true
	dial := opt.DialCtxFn
	if dial == nil {
		dial = resp.Dial
	}
	guard := new(resp.Guard)
	opt.DialCtxFn = guard.Dialer(dial)
	t.Cleanup(func() { require.Zero(t, guard.Refused(), "connections closed: %s", guard.TakeRefused()) })
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func dedicateFrom(client rueidis.Client) func(context.Context) (rueidis.DedicatedClient, func(), error) {
	return func(context.Context) (rueidis.DedicatedClient, func(), error) {
		d, release := client.Dedicate()
		return d, release, nil
	}
}

// checkSubLeaks fails the test if a goroutine is left when everything registered later is gone.
func checkSubLeaks(t testing.TB) {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
}

// subServer starts a server; at the test's end no goroutine may be left.
func subServer(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	checkSubLeaks(t)
	return redistest.Run(t, redistest.Options{Args: args})
}

// subMuxAt returns a multiplexer on addr that is closed at the test's end.
func subMuxAt(t testing.TB, addr string, cfg pubsub.Config) *pubsub.Mux {
	t.Helper()
	if cfg.Dedicate == nil {
		cfg.Dedicate = dedicateFrom(subClient(t, rueidis.ClientOption{InitAddress: []string{addr}}))
	}
	m := pubsub.New(cfg)
	t.Cleanup(m.Close)
	return m
}

func mustSubscribe(t testing.TB, m *pubsub.Mux, channel string, w pubsub.Waker) *pubsub.Sub {
	t.Helper()
	s, err := m.Subscribe(channel, w)
	require.NoError(t, err)
	return s
}

// awaitNoChannels waits until the server knows of no subscription.
func awaitNoChannels(t testing.TB, srv *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return srv.Do(t, "PUBSUB", "CHANNELS") == "" }, subTestWait, 5*time.Millisecond)
}

func TestMux(t *testing.T) {
	srv := subServer(t)

	t.Run("ConfirmsThenDeliversThePayload", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{})
		w := newSubWaiter()
		s := mustSubscribe(t, m, "{a}:ch", w)
		w.expect(t, pubsub.WakeSubscribed)
		require.True(t, s.Confirmed())
		for _, payload := range []string{"0", "", "\x00\xff\r\n", strings.Repeat("x", 1<<16)} {
			require.Equal(t, "1", srv.Do(t, "PUBLISH", "{a}:ch", payload))
			require.Equal(t, subWake{pubsub.WakeMessage, payload}, w.next(t))
		}
		require.EqualValues(t, 1, m.Stats().Subscribes)
	})

	t.Run("ReferencesShareOneSubscription", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 10 * time.Millisecond})
		w1, w2 := newSubWaiter(), newSubWaiter()
		s1 := mustSubscribe(t, m, "ch", w1)
		w1.expect(t, pubsub.WakeSubscribed)
		s2 := mustSubscribe(t, m, "ch", w2)
		w2.expect(t, pubsub.WakeSubscribed) // at once, without a command
		require.EqualValues(t, 1, m.Stats().Subscribes)
		srv.Do(t, "PUBLISH", "ch", "1")
		w1.expect(t, pubsub.WakeMessage)
		w2.expect(t, pubsub.WakeMessage)
		s1.Drop()
		s1.Drop()
		srv.Do(t, "PUBLISH", "ch", "2")
		w2.expect(t, pubsub.WakeMessage)
		require.Empty(t, w1.wakes)
		require.EqualValues(t, 1, m.Stats().Refs)
		s2.Drop()
		awaitNoChannels(t, srv)
		require.Eventually(t, func() bool { return m.Stats().Channels == 0 }, subTestWait, time.Millisecond)
	})

	t.Run("RevivesALingeringChannelWithoutACommand", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: time.Hour})
		w := newSubWaiter()
		s := mustSubscribe(t, m, "ch", w)
		w.expect(t, pubsub.WakeSubscribed)
		s.Drop()
		srv.Do(t, "PUBLISH", "ch", "nobody")
		require.Eventually(t, func() bool { return m.Stats().Unheard == 1 }, subTestWait, time.Millisecond)
		s = mustSubscribe(t, m, "ch", w)
		require.True(t, s.Confirmed())
		w.expect(t, pubsub.WakeSubscribed)
		require.EqualValues(t, 1, m.Stats().Subscribes)
		require.Empty(t, w.wakes)
	})
}

func TestMux_Many(t *testing.T) {
	srv := subServer(t)

	t.Run("C116_TenThousandChannels", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 50 * time.Millisecond})
		const n = 10_000
		w := &subCount{}
		subs := make([]*pubsub.Sub, n)
		for i := range subs {
			subs[i] = mustSubscribe(t, m, "ch"+strconv.Itoa(i), w)
		}
		w.await(t, pubsub.WakeSubscribed, n)
		require.EqualValues(t, n, m.Stats().Confirmed)
		require.Less(t, m.Stats().Rounds, int64(n/10))
		for i := range 100 {
			srv.Do(t, "PUBLISH", "ch"+strconv.Itoa(i*97), "")
		}
		w.await(t, pubsub.WakeMessage, 100)
		for _, s := range subs {
			s.Drop()
		}
		awaitNoChannels(t, srv)
		require.Eventually(t, func() bool { return m.Stats().Channels == 0 }, subTestWait, time.Millisecond)
		require.EqualValues(t, n, m.Stats().Unsubscribes)
	})

	t.Run("C111_KilledConnectionWakesEveryoneTwice", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{})
		const n = 3000
		waiters := make([]*subWaiter, n)
		for i := range waiters {
			waiters[i] = newSubWaiter()
			mustSubscribe(t, m, "ch"+strconv.Itoa(i%1000), waiters[i])
		}
		for _, w := range waiters {
			w.expect(t, pubsub.WakeSubscribed)
		}
		for range 3 {
			require.Equal(t, "1", srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub"))
			for _, w := range waiters {
				w.expect(t, pubsub.WakeLost, pubsub.WakeReconnect)
			}
		}
		require.EqualValues(t, 3, m.Stats().Reconnects)
		srv.Do(t, "PUBLISH", "ch7", "x")
		waiters[7].expect(t, pubsub.WakeMessage)
		waiters[2007].expect(t, pubsub.WakeMessage)
	})
}

func TestMux_Lingering(t *testing.T) {
	srv := subServer(t)

	t.Run("ChannelsDoNotSurviveAReconnect", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: time.Hour})
		w := newSubWaiter()
		mustSubscribe(t, m, "idle", w).Drop()
		mustSubscribe(t, m, "kept", w)
		require.Eventually(t, func() bool { return m.Stats().Confirmed >= 1 }, subTestWait, time.Millisecond)
		srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		require.Eventually(t, func() bool {
			s := m.Stats()
			return s.Reconnects == 1 && s.Confirmed == 1
		}, subTestWait, time.Millisecond)
		require.Equal(t, "kept", srv.Do(t, "PUBSUB", "CHANNELS"))
	})

	t.Run("ChannelsAreLetGoOfAtTheCap", func(t *testing.T) {
		m := subMuxAt(t, srv.Addr(), pubsub.Config{MaxChannels: 2, Linger: time.Hour})
		w := newSubWaiter()
		s := mustSubscribe(t, m, "a", w)
		mustSubscribe(t, m, "b", w)
		w.expect(t, pubsub.WakeSubscribed, pubsub.WakeSubscribed)
		_, err := m.Subscribe("c", w)
		require.ErrorIs(t, err, pubsub.ErrTooManyChannels)
		mustSubscribe(t, m, "b", w)
		w.expect(t, pubsub.WakeSubscribed)
		s.Drop()
		require.Eventually(t, func() bool {
			_, err := m.Subscribe("c", w)
			return err == nil
		}, subTestWait, time.Millisecond)
		w.expect(t, pubsub.WakeSubscribed)
	})
}

func TestMux_WakeMayCallSubscribeAndDrop(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 10 * time.Millisecond})
	const n = 200
	var done sync.WaitGroup
	done.Add(1)
	w := &subHopper{m: m, left: n, done: done.Done}
	w.hop()
	done.Wait()
	require.GreaterOrEqual(t, w.hops.Load(), int64(n))
	awaitNoChannels(t, srv)
}

// subHopper subscribes the next channel from inside Wake and drops the last one.
type subHopper struct {
	mu   sync.Mutex
	m    *pubsub.Mux
	sub  *pubsub.Sub
	left int
	hops atomic.Int64
	done func()
}

func (h *subHopper) hop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sub != nil {
		h.sub.Drop()
		h.sub = nil
	}
	if h.left--; h.left < 0 {
		if h.left == -1 {
			h.done()
		}
		return
	}
	h.sub, _ = h.m.Subscribe("hop"+strconv.Itoa(h.left%7), h)
	h.hops.Add(1)
}

func (h *subHopper) Wake(pubsub.WakeCause, string) { h.hop() }

func TestC117_RefusedChannelDoesNotHurtTheOthers(t *testing.T) {
	srv := subServer(t)
	srv.Do(t, "ACL", "SETUSER", "limited", "on", "nopass", "+@all", "allkeys", "resetchannels", "&ok*")
	client := subClient(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Username: "limited", Password: "x"})
	m := subMuxAt(t, "", pubsub.Config{
		Dedicate:     dedicateFrom(client),
		RefusedRetry: 50 * time.Millisecond,
	})
	ok, refused := &subCount{}, newSubWaiter()
	for i := range 300 {
		if i == 150 {
			s := mustSubscribe(t, m, "forbidden", refused)
			require.False(t, s.Confirmed())
		}
		mustSubscribe(t, m, "ok"+strconv.Itoa(i), ok)
	}
	ok.await(t, pubsub.WakeSubscribed, 300)
	refused.expect(t, pubsub.WakeLost)
	late := newSubWaiter()
	mustSubscribe(t, m, "forbidden", late)
	late.expect(t, pubsub.WakeLost)
	require.EqualValues(t, 300, m.Stats().Confirmed)
	require.Zero(t, m.Stats().Reconnects)

	srv.Do(t, "ACL", "SETUSER", "limited", "&forbidden")
	refused.expect(t, pubsub.WakeReconnect)
	late.expect(t, pubsub.WakeReconnect)
	srv.Do(t, "PUBLISH", "forbidden", "x")
	refused.expect(t, pubsub.WakeMessage)
	require.Zero(t, ok.by[pubsub.WakeLost].Load())
}

func TestC120_ChurnLeavesNoChannel(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: time.Microsecond})
	const workers, each = 8, 12_500
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() { churn(t, m, rand.New(rand.NewPCG(1, uint64(g))), each) })
	}
	wg.Wait()
	require.Zero(t, m.Stats().Refs)
	require.Eventually(t, func() bool { return m.Stats().Channels == 0 }, subTestWait, time.Millisecond)
	awaitNoChannels(t, srv)
	st := m.Stats()
	require.Zero(t, st.Confirmed)
	require.Zero(t, st.Lingering)
	require.EqualValues(t, 1, st.Connects)
	require.Equal(t, st.Subscribes, st.Unsubscribes)
	t.Logf("%+v", st)

	w := newSubWaiter() // and it still works
	mustSubscribe(t, m, "ch1", w)
	w.expect(t, pubsub.WakeSubscribed)
}

// churn subscribes and drops; every so often it waits for the confirmation, so that the
// server takes part.
func churn(t *testing.T, m *pubsub.Mux, rng *rand.Rand, n int) {
	ignore := &subCount{}
	var held []*pubsub.Sub
	for i := range n {
		var waker pubsub.Waker = ignore
		w := &subWaiter{}
		if i%25 == 0 {
			w = newSubWaiter()
			waker = w
		}
		s, err := m.Subscribe("ch"+strconv.Itoa(rng.IntN(200)), waker)
		if err != nil {
			t.Error(err)
			return
		}
		if i%25 == 0 {
			if got := <-w.wakes; got.cause != pubsub.WakeSubscribed {
				t.Errorf("woken with %v", got.cause)
			}
		}
		held = append(held, s)
		for len(held) > rng.IntN(3) {
			i := rng.IntN(len(held))
			held[i].Drop()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
	for _, s := range held {
		s.Drop()
	}
}

func TestMux_ChurnWithKillsEndsConfirmed(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 2 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond})
	w := &subCount{}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				s, err := m.Subscribe("ch"+strconv.Itoa((i*7+g)%50), w)
				if err != nil {
					t.Error(err)
					return
				}
				s.Drop()
			}
		})
	}
	for i := range 30 { // whether or not it has subscribed yet
		require.Eventually(t, func() bool {
			srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			srv.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			return m.Stats().Connects > int64(i)
		}, subTestWait, time.Millisecond)
	}
	close(stop)
	wg.Wait()
	last := newSubWaiter()
	for i := range 50 {
		mustSubscribe(t, m, "ch"+strconv.Itoa(i), last)
	}
	require.Eventually(t, func() bool { return m.Stats().Confirmed == 50 }, subTestWait, time.Millisecond)
	require.Eventually(t, func() bool {
		return len(strings.Fields(srv.Do(t, "PUBSUB", "CHANNELS"))) == 50
	}, subTestWait, time.Millisecond)
	require.EqualValues(t, 50, m.Stats().Channels)
}

// TestMux_UnsubscribeIsRefusedInPeace is the reason for unsubscribeCommands: with the
// client's own UNSUBSCRIBE each of these ends the process.
func TestMux_UnsubscribeIsRefusedInPeace(t *testing.T) {
	t.Run("BUSY", func(t *testing.T) {
		srv := subServer(t, "--busy-reply-threshold", "20")
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 10 * time.Millisecond, Attempt: 10 * time.Second})
		w, kept := newSubWaiter(), newSubWaiter()
		s := mustSubscribe(t, m, "ch", w)
		mustSubscribe(t, m, "kept", kept)
		w.expect(t, pubsub.WakeSubscribed)
		kept.expect(t, pubsub.WakeSubscribed)
		script := make(chan struct{})
		go func() {
			defer close(script)
			c, err := redistest.Dial(context.Background(), srv.Addr())
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Do(context.Background(), "EVAL", "while true do end", "0")
		}()
		c, err := redistest.Dial(context.Background(), srv.Addr())
		require.NoError(t, err)
		defer c.Close()
		require.Eventually(t, func() bool {
			_, err := c.Do(context.Background(), "PING")
			return err != nil && strings.HasPrefix(err.Error(), "BUSY")
		}, subTestWait, time.Millisecond)
		s.Drop()
		rounds := m.Stats().Unsubscribes
		require.Eventually(t, func() bool { return m.Stats().Unsubscribes >= rounds+3 }, subTestWait, time.Millisecond)
		_, err = c.Do(context.Background(), "SCRIPT", "KILL")
		require.NoError(t, err)
		<-script
		require.Eventually(t, func() bool { return srv.Do(t, "PUBSUB", "CHANNELS") == "kept" }, subTestWait, time.Millisecond)
		require.Zero(t, m.Stats().Reconnects)
		srv.Do(t, "PUBLISH", "kept", "x")
		kept.expect(t, pubsub.WakeMessage)
	})
	t.Run("MISCONF", func(t *testing.T) {
		srv := subServer(t, "--save", "3600 1")
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 10 * time.Millisecond})
		w, kept := newSubWaiter(), newSubWaiter()
		s := mustSubscribe(t, m, "ch", w)
		mustSubscribe(t, m, "kept", kept)
		w.expect(t, pubsub.WakeSubscribed)
		kept.expect(t, pubsub.WakeSubscribed)
		breakSaving(t, srv)
		s.Drop()
		require.Eventually(t, func() bool { return srv.Do(t, "PUBSUB", "CHANNELS") == "kept" }, subTestWait, time.Millisecond)
		mustSubscribe(t, m, "ch", w)
		w.expect(t, pubsub.WakeSubscribed)
		require.Zero(t, m.Stats().Reconnects)
		m.Close()
	})
}

// TestMux_WithoutTransactions: where MULTI cannot be had, the connection is replaced.
func TestMux_WithoutTransactions(t *testing.T) {
	t.Run("NoPermForMulti", func(t *testing.T) {
		srv := subServer(t)
		srv.Do(t, "ACL", "SETUSER", "notx", "on", "nopass", "+@all", "-multi", "allkeys", "allchannels")
		client := subClient(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Username: "notx", Password: "x"})
		m := subMuxAt(t, "", pubsub.Config{Dedicate: dedicateFrom(client), Linger: 10 * time.Millisecond})
		w := newSubWaiter()
		s := mustSubscribe(t, m, "ch", w)
		w.expect(t, pubsub.WakeSubscribed)
		s.Drop()
		awaitNoChannels(t, srv) // by ending the connection, which nobody needs
		mustSubscribe(t, m, "ch", w)
		w.expect(t, pubsub.WakeSubscribed)
		require.EqualValues(t, 2, m.Stats().Connects)
	})
	t.Run("Miniredis", func(t *testing.T) {
		checkSubLeaks(t)
		srv := miniredis.RunT(t)
		m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: 10 * time.Millisecond})
		w := newSubWaiter()
		for range 3 {
			s := mustSubscribe(t, m, "ch", w)
			w.expect(t, pubsub.WakeSubscribed)
			srv.Publish("ch", "x")
			require.Equal(t, subWake{pubsub.WakeMessage, "x"}, w.next(t))
			s.Drop()
			require.Eventually(t, func() bool { return len(srv.PubSubChannels("")) == 0 }, subTestWait, time.Millisecond)
		}
	})
}

// breakSaving makes the server unable to save, so that it answers MISCONF, to PING too.
func breakSaving(t testing.TB, srv *redistest.Server) {
	t.Helper()
	file := filepath.Join(srv.Dir(), srv.Do(t, "CONFIG", "GET", "dbfilename")[len("dbfilename\n"):])
	require.NoError(t, os.Mkdir(file, 0o700))
	srv.Do(t, "SET", "k", "v")
	srv.Do(t, "BGSAVE")
	require.Eventually(t, func() bool {
		_, err := srv.Command(t.Context(), "PING")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	}, subTestWait, time.Millisecond)
}
