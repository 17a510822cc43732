package resp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A reminded is a server that notes what it was told to release.
type reminded struct {
	*fakeServer
	run     string // its run_id
	refuses string // what a release is answered; "": it is there
	only    string // the one key that it is about; "": all
	told    []string
}

func newReminded() *reminded {
	m := &reminded{fakeServer: &fakeServer{}, run: "one"}
	m.says = func(_ *fakeConn, cmd []string) string {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case cmd[0] == "INFO" && cmd[1] == "server":
			info := "redis_version:7.4.0\r\nrun_id:" + m.run + "\r\n"
			return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		case cmd[0] != "EVALSHA":
			return ""
		}
		n, _ := strconv.Atoi(cmd[2])
		m.told = append(m.told, cmd[3:3+n]...)
		switch {
		case m.refuses != "" && (m.only == "" || slices.Contains(cmd[3:3+n], m.only)):
			return m.refuses
		case scriptNamed(cmd[1]) == scriptRelease.one.name:
			return ":0\r\n"
		default:
			return fmt.Sprintf("*2\r\n:1700000000000\r\n:%d\r\n", n)
		}
	}
	return m
}

// toldSince returns what it was told since the last call.
func (m *reminded) toldSince() (told []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	told, m.told = m.told, nil
	return told
}

// restarts makes it another run: its connections break.
func (m *reminded) restarts(run, refuses string) {
	m.mu.Lock()
	m.run, m.refuses = run, refuses
	conns := m.conns
	m.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	synctest.Wait()
}

// ticks lets time pass.
func ticks(n *Node, c *clock.Fake, d time.Duration) {
	for end := c.Now().Add(d); c.Now().Before(end); {
		c.Advance(50 * time.Millisecond)
		n.Tick(c.Now(), time.Second, nil)
		synctest.Wait()
	}
}

// withReminded does something with a node of such a server.
func withReminded(t *testing.T, do func(t *testing.T, m *reminded, n *Node, c *clock.Fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, c := newReminded(), clock.NewFake(clock.Instant(time.Hour))
		n := fakeNode(t, c, map[string]*fakeServer{"a:1": m.fakeServer})
		n.start(nil, pubSubMode{publish: "PUBLISH"})
		defer n.Close()
		do(t, m, n, c)
	})
}

func releaseNow(t *testing.T, n *Node, f Family, key string) {
	t.Helper()
	a := newNodeAnswers()
	op := nodeOp(OpRelease, key, a)
	op.Family, op.Field = f, nodeID+":1"
	r := a.await(t, nodeSubmit(t, n, op))
	require.Nil(t, r.Err)
}

func TestAnotherRunOfAServerIsToldTheLastReleasesOnce(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		var keys []string
		for f, row := range families[:familyEnd] {
			if row.replay {
				keys = append(keys, fmt.Sprint("key:", f))
				releaseNow(t, n, Family(f), keys[len(keys)-1]) //nolint:gosec // a few
			}
		}
		require.Len(t, keys, 7)
		releaseNow(t, n, FamilySemaphore, "semaphore") // a permit more would be another's
		keys = append(keys, "semaphore")
		require.ElementsMatch(t, keys, m.toldSince())
		keys = keys[:7]
		ticks(n, c, time.Second)
		m.restarts("one", "")
		ticks(n, c, time.Second)
		require.Empty(t, m.toldSince(), "the same run has heard of them")
		m.restarts("two", "")
		ticks(n, c, time.Second)
		require.ElementsMatch(t, keys, m.toldSince())
		require.EqualValues(t, len(keys), n.Stats().Revived)
		ticks(n, c, 10*time.Second)
		require.Empty(t, m.toldSince(), "once is enough")
		m.restarts("three", "")
		ticks(n, c, time.Second)
		require.ElementsMatch(t, keys, m.toldSince(), "they stay the last")
	})
}

// A master that was just made may have no replica yet, or be loading.
func TestWhatIsRefusedIsToldAgainAfterAPause(t *testing.T) {
	for _, refuses := range []string{
		"-LOADING Redis is loading the dataset in memory\r\n", "-NOREPLICAS Not enough good replicas to write.\r\n",
	} {
		withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
			releaseNow(t, n, FamilyLock, "key")
			m.restarts("two", refuses)
			m.toldSince()
			ticks(n, c, 10*time.Second)
			told := len(m.toldSince())
			require.GreaterOrEqual(t, told, 6, "pauses of 100 ms to 2 s")
			require.LessOrEqual(t, told, 9)
			m.mu.Lock()
			m.refuses = ""
			m.mu.Unlock()
			ticks(n, c, 2100*time.Millisecond)
			require.Len(t, m.toldSince(), 1)
			ticks(n, c, 10*time.Second)
			require.Empty(t, m.toldSince())
		})
	}
}

// Lanes that share a connection: one of them makes the new one before the other has seen that the old one broke.
func TestALaneWhoseConnectionAnotherHasMadeTellsWhatItReleased(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		a := newNodeAnswers()
		for hash := range uint64(2) {
			op := nodeOp(OpRelease, fmt.Sprint("key:", hash), a)
			op.Field, op.Wide, op.Hash = nodeID+":1", true, hash<<32
			require.Nil(t, a.await(t, nodeSubmit(t, n, op)).Err)
		}
		m.restarts("two", "")
		releaseNow(t, n, FamilyLock, "other")
		ticks(n, c, time.Second)
		require.Subset(t, m.toldSince()[2:], []string{"key:0", "key:1"})
	})
}

// The note of a writer that waits is left under one field again and again, and taken back under it.
func TestANoteIsNotTakenBackAgain(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		a := newNodeAnswers()
		op := nodeOp(OpRelease, "key", a)
		op.Family, op.Field = FamilyWrite, NoteField(nodeID)
		require.Nil(t, a.await(t, nodeSubmit(t, n, op)).Err)
		m.restarts("two", "")
		m.toldSince()
		ticks(n, c, time.Second)
		require.Empty(t, m.toldSince())
	})
}

// What would be refused again is not said again: the key may be none of ours any more.
func TestWhatIsRefusedForGoodIsNotToldAgain(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		releaseNow(t, n, FamilyLock, "key")
		m.restarts("two", "-NOPERM no permissions\r\n")
		m.toldSince()
		ticks(n, c, 10*time.Second)
		require.Len(t, m.toldSince(), 1)
		require.Zero(t, n.Stats().Revived)
	})
}

// An idle lane dials for it, but not for ever: whatever it released a minute ago was heard of.
func TestALaneThatIsIdleForLongLeavesItsServerAlone(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		releaseNow(t, n, FamilyLock, "key")
		ticks(n, c, replayFor)
		dialled := m.dials()
		m.restarts("two", "")
		ticks(n, c, 5*time.Second)
		require.Equal(t, dialled, m.dials())
		releaseNow(t, n, FamilyLock, "other")
		ticks(n, c, time.Second)
		require.Equal(t, []string{"other", "other", "key"}, m.toldSince()[1:], "whoever meets the run tells it all the same")
	})
}

// A server that does not come back is dialled for that long, too, with pauses.
func TestAServerThatIsGoneForGoodIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newReminded(), clock.NewFake(clock.Instant(time.Hour))
		servers := map[string]*fakeServer{"a:1": m.fakeServer}
		dials := 0
		n := fakeNode(t, c, servers)
		dial := n.from.dial
		n.from.dial = func(addr string) (rueidis.Client, error) {
			dials++
			return dial(addr)
		}
		n.start(nil, pubSubMode{publish: "PUBLISH"})
		defer n.Close()
		releaseNow(t, n, FamilyLock, "key")
		n.from.client, servers["a:1"] = nil, nil
		m.restarts("two", "")
		dials = 0
		ticks(n, c, 2*replayFor)
		require.GreaterOrEqual(t, dials, 25)
		require.LessOrEqual(t, dials, 45)
		dials = 0
		ticks(n, c, replayFor)
		require.Zero(t, dials)
	})
}

func TestALaneKeepsItsLastReleases(t *testing.T) {
	var rr releaseRing
	keys := func() (keys []string) {
		for _, r := range rr.inOrder() {
			keys = append(keys, r.key)
		}
		return keys
	}
	for i := range 100 {
		rr.add(pastRelease{key: strconv.Itoa(i), work: 1}, 20)
	}
	require.Len(t, keys(), 20)
	rr.add(pastRelease{key: "a", work: 17}, 20)
	require.Equal(t, []string{"97", "98", "99", "a"}, keys(), "one that is much work stands for many")
	rr.add(pastRelease{key: "b", work: 1}, 20)
	rr.add(pastRelease{key: "c", work: 1}, 20)
	require.Equal(t, []string{"99", "a", "b", "c"}, keys())
	rr.add(pastRelease{key: "d", work: 100}, 20)
	require.Equal(t, []string{"d"}, keys(), "the last in any case")
	rr.add(pastRelease{key: "e", work: 1}, 20)
	require.Equal(t, []string{"e"}, keys())
	require.Equal(t, 1, rr.work)
	for i := range rr.all {
		require.True(t, i == rr.first || rr.all[i].key == "", "what is forgotten takes no memory")
	}
}

func TestAReleaseIsTheWorkOfItsKeysAndLonger(t *testing.T) {
	values := slot.GroupOf(nodeID+":1", strings.Repeat("v", 1000*slot.GroupValue))
	require.GreaterOrEqual(t, newPastRelease(&Op{Family: FamilyGroup, Key: "a", Field: values}).work, int32(1000))
	require.EqualValues(t, 1, newPastRelease(&Op{Key: "a", Field: nodeID + ":1"}).work)
	require.EqualValues(t, 1+4096/replayBytes, newPastRelease(&Op{Key: strings.Repeat("a", 4096)}).work)
}

// A replay goes beside what callers ask for, a few at a time: the next when those have an answer. The latest come first, and
// what is refused is not sent with all others again.
func TestAReplayIsSentAFewAtATimeTheLatestFirst(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		const releases = 300
		for i := range releases {
			releaseNow(t, n, FamilyLock, strconv.Itoa(i))
		}
		m.restarts("two", "-LOADING Redis is loading the dataset in memory\r\n")
		m.toldSince()
		ticks(n, c, 50*time.Millisecond)
		told := m.toldSince()
		require.Len(t, told, replayMost)
		require.Contains(t, told, strconv.Itoa(releases-1))
		require.Contains(t, told, strconv.Itoa(releases-replayMost))
		m.mu.Lock()
		m.refuses = ""
		m.mu.Unlock()
		ticks(n, c, 5*time.Second)
		rest := m.toldSince()
		require.Len(t, rest, releases, "those that were refused, and the others")
		require.ElementsMatch(t, told, rest[releases-replayMost:], "those that were refused come last")
		require.EqualValues(t, releases, n.Stats().Revived)
	})
}

// A slot has moved, its releases are sent to whom it has moved to, and it comes back before they are answered.
func TestAMovedReleaseThatComesBackIsKept(t *testing.T) {
	l := &lane{node: &Node{opts: Options{Recent: recentMost}}}
	p := &replay{lane: l}
	for _, moved := range []bool{true, false} {
		s := &replayedRelease{of: p, moved: moved}
		s.op = Op{Kind: OpRelease, Key: "a", Field: nodeID + ":1", Sink: s}
		l.noteRelease(&s.op)
		require.Equal(t, 1, l.recent.kept, "once, and what is kept already is not kept again")
	}
}

// What one is refused is not sent with all others again.
func TestWhatIsRefusedIsSentAgainAlone(t *testing.T) {
	withReminded(t, func(t *testing.T, m *reminded, n *Node, c *clock.Fake) {
		for f, key := range map[Family]string{FamilyLock: "good", FamilyFair: "refused", FamilyRead: "good as well"} {
			releaseNow(t, n, f, key)
		}
		m.only = "refused"
		m.restarts("two", "-OOM command not allowed when used memory > 'maxmemory'.\r\n")
		m.toldSince()
		ticks(n, c, 10*time.Second)
		told := m.toldSince()
		require.Greater(t, len(told), 6)
		require.Subset(t, told, []string{"good", "good as well"})
		require.Len(t, slices.DeleteFunc(told, func(key string) bool { return key == "refused" }), 2)
	})
}

// A node without slots is kept as long as what it has released is refused where the slots are, but not for ever.
func TestANodeStaysForWhatOthersAreStillToBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake(1)
		ns := tableOf(t, c)
		require.NoError(t, ns.adopt(evenly(3, "a")))
		owes := ns.Owner(0)
		synctest.Wait()
		owes.lanes[0].recent.add(pastRelease{key: "a", work: 1}, recentMost)
		for _, step := range []struct {
			after time.Duration
			nodes int
		}{{0, 6}, {retireAfter + time.Second, 4}, {replayMovedFor, 3}} {
			c.Advance(step.after)
			require.NoError(t, ns.adopt(evenly(3, "b")))
			synctest.Wait()
			require.Len(t, ns.members, step.nodes, "after %v", step.after)
			require.Equal(t, step.nodes > 3, ns.members["a0:1"] != nil)
		}
	})
}

// However many masters a cluster has, the engine keeps about as many; and a few of each.
func TestTheMastersOfAClusterShareWhatIsKept(t *testing.T) {
	o := Options{Recent: recentMost}
	require.Equal(t, recentMost, (&Node{opts: o}).recentMost())
	for masters, want := range map[int]int{1: recentMost, 4: recentMost / 4, 100: recentLeast} {
		ns, all := &Nodes{}, make([]*Node, masters)
		ns.all.Store(&all)
		require.Equal(t, want, (&Node{opts: o, nodes: ns}).recentMost())
	}
}
