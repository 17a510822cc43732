package wait_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A Try that comes while this engine's own release is on its way goes behind it, whatever the kind of lock,
// and whatever connection the Try travels on.
func TestATryBehindAnOwnReleaseIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := testkit.Open(t, p.Addr())
	seen := engine.WaitReplicas(1, 5*time.Second)
	for name, c := range map[string]struct {
		release     string
		first, then *engine.Lock
	}{
		"plain":              {"release", e.Lock("plain"), e.Lock("plain")},
		"fair":               {"fairrelease", e.FairLock("fair").Lock, e.FairLock("fair").Lock},
		"plain for replicas": {"release", e.Lock("plain"), e.Lock("plain", seen)},
		"fair for replicas":  {"fairrelease", e.FairLock("fair").Lock, e.FairLock("fair", seen).Lock},
		"fenced":             {"release", e.FencedLock("fenced").Lock, e.FencedLock("fenced", seen).Lock},
		"read behind write":  {"writerelease", e.RWLock("rw").WriteLock(), e.RWLock("rw", seen).ReadLock()},
		"write behind read":  {"readrelease", e.RWLock("rw").ReadLock(), e.RWLock("rw", seen).WriteLock()},
		"write behind write": {"writerelease", e.RWLock("rw").WriteLock(), e.RWLock("rw", seen).WriteLock()},
	} {
		for range 2 { // once the scripts are loaded, nothing but the release is late
			ls := testkit.Acquire(t, c.first)
			held := p.Hold(testkit.ScriptCall(c.release), 1)
			released := ls.ReleaseAsync()
			testkit.Await(t, held.C(), "the release")
			try := c.then.TryAcquireAsync(testkit.Limited(t))
			other := testkit.Acquire(t, e.Lock("other", seen)) // what might overtake the release over that connection has
			p.ReleaseCommands()
			_, err := released.Await(testkit.Limited(t))
			require.NoError(t, err)
			again, err := try.Await(testkit.Limited(t))
			require.NoError(t, err, name)
			testkit.Release(t, again)
			testkit.Release(t, other)
		}
	}
	s.Master.Do(t, "DEL", "redisson_lock_token:{fenced}")
	testkit.Finish(t, s.Master, e)
}

// But it does not overtake who waits here, or is just asking.
func TestATryOfAFairLockNeverOvertakesWhoAsksHere(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.FairLock("q").Lock
	testkit.Release(t, testkit.Acquire(t, l))
	held := p.Hold(testkit.ScriptCall("fair"), 1)
	first := l.AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "an acquire")
	_, err := l.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	p.ReleaseCommands()
	ls, err := first.Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = l.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// Nor is it refused by a grant that nobody could use, and that is being given back.
func TestATryForReplicasBehindAGrantThatIsGivenBackIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := testkit.Open(t, p.Addr())
	seen := engine.WaitReplicas(1, 5*time.Second)
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	asked := testkit.WatchCommands(p, testkit.ScriptCall("acquire"))
	s.Master.Pause()
	first := e.Lock("name").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, asked, "an acquire")
	try := e.Lock("name", seen).TryAcquireAsync(testkit.Limited(t))
	require.True(t, first.Cancel())
	back := p.Hold(testkit.ScriptCall("release"), 1)
	s.Master.Resume()
	testkit.Await(t, back.C(), "the grant is given back")
	other := testkit.Acquire(t, e.Lock("other", seen))
	p.ReleaseCommands()
	ls, err := try.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Release(t, other)
	testkit.Finish(t, s.Master, e)
}

// Who asks when the grant is being given back, and travels on another connection or on the same, waits for that.
func TestATryForReplicasThatComesWhileAGrantIsGivenBackIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := testkit.Open(t, p.Addr())
	seen := []engine.Option{engine.WaitReplicas(1, 5*time.Second)}
	for i, pair := range [][2][]engine.Option{{nil, seen}, {seen, nil}, {nil, nil}, {seen, seen}} {
		for _, opts := range pair { // both have a connection, and their scripts are loaded
			testkit.Release(t, testkit.Acquire(t, e.Lock("before", opts...)))
		}
		name := testkit.Numbered("name", i)
		asked := p.Hold(testkit.ScriptCall("acquire"), 1)
		first := e.Lock(name, pair[0]...).AcquireAsync(testkit.Limited(t))
		testkit.Await(t, asked.C(), "an acquire")
		require.True(t, first.Cancel())
		back := p.HoldNext(testkit.ScriptCall("release"), 1)
		testkit.Await(t, back.C(), "the grant is given back")
		try := e.Lock(name, pair[1]...).TryAcquireAsync(testkit.Limited(t))
		other := e.Lock("before", pair[1]...).AcquireAsync(testkit.Limited(t)) // what overtakes is there before this
		if i == 0 {
			testkit.Get(t, other)
		}
		p.ReleaseCommands()
		ls, err := try.Await(testkit.Limited(t))
		require.NoError(t, err, "pair %d", i)
		testkit.Release(t, ls)
		testkit.Release(t, testkit.Get(t, other))
	}
	testkit.Finish(t, s.Master, e)
}

// Nor does it find the place of one who has left: whose acquire was taken back while it was queued, or is on its way.
func TestATryOfAFairLockWaitsUntilWhoLeftHasLeftTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, elsewhere := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	testkit.Release(t, testkit.Acquire(t, e.Lock("before")))
	for i, opts := range [][]engine.Option{nil, {engine.FixedLease(20 * time.Second)}} {
		name := testkit.Numbered("q", i)
		ls := testkit.Acquire(t, elsewhere.FairLock(name).Lock)
		before := e.Stats()
		leaves := e.FairLock(name).AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "it listens", func() bool { return e.Stats().WokenBySubscribe > before.WokenBySubscribe })
		testkit.Release(t, testkit.Acquire(t, e.Lock("before"))) // and has asked once more
		// It is woken, and asks behind something that is on its way.
		busy := p.Hold(testkit.ScriptCall("acquire"), 1)
		other := e.Lock("before").AcquireAsync(testkit.Limited(t))
		testkit.Await(t, busy.C(), "an acquire")
		testkit.Release(t, ls)
		testkit.Eventually(t, "it is woken", func() bool { return e.Stats().WokenByMessage > before.WokenByMessage })
		require.True(t, leaves.Cancel())
		asked := p.Count("EVALSHA")
		try := e.FairLock(name, opts...).TryAcquireAsync(testkit.Limited(t))
		p.ReleaseCommands()
		again, err := try.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, asked+2, p.Count("EVALSHA"), "who left has left, and the Try has asked behind that")
		testkit.Release(t, again)
		testkit.Release(t, testkit.Get(t, other))
	}
	testkit.Finish(t, s, e, elsewhere)
}

// Several handles are given back one after the other: the last is no release until the others are answered. Nor does a Try
// behind them find the hold.
func TestATryBehindSeveralHandlesOfAnOwnerIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for name, l := range map[string]*engine.Lock{
		"plain": e.Lock("plain"), "fair": e.FairLock("fair").Lock, "write": e.RWLock("rw").WriteLock(),
	} {
		mine := l.With(engine.As(engine.NewOwner()))
		for range 30 {
			outer, inner := testkit.Acquire(t, mine), testkit.Acquire(t, mine)
			given := []*engine.Future[struct{}]{inner.ReleaseAsync(), outer.ReleaseAsync()}
			ls, err := l.TryAcquire(testkit.Limited(t))
			require.NoError(t, err, name)
			for _, f := range given {
				_, err := f.Await(testkit.Limited(t))
				require.NoError(t, err, name)
			}
			testkit.Release(t, ls)
		}
	}
	testkit.Finish(t, s, e)
}
