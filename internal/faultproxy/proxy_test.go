package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup starts a server and a proxy before it.
func setup(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	return s, faultproxy.Run(t, s.Addr())
}

// dial opens a raw connection through the proxy; hello "3" switches it to RESP3.
func dial(t *testing.T, p *faultproxy.Proxy, hello string) *redistest.Conn {
	t.Helper()
	c, err := redistest.Dial(t.Context(), p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if hello != "" {
		do(t, c, "HELLO", hello)
	}
	return c
}

func do(t *testing.T, c *redistest.Conn, args ...string) any {
	t.Helper()
	v, err := c.Do(limited(t), args...)
	require.NoError(t, err, "%q", args)
	return v
}

func receive(t *testing.T, c *redistest.Conn) any {
	t.Helper()
	v, err := c.Receive(limited(t))
	require.NoError(t, err)
	return v
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wait(t *testing.T, c <-chan []string) []string {
	t.Helper()
	select {
	case what := <-c:
		return what
	case <-limited(t).Done():
		require.FailNow(t, "no signal")
		return nil
	}
}

// requireCut checks that nothing but the end of the connection arrives.
func requireCut(t *testing.T, c *redistest.Conn) {
	t.Helper()
	_, err := c.Receive(limited(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// requireSilence checks that nothing arrives, by a short wait: there is no signal for
// what does not happen.
func requireSilence(t *testing.T, c *redistest.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.Receive(t.Context())
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, c.SetReadDeadline(time.Time{}))
}

func TestProxyIsTransparent(t *testing.T) {
	_, p := setup(t)
	for _, hello := range []string{"", "3"} {
		c := dial(t, p, hello)
		big := strings.Repeat("x", 1<<20)
		require.Equal(t, "OK", do(t, c, "SET", "big", big))
		require.Equal(t, big, do(t, c, "GET", "big"))
		require.Nil(t, do(t, c, "GET", "none"))
		require.Equal(t, []any{"a", int64(1), []any{}}, do(t, c, "EVAL", "return {'a', 1, {}}", "0"))
		_, err := c.Do(limited(t), "NOSUCH")
		require.ErrorContains(t, err, "unknown command")
		require.NoError(t, p.Idle(limited(t)))
	}
	require.Equal(t, 2, p.Count("set"))
	require.Equal(t, 1, p.Stats().Commands["HELLO"])
	require.Equal(t, 2, p.Stats().Accepted)
	require.Equal(t, 2, p.Stats().Open)
}

func TestProxyKeepsPipelinesInOrder(t *testing.T) {
	_, p := setup(t)
	p.Delay(time.Millisecond, time.Millisecond)
	var running sync.WaitGroup
	for range 4 {
		c := dial(t, p, "3")
		running.Go(func() {
			for i := range 2000 {
				_ = c.Send("ECHO", strconv.Itoa(i))
			}
		})
		running.Go(func() {
			for i := range 2000 {
				v, err := c.Receive(t.Context())
				if err != nil || v != strconv.Itoa(i) {
					t.Errorf("reply %d: %v, %v", i, v, err)
					return
				}
			}
		})
	}
	running.Wait()
	require.Equal(t, 8000, p.Count("echo"))
}

func TestDropReply(t *testing.T) {
	t.Run("CutExecutesAndLosesTheAnswer", func(t *testing.T) {
		s, p := setup(t)
		c, other := dial(t, p, "3"), dial(t, p, "3")
		rule := p.DropReply(faultproxy.Argument("incr", "n"), 1)
		require.NoError(t, c.Send("INCR", "before"))
		require.NoError(t, c.Send("INCR", "n"))
		require.EqualValues(t, 1, receive(t, c))
		requireCut(t, c)
		require.Equal(t, []string{"INCR", "n"}, wait(t, rule.C()))
		require.Equal(t, []string{"INCR", "n"}, wait(t, p.Dropped()))
		require.Equal(t, "1", s.Do(t, "GET", "n"))
		require.EqualValues(t, 2, do(t, other, "INCR", "n"), "the rule is spent")
		require.Equal(t, 1, p.Stats().RepliesDropped)
		require.Equal(t, 1, rule.Hits())
	})
	t.Run("HangKeepsTheConnectionOpen", func(t *testing.T) {
		s, p := setup(t)
		c := dial(t, p, "3")
		rule := p.DropReply(faultproxy.Command("INCR"), 1, faultproxy.Hang)
		require.NoError(t, c.Send("INCR", "n"))
		wait(t, rule.C())
		require.NoError(t, c.Send("INCR", "n"))
		requireSilence(t, c)
		require.NoError(t, p.Idle(limited(t)))
		require.Equal(t, "2", s.Do(t, "GET", "n"), "commands still arrive")
	})
	t.Run("Remove", func(t *testing.T) {
		_, p := setup(t)
		c := dial(t, p, "")
		p.DropReply(faultproxy.Any, -1).Remove()
		require.Equal(t, "PONG", do(t, c, "PING"))
	})
	t.Run("CountsToNAcrossConnections", func(t *testing.T) {
		s, p := setup(t)
		p.DropReply(faultproxy.Command("incr"), 3)
		for range 3 {
			c := dial(t, p, "")
			require.NoError(t, c.Send("INCR", "n"))
			requireCut(t, c)
		}
		require.EqualValues(t, 4, do(t, dial(t, p, ""), "INCR", "n"))
		require.Equal(t, "4", s.Do(t, "GET", "n"))
	})
	t.Run("SubscriptionsAreConfirmedByPushes", func(t *testing.T) {
		s, p := setup(t)
		c := dial(t, p, "3")
		rule := p.DropReply(faultproxy.Command("SUBSCRIBE"), 1)
		require.NoError(t, c.Send("SUBSCRIBE", "a", "b"))
		requireCut(t, c)
		wait(t, rule.C())
		require.Empty(t, s.Do(t, "PUBSUB", "CHANNELS"))
	})
}

// The matching must survive everything that has no reply of its own, or another one
// than expected.
func TestRepliesAreMatchedAroundPubSub(t *testing.T) {
	s, p := setup(t)
	c := dial(t, p, "3")
	s.Do(t, "ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "resetchannels", "&ok*")
	do(t, c, "AUTH", "u", "any")
	for _, cmd := range [][]string{
		{"SUBSCRIBE", "ok1", "ok2"},
		{"PSUBSCRIBE", "ok*"},
		{"SSUBSCRIBE", "ok3"},
		{"SUBSCRIBE", "forbidden"},
		{"UNSUBSCRIBE"},
		{"PUBLISH", "ok1", "hi"},
		{"PUNSUBSCRIBE", "ok*"},
		{"SUNSUBSCRIBE"},
		{"UNSUBSCRIBE"},
		{"MULTI"},
		{"PING"},
		{"EXEC"},
		{"INCR", "n"},
		{"ECHO", "last"},
	} {
		require.NoError(t, c.Send(cmd...))
	}
	rule := p.DropReply(faultproxy.Argument("ECHO", "dropped"), 1)
	require.NoError(t, c.Send("ECHO", "dropped"))
	var replies []any
	for {
		v, err := c.Receive(limited(t))
		if err != nil {
			var refused redistest.ReplyError
			if errors.As(err, &refused) {
				replies = append(replies, "error")
				continue
			}
			break
		}
		if _, ok := v.(redistest.Push); !ok {
			replies = append(replies, v)
		}
	}
	require.Equal(t, []any{"error", int64(1), "OK", "QUEUED", []any{"PONG"}, int64(1), "last"}, replies)
	require.Equal(t, []string{"ECHO", "dropped"}, wait(t, rule.C()))
}

func TestDropCommand(t *testing.T) {
	s, p := setup(t)
	c := dial(t, p, "3")
	rule := p.DropCommand(faultproxy.Command("INCR"), 1)
	for range 100 {
		require.NoError(t, c.Send("PING"))
	}
	require.NoError(t, c.Send("SUBSCRIBE", "ch"))
	require.NoError(t, c.Send("INCR", "n"))
	for range 100 {
		require.Equal(t, "PONG", receive(t, c), "what came before is answered")
	}
	require.Equal(t, redistest.Push{"subscribe", "ch", int64(1)}, receive(t, c))
	requireCut(t, c)
	require.Equal(t, []string{"INCR", "n"}, wait(t, rule.C()))
	require.Empty(t, s.Keys(t))
	require.EqualValues(t, 1, do(t, dial(t, p, ""), "INCR", "n"))
	require.Equal(t, 1, p.Stats().CommandsDropped)
}

func TestRefuseAnswersInTurnAndTheServerNeverSeesTheCommand(t *testing.T) {
	s, p := setup(t)
	c := dial(t, p, "")
	r := p.Refuse(faultproxy.Argument("SET", "b"), 1, "ERR not today: with spaces")
	require.NoError(t, c.Send("SET", "a", "1"))
	require.NoError(t, c.Send("SET", "b", "1"))
	require.NoError(t, c.Send("SET", "b", "2"))
	require.Equal(t, "OK", receive(t, c))
	_, err := c.Receive(limited(t))
	require.ErrorContains(t, err, "ERR not today: with spaces")
	require.Equal(t, "OK", receive(t, c), "once")
	require.Equal(t, []string{"SET", "b", "1"}, wait(t, r.C()))
	require.Equal(t, "2", s.Do(t, "GET", "b"))
}

func TestRedirectLeadsNewConnectionsElsewhere(t *testing.T) {
	s, p := setup(t)
	other := redistest.Run(t, redistest.Options{})
	old := dial(t, p, "")
	do(t, old, "SET", "a", "old")
	p.Redirect(other.Addr())
	do(t, old, "SET", "b", "old")
	do(t, dial(t, p, ""), "SET", "a", "new")
	require.Equal(t, "old", s.Do(t, "GET", "b"))
	require.Equal(t, "old", s.Do(t, "GET", "a"))
	require.Equal(t, "new", other.Do(t, "GET", "a"))
}

func TestDropMessages(t *testing.T) {
	for _, hello := range []string{"", "3"} {
		t.Run("HELLO="+hello, func(t *testing.T) {
			s, p := setup(t)
			c := dial(t, p, hello)
			for _, cmd := range [][]string{{"SUBSCRIBE", "lossy", "good"}, {"PSUBSCRIBE", "lo*"}, {"SSUBSCRIBE", "lossy"}} {
				require.NoError(t, c.Send(cmd...))
			}
			for range 4 {
				receive(t, c)
			}
			rule := p.DropMessages(func(channel string) bool { return channel == "lossy" })
			require.Equal(t, "2", s.Do(t, "PUBLISH", "lossy", "1"))
			require.Equal(t, "1", s.Do(t, "SPUBLISH", "lossy", "1"))
			kinds := []string{wait(t, rule.C())[0], wait(t, rule.C())[0], wait(t, rule.C())[0]}
			require.ElementsMatch(t, []string{"message", "pmessage", "smessage"}, kinds)
			s.Do(t, "PUBLISH", "good", "2")
			require.Contains(t, fmt.Sprint(receive(t, c)), "good")
			rule.Remove()
			s.Do(t, "SPUBLISH", "lossy", "3")
			require.Contains(t, fmt.Sprint(receive(t, c)), "smessage")
			require.Equal(t, 3, p.Stats().MessagesDropped)
		})
	}
}

func TestProbabilityRepeatsForASeed(t *testing.T) {
	a, b := faultproxy.Probability(0.5, 7), faultproxy.Probability(0.5, 7)
	hits := 0
	for range 1000 {
		x := a("")
		require.Equal(t, x, b(""))
		if x {
			hits++
		}
	}
	require.InDelta(t, 500, hits, 100)
}

func TestHold(t *testing.T) {
	t.Run("LateCopyRunsAfterItsClientIsGone", func(t *testing.T) {
		s, p := setup(t)
		for _, hard := range []bool{false, true} {
			c := dial(t, p, "3")
			hold := p.Hold(faultproxy.Command("SET"), 1)
			require.EqualValues(t, 0, do(t, c, "EXISTS", "key"))
			require.NoError(t, c.Send("SET", "key", "late"))
			require.NoError(t, c.Send("APPEND", "key", "r"))
			require.Equal(t, []string{"SET", "key", "late"}, wait(t, hold.C()))
			if hard {
				require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
			}
			require.NoError(t, c.Close())

			again := dial(t, p, "3")
			require.Equal(t, "OK", do(t, again, "SET", "key", "early"), "only one copy is held")
			require.Eventually(t, func() bool { return p.Count("APPEND") > 0 }, 5*time.Second, time.Millisecond)
			require.GreaterOrEqual(t, p.ReleaseCommands(), 1)
			require.NoError(t, p.Idle(limited(t)))
			require.Contains(t, s.Do(t, "GET", "key"), "late")
			do(t, again, "DEL", "key")
		}
	})
	t.Run("AllAndReleasedToALivingClient", func(t *testing.T) {
		s, p := setup(t)
		c := dial(t, p, "")
		require.Equal(t, "PONG", do(t, c, "PING"))
		rule := p.HoldCommands()
		for range 10 {
			require.NoError(t, c.Send("INCR", "n"))
		}
		for range 10 {
			wait(t, rule.C())
		}
		require.Empty(t, s.Keys(t))
		require.Equal(t, 10, p.ReleaseCommands())
		for i := range 10 {
			require.EqualValues(t, i+1, receive(t, c))
		}
		require.EqualValues(t, 11, do(t, c, "INCR", "n"))
	})
	t.Run("TheNextIsHeldFromTheMomentThatTheFirstAreReleased", func(t *testing.T) {
		s, p := setup(t)
		c := dial(t, p, "")
		first := p.Hold(faultproxy.Command("SET"), -1)
		require.NoError(t, c.Send("SET", "key", "held"))
		wait(t, first.C())
		next := p.HoldNext(faultproxy.Command("APPEND"), 1)
		require.Equal(t, "OK", receive(t, c))
		require.NoError(t, c.Send("APPEND", "key", ", too"))
		require.Equal(t, []string{"APPEND", "key", ", too"}, wait(t, next.C()))
		require.Equal(t, "held", s.Do(t, "GET", "key"))
		require.Equal(t, 1, p.ReleaseCommands())
		require.EqualValues(t, len("held, too"), receive(t, c))
	})
	t.Run("IdleWaitsForHeldCommands", func(t *testing.T) {
		_, p := setup(t)
		c := dial(t, p, "")
		rule := p.HoldCommands()
		require.NoError(t, c.Send("PING"))
		wait(t, rule.C())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.Idle(ctx), context.DeadlineExceeded)
		p.CutAll()
		require.NoError(t, p.Idle(limited(t)))
	})
}

func TestPauseIsABlackHole(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p, "")
	do(t, c, "PING")
	p.Pause()
	p.Pause()
	require.NoError(t, c.Send("INCR", "n"))
	requireSilence(t, c)
	fresh := dial(t, p, "")
	require.NoError(t, fresh.Send("INCR", "n"))
	requireSilence(t, fresh)
	p.Resume()
	p.Resume()
	require.ElementsMatch(t, []any{int64(1), int64(2)}, []any{receive(t, c), receive(t, fresh)})
}

func TestCutAllResets(t *testing.T) {
	s, p := setup(t)
	c := dial(t, p, "")
	do(t, c, "PING")
	p.CutAll()
	_, err := c.Receive(limited(t))
	require.ErrorContains(t, err, "reset")
	require.Zero(t, p.Stats().Open)
	require.Equal(t, "PONG", do(t, dial(t, p, ""), "PING"))
	require.Equal(t, "PONG", s.Do(t, "PING"))
}

func TestRefuseNew(t *testing.T) {
	_, p := setup(t)
	old := dial(t, p, "")
	do(t, old, "PING")
	p.RefuseNew(true)
	if c, err := redistest.Dial(t.Context(), p.Addr()); err == nil {
		_, err = c.Do(limited(t), "PING")
		require.Error(t, err)
		_ = c.Close()
	}
	do(t, old, "PING")
	p.RefuseNew(false)
	do(t, dial(t, p, ""), "PING")
	require.Equal(t, 1, p.Stats().Refused)
}

func TestDelayIsLatencyNotThroughput(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p, "")
	do(t, c, "PING")
	const delay = 30 * time.Millisecond
	p.Delay(delay, delay)
	start := time.Now()
	for range 100 {
		require.NoError(t, c.Send("PING"))
	}
	for range 100 {
		receive(t, c)
	}
	require.GreaterOrEqual(t, time.Since(start), 2*delay)
	require.Less(t, time.Since(start), 50*delay)
}

func TestBackendDownIsRefused(t *testing.T) {
	s, p := setup(t)
	c := dial(t, p, "")
	do(t, c, "PING")
	s.Kill()
	requireCut(t, c)
	if c, err := redistest.Dial(t.Context(), p.Addr()); err == nil {
		_, err = c.Do(limited(t), "PING")
		require.Error(t, err)
		_ = c.Close()
	}
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, "PONG", do(t, dial(t, p, ""), "PING"))
}

func TestCloseEndsEverything(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p, "")
	p.HoldCommands()
	p.Pause()
	require.NoError(t, c.Send("PING"))
	p.Close()
	p.Close()
	_, err := c.Receive(limited(t))
	require.Error(t, err)
	_, err = redistest.Dial(t.Context(), p.Addr())
	require.Error(t, err)
}

func TestProtocolErrorClosesTheConnection(t *testing.T) {
	_, p := setup(t)
	c := dial(t, p, "")
	_, err := io.WriteString(c, "PING\r\n")
	require.NoError(t, err)
	requireCut(t, c)
}

// newClient opens a rueidis client that never re-sends by itself.
func newClient(t *testing.T, p *faultproxy.Proxy) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		AlwaysPipelining: true, PipelineMultiplex: -1, ConnWriteTimeout: 5 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestRueidis(t *testing.T) {
	s, p := setup(t)
	client := newClient(t, p)
	incr := func() (int64, error) { return client.Do(t.Context(), client.B().Incr().Key("n").Build()).AsInt64() }

	n, err := incr()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	rule := p.DropReply(faultproxy.Command("INCR"), 1)
	_, err = incr()
	require.Error(t, err, "executed, reply lost")
	wait(t, rule.C())
	require.Equal(t, "2", s.Do(t, "GET", "n"))

	require.Eventually(t, func() bool { n, err = incr(); return err == nil }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 3, n, "the client has reconnected")
}

func TestRueidisPubSub(t *testing.T) {
	s, p := setup(t)
	client := newClient(t, p)
	var got []string
	confirmed := make(chan struct{}, 10)
	ctx := rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) { confirmed <- struct{}{} })
	ctx, cancel := context.WithCancel(ctx)
	arrived, done := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(done)
		_ = client.Receive(ctx, client.B().Subscribe().Channel("a", "b").Build(), func(m rueidis.PubSubMessage) {
			arrived <- m.Channel
		})
	}()
	<-confirmed
	<-confirmed

	p.DropMessages(func(channel string) bool { return channel == "a" })
	s.Do(t, "PUBLISH", "a", "lost")
	s.Do(t, "PUBLISH", "b", "1")
	got = append(got, <-arrived)
	require.Equal(t, []string{"b"}, got)
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
	cancel()
	<-done
	require.NoError(t, p.Idle(limited(t)), "every reply found its command")
}

// TestChaos cuts and drops at random under load: nothing may hang, leak or be matched
// to the wrong command.
func TestChaos(t *testing.T) {
	s, p := setup(t)
	random := rand.New(rand.NewPCG(1, 1))
	p.DropReply(func([]string) bool { return random.IntN(200) == 0 }, -1)
	p.DropCommand(func([]string) bool { return random.IntN(200) == 0 }, -1)
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for i := range 100 {
				chat(t, p, fmt.Sprintf("%d-%d", worker, i))
			}
		})
	}
	running.Wait()
	require.NoError(t, p.Idle(limited(t)))
	p.CutAll()
	require.Zero(t, p.Stats().Open)
	require.Equal(t, "PONG", s.Do(t, "PING"))
}

// chat pipelines until the proxy cuts the connection: what arrives until then must be
// a prefix of the right answers.
func chat(t *testing.T, p *faultproxy.Proxy, id string) {
	c, err := redistest.Dial(t.Context(), p.Addr())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	const count = 50
	for i := range count {
		if c.Send("ECHO", id+strconv.Itoa(i)) != nil {
			break
		}
	}
	for i := range count {
		v, err := c.Receive(t.Context())
		if err != nil {
			return
		}
		if v != id+strconv.Itoa(i) {
			t.Errorf("reply %d of %s is %v", i, id, v)
		}
	}
}

func BenchmarkProxy(b *testing.B) {
	s := redistest.Run(b, redistest.Options{})
	p := faultproxy.Run(b, s.Addr())
	for via, addr := range map[string]string{"direct": s.Addr(), "proxy": p.Addr()} {
		b.Run("via="+via+"/inflight=1000", func(b *testing.B) {
			c, err := redistest.Dial(b.Context(), addr)
			require.NoError(b, err)
			defer c.Close()
			batch := []byte{}
			for range 1000 {
				batch = redistest.AppendCommand(batch, "INCR", "n")
			}
			for b.Loop() {
				_, err := c.Write(batch)
				require.NoError(b, err)
				for range 1000 {
					_, err := c.Receive(b.Context())
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "commands/s")
		})
	}
}
