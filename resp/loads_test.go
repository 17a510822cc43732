package resp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// forgetful answers as a server that knows a script only when it was given it. What a script answers is an error, which is
// nobody's fault.
type forgetful struct {
	*fakeServer
	run    string            // its run_id
	knows  map[string]bool   // by name
	refuse map[string]string // what loading a script is answered, by name; "": as it is loaded
}

func newForgetful(run string) *forgetful {
	f := &forgetful{fakeServer: &fakeServer{}, run: run, knows: map[string]bool{}, refuse: map[string]string{}}
	f.says = func(_ *fakeConn, cmd []string) string {
		switch {
		case cmd[0] == "INFO" && cmd[1] == "server" && f.run != "":
			return fmt.Sprintf("$%d\r\nredis_version:7.4.0\r\nrun_id:%s\r\n\r\n", len("redis_version:7.4.0\r\nrun_id:\r\n")+len(f.run), f.run)
		case cmd[0] == "SCRIPT":
			name := textNamed(cmd[2])
			if f.refuse[name] == "" {
				f.knows[name] = true
			}
			return f.refuse[name]
		case cmd[0] == "EVALSHA" && !f.knows[scriptNamed(cmd[1])]:
			return "-NOSCRIPT no matching script\r\n"
		case cmd[0] == "EVALSHA":
			return "-ERR it is of no use\r\n"
		}
		return ""
	}
	return f
}

func textNamed(text string) string {
	for _, s := range catalogue {
		if s.text == text {
			return s.name
		}
	}
	return ""
}

// loads are the names of the scripts that the server was given, in their order.
func (f *forgetful) loads() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cmd := range f.asked {
		if cmd[0] == "SCRIPT" {
			names = append(names, textNamed(cmd[2]))
		}
	}
	return names
}

// calls are those that were called.
func (f *forgetful) calls() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cmd := range f.asked {
		if cmd[0] == "EVALSHA" {
			names = append(names, scriptNamed(cmd[1]))
		}
	}
	return names
}

// usualNames are the scripts that each connection brings along.
func usualNames() (names []string) {
	for _, s := range catalogue {
		if usualScripts()&s.set() != 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// forgetfulSink is the sink of any op.
type forgetfulSink struct {
	*nodeAnswers
	*heirSink
}

func (s forgetfulSink) Answered(op *Op, r *Result) { s.nodeAnswers.Answered(op, r) }

// forgetfulAsk sends an op and returns what it was answered.
func forgetfulAsk(t *testing.T, n *Node, kind OpKind, f Family) Result {
	t.Helper()
	a := newNodeAnswers()
	op := nodeOp(kind, "name", forgetfulSink{a, &heirSink{wanted: []int32{1}}})
	op.Family, op.Field, op.Count = f, nodeID+":1", 1
	return a.await(t, nodeSubmit(t, n, op))
}

// Of each family each kind of op, as the first one on a server that was never given a script but by its handshake.
func TestWhateverIsAskedForFirstIsLoadedInTheSameWrite(t *testing.T) {
	called := map[string]bool{}
	for f := range familyEnd {
		for kind := OpAcquire; kind <= OpCall; kind++ {
			if scriptOf(kind, f) == nil {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s := newForgetful("one")
				n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s.fakeServer})
				n.start(nil, pubSubMode{publish: "PUBLISH"})
				defer n.Close()
				for range 3 {
					r := forgetfulAsk(t, n, kind, f)
					require.Equal(t, ClassOther, r.Err.Class, "family %d, kind %d: %v", f, kind, r.Err)
				}
				script := scriptOf(kind, f)
				script = cmp.Or(script.one, script)
				name := script.name
				called[name] = true
				require.Equal(t, []string{name, name, name}, s.calls(), "each was sent once")
				want := usualNames()
				if !slices.Contains(want, name) {
					want = append(want, name)
				}
				require.Equal(t, want, s.loads(), "each was loaded once, family %d, kind %d", f, kind)
				require.Zero(t, n.Stats().ScriptReloads)
			})
		}
	}
	// So are renewals, over either connection.
	for f := range familyEnd {
		s := f.row().renew
		if s == nil {
			continue
		}
		called[s.name] = true
		for _, retry := range []bool{false, true} {
			server := newForgetful("one")
			n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": server.fakeServer})
			batch := []Renewal{{Key: "name", Field: nodeID + ":1", LeaseMs: 30_000, Family: f}}
			n.Renew(retry, time.Second, batch)
			n.Renew(retry, time.Second, batch)
			require.Equal(t, ClassOther, batch[0].Err.Class, "family %d: %v", f, batch[0].Err)
			require.Equal(t, []string{s.name, s.name}, server.calls(), "family %d", f)
		}
	}
	for _, s := range catalogue {
		usual := s.one != nil && usualScripts()&s.set() != 0 // for several keys, and each connection has it
		require.True(t, called[s.name] || usual, "%s is called by no op and no renewal", s.name)
	}
}

// A new connection brings along what is in use, and no more.
func TestANewConnectionLoadsWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newForgetful("one")
		n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s.fakeServer})
		n.start(nil, pubSubMode{publish: "PUBLISH"})
		defer n.Close()
		forgetfulAsk(t, n, OpAcquire, FamilyBarrier)
		forgetfulAsk(t, n, OpInspect, FamilyLock)
		again := newForgetful("two") // in its place
		s.says = again.says
		n.commands.giveUp(n.commands.cur.Load())
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		forgetfulAsk(t, n, OpAcquire, FamilyLock)
		require.ElementsMatch(t, append(usualNames(), "barrier", "inspect"), s.loads())
		require.Zero(t, n.Stats().ScriptReloads)
	})
}

// What one connection has loaded the others of the same node find, if they lead to the same server as well: not if an
// address leads to several, and not if a server does not say who it is.
func TestConnectionsToOneServerShareItsScripts(t *testing.T) {
	for _, c := range []struct {
		name, first, second string // run ids of the servers that the two connections lead to
		shared              bool
	}{
		{"the same", "one", "one", true},
		{"another", "one", "two", false},
		{"says nothing", "", "", false},
	} {
		first, second := newForgetful(c.first), newForgetful(c.second)
		if c.first == c.second {
			second = first
		}
		both := &fakeServer{}
		both.says = func(conn *fakeConn, cmd []string) string {
			s := second
			if conn == both.conns[0] {
				s = first
			}
			return s.says(conn, cmd)
		}
		n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": both})
		// Both before the script is used: no handshake brings it along.
		for _, l := range []*link{n.renewals, n.retries} {
			_, failed := l.get()
			require.Nil(t, failed)
		}
		batch := []Renewal{{Key: "name", Field: nodeID + ":1", LeaseMs: 30_000, Family: FamilyGroup}}
		for _, retry := range []bool{false, true, true, false} {
			n.Renew(retry, time.Second, batch)
			require.Equal(t, ClassOther, batch[0].Err.Class, "%s: %v", c.name, batch[0].Err)
		}
		all := &forgetful{fakeServer: both}
		loads := slices.DeleteFunc(all.loads(), func(name string) bool { return name != "grouprenew" })
		require.Len(t, loads, map[bool]int{true: 1, false: 2}[c.shared], c.name)
		require.Len(t, all.calls(), 4, "none met NOSCRIPT: %s", c.name)
	}
}

// A script that the engine may not load is tried once, not with each command: somebody else may have loaded it. If nobody
// has, the refusal is what the op is told.
func TestAScriptThatMayNotBeLoadedIsTriedOnce(t *testing.T) {
	const noPerm = "-NOPERM User engine has no permissions to run the 'script|load' command\r\n"
	for _, loaded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newForgetful("one")
			for _, script := range catalogue {
				s.refuse[script.name], s.knows[script.name] = noPerm, loaded
			}
			n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s.fakeServer})
			n.start(nil, pubSubMode{publish: "PUBLISH"})
			defer n.Close()
			want := map[bool]Class{false: ClassNoPerm, true: ClassOther}[loaded]
			for _, f := range []Family{FamilyLock, FamilyBarrier} {
				for range 3 {
					r := forgetfulAsk(t, n, OpAcquire, f)
					require.Equal(t, want, r.Err.Class, "%v", r.Err)
				}
				batch := []Renewal{{Key: "name", Field: nodeID + ":1", LeaseMs: 30_000, Family: FamilyGroup}}
				n.Renew(false, time.Second, batch)
				require.Equal(t, want, batch[0].Err.Class, "%v", batch[0].Err)
			}
			if loaded {
				require.Equal(t, slices.Concat(usualNames(), usualNames(), []string{"grouprenew", "barrier"}), s.loads())
			}
			// It may, from now on.
			clear(s.refuse)
			require.Equal(t, ClassOther, forgetfulAsk(t, n, OpAcquire, FamilyBarrier).Err.Class)
		})
	}
}

// A refusal that passes by itself, as of a server that runs somebody's script for too long, is none for good.
func TestAScriptThatCouldNotBeLoadedIsLoadedWithTheNextCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newForgetful("one")
		s.refuse["barrier"] = "-BUSY Redis is busy running a script.\r\n"
		s.knows["barrier"] = true
		n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s.fakeServer})
		n.start(nil, pubSubMode{publish: "PUBLISH"})
		defer n.Close()
		for range 2 {
			forgetfulAsk(t, n, OpAcquire, FamilyBarrier)
		}
		clear(s.refuse)
		for range 2 {
			forgetfulAsk(t, n, OpAcquire, FamilyBarrier)
		}
		require.Equal(t, append(usualNames(), "barrier", "barrier", "barrier"), s.loads())
	})
}

// A node whose part of a slot has just begun to arrive was asked for nothing of the kind before.
func TestARenewalElsewhereBringsItsScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, target := newForgetful("one"), newForgetful("two")
		ns := fakeCluster(t, source.fakeServer, target.fakeServer)
		key := "name"
		for i := 0; slot.Of(key) >= slotCount/2; i++ {
			key = fmt.Sprint("name", i)
		}
		batch := []Renewal{{Key: key, Field: nodeID + ":1", LeaseMs: 30_000, Family: FamilyPermits}}
		says := source.says
		source.says = func(c *fakeConn, cmd []string) string {
			if cmd[0] == "EVALSHA" {
				return fmt.Sprintf("-ASK %d m1:1\r\n", slot.Of(key))
			}
			return says(c, cmd)
		}
		ns.Owner(slot.Of(key)).Renew(false, time.Second, batch)
		require.Equal(t, []string{"permitsrenew"}, target.calls())
		require.Equal(t, ClassOther, batch[0].Err.Class, "%v", batch[0].Err)
	})
}

// A counted connection adds what is written to it.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// All scripts are far more than that: a narrow link has a connection soon.
func TestANewConnectionSendsLittle(t *testing.T) {
	const most = 20 << 10
	var sent atomic.Int64
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		DisableCache: true, DisableRetry: true,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return countedConn{conn, &sent}, err
		},
	})
	require.NoError(t, err)
	defer client.Close()
	sent.Store(0)
	n, err := Connect(client, s.Addr(), Options{ID: nodeID})
	require.NoError(t, err)
	defer n.Close()
	t.Logf("%d bytes", sent.Load())
	require.Less(t, sent.Load(), int64(most))
	all := 0
	for _, text := range ScriptTexts() {
		all += len(text)
	}
	require.Greater(t, all, 9*most)
	sent.Store(0)
	n.Connect() // for renewals
	require.NotZero(t, sent.Load())
	t.Logf("%d bytes", sent.Load())
	require.Less(t, sent.Load(), int64(most))
}

// That one script is refused is no trouble of another that the server has lost: it is loaded again.
func TestAScriptThatIsRefusedIsNoTroubleOfAnother(t *testing.T) {
	setting := func() (*forgetful, *Node) {
		s := newForgetful("one")
		n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s.fakeServer})
		for _, l := range []*link{n.renewals, n.commands} {
			_, failed := l.get()
			require.Nil(t, failed)
		}
		clear(s.knows) // SCRIPT FLUSH
		return s, n
	}
	const why = "Error compiling script"
	t.Run("Renewals", func(t *testing.T) {
		s, n := setting()
		s.refuse["grouprenew"] = "-ERR " + why + "\r\n"
		batch := []Renewal{
			{Key: "plain", Field: nodeID + ":1", LeaseMs: 30_000, Family: FamilyLock},
			{Key: "group", Field: nodeID + ":1", LeaseMs: 30_000, Family: FamilyGroup},
		}
		n.Renew(false, time.Second, batch)
		require.Contains(t, batch[0].Err.Text, "of no use", "it ran")
		require.Contains(t, batch[1].Err.Text, why)
	})
	t.Run("Lanes", func(t *testing.T) {
		s, n := setting()
		s.refuse["barrier"] = "-ERR " + why + "\r\n"
		n.spread = newSpread(&n.opts)
		l := newLane(n, n.commands)
		a, b := newNodeAnswers(), newNodeAnswers()
		plain := nodeOp(OpAcquire, "plain", forgetfulSink{a, &heirSink{wanted: []int32{1}}})
		meet := nodeOp(OpAcquire, "meet", forgetfulSink{b, &heirSink{wanted: []int32{1}}})
		meet.Family, meet.Count, meet.Field = FamilyBarrier, 1, nodeID+":1"
		for _, op := range []*Op{plain, meet} {
			_, refused := l.submit(op, false)
			require.Nil(t, refused)
		}
		n.workers.Add(1)
		go l.work()
		require.Contains(t, a.await(t, plain).Err.Text, "of no use", "it ran")
		require.Contains(t, b.await(t, meet).Err.Text, why)
		l.close()
		n.workers.Wait()
	})
}
