package interop

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A groupPlay is values of one group in a deployment, as both sides take them.
type groupPlay struct {
	play
	group  string
	e      *engine.Engine
	client *javaClient
	values func(values ...string) engine.GroupValues
}

// eachGroup runs fn in every deployment, with strings as Redisson's default codec encodes them and as StringCodec does.
func eachGroup(t *testing.T, fn func(t *testing.T, p groupPlay)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := groupPlay{play: play{d, kindOf("lock")}, e: d.openGo(t)}
		t.Run("codec=kryo", func(t *testing.T) {
			p.group, p.client, p.values = "kryo", d.java, engine.KryoStrings
			fn(t, p)
		})
		t.Run("codec=string", func(t *testing.T) {
			p.group, p.client, p.values = "string", d.openJava(t, "codec", "string"), engine.PlainStrings
			fn(t, p)
		})
	})
}

func (p groupPlay) golang(values ...string) *engine.GroupLock {
	return p.e.GroupLock(p.group, p.values(values...))
}

// java is a thread of its own that takes values.
func (p groupPlay) java(t *testing.T, values ...string) javaSeveral {
	t.Helper()
	th := p.client.thread(t, t.Name()+"/"+strconv.Itoa(clientNumber()))
	return javaSeveral{th: th, form: "group", clients: []*javaClient{p.client}, names: append([]string{p.group}, values...)}
}

// requireOnly checks that the group has just these values, each with its fields.
func (p groupPlay) requireOnly(t *testing.T, n int) {
	t.Helper()
	require.Equal(t, strconv.Itoa(3*n), p.do(t, "HLEN", p.group))
}

// requireNothingLeft allows for Redisson's notes of its unlocks, which it deletes after it has answered.
func (p groupPlay) requireNothingLeft(t *testing.T) {
	t.Helper()
	for _, s := range p.servers {
		testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
	}
}

func TestValuesThatGoHasKeepJavaOut(t *testing.T) {
	eachGroup(t, func(t *testing.T, p groupPlay) {
		ls, err := p.golang("a", "value b", "Größe 😀").Acquire(testkit.Limited(t))
		require.NoError(t, err)
		for _, values := range [][]string{{"a"}, {"Größe", "a"}, {"b", "c", "a"}} {
			th := p.java(t, values...)
			require.Equal(t, "false", th.do(t, "tryLock"), "%q", values)
			require.Equal(t, "false", th.do(t, "tryLock", "waitMs", "200"), "%q", values)
			require.Equal(t, "true", p.java(t, "a").do(t, "isLocked"))
		}
		free := p.java(t, "b", "c")
		require.Equal(t, "true", free.do(t, "tryLock"), "nobody has these")
		p.requireOnly(t, 5)
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireOnly(t, 2)
		free.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

func TestValuesThatJavaHasKeepGoOut(t *testing.T) {
	eachGroup(t, func(t *testing.T, p groupPlay) {
		java := p.java(t, "a", "x", "ü")
		java.do(t, "lock")
		for _, values := range [][]string{{"a"}, {"b", "x"}, {"ü", "x", "a"}, {"c", "ü"}} {
			_, err := p.golang(values...).TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld, "%q", values)
			_, err = p.golang(values...).With(engine.MaxWait(100 * time.Millisecond)).Acquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld, "%q", values)
		}
		holders, err := p.golang("b", "x", "a").Holders(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, []int{1, 2}, []int{holders[0].Value, holders[1].Value})
		require.Equal(t, java.th.owner, holders[0].OwnerID)
		ls, err := p.golang("b", "c").TryAcquire(testkit.Limited(t))
		require.NoError(t, err, "nobody has these")
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireOnly(t, 3)
		java.do(t, "lock")
		java.do(t, "unlock")
		_, err = p.golang("a").TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld, "it was entered twice")
		java.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

func TestJavaWaitsForValuesOfGoAndGetsThem(t *testing.T) {
	eachGroup(t, func(t *testing.T, p groupPlay) {
		ls, err := p.golang("a", "b").Acquire(testkit.Limited(t))
		require.NoError(t, err)
		java := p.java(t, "b", "c")
		c := java.start("lock")
		p.waits(t, java.th, p.group)
		require.False(t, c.answered())
		released := time.Now()
		require.NoError(t, ls.Release(testkit.Limited(t)))
		require.Less(t, c.ok(t).at.Sub(released), soon, "the lease would have been over after 30 s")
		_, err = p.golang("a", "b").TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		java.do(t, "unlock")
		p.requireNothingLeft(t)
	})
}

func TestGoWaitsForValuesOfJavaAndGetsThem(t *testing.T) {
	eachGroup(t, func(t *testing.T, p groupPlay) {
		java := p.java(t, "a", "b")
		java.do(t, "lock")
		f := p.golang("b", "c").AcquireAsync(testkit.Limited(t))
		p.listening(t, p.group, "", 1)
		testkit.Pending(t, f)
		released := time.Now()
		java.do(t, "unlock")
		ls := testkit.Get(t, f)
		require.Less(t, time.Since(released), soon)
		p.requireWokenByMessage(t, p.e)
		require.Equal(t, "false", java.do(t, "tryLock"))
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireNothingLeft(t)
	})
}

// TestValuesAreRenewedBesideJava: each side renews its own values in the hash that they share.
func TestValuesAreRenewedBesideJava(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := groupPlay{play: play{d, kindOf("lock")}, group: "g", e: d.openGo(t), values: engine.KryoStrings}
		p.client = d.openJava(t, "watchdogMs", "1500")
		java := p.java(t, "a", "b")
		java.do(t, "lock")
		ls, err := p.golang("c", "d").With(engine.WatchdogLease(1500 * time.Millisecond)).Acquire(testkit.Limited(t))
		require.NoError(t, err)
		for sent := p.e.Stats().Renewals.Sent; p.e.Stats().Renewals.Sent < sent+8; { // of half a second each
			require.False(t, ls.Lost())
			_, err = p.golang("a").TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld)
			require.Equal(t, "true", p.java(t, "c").do(t, "isLocked"))
		}
		java.do(t, "unlock")
		require.NoError(t, ls.Release(testkit.Limited(t)))
		p.requireNothingLeft(t)
	})
}

// TestGoFreesWhatJavaHas: a ForceRelease, and a lease of Java that is over while the group lives on.
func TestGoFreesWhatJavaHas(t *testing.T) {
	eachGroup(t, func(t *testing.T, p groupPlay) {
		long, err := p.golang("z").Acquire(testkit.Limited(t))
		require.NoError(t, err)
		java := p.java(t, "a", "b")
		java.do(t, "lock")
		was, err := p.golang("b", "a").ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, was)
		err = java.start("unlock").wait(t).err
		require.ErrorContains(t, err, "not locked by current thread")
		p.java(t, "a", "b").do(t, "lock", "leaseMs", "300")
		ls, err := p.golang("b", "c").Acquire(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, "true", p.java(t, "b").do(t, "forceUnlock"))
		require.NoError(t, long.Release(testkit.Limited(t)))
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		p.do(t, "DEL", p.group)
		p.requireNothingLeft(t)
	})
}

// TestTurnsWithValuesOfBothSidesAddUp: each caller has two of three values, so that any two of them share one.
func TestTurnsWithValuesOfBothSidesAddUp(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := groupPlay{play: play{d, kindOf("lock")}, group: "g", client: d.openJava(t, "connections", "64")}
		p.values = engine.KryoStrings
		engines := []*engine.Engine{d.openGo(t), d.openGo(t)}
		m := severalMix{java: p.java(t, "a", "b"), threads: 4, counted: 5 * time.Second}
		sets := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}
		for i := range 6 {
			m.locks = append(m.locks, engines[i%2].GroupLock("g", engine.KryoStrings(slices.Clone(sets[i%3])...)))
		}
		javaShare, goShare := m.play(t, d.at(t, "turns"), "turns")
		t.Logf("Java: %d turns, longest wait %v", javaShare.grants, javaShare.longest)
		t.Logf("Go:   %d turns, longest wait %v", goShare.grants, goShare.longest)
		require.Greater(t, javaShare.grants, 20)
		require.Greater(t, goShare.grants, 20)
		p.requireNothingLeft(t)
	})
}
