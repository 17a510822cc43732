package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// replicated starts a master with replicas, and an engine on the master.
func replicated(t *testing.T, replicas int) (*redistest.Sentinel, *engine.Engine) {
	t.Helper()
	s := redistest.RunSentinel(t, replicas, 0)
	return s, testkit.Open(t, s.Master.Addr())
}

// requireNotReplicated checks the error of a grant that too few have seen.
func requireNotReplicated(tb testing.TB, err error, wanted, seen int) {
	tb.Helper()
	var short *engine.NotReplicatedError
	require.ErrorAs(tb, err, &short)
	require.ErrorIs(tb, err, engine.ErrNotReplicated)
	require.Equal(tb, wanted, short.Wanted)
	require.Equal(tb, seen, short.Seen)
	require.True(tb, engine.SafeToRetry(err))
}

// waitsForReplicas waits until the server shows a client in WAIT.
func waitsForReplicas(tb testing.TB, s *redistest.Server) {
	tb.Helper()
	testkit.Eventually(tb, "WAIT blocks", func() bool {
		n, err := s.InfoField("clients", "blocked_clients")
		return err == nil && n != "0"
	})
}

func TestWaitReplicasGrantsWhatTheReplicasHave(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 2)
	l := e.Lock("name", engine.WaitReplicas(2, 5*time.Second))
	for range 50 {
		ls := testkit.Acquire(t, l)
		for _, r := range s.Replicas {
			require.Equal(t, ls.OwnerID()+"\n1", r.Do(t, "HGETALL", "name"), "a replica has not seen the grant")
		}
		testkit.Release(t, ls)
	}
	require.EqualValues(t, 50, e.Stats().Grants)
	testkit.Finish(t, s.Master, e)
}

func TestC080_WaitReplicasGivesBackWhatAStoppedReplicaHasNotSeen(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	const timeout = 700 * time.Millisecond
	l := e.Lock("name", engine.WaitReplicas(1, timeout))
	testkit.Release(t, testkit.Acquire(t, l))
	s.Replicas[0].Pause()
	began := time.Now()
	f := l.AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master)
	next := e.Lock("name").AcquireAsync(testkit.Limited(t))
	slowest, pairs := time.Duration(0), 0
	for ; ; pairs++ { // other locks of the node go on meanwhile
		if _, _, done := f.Result(); done {
			break
		}
		from := time.Now()
		testkit.Release(t, testkit.Acquire(t, e.Lock(testkit.Numbered("other", pairs%10))))
		slowest = max(slowest, time.Since(from))
	}
	_, err := f.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	require.GreaterOrEqual(t, time.Since(began), timeout)
	require.Less(t, testkit.Ran(began), timeout+3*time.Second)
	require.Greater(t, pairs, 10)
	require.Less(t, slowest, timeout, "who does not ask for replicas waits for none")
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err, "the next waiter gets what was given back")
	require.Equal(t, "1", testkit.CountOf(t, s.Master, ls))
	testkit.Release(t, ls)
	for range 3 { // trying again never adds up
		_, err := l.TryAcquire(testkit.Limited(t))
		requireNotReplicated(t, err, 1, 0)
		testkit.Eventually(t, "it is given back", func() bool { return !testkit.Exists(t, s.Master, "name") })
	}
	require.EqualValues(t, 4, e.Stats().Unseen)
	s.Replicas[0].Resume()
	testkit.Release(t, testkit.Acquire(t, e.Lock("name", engine.WaitReplicas(1, 10*time.Second)))) // the replica has to catch up
	testkit.Finish(t, s.Master, e)
}

func TestC081_WaitReplicasForMoreThanThereAre(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 2)
	const timeout = 300 * time.Millisecond
	_, err := e.Lock("name", engine.WaitReplicas(3, timeout)).TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 3, 2)
	s.Replicas[1].Pause() // one has it, and the other might be promoted: a majority of three holds copies, all do not
	_, err = e.Lock("name", engine.WaitReplicas(2, timeout)).TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 2, 1)
	testkit.Release(t, testkit.Acquire(t, e.Lock("name", engine.WaitReplicas(1, timeout))))
	testkit.Finish(t, s.Master, e)
}

// TestWaitReplicasAnswersEachByItsOwnTerms: what travels in one batch is answered when its own number
// has been reached, or its own time is over.
func TestWaitReplicasAnswersEachByItsOwnTerms(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	block := e.Lock("first", engine.WaitReplicas(2, 300*time.Millisecond)).AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master) // those that follow collect behind it
	long := e.Lock("long", engine.WaitReplicas(2, 10*time.Second)).AcquireAsync(testkit.Limited(t))
	one := make([]*engine.Future[*engine.Lease], 20)
	for i := range one {
		one[i] = e.Lock(testkit.Numbered("one", i), engine.WaitReplicas(1, 10*time.Second)).AcquireAsync(testkit.Limited(t))
	}
	short := e.Lock("short", engine.WaitReplicas(2, 3*time.Second)).AcquireAsync(testkit.Limited(t))
	_, err := block.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 2, 1)
	leases, err := engine.AllLeases(one...).Await(testkit.Limited(t))
	require.NoError(t, err)
	_, _, done := short.Result()
	require.False(t, done, "those who want one have waited for those who want two")
	_, err = short.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 2, 1)
	_, _, done = long.Result()
	require.False(t, done, "its time is not over")
	require.True(t, long.Cancel())
	for _, ls := range leases {
		testkit.Release(t, ls)
	}
	require.NoError(t, e.Close(testkit.Limited(t)))
	testkit.Finish(t, s.Master)
}

func TestWaitReplicasCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	s.Replicas[0].Pause()
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	f := e.Lock("name", engine.WaitReplicas(1, 2*time.Second)).AcquireAsync(ctx)
	waitsForReplicas(t, s.Master)
	cancel()
	from := time.Now()
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, testkit.Ran(from), time.Second, "cancelling waits for no replica")
	ls := testkit.Acquire(t, e.Lock("name"))
	require.Equal(t, "1", testkit.CountOf(t, s.Master, ls))
	testkit.Release(t, ls)
	testkit.Finish(t, s.Master, e)
}

func TestWaitReplicasCloseWhileItWaits(t *testing.T) {
	s, e := replicated(t, 1)
	s.Replicas[0].Pause()
	l := e.Lock("name", engine.WaitReplicas(1, 15*time.Second))
	f, behind := l.AcquireAsync(testkit.Limited(t)), l.With(engine.WatchdogLease(40*time.Second)).AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master)
	from := time.Now()
	require.NoError(t, e.Close(testkit.Limited(t)))
	require.Less(t, testkit.Ran(from), 5*time.Second, "Close waits for no replica")
	for _, f := range []*engine.Future[*engine.Lease]{f, behind} {
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrClosed)
	}
	require.Empty(t, s.Master.Keys(t), "what was granted is given back")
}

// TestWaitReplicasHandsOverWhatTheyHaveSeen: the field stays when a lock is handed over or entered again,
// so those who have seen it need not see it again; who asks for more does.
func TestWaitReplicasHandsOverWhatTheyHaveSeen(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 2)
	two := e.Lock("name", engine.WaitReplicas(2, 500*time.Millisecond))
	plain := e.Lock("name")
	o := engine.NewOwner()

	ls := testkit.Acquire(t, two.With(engine.As(o)))
	s.Replicas[0].Pause()
	again := testkit.Acquire(t, two.With(engine.As(o)))
	require.Equal(t, ls.OwnerID(), again.OwnerID(), "entered again without asking them")
	testkit.Release(t, again)
	testkit.Release(t, ls)

	ls = testkit.Acquire(t, plain.With(engine.As(o)))
	_, err := two.With(engine.As(o)).Acquire(testkit.Limited(t))
	requireNotReplicated(t, err, 2, 1)
	testkit.Eventually(t, "the count is what the owner has", func() bool { return testkit.CountOf(t, s.Master, ls) == "1" })
	testkit.Eventually(t, "the engine has heard of it", func() bool { return o.Holds(plain) == 1 })
	again = testkit.Acquire(t, two.With(engine.As(o), engine.WaitReplicas(1, time.Second)))
	require.Equal(t, "2", testkit.CountOf(t, s.Replicas[1], again), "a replica has not seen the count")
	require.Equal(t, "2", testkit.CountOf(t, s.Master, again))
	testkit.Release(t, again)

	waiting := two.With(engine.MaxWait(10 * time.Second)).AcquireAsync(testkit.Limited(t))
	testkit.Release(t, ls)
	_, err = waiting.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 2, 1) // it is not handed what fewer have seen

	s.Replicas[0].Resume()
	ls = testkit.Acquire(t, two)
	waiting = two.AcquireAsync(testkit.Limited(t))
	held := ls.OwnerID()
	testkit.Release(t, ls)
	ls, err = waiting.Await(testkit.Limited(t))
	require.NoError(t, err)
	if e.Stats().GrantsByHandOff > 0 {
		require.Equal(t, held, ls.OwnerID())
	}
	testkit.Release(t, ls)
	testkit.Finish(t, s.Master, e)
}

// TestC082_WaitIsSentOverTheConnectionThatWrote: when the connection of a WAIT breaks, the acquire is
// asked for again over another, under the same owner id. A WAIT there would be answered at once for
// what that connection has written: nothing.
func TestC082_WaitIsSentOverTheConnectionThatWrote(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.FixedLease(20*time.Second), engine.WaitReplicas(1, 2*time.Second))
	testkit.Release(t, testkit.Acquire(t, l))
	s.Replicas[0].Pause()
	again := testkit.WatchCommands(p, testkit.ScriptCall("reacquire"))
	f := l.AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master)
	p.CutAll()
	testkit.Await(t, again, "asked for again under the same owner id")
	_, err := f.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	s.Replicas[0].Resume()
	f = l.AcquireAsync(testkit.Limited(t))
	ls, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "1", testkit.CountOf(t, s.Master, ls), "asking again counts once")
	testkit.Release(t, ls)
	testkit.Finish(t, s.Master, e)
}

// TestWaitReplicasMasterDiesWhileItWaits: the outcome is unknown, and the new master is asked under the
// same owner id. It has no replicas.
func TestWaitReplicasMasterDiesWhileItWaits(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	e := openSentinel(t, s)
	s.Replicas[0].Pause()
	f := e.Lock("name", engine.WaitReplicas(1, 3*time.Second), engine.FixedLease(20*time.Second)).AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master)
	s.Master.Kill()
	s.Replicas[0].Resume()
	master := promoted(t, s, s.Master)
	_, err := f.Await(testkit.Limited(t))
	if !errors.Is(err, engine.ErrUnknown) { // the failover took longer than an operation waits for an answer
		requireNotReplicated(t, err, 1, 0)
	}
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	testkit.Finish(t, master, e)
}

// TestWaitReplicasCountThatCannotGoBackIsNobodys: the owner entered again, too few replicas have seen it,
// and the server refuses the lower count. The last handle frees the lock all the same.
func TestWaitReplicasCountThatCannotGoBackIsNobodys(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	s.Master.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	e := testkit.Open(t, s.Master.Addr(), func(c *engine.Config) { c.Username, c.Password = "app", "secret" })
	s.Replicas[0].Pause()
	o := engine.NewOwner()
	ls := testkit.Acquire(t, e.Lock("name", engine.As(o)))
	f := e.Lock("name", engine.As(o), engine.WaitReplicas(1, time.Second)).AcquireAsync(testkit.Limited(t))
	waitsForReplicas(t, s.Master)
	s.Master.Do(t, "ACL", "SETUSER", "app", "-hset")
	_, err := f.Await(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	testkit.Eventually(t, "the owner has one handle", func() bool { return o.Holds(e.Lock("name")) == 1 })
	testkit.Release(t, ls)
	testkit.Finish(t, s.Master, e)
}

func TestWaitReplicasOfReadLocks(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	rw := e.RWLock("name")
	o := engine.NewOwner()
	ack := engine.WaitReplicas(1, 500*time.Millisecond)
	first := testkit.Acquire(t, rw.ReadLock().With(engine.As(o)))
	s.Replicas[0].Pause()
	for _, l := range []*engine.Lock{rw.ReadLock().With(engine.As(o), ack), rw.ReadLock().With(ack), rw.WriteLock().With(ack)} {
		_, err := l.TryAcquire(testkit.Limited(t))
		require.Error(t, err)
		require.True(t, testkit.ErrorIsAny(err, engine.ErrNotReplicated, engine.ErrHeld), "%v", err)
	}
	s.Replicas[0].Resume()
	again := testkit.Acquire(t, rw.ReadLock().With(engine.As(o), ack))
	joined := testkit.Acquire(t, rw.ReadLock().With(ack))
	for _, ls := range []*engine.Lease{first, again, joined} {
		testkit.Release(t, ls)
	}
	w := testkit.Acquire(t, rw.WriteLock().With(engine.As(o)))
	s.Replicas[0].Pause()
	_, err := rw.ReadLock().With(engine.As(o), ack).Acquire(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	testkit.Release(t, w)
	testkit.Eventually(t, "nothing is left", func() bool { return len(s.Master.Keys(t)) == 0 })
	testkit.Finish(t, s.Master, e)
}

func TestWaitReplicasOfAFencedLock(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	l := e.FencedLock("name", engine.WaitReplicas(1, 500*time.Millisecond))
	ls := testkit.Acquire(t, l.Lock)
	token := ls.Token()
	require.Equal(t, ls.OwnerID()+"\n1", s.Replicas[0].Do(t, "HGETALL", "name"))
	testkit.Release(t, ls)
	s.Replicas[0].Pause()
	_, err := l.TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	s.Replicas[0].Resume()
	ls = testkit.Acquire(t, l.Lock)
	require.Greater(t, ls.Token(), token)
	testkit.Release(t, ls)
	require.NoError(t, e.Close(testkit.Limited(t)))
}

func TestWaitReplicasInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 1)
	e := testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 20)
	opt := engine.WaitReplicas(1, 400*time.Millisecond)
	fs := make([]*engine.Future[*engine.Lease], 0, 60)
	for m := range names {
		for _, name := range names[m] {
			fs = append(fs, e.Lock(name, opt).AcquireAsync(testkit.Limited(t)))
		}
	}
	leases, err := engine.AllLeases(fs...).Await(testkit.Limited(t))
	require.NoError(t, err)
	for i, r := range c.Replicas {
		require.Len(t, r.Keys(t), 20, "replica %d", i)
	}
	for _, ls := range leases {
		testkit.Release(t, ls)
	}
	c.Replicas[1].Pause()
	_, err = e.Lock(names[1][0], opt).TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	testkit.Release(t, testkit.Acquire(t, e.Lock(names[0][0], opt)))
	testkit.Release(t, testkit.Acquire(t, e.Lock(names[2][0], opt)))
	testkit.Eventually(t, "it is given back", func() bool { return len(c.Masters[1].Keys(t)) == 0 })
	testkit.FinishCluster(t, c, e)
}

func TestWaitReplicasRefusesWhatCannotBe(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	before := s.Do(t, "INFO", "commandstats")
	for _, opts := range [][]engine.Option{
		{engine.WaitReplicas(0, time.Second)},
		{engine.WaitReplicas(-1, time.Second)},
		{engine.WaitReplicas(1001, time.Second)},
		{engine.WaitReplicas(1, 0)},
		{engine.WaitReplicas(1, -time.Second)},
		{engine.WaitReplicas(1, -time.Millisecond/2)},
		{engine.WaitReplicas(1, engine.MaxLease+time.Millisecond)},
		{engine.WaitReplicas(1, 16*time.Second)},
		{engine.WaitReplicas(1, time.Second), engine.FixedLease(time.Second)},
		{engine.FixedLease(time.Second), engine.WaitReplicas(1, time.Second)},
	} {
		l := e.Lock("name", opts...)
		require.ErrorIs(t, l.Err(), engine.ErrLease)
		_, err := l.TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrLease)
		require.ErrorContains(t, err, "WaitReplicas")
	}
	require.NoError(t, e.Lock("name", engine.WaitReplicas(1, time.Second), engine.FixedLease(2*time.Second)).Err())
	require.NotContains(t, s.Do(t, "INFO", "commandstats"), "cmdstat_wait")
	require.NotContains(t, before, "cmdstat_wait")
	_, err := e.Lock("name", engine.WaitReplicas(1, 50*time.Millisecond)).TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0) // a server without replicas
	testkit.Finish(t, s, e)
}

func TestWaitReplicasTellsWhyReplicasCouldNotBeAsked(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-wait")
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Username, c.Password = "app", "secret" })
	_, err := e.Lock("name", engine.WaitReplicas(1, time.Second)).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotReplicated)
	require.Equal(t, resp.ClassNoPerm, testkit.ServerClass(err))
	require.False(t, engine.SafeToRetry(err), "it stays forbidden")
	require.Contains(t, fmt.Sprint(err), "0 of 1 replicas")
	testkit.Finish(t, s, e)
}

// Who gives up while replicas are waited for keeps nobody out for the rest of that time, and the next who waits for some
// waits behind nobody.
func TestACancelledWaitForReplicasGivesTheLockBackAtOnce(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	s.Replicas[0].Pause()
	for _, other := range []bool{false, true} { // somebody else waits for replicas in the same batch
		leaves := e.Lock("name", engine.WaitReplicas(1, 14*time.Second)).AcquireAsync(testkit.Limited(t))
		waitsForReplicas(t, s.Master)
		began := time.Now()
		var second *engine.Future[*engine.Lease]
		if other {
			second = e.Lock("second", engine.WaitReplicas(1, time.Second)).AcquireAsync(testkit.Limited(t))
		}
		require.True(t, leaves.Cancel())
		testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
		_, err := e.Lock("third", engine.WaitReplicas(1, 100*time.Millisecond)).Acquire(testkit.Limited(t))
		requireNotReplicated(t, err, 1, 0)
		if other {
			_, err := second.Await(testkit.Limited(t))
			requireNotReplicated(t, err, 1, 0)
		}
		require.Less(t, testkit.Ran(began), 5*time.Second)
	}
	s.Replicas[0].Resume()
	testkit.Finish(t, s.Master, e)
}
