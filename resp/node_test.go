package resp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

const nodeLong = 20 * time.Second

// nodeAnswers is a Sink that keeps what it was told, in the order it was told.
type nodeAnswers struct {
	mu    sync.Mutex
	order []*Op
	got   map[*Op]Result
	more  chan struct{}
}

func newNodeAnswers() *nodeAnswers {
	return &nodeAnswers{got: make(map[*Op]Result), more: make(chan struct{})}
}

func (a *nodeAnswers) Answered(op *Op, r *Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	copied := *r
	copied.Fields = slices.Clone(r.Fields)
	a.got[op] = copied
	a.order = append(a.order, op)
	close(a.more)
	a.more = make(chan struct{})
}

// await returns the answer of op.
func (a *nodeAnswers) await(t testing.TB, op *Op) Result {
	t.Helper()
	limit := time.After(nodeLong)
	for {
		a.mu.Lock()
		r, ok := a.got[op]
		more := a.more
		a.mu.Unlock()
		if ok {
			return r
		}
		select {
		case <-more:
		case <-limit:
			require.FailNow(t, "no answer for "+op.Key)
		}
	}
}

func (a *nodeAnswers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.order)
}

const nodeID = "6e3814a1-e847-452b-a982-45baf93a1df2"

// nodeConnect connects a node as an engine would; the caller ticks it, from one goroutine, and closes it.
func nodeConnect(t testing.TB, addr string, o Options) (*Node, func()) {
	t.Helper()
	o.ID, o.Guard = nodeID, &Guard{Own: true}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		DisableCache: true, DisableRetry: true, ConnWriteTimeout: 2 * time.Second, DialCtxFn: o.Guard.Dialer(Dial),
	})
	require.NoError(t, err)
	n, err := Connect(client, addr, o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return n, func() {
		n.Close()
		require.Zero(t, n.opts.Wide.Load(), "a node that is closed wants no lanes")
	}
}

// nodeUnticked is a node that only the test's own goroutine ticks.
func nodeUnticked(t testing.TB, addr string, o Options) *Node {
	t.Helper()
	n, end := nodeConnect(t, addr, o)
	t.Cleanup(end)
	return n
}

// nodeOpen is a node that is ticked as by an engine.
func nodeOpen(t testing.TB, addr string, o Options) *Node {
	t.Helper()
	n, end := nodeConnect(t, addr, o)
	ticks := time.NewTicker(50 * time.Millisecond)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				n.Tick(n.opts.Clock.Now(), 50*time.Millisecond, nil)
			case <-over:
				return
			}
		}
	}()
	t.Cleanup(func() {
		end()
		ticks.Stop()
		close(over)
		<-ended
	})
	return n
}

func nodeOp(kind OpKind, key string, sink Sink) *Op {
	return &Op{Kind: kind, Key: key, Hash: xxhash.Sum64String(key), LeaseMs: 30_000, Sink: sink}
}

// nodeSubmit submits and returns the op.
func nodeSubmit(t testing.TB, n *Node, op *Op) *Op {
	t.Helper()
	require.NoError(t, n.Submit(op))
	return op
}

func TestLaneWithAFullQueueRefusesAcquiresAndNothingElse(t *testing.T) {
	const most = 4
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{QueueMax: most}) // all of it in the one lane that few take
	a := newNodeAnswers()
	held := nodeSubmit(t, n, nodeOp(OpAcquire, "held", a))
	require.Equal(t, CodeGranted, a.await(t, held).Code)
	field := held.Field

	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	flying := nodeSubmit(t, n, nodeOp(OpAcquire, "flying", a))
	<-hold.C()
	var queued []*Op
	for i := range most {
		queued = append(queued, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("queued:", i), a)))
	}
	for i := range 3 {
		err := n.Submit(nodeOp(OpAcquire, fmt.Sprint("refused:", i), a))
		require.Error(t, err)
		require.Equal(t, ClassOverloaded, AsServerError(err).Class)
		require.True(t, ClassOverloaded.Definite(), "nothing was sent")
	}
	require.EqualValues(t, 3, n.Stats().Overloaded)
	require.Equal(t, most, n.Stats().Queued)
	release := nodeOp(OpRelease, "held", a)
	release.Field = field
	nodeSubmit(t, n, release) // holds bound releases: never refused
	again := nodeOp(OpReacquire, "again", a)
	again.Field, again.Count = nodeID+":1", 1
	nodeSubmit(t, n, again)
	inspect := nodeSubmit(t, n, nodeOp(OpInspect, "held", a))

	p.ReleaseCommands()
	require.Equal(t, CodeGranted, a.await(t, flying).Code)
	for _, op := range queued {
		require.Equal(t, CodeGranted, a.await(t, op).Code)
	}
	require.Equal(t, CodeReleased, a.await(t, release).Code)
	require.Equal(t, CodeGranted, a.await(t, again).Code)
	require.Equal(t, int64(-2), a.await(t, inspect).Value, "the release went before it")
	require.Equal(t, 9, a.count(), "one answer each, and none for the refused")
	require.Equal(t, []string{"again", "flying", "queued:0", "queued:1", "queued:2", "queued:3"}, s.Keys(t))
	nodeSubmit(t, n, nodeOp(OpAcquire, "afterwards", a)) // there is room again
}

func TestCancelTakesBackAQueuedOpAndNoOther(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	flying := nodeSubmit(t, n, nodeOp(OpAcquire, "flying", a))
	<-hold.C()
	queued := nodeSubmit(t, n, nodeOp(OpAcquire, "queued", a))
	behind := nodeSubmit(t, n, nodeOp(OpAcquire, "behind", a))
	require.True(t, queued.Cancel())
	require.False(t, queued.Cancel(), "once")
	require.False(t, flying.Cancel(), "it has been sent")
	require.Zero(t, a.count(), "the sink is answered by the lane, not by Cancel")
	p.ReleaseCommands()
	require.Equal(t, CodeCancelled, a.await(t, queued).Code)
	require.Equal(t, CodeGranted, a.await(t, flying).Code)
	require.Equal(t, CodeGranted, a.await(t, behind).Code)
	require.False(t, flying.Cancel(), "it has been answered")
	require.Equal(t, []string{"behind", "flying"}, s.Keys(t), "nothing was sent for it")

	nodeSubmit(t, n, queued) // an answered op may be used again
	require.Eventually(t, func() bool { return a.count() == 4 }, nodeLong, time.Millisecond)
	require.Equal(t, CodeGranted, a.await(t, queued).Code)
}

// A key's commands keep their order, whatever travels around them and in however many batches.
func TestCommandsOfOneKeyKeepTheirOrder(t *testing.T) {
	const keys, rounds = 16, 100
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	var wg sync.WaitGroup
	for k := range keys {
		wg.Go(func() {
			a := newNodeAnswers()
			key := fmt.Sprint("name:", k)
			for range rounds {
				acquire := nodeSubmit(t, n, nodeOp(OpAcquire, key, a))
				if r := a.await(t, acquire); r.Code != CodeGranted {
					t.Errorf("%s: acquire answered %v %v: the release before it came later", key, r.Code, r.Err)
				}
				release := nodeOp(OpRelease, key, a)
				release.Field = acquire.Field
				nodeSubmit(t, n, release) // not awaited
			}
		})
	}
	wg.Wait()
}

func TestRunLeavesWithReleasesFirst(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	held := nodeSubmit(t, n, nodeOp(OpAcquire, "name", a))
	require.Equal(t, CodeGranted, a.await(t, held).Code)
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	nodeSubmit(t, n, nodeOp(OpAcquire, "flying", a))
	<-hold.C()
	next := nodeSubmit(t, n, nodeOp(OpAcquire, "name", a)) // queued before the release
	release := nodeOp(OpRelease, "name", a)
	release.Field = held.Field
	nodeSubmit(t, n, release)
	p.ReleaseCommands()
	require.Equal(t, CodeReleased, a.await(t, release).Code)
	require.Equal(t, CodeGranted, a.await(t, next).Code, "it found the key free")
}

// What may be answered with much travels a few at a time, and the largest of what is read fits.
func TestARunCarriesFewLooks(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	const script = `for i = 1, 10000 do
  local field = string.format('%099d', i)
  redis.call('HSET', 'hash', field, 12345)
  redis.call('RPUSH', 'redisson_lock_queue:{name}', field)
  redis.call('ZADD', 'redisson_lock_timeout:{name}', 1763829999999 + i / 3, field)
end`
	_, err := s.Command(t.Context(), "EVAL", script, "0")
	require.NoError(t, err)
	a := newNodeAnswers()
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	nodeSubmit(t, n, nodeOp(OpAcquire, "flying", a))
	<-hold.C()
	var looks []*Op
	for range 10 {
		looks = append(looks, nodeSubmit(t, n, nodeOp(OpInspect, "hash", a)))
	}
	for range 2 {
		queue := nodeOp(OpQueue, "redisson_lock_queue:{name}", a)
		queue.Family = FamilyFair
		looks = append(looks, nodeSubmit(t, n, queue))
	}
	taken := nodeSubmit(t, n, nodeOp(OpAcquire, "another", a)) // in the first run
	before := n.Stats().Batches
	p.ReleaseCommands()
	require.Equal(t, CodeGranted, a.await(t, taken).Code)
	for _, op := range looks {
		r := a.await(t, op)
		require.Nil(t, r.Err)
		require.Equal(t, CodeInspected, r.Code)
		require.Len(t, r.Fields, 20_000)
	}
	require.EqualValues(t, 1+3, n.Stats().Batches-before, "the one that was flying, and twelve in three")
}

// One forbidden name has the whole batch refused; it is split until that name stands alone.
func TestBatchThatIsRefusedForOneNameIsSplit(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "default", "resetkeys", "~free*", "~a*")
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	nodeSubmit(t, n, nodeOp(OpAcquire, "a", a))
	<-hold.C()
	var ops []*Op
	for i := range 100 {
		key := fmt.Sprint("free:", i)
		if i == 42 {
			key = "forbidden"
		}
		ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, key, a)))
	}
	p.ReleaseCommands()
	for i, op := range ops {
		r := a.await(t, op)
		if i == 42 {
			require.Equal(t, CodeError, r.Code)
			require.Equal(t, ClassNoPerm, r.Err.Class)
			require.True(t, r.Definite())
			continue
		}
		require.Equal(t, CodeGranted, r.Code, "%s: %v", op.Key, r.Err)
	}
}

func TestSubmitAfterCloseIsRefusedAndWhatWasQueuedIsAnswered(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 2})
	a := newNodeAnswers()
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	var ops []*Op
	for i := range 50 {
		ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("name:", i), a)))
	}
	<-hold.C()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		n.Close()
	}()
	for _, l := range n.lanes { // closed lanes refuse
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.closed
		}, nodeLong, time.Millisecond)
	}
	err := n.Submit(nodeOp(OpAcquire, "late", a))
	require.Error(t, err)
	require.Equal(t, ClassClosed, AsServerError(err).Class)
	p.ReleaseCommands()
	for _, op := range ops {
		require.Equal(t, CodeGranted, a.await(t, op).Code)
	}
	<-closed
	require.Eventually(t, func() bool { return p.Stats().Open <= 1 }, nodeLong, time.Millisecond, "only the client's own connection may be left")
}

// An attempt has its limit, whoever ticks; the connection is given up, the next one works.
func TestAttemptWithoutAnAnswerEndsAtItsLimitAndIsNotDefinite(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{Lanes: 1, AttemptLimit: limit})
	a := newNodeAnswers()
	s.Pause()
	start := time.Now()
	op := nodeSubmit(t, n, nodeOp(OpAcquire, "name", a))
	r := a.await(t, op)
	took := time.Since(start)
	s.Resume()
	require.Equal(t, CodeError, r.Code)
	require.Equal(t, ClassUnknown, r.Err.Class)
	require.False(t, r.Definite())
	require.NotZero(t, r.SentAt, "it was sent")
	require.GreaterOrEqual(t, took, limit)
	require.Less(t, took, limit+time.Second)
	require.Eventually(t, func() bool {
		return a.await(t, nodeSubmit(t, n, nodeOp(OpInspect, "name", a))).Code == CodeInspected
	}, nodeLong, 10*time.Millisecond, "a new connection works")
	require.NotZero(t, n.Stats().Reconnects)
}

// C-036: scripts that vanish are put back once for all who miss them.
func TestC036_NoScriptIsRepairedWithoutAnyOpNoticing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	for round := range 20 {
		s.Do(t, "SCRIPT", "FLUSH")
		var ops []*Op
		for i := range 50 {
			ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprintf("name:%d:%d", round, i), a)))
		}
		for _, op := range ops {
			require.Equal(t, CodeGranted, a.await(t, op).Code)
		}
		batch := []Renewal{{Key: ops[0].Key, Field: ops[0].Field, LeaseMs: 30_000}}
		s.Do(t, "SCRIPT", "FLUSH")
		n.Renew(round%2 == 1, time.Second, batch)
		require.Equal(t, CodeRenewed, batch[0].Code, "%v", batch[0].Err)
	}
	require.LessOrEqual(t, n.Stats().ScriptReloads, int64(45), "once a flush, not once an op")
	require.NotZero(t, n.Stats().ScriptReloads)
}

func TestRenewAnswersEachKeyForItself(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "default", "resetkeys", "~name*")
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	const many = 300 // more than one command
	batch := make([]Renewal, many)
	for i := range batch {
		op := nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("name:", i), a))
		require.Equal(t, CodeGranted, a.await(t, op).Code)
		batch[i] = Renewal{Key: op.Key, Field: op.Field, LeaseMs: 30_000}
	}
	s.Do(t, "DEL", "name:7")
	s.Do(t, "DEL", "name:8")
	s.Do(t, "SET", "name:8", "text")
	batch[9].Key = "forbidden"
	batch[10].Field = nodeID + ":1"
	for i := range 20 {
		s.Do(t, "PEXPIRE", fmt.Sprint("name:", 100+i), "5000")
	}
	s.Do(t, "PEXPIRE", "name:120", "90000")
	for _, retry := range []bool{false, true} {
		before := n.opts.Clock.Now()
		n.Renew(retry, 2*time.Second, batch)
		for i := range batch {
			switch i {
			case 7, 10:
				require.Equal(t, CodeNotOurs, batch[i].Code, "%d", i)
			case 8:
				require.Equal(t, CodeError, batch[i].Code)
				require.Equal(t, ClassWrongType, batch[i].Err.Class)
			case 9:
				require.Equal(t, CodeError, batch[i].Code)
				require.Equal(t, ClassNoPerm, batch[i].Err.Class)
			default:
				require.Equal(t, CodeRenewed, batch[i].Code, "%d: %v", i, batch[i].Err)
				require.False(t, batch[i].SentAt.Before(before))
			}
		}
	}
	left := func(key string) int {
		n, err := strconv.Atoi(s.Do(t, "PTTL", key))
		require.NoError(t, err)
		return n
	}
	require.Greater(t, left("name:100"), 20_000, "raised")
	require.Greater(t, left("name:120"), 60_000, "not lowered")
	require.Equal(t, "-2", s.Do(t, "PTTL", "name:7"), "never made anew")
}

func TestConnectRefusesANodeOfAClusterInClearWords(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Cluster: true})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	n, err := Connect(client, s.Addr(), Options{ID: nodeID})
	require.Nil(t, n)
	require.ErrorContains(t, err, "cluster")
	require.ErrorContains(t, err, s.Addr())
}

func TestPingAnswersWithinItsContext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	require.NoError(t, n.Ping(context.Background(), true))
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := n.Ping(ctx, true)
	took := time.Since(start)
	s.Resume()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, took, time.Second)
	version, err := s.InfoField("server", "redis_version")
	require.NoError(t, err)
	require.NoError(t, n.Ping(context.Background(), true), "it answers again")
	require.Equal(t, version, n.Stats().Version)
}
