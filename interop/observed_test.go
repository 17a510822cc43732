package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// observations are the rows of the table "Observed" of docs/REDISSON.md.
var observations = []struct {
	name string
	run  func(t *testing.T, p play)
}{
	{"O1 lock() after lock(lease) on one object sends the old lease", observeOldLease},
	{"O2 tryLockAndGetToken() waits for ever", observeTryThatWaits},
	{"O3 lockAndGetToken(lease) ignores the lease", observeIgnoredLease},
	{"O4 a watched reader shortens the lease of another", observeShortenedRead},
	{"O5 giving back the read lock ends the renewal of the write lock", observeUnwatchedWrite},
	{"O6 a mutex and a read lock of one name are both held", observeTwoKinds},
	{"O7 an interrupted fair waiter stays in the queue", observeInterrupted},
	{"O8 a fair waiter behind a dead one asks without a pause", observeHotLoop},
	{"O9 unlocking a free fair lock succeeds", observeFreeFair},
	{"O10 a write lock entered again adds up its lease", observeSum},
}

// TestObserved keeps that table true: each case is a behaviour of Redisson that a reader of its documentation
// would not expect. If one fails, Redisson was mended: correct the table, and what the engine does about it.
func TestObserved(t *testing.T) {
	for _, c := range observations {
		t.Run(c.name, func(t *testing.T) {
			demand(t)
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			d := &deployment{addrs: []string{s.Addr()}, servers: []*redistest.Server{s}}
			d.java = d.openJava(t, "watchdogMs", "3000")
			c.run(t, play{d, kindOf("lock")})
		})
	}
}

// two returns the locks of one kind of two threads.
func (p play) two(t *testing.T, kind string) (a, b javaLock) {
	t.Helper()
	return p.java.thread(t, t.Name()+"/a").lock(kind, "x"), p.java.thread(t, t.Name()+"/b").lock(kind, "x")
}

func observeOldLease(t *testing.T, p play) {
	a, b := p.two(t, "lock")
	a.do(t, "lock", "leaseMs", "200")
	testkit.Eventually(t, "the lease is over", func() bool { return p.pttl(t, "x") == -2*time.Millisecond })
	a.do(t, "lock")
	require.Less(t, p.pttl(t, "x"), 250*time.Millisecond, "not the watchdog's 3 s")
	b.do(t, "lock") // and it is over before the first renewal
	require.Equal(t, "false", a.do(t, "isHeldByCurrentThread"))
}

func observeTryThatWaits(t *testing.T, p play) {
	a, b := p.two(t, "fenced")
	a.do(t, "lock")
	c := b.start("tryLockAndGetToken")
	p.listening(t, "x", b.th.owner, 1)
	require.False(t, c.answered())
	a.do(t, "unlock")
	require.Equal(t, "2", c.ok(t).value())
}

func observeIgnoredLease(t *testing.T, p play) {
	a, _ := p.two(t, "fenced")
	a.do(t, "lockAndGetToken", "leaseMs", "100000")
	require.LessOrEqual(t, p.pttl(t, "x"), 3*time.Second)
}

func observeShortenedRead(t *testing.T, p play) {
	a, b := p.two(t, "read")
	a.do(t, "lock", "leaseMs", "100000")
	b.do(t, "lock")
	require.Greater(t, p.pttl(t, "x"), 90*time.Second)
	testkit.Eventually(t, "the watchdog of b renews", func() bool { return p.pttl(t, "x") <= 3*time.Second })
	require.Greater(t, p.pttl(t, slot.ReadHold("x", a.th.owner, 1)), 50*time.Second, "a's own key is untouched")
	p.java.close(t) // b is gone, a means to hold for another minute
	testkit.Eventually(t, "the whole lock is gone", func() bool { return p.do(t, "EXISTS", "x") == "0" })
	require.Greater(t, p.pttl(t, slot.ReadHold("x", a.th.owner, 1)), 50*time.Second)
}

func observeUnwatchedWrite(t *testing.T, p play) {
	th := p.java.thread(t, t.Name())
	write, read := th.lock("write", "x"), th.lock("read", "x")
	write.do(t, "lock")
	read.do(t, "lock")
	read.do(t, "unlock")
	require.Equal(t, "true", write.do(t, "isHeldByCurrentThread"))
	testkit.Eventually(t, "nobody renews it", func() bool { return p.do(t, "EXISTS", "x") == "0" })
}

func observeTwoKinds(t *testing.T, p play) {
	mutex, _ := p.two(t, "lock")
	_, read := p.two(t, "read")
	mutex.do(t, "lock")
	require.Equal(t, "true", read.do(t, "tryLock"))
	require.Equal(t, "true", mutex.do(t, "isHeldByCurrentThread"))
}

func observeInterrupted(t *testing.T, p play) {
	p.kind = kindOf("fair")
	a, b := p.two(t, "fair")
	a.do(t, "lock")
	c := b.start("lockInterruptibly")
	p.listening(t, "x", b.th.owner, 1)
	testkit.Eventually(t, "it waits", func() bool {
		b.th.interrupt(t)
		return c.answered()
	})
	require.Error(t, c.wait(t).err)
	require.Equal(t, b.th.owner, p.do(t, "LRANGE", slot.FairQueue("x"), "0", "-1"))
}

func observeHotLoop(t *testing.T, p play) {
	p.kind = kindOf("fair")
	a, b := p.two(t, "fair")
	a.do(t, "lock")
	gone := p.openJava(t)
	dead := gone.thread(t, "dead")
	dead.lock("fair", "x").start("lock")
	p.listening(t, "x", dead.owner, 1)
	gone.close(t)
	b.start("lock")
	p.listening(t, "x", b.th.owner, 1)
	before := p.scripts(t)
	a.do(t, "unlock")
	began := time.Now()
	testkit.Eventually(t, "b asks and asks", func() bool { return p.scripts(t) > before+1000 })
	t.Logf("1000 attempts of one waiter in %v", time.Since(began))
	require.Equal(t, "0", p.do(t, "EXISTS", "x"))
	require.Equal(t, "OK", p.do(t, "SET", "x", "no lock")) // its scripts fail now, and it stops
}

// scripts returns how many scripts the server has run by their hash.
func (p play) scripts(t *testing.T) int64 {
	t.Helper()
	stats, err := p.servers[0].CommandStats()
	require.NoError(t, err)
	return stats["evalsha"]
}

func observeFreeFair(t *testing.T, p play) {
	a, _ := p.two(t, "fair")
	a.do(t, "unlock")
}

func observeSum(t *testing.T, p play) {
	a, _ := p.two(t, "write")
	const lease = 20 * time.Second
	for i := range 3 {
		a.do(t, "lock", "leaseMs", strconv.FormatInt(lease.Milliseconds(), 10))
		require.Greater(t, p.pttl(t, "x"), time.Duration(i+1)*lease-5*time.Second)
	}
	require.Contains(t, strings.Split(p.do(t, "HGETALL", "x"), "\n"), "3")
}

// TestObservedTableIsTheTests needs no Java.
func TestObservedTableIsTheTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "REDISSON.md"))
	require.NoError(t, err)
	var rows, cases []string
	for _, m := range regexp.MustCompile(`(?m)^\| (O\d+) \|`).FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1])
	}
	for _, c := range observations {
		id, _, _ := strings.Cut(c.name, " ")
		cases = append(cases, id)
	}
	require.Equal(t, cases, rows)
	pom, err := os.ReadFile(filepath.Join(javaDir, "pom.xml"))
	require.NoError(t, err)
	version := regexp.MustCompile(`<redisson.version>(.*)</redisson.version>`).FindSubmatch(pom)
	require.Len(t, version, 2)
	require.Contains(t, string(text), "Redisson **"+string(version[1])+"**", "the version that is tested")
}
