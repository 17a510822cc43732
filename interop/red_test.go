package interop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A redPlay is one RedLock on three independent servers, as both sides see it.
type redPlay struct {
	servers []*redistest.Server
	engines []*engine.Engine
	at      []*deployment
	java    javaSeveral
	name    string
}

func playRed(t *testing.T) redPlay {
	t.Helper()
	demand(t)
	p := redPlay{name: "red"}
	p.java = javaSeveral{form: "red"}
	for range 3 {
		s := redistest.Run(t, redistest.Options{})
		d := &deployment{addrs: []string{s.Addr()}, servers: []*redistest.Server{s}}
		p.servers, p.at = append(p.servers, s), append(p.at, d)
		p.engines = append(p.engines, d.openGo(t))
		p.java.clients = append(p.java.clients, d.openJava(t, "connections", "32"))
		p.java.names = append(p.java.names, p.name)
	}
	p.java.th = p.java.clients[0].thread(t, t.Name())
	return p
}

func (p redPlay) red(opts ...engine.Option) *engine.RedLock {
	var locks []*engine.Lock
	for _, e := range p.engines {
		locks = append(locks, e.Lock(p.name, opts...))
	}
	return engine.Red(locks...)
}

// owners are the fields of the lock at each server.
func (p redPlay) owners(t *testing.T) (owners []string) {
	t.Helper()
	for _, s := range p.servers {
		owners = append(owners, s.Do(t, "HKEYS", p.name))
	}
	return owners
}

func (p redPlay) requireNothingLeft(t *testing.T) {
	t.Helper()
	for _, s := range p.servers {
		testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
	}
}

func TestRedLockThatGoHasKeepsJavaOut(t *testing.T) {
	p := playRed(t)
	ls, err := p.red().Acquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Eventually(t, "all three have it", func() bool { return ls.Held() == 3 })
	require.Equal(t, "false", p.java.do(t, "tryLock"))
	require.Equal(t, "false", p.java.do(t, "tryLock", "waitMs", "600"))
	for i, view := range ls.Leases() {
		require.Equal(t, view.OwnerID(), p.owners(t)[i], "Java left nothing")
	}
	c := p.java.start("lock")
	testkit.Eventually(t, "Java waits", func() bool { return p.listened(t) })
	require.False(t, c.answered())
	released := time.Now()
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Less(t, c.ok(t).at.Sub(released), 3*soon)
	p.java.do(t, "unlock")
	p.requireNothingLeft(t)
}

// listened reports whether somebody waits for a message of the lock, at any server.
func (p redPlay) listened(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(p.servers, func(s *redistest.Server) bool {
		_, n, _ := strings.Cut(s.Do(t, "PUBSUB", "NUMSUB", lockChannel(p.name, "")), "\n")
		return n != "0"
	})
}

func TestRedLockThatJavaHasKeepsGoOut(t *testing.T) {
	p := playRed(t)
	p.java.do(t, "lock")
	before := p.owners(t)
	_, err := p.red().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	_, err = p.red(engine.MaxWait(300 * time.Millisecond)).Acquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.Equal(t, before, p.owners(t), "Go left nothing")
	f := p.red().AcquireAsync(testkit.Limited(t))
	testkit.Pending(t, f)
	released := time.Now()
	p.java.do(t, "unlock")
	ls := testkit.Get(t, f)
	require.Less(t, time.Since(released), soon)
	require.Equal(t, "false", p.java.do(t, "tryLock"))
	require.NoError(t, ls.Release(testkit.Limited(t)))
	p.requireNothingLeft(t)
}

// TestRedLockBesideALockOfOneServer: somebody has the lock at one server alone. The other two are a majority for one side,
// and leave none for the other.
func TestRedLockBesideALockOfOneServer(t *testing.T) {
	p := playRed(t)
	other := p.java.clients[0].thread(t, t.Name()+"/other").lock("lock", p.name)
	other.do(t, "lock")
	ls, err := p.red().TryAcquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, 2, ls.Held())
	require.Equal(t, "false", p.java.do(t, "tryLock"))
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Equal(t, "true", p.java.do(t, "tryLock"))
	_, err = p.red().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	p.java.do(t, "unlock")
	other.do(t, "unlock")
	p.requireNothingLeft(t)
}

// TestRedLockWithoutOneServer: one of three servers is gone.
func TestRedLockWithoutOneServer(t *testing.T) {
	p := playRed(t)
	p.servers[2].Kill()
	p.at[2].killed = true // its part of the release has no answer when a majority is free
	ls, err := p.red().Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "false", p.java.do(t, "tryLock", "waitMs", "300"))
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Equal(t, "true", p.java.do(t, "tryLock", "waitMs", "10000"))
	_, err = p.red().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	p.java.start("unlock").wait(t) // it throws where a server is gone, or not, and unlocks at the others
	p.servers = p.servers[:2]
	p.requireNothingLeft(t)
}

// TestTurnsOfARedLockAddUp: both sides want one RedLock all the time. Who has it reads a counter and writes it one greater.
func TestTurnsOfARedLockAddUp(t *testing.T) {
	p := playRed(t)
	m := severalMix{java: p.java, threads: 2, counted: 10 * time.Second}
	for range 2 {
		m.locks = append(m.locks, p.red())
	}
	javaShare, goShare := m.play(t, p.servers[0], "turns")
	t.Logf("Java: %d turns, longest wait %v", javaShare.grants, javaShare.longest)
	t.Logf("Go:   %d turns, longest wait %v", goShare.grants, goShare.longest)
	require.Positive(t, javaShare.grants)
	require.Positive(t, goShare.grants)
	p.requireNothingLeft(t)
}
