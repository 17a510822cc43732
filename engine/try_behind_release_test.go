package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A Try that comes while this engine's own release is on its way goes behind it, whatever the kind of lock,
// and whatever connection the Try travels on.
func TestATryBehindAnOwnReleaseIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := openEngine(t, p.Addr())
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
			ls := acquire(t, c.first)
			held := p.Hold(scriptCall(c.release), 1)
			released := ls.ReleaseAsync()
			await(t, held.C(), "the release")
			try := c.then.TryAcquireAsync(limited(t))
			other := acquire(t, e.Lock("other", seen)) // what might overtake the release over that connection has
			p.ReleaseCommands()
			_, err := released.Await(limited(t))
			require.NoError(t, err)
			again, err := try.Await(limited(t))
			require.NoError(t, err, name)
			release(t, again)
			release(t, other)
		}
	}
	s.Master.Do(t, "DEL", "redisson_lock_token:{fenced}")
	finish(t, s.Master, e)
}

// But it does not overtake who waits here, or is just asking.
func TestATryOfAFairLockNeverOvertakesWhoAsksHere(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	l := e.FairLock("q").Lock
	release(t, acquire(t, l))
	held := p.Hold(scriptCall("fair"), 1)
	first := l.AcquireAsync(limited(t))
	await(t, held.C(), "an acquire")
	_, err := l.TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	p.ReleaseCommands()
	ls, err := first.Await(limited(t))
	require.NoError(t, err)
	_, err = l.TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	release(t, ls)
	finish(t, s, e)
}

// Nor is it refused by a grant that nobody could use, and that is being given back.
func TestATryForReplicasBehindAGrantThatIsGivenBackIsNotRefused(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := openEngine(t, p.Addr())
	seen := engine.WaitReplicas(1, 5*time.Second)
	release(t, acquire(t, e.Lock("name")))
	asked := watchCommands(p, scriptCall("acquire"))
	s.Master.Pause()
	first := e.Lock("name").AcquireAsync(limited(t))
	await(t, asked, "an acquire")
	try := e.Lock("name", seen).TryAcquireAsync(limited(t))
	require.True(t, first.Cancel())
	back := p.Hold(scriptCall("release"), 1)
	s.Master.Resume()
	await(t, back.C(), "the grant is given back")
	other := acquire(t, e.Lock("other", seen))
	p.ReleaseCommands()
	ls, err := try.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	release(t, other)
	finish(t, s.Master, e)
}
