package cluster_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A halfMoved is a slot that stays on its way until the test ends it.
type halfMoved struct {
	testing.TB
	move     *redistest.Move
	from, to *redistest.Server
}

// halfMove begins to move the slot of a name. Its keys stay where they are.
func halfMove(tb testing.TB, c *redistest.Cluster, name string) *halfMoved {
	tb.Helper()
	s := slot.Of(name)
	from, err := c.Owner(testkit.Limited(tb), s)
	require.NoError(tb, err)
	to := testkit.AnotherMaster(tb, c, s)
	move, err := c.BeginMove(testkit.Limited(tb), s, to)
	require.NoError(tb, err)
	return &halfMoved{TB: tb, move: move, from: from, to: to}
}

// carry moves some keys.
func (h *halfMoved) carry(keys ...string) {
	h.Helper()
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(h.to.Port()), "", "0", "5000", "KEYS"}
	require.Equal(h, "OK", h.from.Do(h, append(args, keys...)...))
}

// carryAll moves all keys of the slot.
func (h *halfMoved) carryAll() {
	h.Helper()
	require.NoError(h, h.move.Keys(testkit.Limited(h)))
}

func (h *halfMoved) finish() {
	h.Helper()
	require.NoError(h, h.move.Finish(testkit.Limited(h)))
}

// Each key of a read hold is on either side while its slot stays half-moved for longer than its lease. The
// hash and the marks are renewed where they are, nothing is made where it would stop the move, and a release
// frees the lock, or leaves it to the other reader.
func TestAReadHoldOutlivesItsLeaseInASlotThatStaysHalfMoved(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	const lease = 3 * time.Second
	type reading struct {
		*halfMoved
		name, stage string
		leases      []*engine.Lease
		marks       []string
	}
	var all []reading
	for readers := 1; readers <= 2; readers++ {
		for _, stage := range []string{"nothing", "hash", "marks", "all"} {
			name := fmt.Sprint("reads:", readers, stage)
			r := reading{name: name, stage: stage}
			for _, e := range []*engine.Engine{a, b}[:readers] {
				ls := testkit.Acquire(t, e.RWLock(name, engine.WatchdogLease(lease)).ReadLock())
				r.leases, r.marks = append(r.leases, ls), append(r.marks, slot.ReadHold(name, ls.OwnerID(), 1))
			}
			r.halfMoved = halfMove(t, c, name)
			switch stage {
			case "hash":
				r.carry(name)
			case "marks":
				r.carry(r.marks...)
			case "all":
				r.carryAll()
			}
			all = append(all, r)
		}
	}
	testkit.LastUntil(time.Now().Add(lease * 3 / 2))
	for _, r := range all {
		what := r.name
		for _, key := range append([]string{r.name}, r.marks...) {
			at, not := r.from, r.to
			if r.stage == "all" || (r.stage == "hash") == (key == r.name) && r.stage != "nothing" {
				at, not = r.to, r.from
			}
			require.Contains(t, at.Keys(t), key, what)
			require.NotContains(t, not.Keys(t), key, what)
		}
		for _, ls := range r.leases {
			require.False(t, ls.Lost(), what)
		}
		testkit.Release(t, r.leases[0])
		there := slices.Concat(r.from.Keys(t), r.to.Keys(t))
		if len(r.leases) == 1 {
			require.NotContains(t, there, r.name, "%s: nobody holds it", what)
			continue
		}
		require.Contains(t, there, r.name, "%s: the other reads on", what)
		r.finish()
		require.False(t, r.leases[1].Lost(), what)
		_, err := a.RWLock(r.name).WriteLock().TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld, what)
		testkit.Release(t, r.leases[1])
	}
	for _, r := range all {
		r.finish()
		testkit.Release(t, testkit.Acquire(t, a.RWLock(r.name).WriteLock()))
	}
	testkit.Eventually(t, "marks expire", func() bool {
		return len(slices.Concat(c.Masters[0].Keys(t), c.Masters[1].Keys(t), c.Masters[2].Keys(t))) == 0
	})
	testkit.FinishCluster(t, c, a, b)
}

// All that a name has is at the target, but the slot is not yet: whoever waits, from before or from now, has
// the lock soon after its release, and a Try is answered.
func TestEveryFamilyGoesOnInASlotThatStaysHalfMoved(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	for kind := range testkit.Family(testkit.OpenCluster(t, c), "x") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
			name, wanted := "half:"+kind, kind
			if kind == "Read" {
				wanted = "Write" // readers do not wait for each other
			}
			served := make(chan error, 2)
			want := func(e *engine.Engine) {
				testkit.Family(e, name)[wanted].AcquireAsync(testkit.Limited(t)).OnComplete(func(ls *engine.Lease, err error) {
					if err == nil {
						err = ls.Release(t.Context())
					}
					served <- err
				})
			}
			held := testkit.Acquire(t, testkit.Family(a, name)[kind])
			want(b)
			testkit.Eventually(t, "one waits", func() bool { return b.Stats().Waits > 0 })
			h := halfMove(t, c, name)
			h.carryAll()
			_, err := testkit.Family(a, name)[wanted].TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld)
			info, err := testkit.Family(a, name)[kind].Inspect(testkit.Limited(t))
			require.NoError(t, err)
			require.Equal(t, held.OwnerID(), info.OwnerID)
			want(a)
			from := time.Now()
			testkit.Release(t, held)
			for range 2 {
				require.NoError(t, testkit.Await(t, served, "a waiter"))
			}
			require.Less(t, testkit.Ran(from), 5*time.Second, "no message is heard, but they ask about every second")
			testkit.Release(t, testkit.Acquire(t, testkit.Family(a, name)[kind]))
			h.finish()
			testkit.Release(t, testkit.Acquire(t, testkit.Family(b, name)[kind]))
		})
	}
}

// What must be seen beside the lock's key is still at the source, and the lock is free: nobody is granted
// anything past it, nothing is made in its place, and whoever wants the lock has it when the rest has come.
func TestALockWhoseOtherKeysAreLeftAtTheSourceIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)

	fenced := e.FencedLock("left:fenced").Lock
	first := testkit.Acquire(t, fenced)
	testkit.Release(t, first)
	h := halfMove(t, c, fenced.Name())
	wanted := fenced.AcquireAsync(testkit.Limited(t))
	from := e.Stats().Slots.Redirects
	testkit.Eventually(t, "it has been asked for a few times", func() bool { return e.Stats().Slots.Redirects > from+3 })
	require.Empty(t, h.to.Keys(t))
	h.finish()
	second, err := wanted.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Greater(t, second.Token(), first.Token())
	testkit.Release(t, second)

	fair := e.FairLock("left:fair")
	holder := testkit.Acquire(t, fair.Lock)
	waiter := fair.AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it stands in the queue", func() bool {
		places, err := fair.Queue(testkit.Limited(t))
		return err == nil && len(places) == 1
	})
	h = halfMove(t, c, fair.Name())
	h.carry(fair.Name(), slot.FairQueue(fair.Name()))
	testkit.Release(t, holder)
	from = e.Stats().Slots.Redirects
	testkit.Eventually(t, "its waiter has asked", func() bool { return e.Stats().Slots.Redirects > from+3 })
	require.Contains(t, h.to.Keys(t), slot.FairQueue(fair.Name()), "whoever waits keeps its place")
	places, err := fair.Queue(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, places, 1)
	h.finish()
	ls, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)

	reader := testkit.Acquire(t, e.RWLock("left:mark", engine.FixedLease(20*time.Second)).ReadLock())
	h = halfMove(t, c, reader.Name())
	h.carry(reader.Name())
	longer := make(chan error, 1)
	from = e.Stats().Slots.Redirects
	go func() { longer <- reader.Extend(testkit.Limited(t), time.Minute) }()
	testkit.Eventually(t, "it is asked for", func() bool { return e.Stats().Slots.Redirects > from+3 })
	require.NotContains(t, h.to.Keys(t), slot.ReadHold(reader.Name(), reader.OwnerID(), 1))
	h.finish()
	require.NoError(t, testkit.Await(t, longer, "the answer"))
	testkit.Release(t, reader)
	testkit.DropTokens(t, c)
	testkit.FinishCluster(t, c, e)
}

// Whatever else is asked about a lock is answered, too, and means what it means elsewhere.
func TestEveryOperationIsAnsweredInASlotThatStaysHalfMoved(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e, rival := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	for kind := range testkit.Family(e, "x") {
		t.Run(kind, func(t *testing.T) {
			name := "asked:" + kind
			ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
			lock := testkit.Family(e, name)[kind].With(engine.FixedLease(20 * time.Second))
			first, err := lock.Acquire(ctx)
			require.NoError(t, err)
			h := halfMove(t, c, name)
			h.carryAll()
			second, err := lock.Acquire(ctx)
			require.NoError(t, err, "entered again")
			require.NoError(t, first.Extend(testkit.Limited(t), time.Minute))
			info, err := testkit.Family(rival, name)[kind].Inspect(testkit.Limited(t))
			require.NoError(t, err)
			require.Greater(t, info.Remaining, 30*time.Second)
			testkit.Release(t, second)
			require.False(t, first.Lost())
			if kind == "Fair" {
				places, err := e.FairLock(name).Queue(testkit.Limited(t))
				require.NoError(t, err)
				require.Empty(t, places)
			}
			was, err := testkit.Family(rival, name)[kind].ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, was)
			testkit.Release(t, testkit.Acquire(t, testkit.Family(rival, name)[kind]))
			require.ErrorIs(t, first.Release(testkit.Limited(t)), engine.ErrLost)
			h.finish()
		})
	}
}

// The note of a writer that waits is still at the source, and the readers are at the target already.
func TestAWriterThatWaitsMakesNoNoteWhereOneIsStillToCome(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	const name = "noted"
	const note = "{" + name + "}:rwlock_writer"
	reader := testkit.Acquire(t, a.RWLock(name).ReadLock())
	writer := b.RWLock(name).WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().Waits > 0 })
	h := halfMove(t, c, name)
	require.Contains(t, h.from.Keys(t), note)
	h.carry(name, slot.ReadHold(name, reader.OwnerID(), 1))
	asked := b.Stats().Slots.Redirects
	testkit.Eventually(t, "it has asked at the target", func() bool { return b.Stats().Slots.Redirects > asked })
	polls := b.Stats().WokenByPoll
	testkit.Eventually(t, "and was answered", func() bool { return b.Stats().WokenByPoll > polls })
	require.NotContains(t, h.to.Keys(t), note)
	h.finish()
	testkit.Release(t, reader)
	ls, err := writer.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.FinishCluster(t, c, a, b)
}
