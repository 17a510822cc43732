package pubsub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// gatedClient holds pipelines back before they are sent, or before their answers are
// looked at, and can lose messages.
type gatedClient struct {
	rueidis.DedicatedClient
	before, after func(cmds string)
	swallow       *atomic.Bool
}

func (c *gatedClient) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	var text strings.Builder
	for _, cmd := range multi {
		text.WriteString(strings.Join(cmd.Commands(), " ") + "\n")
	}
	if c.before != nil {
		c.before(text.String())
	}
	res := c.DedicatedClient.DoMulti(ctx, multi...)
	if c.after != nil {
		c.after(text.String())
	}
	return res
}

func (c *gatedClient) SetPubSubHooks(h rueidis.PubSubHooks) <-chan error {
	if c.swallow != nil {
		onMessage := h.OnMessage
		h.OnMessage = func(msg rueidis.PubSubMessage) {
			if !c.swallow.Load() {
				onMessage(msg)
			}
		}
	}
	return c.DedicatedClient.SetPubSubHooks(h)
}

// gated opens connections to addr through g.
func gated(t testing.TB, addr string, g gatedClient) func(context.Context) (rueidis.DedicatedClient, func(), error) {
	client := subClient(t, rueidis.ClientOption{InitAddress: []string{addr}})
	return func(context.Context) (rueidis.DedicatedClient, func(), error) {
		d, release := client.Dedicate()
		c := g
		c.DedicatedClient = d
		return &c, release, nil
	}
}

func TestMux_SubscribeDuringUnsubscribe(t *testing.T) {
	for _, point := range []string{"BeforeItIsSent", "BeforeItsAnswerIsSeen"} {
		t.Run(point, func(t *testing.T) {
			srv := subServer(t)
			inFlight, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			hold := func(cmds string) {
				if strings.Contains(cmds, "UNSUBSCRIBE") {
					once.Do(func() { close(inFlight); <-goOn })
				}
			}
			g := gatedClient{before: hold}
			if point == "BeforeItsAnswerIsSeen" {
				g = gatedClient{after: hold}
			}
			m := subMuxAt(t, "", pubsub.Config{Dedicate: gated(t, srv.Addr(), g), Linger: time.Millisecond})
			w := newSubWaiter()
			s := mustSubscribe(t, m, "ch", w)
			w.expect(t, pubsub.WakeSubscribed)
			s.Drop()
			<-inFlight
			s = mustSubscribe(t, m, "ch", w)
			require.False(t, s.Confirmed())
			close(goOn)
			w.expect(t, pubsub.WakeSubscribed)
			require.True(t, s.Confirmed())
			require.Equal(t, "1", srv.Do(t, "PUBLISH", "ch", "x"))
			w.expect(t, pubsub.WakeMessage)
			require.EqualValues(t, 2, m.Stats().Subscribes)
		})
	}
}

// Who comes while an unsubscription is on its way that the server then refuses is subscribed as ever, and told so: nobody
// else would wake it, for there is nothing to subscribe.
func TestMux_SubscribeDuringAnUnsubscribeThatIsRefused(t *testing.T) {
	srv := subServer(t)
	inFlight, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(cmds string) {
		if strings.Contains(cmds, "UNSUBSCRIBE") {
			once.Do(func() { close(inFlight); <-goOn })
		}
	}
	srv.Do(t, "ACL", "SETUSER", "default", "-unsubscribe")
	m := subMuxAt(t, "", pubsub.Config{Dedicate: gated(t, srv.Addr(), gatedClient{before: hold}), Linger: time.Millisecond})
	first, late := newSubWaiter(), newSubWaiter()
	s := mustSubscribe(t, m, "ch", first)
	first.expect(t, pubsub.WakeSubscribed)
	s.Drop()
	<-inFlight
	s = mustSubscribe(t, m, "ch", late)
	require.False(t, s.Confirmed())
	close(goOn)
	late.expect(t, pubsub.WakeSubscribed)
	require.True(t, s.Confirmed())
	require.Equal(t, "1", srv.Do(t, "PUBLISH", "ch", "x"))
	late.expect(t, pubsub.WakeMessage)
	require.EqualValues(t, 1, m.Stats().Subscribes)
}

func TestMux_DropDuringSubscribeLingersAndGoes(t *testing.T) {
	srv := subServer(t)
	inFlight, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(string) { once.Do(func() { close(inFlight); <-goOn }) }
	m := subMuxAt(t, "", pubsub.Config{Dedicate: gated(t, srv.Addr(), gatedClient{before: hold}), Linger: time.Millisecond})
	w := newSubWaiter()
	s := mustSubscribe(t, m, "ch", w)
	<-inFlight
	s.Drop()
	close(goOn)
	require.Eventually(t, func() bool { return m.Stats().Channels == 0 }, subTestWait, time.Millisecond)
	awaitNoChannels(t, srv)
	require.Empty(t, w.wakes)
}

func TestMux_SilentServerIsGivenUp(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{Attempt: 100 * time.Millisecond})
	w := newSubWaiter()
	mustSubscribe(t, m, "a", w)
	w.expect(t, pubsub.WakeSubscribed)
	srv.Pause()
	w2 := newSubWaiter()
	mustSubscribe(t, m, "b", w2)
	w.expect(t, pubsub.WakeLost)
	w2.expect(t, pubsub.WakeLost)
	srv.Resume()
	w.expect(t, pubsub.WakeReconnect)
	w2.expect(t, pubsub.WakeReconnect)
}

func TestC117_DialFailureIsToldOnce(t *testing.T) {
	srv := subServer(t)
	open := dedicateFrom(subClient(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}}))
	var refuse atomic.Bool
	refuse.Store(true)
	var dials atomic.Int64
	boom := errors.New("max number of clients reached")
	m := subMuxAt(t, "", pubsub.Config{
		BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond,
		Dedicate: func(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
			dials.Add(1)
			if refuse.Load() {
				return nil, nil, boom
			}
			return open(ctx)
		},
	})
	require.Zero(t, dials.Load(), "lazy")
	w := newSubWaiter()
	mustSubscribe(t, m, "ch", w)
	w.expect(t, pubsub.WakeLost)
	require.Eventually(t, func() bool { return dials.Load() > 20 }, subTestWait, time.Millisecond)
	require.Empty(t, w.wakes)
	for i := range 1000 { // what nobody waits for any more does not pile up
		s := mustSubscribe(t, m, "gone"+strconv.Itoa(i), w)
		s.Drop()
	}
	require.Eventually(t, func() bool { return m.Stats().Channels == 1 }, subTestWait, time.Millisecond)
	for len(w.wakes) > 0 {
		<-w.wakes
	}
	refuse.Store(false)
	w.expect(t, pubsub.WakeReconnect)
}

func TestMux_DeadServerAtFirstDial(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{})
	srv.Kill()
	w := newSubWaiter()
	mustSubscribe(t, m, "ch", w)
	w.expect(t, pubsub.WakeLost)
	require.NoError(t, srv.Restart(t.Context()))
	w.expect(t, pubsub.WakeReconnect)
}

func TestC112_ProbeFindsSwallowedMessages(t *testing.T) {
	srv := subServer(t)
	var swallow atomic.Bool
	m := subMuxAt(t, "", pubsub.Config{
		Dedicate:   gated(t, srv.Addr(), gatedClient{swallow: &swallow}),
		ProbeEvery: 30 * time.Millisecond,
	})
	w := newSubWaiter()
	mustSubscribe(t, m, "ch", w)
	w.expect(t, pubsub.WakeSubscribed)
	require.Eventually(t, func() bool { return m.Stats().Probes > 5 }, subTestWait, time.Millisecond)
	require.Zero(t, m.Stats().Reconnects)
	require.Zero(t, m.Stats().Messages)
	swallow.Store(true)
	w.expect(t, pubsub.WakeLost)
	swallow.Store(false)
	w.expect(t, pubsub.WakeReconnect)
	require.Positive(t, m.Stats().ProbesLost)
}

func TestMux_ProbeIsOffWhereTheACLForbidsIt(t *testing.T) {
	srv := subServer(t)
	srv.Do(t, "ACL", "SETUSER", "limited", "on", "nopass", "+@all", "allkeys", "resetchannels", "&ch")
	client := subClient(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Username: "limited", Password: "x"})
	off := make(chan pubsub.Event, 100)
	m := subMuxAt(t, "", pubsub.Config{
		Dedicate:   dedicateFrom(client),
		ProbeEvery: time.Millisecond,
		OnEvent: func(e pubsub.Event) {
			if e.Kind == pubsub.ProbeOff {
				off <- e
			}
		},
	})
	w := newSubWaiter()
	mustSubscribe(t, m, "ch", w)
	w.expect(t, pubsub.WakeSubscribed)
	require.ErrorContains(t, (<-off).Err, "NOPERM")
	srv.Do(t, "PUBLISH", "ch", "x")
	w.expect(t, pubsub.WakeMessage)
	require.Zero(t, m.Stats().Probes)
	require.Zero(t, m.Stats().Reconnects)
}

func TestMux_CloseWithEverythingInFlight(t *testing.T) {
	srv := subServer(t)
	m := subMuxAt(t, srv.Addr(), pubsub.Config{Linger: time.Millisecond})
	var closed atomic.Bool
	w := &lateWaiter{t: t, closed: &closed}
	first := newSubWaiter()
	mustSubscribe(t, m, "first", first)
	first.expect(t, pubsub.WakeSubscribed)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				s, err := m.Subscribe("ch"+strconv.Itoa(i%100+g), w)
				if err != nil {
					require.ErrorIs(t, err, pubsub.ErrClosed)
					return
				}
				s.Drop()
			}
		})
	}
	require.Eventually(t, func() bool { return m.Stats().Unsubscribes > 10 }, subTestWait, time.Millisecond)
	srv.Pause()
	begun := time.Now()
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(m.Close)
	}
	closers.Wait()
	require.Less(t, time.Since(begun), 3*time.Second)
	closed.Store(true)
	srv.Resume()
	close(stop)
	wg.Wait()
	_, err := m.Subscribe("ch", w)
	require.ErrorIs(t, err, pubsub.ErrClosed)
}

// lateWaiter fails the test when it is woken after Close.
type lateWaiter struct {
	t      *testing.T
	closed *atomic.Bool
}

func (w *lateWaiter) Wake(pubsub.WakeCause, string) {
	if w.closed.Load() {
		w.t.Error("woken after Close")
	}
}

func TestMux_CloseBeforeAnything(t *testing.T) {
	checkSubLeaks(t)
	m := subMuxAt(t, "", pubsub.Config{Dedicate: func(context.Context) (rueidis.DedicatedClient, func(), error) {
		t.Error("dialled")
		return nil, nil, errors.New("no")
	}})
	m.Close()
	m.Close()
}

func TestMux_WithoutRESP3TheWaiterPolls(t *testing.T) {
	srv := subServer(t)
	client := subClient(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, AlwaysRESP2: true})
	lost := make(chan error, 100)
	m := subMuxAt(t, "", pubsub.Config{Dedicate: dedicateFrom(client), OnEvent: func(e pubsub.Event) {
		if e.Kind == pubsub.Lost {
			lost <- e.Err
		}
	}})
	w := newSubWaiter()
	mustSubscribe(t, m, "ch", w)
	w.expect(t, pubsub.WakeLost)
	require.ErrorIs(t, <-lost, rueidis.ErrRESP2PubSubMixed)
}

func TestMux_Sharded(t *testing.T) {
	checkSubLeaks(t)
	cluster := redistest.RunCluster(t, 3, 0)
	owner, err := cluster.Owner(t.Context(), 0)
	require.NoError(t, err)
	slots := map[string]bool{}
	var names []string // of many slots, all on owner
	for i := 0; len(names) < 300; i++ {
		name := "ch" + strconv.Itoa(i)
		if slot := owner.Do(t, "CLUSTER", "KEYSLOT", name); atoi(t, slot) < 5000 {
			names, slots[slot] = append(names, name), true
		}
	}
	require.Greater(t, len(slots), 100)
	m := subMuxAt(t, owner.Addr(), pubsub.Config{Sharded: true, Linger: 5 * time.Millisecond})
	w := &subCount{}
	subs := map[string]*pubsub.Sub{}
	for _, name := range names {
		subs[name] = mustSubscribe(t, m, name, w)
	}
	w.await(t, pubsub.WakeSubscribed, 300)
	require.Equal(t, "1", owner.Do(t, "SPUBLISH", names[0], "x"))
	w.await(t, pubsub.WakeMessage, 1)

	for _, name := range names[1:] {
		subs[name].Drop()
	}
	require.Eventually(t, func() bool { return m.Stats().Channels == 1 }, subTestWait, time.Millisecond)
	require.Equal(t, names[0], owner.Do(t, "PUBSUB", "SHARDCHANNELS"))

	// The slot moves away: the server unsubscribes of itself, and refuses from then on.
	slot := owner.Do(t, "CLUSTER", "KEYSLOT", names[0])
	other, err := cluster.Owner(t.Context(), 16383)
	require.NoError(t, err)
	id, back := other.Do(t, "CLUSTER", "MYID"), owner.Do(t, "CLUSTER", "MYID")
	give := func(to string) {
		other.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", to)
		owner.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", to)
	}
	give(id)
	require.Eventually(t, func() bool { return w.by[pubsub.WakeLost].Load() > 0 }, subTestWait, time.Millisecond)
	require.Positive(t, m.Stats().Moved)
	require.Eventually(t, func() bool { return m.Stats().Refused > 0 }, subTestWait, time.Millisecond)
	require.Eventually(t, func() bool { // gossip may undo the first attempts
		give(back)
		return w.by[pubsub.WakeReconnect].Load() > 0 && subs[names[0]].Confirmed()
	}, subTestWait, 10*time.Millisecond)
	require.EqualValues(t, 1, m.Stats().Connects)
}

// TestMux_ReadsRedis6 covers rueidis' other way of reading a transaction's answer, which
// it takes when the server says that its version is 6.
func TestMux_ReadsRedis6(t *testing.T) {
	srv := subServer(t)
	client := subClient(t, rueidis.ClientOption{
		InitAddress: []string{srv.Addr()},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			return &redis6Conn{Conn: conn}, err
		},
	})
	m := subMuxAt(t, "", pubsub.Config{Dedicate: dedicateFrom(client), Linger: time.Millisecond})
	kept := newSubWaiter()
	mustSubscribe(t, m, "kept", kept)
	kept.expect(t, pubsub.WakeSubscribed)
	for _, n := range []int{1, 1, 2, 3, 300, 1} {
		w := &subCount{}
		var subs []*pubsub.Sub
		for i := range n {
			subs = append(subs, mustSubscribe(t, m, "ch"+strconv.Itoa(i), w))
		}
		w.await(t, pubsub.WakeSubscribed, int64(n))
		for _, s := range subs {
			s.Drop()
		}
		require.Eventually(t, func() bool { return m.Stats().Channels == 1 }, subTestWait, time.Millisecond)
		require.Equal(t, "kept", srv.Do(t, "PUBSUB", "CHANNELS"))
	}
	srv.Do(t, "PUBLISH", "kept", "x")
	kept.expect(t, pubsub.WakeMessage)
	require.EqualValues(t, 1, m.Stats().Connects)
}

// redis6Conn makes the server's version in the answer to HELLO begin with 6.
type redis6Conn struct {
	net.Conn
	done bool
}

func (c *redis6Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if i := bytes.Index(b[:n], []byte("\r\nversion\r\n$")); i >= 0 && !c.done {
		rest := b[i+len("\r\nversion\r\n$") : n]
		if j := bytes.IndexByte(rest, '\n'); j >= 0 && j+1 < len(rest) {
			rest[j+1], c.done = '6', true
		}
	}
	return n, err
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func BenchmarkMuxRevive(b *testing.B) {
	m := pubsub.New(pubsub.Config{Linger: time.Hour, Dedicate: func(context.Context) (rueidis.DedicatedClient, func(), error) {
		return nil, nil, errors.New("none")
	}})
	defer m.Close()
	w := &subCount{}
	b.ReportAllocs()
	for b.Loop() {
		s, err := m.Subscribe("ch", w)
		if err != nil {
			b.Fatal(err)
		}
		s.Drop()
	}
}
