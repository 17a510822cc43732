package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A familyRig sends ops to a real server, one after the other.
type familyRig struct {
	*testing.T
	s *redistest.Server
	n *Node
	a *nodeAnswers
}

func newFamilyRig(t *testing.T) *familyRig {
	s := redistest.Run(t, redistest.Options{})
	return &familyRig{T: t, s: s, n: nodeOpen(t, s.Addr(), Options{}), a: newNodeAnswers()}
}

// ask sends one op and waits for its answer.
func (r *familyRig) ask(kind OpKind, f Family, key string, change ...func(*Op)) (*Op, Result) {
	r.Helper()
	op := nodeOp(kind, key, r.a)
	op.Family = f
	for _, c := range change {
		c(op)
	}
	nodeSubmit(r.T, r.n, op)
	return op, r.a.await(r.T, op)
}

func as(field string) func(*Op) { return func(op *Op) { op.Field = field } }
func leased(ms int64) func(*Op) { return func(op *Op) { op.LeaseMs = ms } }
func waiting(op *Op)            { op.Waits = true }

// testator is the sink of a release that names who may have the lock next.
type testator struct {
	Sink
	heirs []Heir
}

func (r testator) Heirs() []Heir { return r.heirs }

func inherits(heirs ...Heir) func(*Op) {
	return func(op *Op) { op.Sink = testator{op.Sink, heirs} }
}

// insider is the sink of a reader that has this field already.
type insider struct {
	Sink
	field string
}

func (i insider) Inside() string { return i.field }

func beside(field string) func(*Op) {
	return func(op *Op) { op.Sink, op.Inside = insider{op.Sink, field}, true }
}

func (r *familyRig) do(args ...string) string { r.Helper(); return r.s.Do(r.T, args...) }

func (r *familyRig) number(args ...string) int64 {
	r.Helper()
	n, err := strconv.ParseInt(r.do(args...), 10, 64)
	require.NoError(r, err)
	return n
}

// others is an owner id as another client would have it.
func others(n int) string { return fmt.Sprintf("11111111-2222-3333-4444-555555555555:%d", n) }

func TestFencedTokensRiseWhateverHappensToTheServer(t *testing.T) {
	r := newFamilyRig(t)
	last := int64(0)
	for range 3 {
		op, got := r.ask(OpAcquire, FamilyFenced, "f")
		require.Equal(t, CodeGranted, got.Code)
		require.Greater(t, got.Value, last)
		last = got.Value
		require.Equal(t, strconv.FormatInt(last, 10), r.do("GET", slot.FenceToken("f")), "an integer, for INCR")

		again, same := r.ask(OpReacquire, FamilyFenced, "f", as(op.Field))
		require.Equal(t, CodeGranted, same.Code)
		require.Equal(t, last, same.Value, "asking again under %s answers the same token", again.Field)

		_, busy := r.ask(OpAcquire, FamilyFenced, "f")
		require.Equal(t, CodeBusy, busy.Code)
		require.InDelta(t, 30_000, busy.Value, 5_000)
		require.Equal(t, strconv.FormatInt(last, 10), r.do("GET", slot.FenceToken("f")), "a refusal takes no token")
		_, released := r.ask(OpRelease, FamilyFenced, "f", as(op.Field))
		require.Equal(t, CodeReleased, released.Code)
	}
	// Redisson counts on: one more than ours.
	require.Equal(t, last+1, r.number("INCR", slot.FenceToken("f")))
	last++
	r.do("FLUSHALL")
	_, got := r.ask(OpAcquire, FamilyFenced, "f")
	require.Greater(t, got.Value, last)

	// A counter ahead of the clock is counted on from.
	r.do("SET", slot.FenceToken("g"), "4000000000000000")
	_, got = r.ask(OpAcquire, FamilyFenced, "g")
	require.Equal(t, int64(4000000000000001), got.Value)
}

func TestFencedLocksThatGetNoTokenAreNotHeld(t *testing.T) {
	r := newFamilyRig(t)
	r.do("SET", slot.FenceToken("text"), "no number")
	r.do("LPUSH", slot.FenceToken("list"), "no string")
	for _, name := range []string{"text", "list"} {
		_, got := r.ask(OpAcquire, FamilyFenced, name)
		require.Equal(t, CodeError, got.Code)
		require.Equal(t, "0", r.do("EXISTS", name))
	}
	// Beside others in one batch it is refused alone.
	ops := []*Op{}
	for i := range 5 {
		name := fmt.Sprint("name:", i)
		if i == 2 {
			name = "text"
		}
		op := nodeOp(OpAcquire, name, r.a)
		op.Family = FamilyFenced
		ops = append(ops, nodeSubmit(t, r.n, op))
	}
	for i, op := range ops {
		got := r.a.await(t, op)
		if i == 2 {
			require.Equal(t, CodeError, got.Code)
			continue
		}
		require.Equal(t, CodeGranted, got.Code)
		require.Equal(t, strconv.FormatInt(got.Value, 10), r.do("GET", slot.FenceToken(op.Key)))
	}
}

func TestReadersShareAndTheLongestLeaseCounts(t *testing.T) {
	r := newFamilyRig(t)
	long, got := r.ask(OpAcquire, FamilyRead, "rw", leased(60_000))
	require.Equal(t, CodeGranted, got.Code)
	short, got := r.ask(OpAcquire, FamilyRead, "rw", leased(5_000))
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, "read", r.do("HGET", "rw", "mode"))
	require.Greater(t, r.number("PTTL", "rw"), int64(50_000), "a shorter lease takes nothing away")
	require.Equal(t, "1", r.do("GET", slot.ReadHold("rw", long.Field, 1)))
	require.InDelta(t, 5_000, r.number("PTTL", slot.ReadHold("rw", short.Field, 1)), 1_000)

	// Renewing the short one touches neither the hash's nor the other's expiry.
	r.do("PEXPIRE", slot.ReadHold("rw", short.Field, 1), "100")
	batch := []Renewal{{Key: "rw", Field: short.Field, Family: FamilyRead, LeaseMs: 5_000}}
	r.n.Renew(false, 2*time.Second, batch)
	require.Equal(t, CodeRenewed, batch[0].Code)
	require.Greater(t, r.number("PTTL", slot.ReadHold("rw", short.Field, 1)), int64(3_000))
	require.Greater(t, r.number("PTTL", "rw"), int64(50_000))

	// A writer waits for both; the hash lives no longer than the readers that are left.
	_, busy := r.ask(OpAcquire, FamilyWrite, "rw")
	require.Equal(t, CodeBusy, busy.Code)
	_, released := r.ask(OpRelease, FamilyRead, "rw", as(long.Field))
	require.Equal(t, CodeReleased, released.Code)
	require.Equal(t, "0", r.do("EXISTS", slot.ReadHold("rw", long.Field, 1)))
	require.LessOrEqual(t, r.number("PTTL", "rw"), int64(5_000))
	_, released = r.ask(OpRelease, FamilyRead, "rw", as(short.Field))
	require.Equal(t, CodeReleased, released.Code)
	require.Equal(t, "0", r.do("EXISTS", "rw"))
	_, gone := r.ask(OpRelease, FamilyRead, "rw", as(short.Field))
	require.Equal(t, CodeNotOurs, gone.Code)
}

// A read hold that is asked for again counts once, and a batch of fresh ones is complete on the wire.
func TestReadHoldsOfABatchAreCompleteAndCountOnce(t *testing.T) {
	r := newFamilyRig(t)
	var ops []*Op
	for i := range 40 {
		op := nodeOp(OpAcquire, fmt.Sprint("rw:", i), r.a)
		op.Family = FamilyRead
		ops = append(ops, nodeSubmit(t, r.n, op))
	}
	for _, op := range ops {
		require.Equal(t, CodeGranted, r.a.await(t, op).Code)
		_, again := r.ask(OpReacquire, FamilyRead, op.Key, as(op.Field))
		require.Equal(t, CodeGranted, again.Code)
		require.Equal(t, "1", r.do("HGET", op.Key, op.Field))
		require.Equal(t, "2", r.do("HLEN", op.Key))
		require.Equal(t, "1", r.do("GET", slot.ReadHold(op.Key, op.Field, 1)))
		require.Positive(t, r.number("PTTL", op.Key))
		require.Positive(t, r.number("PTTL", slot.ReadHold(op.Key, op.Field, 1)))
	}
}

func TestAWriterThatWaitsIsNotStarvedByReadersThatComeLater(t *testing.T) {
	r := newFamilyRig(t)
	reader, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)

	_, busy := r.ask(OpAcquire, FamilyWrite, "rw")
	require.Equal(t, CodeBusy, busy.Code)
	second, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code, "a Try leaves no note")

	_, busy = r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeBusy, busy.Code)
	_, late := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeBusy, late.Code)
	require.Positive(t, late.Value)
	require.LessOrEqual(t, late.Value, int64(2_501), "the note runs out by itself")
	_, again := r.ask(OpReacquire, FamilyRead, "rw", as(reader.Field))
	require.Equal(t, CodeGranted, again.Code, "who reads already goes on")

	for _, op := range []*Op{reader, second} {
		_, released := r.ask(OpRelease, FamilyRead, "rw", as(op.Field))
		require.Equal(t, CodeReleased, released.Code)
	}
	require.Equal(t, "0", r.do("EXISTS", "rw"))
	_, late = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeBusy, late.Code, "the lock is free, but it is the writer's turn")
	writer, got := r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeGranted, got.Code)
	require.True(t, strings.HasSuffix(writer.Field, ":write"))

	// Afterwards it is the readers' turn, whoever else wants to write.
	r.do("SET", "{rw}:rwlock_writer", "another engine", "PX", "60000")
	_, released := r.ask(OpRelease, FamilyWrite, "rw", as(writer.Field))
	require.Equal(t, CodeReleased, released.Code)
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
}

func TestAWriterThatLeavesTakesItsNoteBack(t *testing.T) {
	r := newFamilyRig(t)
	_, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	op, busy := r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeBusy, busy.Code)
	_, gone := r.ask(OpRelease, FamilyWrite, "rw", as(op.Field))
	require.Equal(t, CodeNotOurs, gone.Code)
	require.Equal(t, "0", r.do("EXISTS", "{rw}:rwlock_writer"))
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
}

func TestWritersReadersAndDowngrade(t *testing.T) {
	r := newFamilyRig(t)
	w, got := r.ask(OpAcquire, FamilyWrite, "rw")
	require.Equal(t, CodeGranted, got.Code)
	for _, f := range []Family{FamilyRead, FamilyWrite} {
		_, busy := r.ask(OpAcquire, f, "rw")
		require.Equal(t, CodeBusy, busy.Code)
	}
	// Entering again does not add up.
	_, got = r.ask(OpCount, FamilyWrite, "rw", as(w.Field), func(op *Op) { op.Count = 2 })
	require.Equal(t, CodeOurs, got.Code)
	require.LessOrEqual(t, r.number("PTTL", "rw"), int64(30_000))
	_, got = r.ask(OpCount, FamilyWrite, "rw", as(w.Field), func(op *Op) { op.Count = 1 })
	require.Equal(t, CodeOurs, got.Code)

	// The writer may read, and goes on reading when it has written.
	for _, field := range []string{others(1), "mode:write"} {
		_, got = r.ask(OpAcquire, FamilyRead, "rw", beside(field))
		require.Equal(t, CodeBusy, got.Code, "it is not there")
	}
	read, got := r.ask(OpAcquire, FamilyRead, "rw", beside(w.Field))
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpAcquire, FamilyRead, "rw", beside(read.Field))
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpRelease, FamilyWrite, "rw", as(w.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "read", r.do("HGET", "rw", "mode"))
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
}

func TestReleasingAReadHoldLeavesTheWriteHoldAlone(t *testing.T) {
	r := newFamilyRig(t)
	w, _ := r.ask(OpAcquire, FamilyWrite, "rw")
	read, got := r.ask(OpAcquire, FamilyRead, "rw", beside(w.Field), leased(60_000))
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpRelease, FamilyRead, "rw", as(read.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "write", r.do("HGET", "rw", "mode"))
	require.Equal(t, "1", r.do("HGET", "rw", w.Field))
}

// A dead reader's field stays in the hash; a living one renews the hash. When the living leaves, the
// lock is free.
func TestADeadReaderDoesNotOutliveTheOthers(t *testing.T) {
	r := newFamilyRig(t)
	dead := others(1)
	r.do("HSET", "rw", "mode", "read", dead, "2")
	r.do("PEXPIRE", "rw", "30000")
	living, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpRelease, FamilyRead, "rw", as(living.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "0", r.do("EXISTS", "rw"))
}

func TestMutexAndReadWriteLockRefuseEachOther(t *testing.T) {
	r := newFamilyRig(t)
	_, got := r.ask(OpAcquire, FamilyLock, "m")
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	for _, f := range []Family{FamilyRead, FamilyWrite} {
		_, got := r.ask(OpAcquire, f, "m")
		require.Equal(t, CodeWrongKind, got.Code, "%v", f)
		_, got = r.ask(OpForce, f, "m", as(slot.RWChannel("m")))
		require.Equal(t, CodeWrongKind, got.Code, "%v", f)
	}
	for _, f := range []Family{FamilyLock, FamilyFenced, FamilyFair} {
		_, got := r.ask(OpAcquire, f, "rw")
		require.Equal(t, CodeWrongKind, got.Code, "%v", f)
		_, got = r.ask(OpForce, f, "rw", as(slot.LockChannel("rw")))
		require.Equal(t, CodeWrongKind, got.Code, "%v", f)
	}
	_, got = r.ask(OpForce, FamilyWrite, "rw", as(slot.RWChannel("rw")))
	require.Equal(t, CodeNone, got.Code, "a read lock is not the write side's to take away")
	_, got = r.ask(OpForce, FamilyRead, "rw", as(slot.RWChannel("rw")))
	require.Equal(t, CodeReleased, got.Code)
}

// queueOf lists who waits, as Redisson would see it.
func (r *familyRig) queueOf(key string) string { return r.do("LRANGE", slot.FairQueue(key), "0", "-1") }

func TestFairWaitersAreServedInOrder(t *testing.T) {
	r := newFamilyRig(t)
	holder, got := r.ask(OpAcquire, FamilyFair, "q")
	require.Equal(t, CodeGranted, got.Code)
	var waiters []*Op
	for range 3 {
		op, busy := r.ask(OpAcquire, FamilyFair, "q", waiting)
		require.Equal(t, CodeBusy, busy.Code)
		require.InDelta(t, 30_000, busy.Value, 5_000)
		waiters = append(waiters, op)
	}
	_, busy := r.ask(OpAcquire, FamilyFair, "q")
	require.Equal(t, CodeBusy, busy.Code)
	require.Equal(t, int64(3), r.number("LLEN", slot.FairQueue("q")), "a Try does not queue")

	for i, w := range waiters {
		_, got = r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
		require.Equal(t, CodeReleased, got.Code)
		for _, later := range waiters[i+1:] {
			_, busy := r.ask(OpReacquire, FamilyFair, "q", as(later.Field), waiting)
			require.Equal(t, CodeBusy, busy.Code, "not its turn")
			require.Positive(t, busy.Value, "nobody is sent into a loop")
		}
		_, got = r.ask(OpReacquire, FamilyFair, "q", as(w.Field), waiting)
		require.Equal(t, CodeGranted, got.Code)
		holder = w
	}
	_, got = r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "0", r.do("EXISTS", "q", slot.FairQueue("q"), slot.FairTimeouts("q")), "nothing is left")
	_, got = r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	require.Equal(t, CodeNotOurs, got.Code)
}

// A place of ours is worth nothing, so all of ours have one score. Redisson takes its own wait off every score with each
// grant, and computes scores once: its waiters lose their place when a holder stays long. Any question of ours puts all
// of ours right.
func TestALiveFairWaiterKeepsItsPlace(t *testing.T) {
	r := newFamilyRig(t)
	r.do("HSET", "q", others(9), "1")
	r.do("PEXPIRE", "q", "60000")
	first, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	second, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	score := func(op *Op) int64 {
		f, err := strconv.ParseFloat(r.do("ZSCORE", slot.FairTimeouts("q"), op.Field), 64)
		require.NoError(t, err)
		return int64(f)
	}
	require.Equal(t, score(first), score(second))
	for _, op := range []*Op{first, second} {
		r.do("ZINCRBY", slot.FairTimeouts("q"), "-290000", op.Field)
	}
	_, busy := r.ask(OpReacquire, FamilyFair, "q", as(second.Field), waiting)
	require.Equal(t, CodeBusy, busy.Code)
	require.Equal(t, score(first), score(second))
	require.InDelta(t, time.Now().Add(5*time.Second).UnixMilli(), score(first), 2_000)
	require.Equal(t, int64(2), r.number("LLEN", slot.FairQueue("q")))
	_, queue := r.ask(OpQueue, FamilyFair, slot.FairQueue("q"))
	require.Equal(t, CodeInspected, queue.Code)
	require.Equal(t, []string{first.Field, second.Field}, []string{queue.Fields[0], queue.Fields[2]})
}

func TestADeadHeadDelaysTheOthersBySeconds(t *testing.T) {
	r := newFamilyRig(t)
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	dead, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	next, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	_, got := r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	require.Equal(t, CodeReleased, got.Code)
	_, busy := r.ask(OpReacquire, FamilyFair, "q", as(next.Field), waiting)
	require.Equal(t, CodeBusy, busy.Code)
	require.LessOrEqual(t, busy.Value, int64(5_000), "that is how long it is waited for")
	require.Greater(t, busy.Value, int64(1_000))

	r.do("ZADD", slot.FairHeard("q"), "1", dead.Field) // its grace has passed
	_, got = r.ask(OpReacquire, FamilyFair, "q", as(next.Field), waiting)
	require.Equal(t, CodeGranted, got.Code)
	require.Empty(t, r.queueOf("q"))
}

func TestAFairWaiterThatLeavesIsGoneAndTheNextIsTold(t *testing.T) {
	r := newFamilyRig(t)
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	head, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	next, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	_, got := r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	require.Equal(t, CodeReleased, got.Code)

	conn, err := r.s.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(t.Context(), "SUBSCRIBE", slot.FairWaiterChannel("q", next.Field))
	require.NoError(t, err)
	_, got = r.ask(OpRelease, FamilyFair, "q", as(head.Field))
	require.Equal(t, CodeNotOurs, got.Code)
	message, err := conn.Receive(t.Context())
	require.NoError(t, err)
	require.Contains(t, redistest.Text(message), slot.FairWaiterChannel("q", next.Field))
	_, got = r.ask(OpReacquire, FamilyFair, "q", as(next.Field), waiting)
	require.Equal(t, CodeGranted, got.Code)
}

func TestAFairReleasePassesTheLockOnToItsOwnEngineOnly(t *testing.T) {
	r := newFamilyRig(t)
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	mine, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	theirs := others(1)
	r.do("RPUSH", slot.FairQueue("q"), theirs)
	r.do("ZADD", slot.FairTimeouts("q"), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), theirs)
	last, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)

	_, got := r.ask(OpRelease, FamilyFair, "q", as(holder.Field), inherits(Heir{last.Field, 50_000}, Heir{mine.Field, 20_000}))
	require.Equal(t, CodePassed, got.Code)
	require.Equal(t, mine.Field, FairField(nodeID, got.Value))
	require.Equal(t, "1", r.do("HGET", "q", mine.Field))
	require.InDelta(t, 20_000, r.number("PTTL", "q"), 1_000)
	require.Equal(t, int64(2), r.number("LLEN", slot.FairQueue("q")))
	require.Equal(t, int64(2), r.number("ZCARD", slot.FairTimeouts("q")))
	_, got = r.ask(OpReacquire, FamilyFair, "q", as(mine.Field), waiting)
	require.Equal(t, CodeGranted, got.Code, "who asks is told so, too")

	_, got = r.ask(OpRelease, FamilyFair, "q", as(mine.Field), inherits(Heir{last.Field, 50_000}))
	require.Equal(t, CodeReleased, got.Code, "another client is next")
	require.Equal(t, "0", r.do("EXISTS", "q"))
	r.do("LPOP", slot.FairQueue("q"))
	r.do("ZREM", slot.FairTimeouts("q"), theirs)
	_, got = r.ask(OpReacquire, FamilyFair, "q", as(last.Field), waiting)
	require.Equal(t, CodeGranted, got.Code)
}

// A waiter of ours that died is told from a live one at any place: it has not asked again.
func TestADeadWaiterIsPassedOverWhenItBecomesTheHead(t *testing.T) {
	r := newFamilyRig(t)
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	first, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	dead, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	r.do("ZINCRBY", slot.FairHeard("q"), "-6000", dead.Field) // not heard of for six seconds more
	live, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	_, _ = r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	_, got := r.ask(OpReacquire, FamilyFair, "q", as(first.Field), waiting)
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpRelease, FamilyFair, "q", as(first.Field), inherits(Heir{dead.Field, 20_000}, Heir{live.Field, 20_000}))
	require.Equal(t, CodePassed, got.Code)
	require.Equal(t, live.Field, FairField(nodeID, got.Value))
	require.Equal(t, "0", r.do("EXISTS", slot.FairQueue("q"), slot.FairTimeouts("q")))
}

func TestASpinLocksReleaseTellsNobody(t *testing.T) {
	r := newFamilyRig(t)
	conn, err := r.s.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(t.Context(), "SUBSCRIBE", slot.LockChannel("s"))
	require.NoError(t, err)
	op, _ := r.ask(OpAcquire, FamilySpin, "s")
	_, got := r.ask(OpRelease, FamilySpin, "s", as(op.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Zero(t, got.Value)
	op, _ = r.ask(OpAcquire, FamilyLock, "s")
	_, got = r.ask(OpRelease, FamilyLock, "s", as(op.Field))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, int64(1), got.Value)
}

// Families that share a run do not share a command.
func TestBatchHoldsOneFamily(t *testing.T) {
	var ops []*Op
	for _, f := range []Family{FamilyLock, FamilyLock, FamilyFenced, FamilyRead, FamilyRead, FamilyWrite} {
		op := pureOp(OpAcquire, fmt.Sprint("name:", len(ops)), 1000)
		op.Family = f
		ops = append(ops, op)
	}
	cmds, keys := cut(t, ops)
	require.Equal(t, [][]string{{"name:0", "name:1"}, {"name:2"}, {"name:3", "name:4"}, {"name:5"}}, keys)
	require.True(t, strings.HasSuffix(cmds[3].ops[0].Field, ":write"))
}

// Releases name each key's own waiters, with their leases: a name in another key's queue is nobody there.
func TestAFairReleasePassesEachKeyOnUnderItsWaitersOwnLease(t *testing.T) {
	r := newFamilyRig(t)
	leases := map[string]int64{"a": 1_000, "b": 20_000}
	var releases []*Op
	next := map[string]string{}
	for _, key := range []string{"a", "b", "c"} {
		holder, _ := r.ask(OpAcquire, FamilyFair, key)
		waiter, _ := r.ask(OpAcquire, FamilyFair, key, waiting)
		next[key] = waiter.Field
		release := nodeOp(OpRelease, key, r.a)
		release.Family, release.Field = FamilyFair, holder.Field
		heirs := []Heir{{next["a"], 1_000}}
		if key == "b" {
			heirs = append(heirs, Heir{next["b"], 20_000})
		}
		inherits(heirs...)(release)
		releases = append(releases, release)
	}
	require.Len(t, appendCommands(nil, releases, make([]Result, len(releases)), r.n), 1, "that parts nobody")
	require.Equal(t, []string{"1", next["a"], "1000", "2", next["a"], "1000", "2", next["b"], "20000", "3", next["a"], "1000"}, heirsOf(releases))
	for _, op := range releases {
		nodeSubmit(t, r.n, op)
		got := r.a.await(t, op)
		if op.Key == "c" {
			require.Equal(t, CodeReleased, got.Code, "its waiter was not named")
			require.Equal(t, "0", r.do("EXISTS", "c"))
			continue
		}
		require.Equal(t, CodePassed, got.Code)
		require.Equal(t, next[op.Key], FairField(nodeID, got.Value))
		require.InDelta(t, leases[op.Key], r.number("PTTL", op.Key), 500)
	}
}
