package resp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// replaced counts how often a node's subscriptions were made to look for their server again.
type replaced struct {
	pubsub.Subscriptions
	times int
}

func (r *replaced) Replace() { r.times++ }

// Sentinels name another master: no connection of the node stays at the old one, whatever it is for.
func TestANodeThatIsMovedLeavesTheOldMasterWithEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := &fakeServer{}, &fakeServer{}
		n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": old, "b:2": next})
		subs := &replaced{}
		n.subs, n.follow = subs, &follower{}
		links := []*link{n.commands, n.acked, n.renewals, n.retries}
		for _, l := range links {
			_, failed := l.get()
			require.Nil(t, failed, l.name)
		}
		require.Equal(t, len(links), old.dials())

		n.move("b:2")
		synctest.Wait() // the connections that were given up are closed
		for i, c := range old.conns {
			require.True(t, c.closed(), "the connection for %s", links[i].name)
		}
		require.Equal(t, 1, subs.times, "the subscriptions")
		for i, l := range links {
			_, failed := l.get()
			require.Nil(t, failed, l.name)
			require.Equal(t, i+1, next.dials(), l.name)
		}
		require.Equal(t, len(links), old.dials())
	})
}

// Who moves a node looks at its connections before one that is being made is there.
func TestAConnectionThatIsMadeWhileItsNodeMovesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n *Node
		old, next := &fakeServer{}, &fakeServer{}
		old.says = func(_ *fakeConn, cmd []string) string {
			if cmd[0] == "TIME" { // the last command of the handshake
				n.move("b:2")
			}
			return ""
		}
		n = fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": old, "b:2": next})
		n.subs, n.follow = &replaced{}, &follower{}
		_, failed := n.renewals.get()
		require.NotNil(t, failed)
		require.Equal(t, ClassUnreachable, failed.Class, "nothing was sent")
		require.Nil(t, n.renewals.cur.Load())
		synctest.Wait()
		require.True(t, old.conns[0].closed())
		_, failed = n.renewals.get()
		require.Nil(t, failed, "the next one asks at the new address at once: %v", failed)
		require.Equal(t, 1, next.dials())
	})
}

// Of those who come right after a dial has failed nobody dials again.
func TestADialThatFailedAnswersForThoseRightBehindIt(t *testing.T) {
	c := clock.NewFake(1)
	s := &fakeServer{says: func(*fakeConn, []string) string { return fakeBroken }}
	n := fakeNode(t, c, map[string]*fakeServer{"a:1": s})
	ask := func(dials int, why string) {
		t.Helper()
		_, failed := n.commands.get()
		require.NotNil(t, failed)
		require.Equal(t, dials, s.dials(), why)
	}
	for i := range 5 {
		ask(i+1, "the first one dials")
		ask(i+1, "the one behind it does not")
		c.Advance(25*time.Millisecond - time.Nanosecond)
		ask(i+1, "nor the next")
		c.Advance(time.Nanosecond)
	}
	s.says = nil
	c.Advance(25 * time.Millisecond)
	_, failed := n.commands.get()
	require.Nil(t, failed)
}

// An address that leads to a replica for good is left ever more seldom; after a time of rest, at once again.
func TestThePauseBetweenTwoLeavesDoubles(t *testing.T) {
	c := clock.NewFake(clock.Instant(time.Hour))
	s := &fakeServer{}
	n := fakeNode(t, c, map[string]*fakeServer{"a:1": s})
	l := n.commands
	leave := func() bool {
		t.Helper()
		w, failed := l.get()
		require.Nil(t, failed)
		return l.leave(w)
	}
	for round := range 3 {
		require.True(t, leave(), "round %d", round)
		for _, pause := range []int{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			c.Advance(time.Duration(pause)*time.Millisecond - time.Nanosecond)
			require.False(t, leave(), "before %d ms", pause)
			c.Advance(time.Nanosecond)
			require.True(t, leave(), "after %d ms", pause)
		}
		c.Advance(10 * time.Second)
	}
}

// A connection that breaks while nothing is on its way is left at once: what comes next is not sent nowhere.
func TestAConnectionThatBreaksIsLeftBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
		w, failed := n.renewals.get()
		require.Nil(t, failed)
		s.conns[0].Close()
		synctest.Wait()
		require.Nil(t, n.renewals.cur.Load())
		next, failed := n.renewals.get()
		require.Nil(t, failed)
		require.NotSame(t, w, next)
	})
}

// Whoever named a master may be late: what answers as a replica is not used. One that may not be asked is.
func TestWhoIsNoMasterIsNotUsedAsOne(t *testing.T) {
	for role, used := range map[string]bool{
		"*1\r\n+master\r\n": true, "*1\r\n+slave\r\n": false, "*1\r\n+sentinel\r\n": false,
		"-NOPERM no\r\n": true, "*0\r\n": true,
	} {
		for _, follows := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
					if cmd[0] == "ROLE" {
						return role
					}
					return ""
				}}
				n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
				n.commands.follows = follows
				_, failed := n.commands.get()
				require.Equal(t, used || !follows, failed == nil, "%q: %v", role, failed)
				require.Equal(t, follows, s.count("ROLE") == 1)
				if failed != nil {
					require.Equal(t, ClassReadOnly, failed.Class)
					synctest.Wait()
					require.True(t, s.conns[0].closed())
				}
			})
		}
	}
}

// The master that was left is closed, if it is ours to close.
func TestTheClientOfTheMasterThatWasLeftIsClosed(t *testing.T) {
	for _, borrowed := range []bool{false, true} {
		n := fakeNode(t, clock.NewFake(1), nil)
		old := &countedClient{}
		n.from.client, n.from.borrowed = old, borrowed
		n.subs, n.follow = &replaced{}, &follower{}
		n.move("b:2")
		n.follow.wg.Wait()
		require.Equal(t, !borrowed, old.closed == 1)
	}
}

// Behind one address there may be another master by now: who is refused as by a replica connects again, whatever it sent.
// Where sentinels name the master, too; a node of a cluster says who is.
func TestWhoIsRefusedAsByAReplicaConnectsAgain(t *testing.T) {
	for answer, left := range map[string]bool{
		"-READONLY a replica\r\n": true, "-MASTERDOWN the link is down\r\n": true, "-NOPERM no\r\n": false, "-OOM full\r\n": false,
	} {
		for name, send := range map[string]func(*Node){
			"Renewal": func(n *Node) { n.Renew(false, time.Second, []Renewal{{Key: "k", Field: "f", LeaseMs: 1000}}) },
			"Retry":   func(n *Node) { n.Renew(true, time.Second, []Renewal{{Key: "k", Field: "f", LeaseMs: 1000}}) },
			"Acquire": func(n *Node) {
				a := newNodeAnswers()
				op := nodeOp(OpAcquire, "k", a)
				_ = n.Submit(op)
				synctest.Wait()
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
					if cmd[0] == "EVALSHA" {
						return answer
					}
					return ""
				}}
				n := fakeNode(t, clock.NewFake(clock.Instant(time.Hour)), map[string]*fakeServer{"a:1": s})
				n.start(nil, pubSubMode{publish: "PUBLISH"})
				defer n.Close()
				send(n)
				synctest.Wait()
				require.Equal(t, 1, s.dials())
				require.Equal(t, left, s.conns[0].closed(), "%s: %q", name, answer)
			})
		}
	}
}

// A sentinel that is heard alone names another master: whoever is followed keeps its place while it answers as one, or says
// that it may not be asked.
func TestWhoAnswersAsAMasterStaysOne(t *testing.T) {
	for name, c := range map[string]struct {
		command, answer string // what the server says; nothing: it is not there
		want            bool
	}{
		"AMaster":         {"ROLE", "*1\r\n+master\r\n", true},
		"AReplica":        {"ROLE", "*1\r\n+slave\r\n", false},
		"MayNotBeAsked":   {"ROLE", "-NOPERM no\r\n", true},
		"SaysNothing":     {"ROLE", "*0\r\n", false},
		"BreaksEachTime":  {"ROLE", fakeBroken, false},
		"IsNotThere":      {"", "", false},
		"RefusesTheClock": {"TIME", "-NOPERM no\r\n", true},
		"HasNoRoom":       {"TIME", "-ERR max number of clients reached\r\n", true},
		"WantsAPassword":  {"TIME", "-NOAUTH who are you\r\n", true},
		"IsSilent":        {"TIME", fakeBroken, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := map[string]*fakeServer{}
				if c.command != "" {
					servers["a:1"] = &fakeServer{says: func(_ *fakeConn, cmd []string) string {
						return map[string]string{c.command: c.answer}[cmd[0]]
					}}
				}
				n := fakeNode(t, clock.NewFake(1), servers)
				require.Equal(t, c.want, n.mastering(t.Context()))
			})
		})
	}
	t.Run("BrokeOnce", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{}
			s.says = func(_ *fakeConn, cmd []string) string {
				if cmd[0] == "ROLE" && s.dials() == 1 {
					return fakeBroken
				}
				return ""
			}
			n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
			require.True(t, n.mastering(t.Context()), "a connection that breaks is no silence yet")
			require.Equal(t, 2, s.dials())
		})
	})
}

// A connection knows its server's clock from its handshake on: the first command has a not-after, too.
func TestAConnectionKnowsItsServersClockFromTheBeginning(t *testing.T) {
	c := clock.NewFake(clock.Instant(time.Hour))
	s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
		if cmd[0] == "TIME" {
			c.Advance(time.Second)
			return "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
		}
		return ""
	}}
	n := fakeNode(t, c, map[string]*fakeServer{"a:1": s})
	w, failed := n.commands.get()
	require.Nil(t, failed)
	require.EqualValues(t, 1_700_000_000_123+2500, w.est.notAfter(c.Now(), 2500*time.Millisecond), "it was at least that late")
}
