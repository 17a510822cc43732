package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// meetingKinds are the kinds of lock that can be asked for under one name.
var meetingKinds = []struct {
	name string
	of   func(e *engine.Engine, name string) *engine.Lock
}{
	{"lock", func(e *engine.Engine, name string) *engine.Lock { return e.Lock(name) }},
	{"spin", func(e *engine.Engine, name string) *engine.Lock {
		return e.Lock(name, engine.Spin(5*time.Millisecond, 50*time.Millisecond))
	}},
	{"fenced", func(e *engine.Engine, name string) *engine.Lock { return e.FencedLock(name).Lock }},
	{"fair", func(e *engine.Engine, name string) *engine.Lock { return e.FairLock(name).Lock }},
	{"read", func(e *engine.Engine, name string) *engine.Lock { return e.RWLock(name).ReadLock() }},
	{"write", func(e *engine.Engine, name string) *engine.Lock { return e.RWLock(name).WriteLock() }},
}

// meeting says what becomes of who asks for one kind while another is held: w waits, e enters, k is told
// ErrWrongKind, u ErrUpgrade. A mutex and a read-write lock are told apart on the wire. Lock, spin, fenced and fair
// are one kind there, Redisson's RLock, and wait for each other; but a hold is entered again as what it is.
var meetings = map[string]struct{ owner, other string }{ // by what is held; in the order of meetingKinds
	"lock":   {owner: "eekkkk", other: "wwwwkk"},
	"spin":   {owner: "eekkkk", other: "wwwwkk"},
	"fenced": {owner: "kkekkk", other: "wwwwkk"},
	"fair":   {owner: "kkkekk", other: "wwwwkk"},
	"read":   {owner: "kkkkeu", other: "kkkkew"},
	"write":  {owner: "kkkkee", other: "kkkkww"},
}

func TestMeetingsOfKindsUnderOneName(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	here, there := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	t.Run("table", func(t *testing.T) {
		for _, held := range meetingKinds {
			for i, asked := range meetingKinds {
				for _, who := range []string{"owner", "other", "elsewhere"} {
					name := held.name + "-" + asked.name + "-" + who
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						o := engine.NewOwner()
						first := held.of(here, name)
						l, want := asked.of(here, name), meetings[held.name].other[i]
						switch who {
						case "owner":
							l, want = l.With(engine.As(o)), meetings[held.name].owner[i]
						case "elsewhere":
							l = asked.of(there, name)
						}
						meet(t, testkit.Acquire(t, first.With(engine.As(o))), first, l, want)
					})
				}
			}
		}
	})
	for _, k := range meetingKinds {
		for _, l := range meetingKinds {
			for _, who := range []string{"owner", "other", "elsewhere"} {
				s.Do(t, "DEL", "redisson_lock_token:{"+k.name+"-"+l.name+"-"+who+"}")
			}
		}
	}
	testkit.Finish(t, s, here, there)
}

// meet has somebody ask for l while another kind is held, and somebody else wait for what is held. Nobody else is
// harmed, and everybody who waits gets it.
func meet(t *testing.T, holder *engine.Lease, held, l *engine.Lock, want byte) {
	t.Helper()
	behind := held.AcquireAsync(testkit.Limited(t))
	before, err := l.TryAcquire(testkit.Limited(t))
	var later *engine.Future[*engine.Lease]
	switch want {
	case 'k', 'u':
		refusal := map[byte]error{'k': engine.ErrWrongKind, 'u': engine.ErrUpgrade}[want]
		require.ErrorIs(t, err, refusal)
		_, err = l.Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, refusal)
	case 'e':
		require.NoError(t, err)
		testkit.Release(t, before)
	case 'w':
		require.ErrorIs(t, err, engine.ErrHeld)
		later = l.AcquireAsync(testkit.Limited(t))
	}
	require.False(t, holder.Lost())
	testkit.Release(t, holder)
	both := []*engine.Future[*engine.Lease]{behind, later}
	for _, f := range both {
		if f != nil {
			f.OnComplete(func(ls *engine.Lease, err error) {
				if err == nil {
					ls.ReleaseAsync()
				}
			})
		}
	}
	for _, f := range both {
		if f != nil {
			_, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
		}
	}
}

// Whoever is first, everybody who asks at once is served or told what is wrong, and nothing is left.
func TestKindsThatAreAskedForAtOnceUnderOneName(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	here, there := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	var served, refused int
	for round := range 12 {
		name := testkit.Numbered("name", round)
		var all []*engine.Future[*engine.Lease]
		for i := range 3 * len(meetingKinds) {
			k := meetingKinds[(i*5+round*(i%7+1))%len(meetingKinds)]
			l := k.of([]*engine.Engine{here, here, there}[i%3], name)
			if i%3 == 1 {
				l = l.With(engine.As(o))
			}
			f := l.AcquireAsync(testkit.Limited(t))
			f.OnComplete(func(ls *engine.Lease, err error) {
				if err == nil {
					ls.ReleaseAsync()
				}
			})
			all = append(all, f)
		}
		for _, f := range all {
			if _, err := f.Await(testkit.Limited(t)); err != nil {
				refused++
				require.True(t, testkit.ErrorIsAny(err, engine.ErrWrongKind, engine.ErrUpgrade), "%v", err)
				continue
			}
			served++
		}
	}
	t.Logf("%d served, %d refused", served, refused)
	require.Positive(t, served)
	require.Positive(t, refused)
	testkit.Eventually(t, "everything is given back", func() bool { return here.Stats().Names+there.Stats().Names == 0 })
	for round := range 12 {
		s.Do(t, "DEL", "redisson_lock_token:{"+testkit.Numbered("name", round)+"}")
	}
	testkit.Finish(t, s, here, there)
}

// Who is refused for a holder in the same process is told which, also where that has another kind of lock.
func TestHeldErrorNamesAHolderHere(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	for what, c := range map[string]struct {
		has, wants func(e *engine.Engine) *engine.Lock
	}{
		"a writer behind a reader": {
			func(e *engine.Engine) *engine.Lock { return e.RWLock("rw").ReadLock() },
			func(e *engine.Engine) *engine.Lock { return e.RWLock("rw").WriteLock() },
		},
		"a reader behind a writer": {
			func(e *engine.Engine) *engine.Lock { return e.RWLock("wr").WriteLock() },
			func(e *engine.Engine) *engine.Lock { return e.RWLock("wr").ReadLock() },
		},
		"a lock behind a fair one": {
			func(e *engine.Engine) *engine.Lock { return e.FairLock("f").Lock },
			func(e *engine.Engine) *engine.Lock { return e.Lock("f") },
		},
	} {
		ls := testkit.Acquire(t, c.has(e))
		_, err := c.wants(e).TryAcquire(testkit.Limited(t))
		var held *engine.HeldError
		require.ErrorAs(t, err, &held, what)
		require.Equal(t, ls.OwnerID(), held.Holder, what)
		require.ErrorContains(t, err, "another caller of this engine", what)
		_, err = c.wants(other).TryAcquire(testkit.Limited(t))
		require.ErrorAs(t, err, &held, what)
		require.Empty(t, held.Holder, "%s: it is elsewhere", what)
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, e, other)
}
