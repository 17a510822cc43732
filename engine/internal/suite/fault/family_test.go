package fault_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// TestC103_TokensRiseOverAFailoverThatLosesSome: a replica that has not seen the last tokens becomes the
// master. No token is given twice, and those of the new master are greater. C-105: who holds no more has its
// own token still.
func TestC103_TokensRiseOverAFailoverThatLosesSome(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	replica := s.Replicas[0]
	before, after := testkit.Open(t, s.Master.Addr()), testkit.Open(t, s.Master.Addr())
	last := int64(0)
	take := func(e *engine.Engine) *engine.Lease {
		t.Helper()
		ls := testkit.Acquire(t, e.FencedLock("f").Lock)
		require.Greater(t, ls.Token(), last)
		last = ls.Token()
		return ls
	}
	testkit.Release(t, take(before))
	testkit.Eventually(t, "the replica has it", func() bool {
		return replica.Do(t, "GET", slot.FenceToken("f")) == s.Master.Do(t, "GET", slot.FenceToken("f"))
	})
	replica.Do(t, "REPLICAOF", "NO", "ONE") // it will not see what comes now
	for range 20 {
		testkit.Release(t, take(before))
		testkit.Release(t, take(after))
	}
	old := take(before)
	token := old.Token()
	s.Master.Kill()

	promoted := testkit.Open(t, replica.Addr())
	next := take(promoted)
	require.Equal(t, token, old.Token(), "a holder's token is its own, whoever holds now")
	require.Greater(t, next.Token(), old.Token())
	testkit.Release(t, next)
	replica.Do(t, "DEL", slot.FenceToken("f"))
	testkit.Finish(t, replica, promoted)
}

// TestC125_TenDeadWaitersInARow: a process dies with ten places at the head of the queue. It costs the one
// behind them no more than the first of them would.
func TestC125_TenDeadWaitersInARow(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	dead, a, b := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, b.FairLock("q").Lock)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	defer cancel()
	for range 10 {
		dead.FairLock("q").AcquireAsync(ctx)
	}
	testkit.Eventually(t, "they queue", func() bool { return s.Do(t, "LLEN", slot.FairQueue("q")) == "10" })
	p.RefuseNew(true)
	p.CutAll()
	next := a.FairLock("q").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it stands behind", func() bool { return s.Do(t, "LLEN", slot.FairQueue("q")) == "11" })
	began := time.Now()
	testkit.Release(t, held)
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(began), 9*time.Second)
	testkit.Release(t, ls)
	p.RefuseNew(false)
	cancel()
	testkit.Finish(t, s, dead, a, b)
}

// TestC127_ThePlacesAndTheTimesAreOneSet: waiters come and leave, in every way and order. Whoever stands in
// the queue has a time, and nobody else.
func TestC127_ThePlacesAndTheTimesAreOneSet(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	held := testkit.Acquire(t, engines[0].FairLock("q").Lock)
	random := rand.New(rand.NewPCG(1, 27))
	type waiter struct {
		f      *engine.Future[*engine.Lease]
		cancel context.CancelFunc
	}
	var line []waiter
	giveBack := func(ls *engine.Lease, err error) {
		if err == nil {
			ls.ReleaseAsync()
		}
	}
	leave := func(w waiter) { // the lock may come before the cancellation is noticed
		w.cancel()
		w.f.OnComplete(giveBack)
	}
	sets := func() (places, times []string) {
		places = strings.Fields(s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1"))
		times = strings.Fields(s.Do(t, "ZRANGE", slot.FairTimeouts("q"), "0", "-1"))
		slices.Sort(places)
		slices.Sort(times)
		return places, times
	}
	for range 30 {
		for range 10 {
			switch what := random.IntN(6); {
			case what < 3 || len(line) == 0:
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(cancel)
				line = append(line, waiter{engines[random.IntN(2)].FairLock("q").AcquireAsync(ctx), cancel})
			case what == 3:
				f := engines[random.IntN(2)].FairLock("q", engine.MaxWait(time.Millisecond)).AcquireAsync(t.Context())
				f.OnComplete(giveBack)
			case what == 4:
				i := random.IntN(len(line))
				leave(line[i])
				line = slices.Delete(line, i, i+1)
			default: // who is served gives the lock to the next
				testkit.Release(t, held)
				served := -1
				testkit.Eventually(t, "the next is served", func() bool {
					served = slices.IndexFunc(line, func(w waiter) bool { _, _, ok := w.f.Result(); return ok })
					return served >= 0
				})
				ls, err, _ := line[served].f.Result()
				require.NoError(t, err)
				held, line = ls, slices.Delete(line, served, served+1)
			}
		}
		testkit.Eventually(t, "the queue is who waits", func() bool {
			places, times := sets()
			return len(places) == len(line) && slices.Equal(places, times)
		})
	}
	for _, w := range line {
		leave(w)
	}
	testkit.Release(t, held)
	testkit.Eventually(t, "nobody waits", func() bool {
		places, times := sets()
		return len(places) == 0 && len(times) == 0
	})
	testkit.Finish(t, s, engines...)
}

// TestC130_TheQueueIsLostAndTheLockIsNot: a failover, or an eviction, takes the queue of a lock that is
// held. Its waiters queue again with their next try, and all are served.
func TestC130_TheQueueIsLostAndTheLockIsNot(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	for _, keys := range [][]string{
		{slot.FairQueue("q"), slot.FairTimeouts("q")}, {slot.FairQueue("q")}, {slot.FairTimeouts("q")},
	} {
		held := testkit.Acquire(t, a.FairLock("q").Lock)
		fs := testkit.LineUp(t, s, 4, func(i int) *engine.FairLock { return []*engine.Engine{a, b}[i%2].FairLock("q") })
		s.Do(t, append([]string{"DEL"}, keys...)...)
		testkit.Eventually(t, "they queue again", func() bool {
			return s.Do(t, "LLEN", slot.FairQueue("q")) == "4" && s.Do(t, "ZCARD", slot.FairTimeouts("q")) == "4"
		})
		testkit.Release(t, held)
		done := make(chan error, len(fs))
		for _, f := range fs {
			go func() {
				ls, err := f.Await(t.Context())
				if err == nil {
					err = ls.Release(t.Context())
				}
				done <- err
			}()
		}
		for range fs {
			require.NoError(t, testkit.Await(t, done, "a waiter"))
		}
	}
	testkit.Finish(t, s, a, b)
}

// TestC134_OneReaderOfFiveDies: a writer waits for as long as the dead one's lease lasts, and no longer; the
// others keep theirs. C-137: then the readers who waited behind it all come in with its release.
func TestC134_OneReaderOfFiveDies(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	const lease, deads = 6 * time.Second, 2 * time.Second
	dead := testkit.Open(t, p.Addr())
	var engines []*engine.Engine
	var reads []*engine.Lease
	for range 4 {
		e := testkit.Open(t, s.Addr())
		engines = append(engines, e)
		reads = append(reads, testkit.Acquire(t, e.RWLock("rw", engine.WatchdogLease(lease)).ReadLock()))
	}
	testkit.Acquire(t, dead.RWLock("rw", engine.WatchdogLease(deads)).ReadLock())
	p.RefuseNew(true)
	p.CutAll()
	died := time.Now()
	writer := engines[0].RWLock("rw").WriteLock().AcquireAsync(testkit.Limited(t))
	for i, r := range reads {
		sent := engines[i].Stats().Renewals.Sent
		testkit.Eventually(t, "the others are renewed", func() bool { return engines[i].Stats().Renewals.Sent > sent })
		require.False(t, r.Lost())
		testkit.Release(t, r)
	}
	w, err := writer.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(died), engine.DefaultLease/2, "the longest that a busy machine may take, and no lease of anybody's default")
	var late []*engine.Future[*engine.Lease]
	for i, e := range engines[1:] {
		late = append(late, e.RWLock("rw").ReadLock().AcquireAsync(testkit.Limited(t)))
		testkit.Eventually(t, "it waits", func() bool { return engines[i+1].Stats().WokenBySubscribe > 0 })
	}
	testkit.Release(t, w)
	var in []*engine.Lease
	for _, f := range late {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		in = append(in, ls)
	}
	for i, ls := range in { // by the message, or by the question that each asks when it listens, if that was on its way
		require.Zero(t, engines[i+1].Stats().GrantsByPoll, "nobody had to look for itself")
		testkit.Release(t, ls)
	}
	p.RefuseNew(false)
	testkit.Finish(t, s, append(engines, dead)...)
}
