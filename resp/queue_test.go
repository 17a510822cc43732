package resp

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// attempt is the limit of one, in tests of the bound.
const attempt = 2400 * time.Millisecond

func TestTheBoundGrowsWhileFullRunsAreQuick(t *testing.T) {
	b := newBound(boundMost)
	require.Equal(t, boundFirst, b.ops)
	b.ran(boundFirst-1, time.Millisecond, attempt)
	require.Equal(t, boundFirst, b.ops, "more would not have been sent")
	b.ran(boundFirst, attempt/8, attempt)
	require.Equal(t, boundFirst, b.ops, "that is what it may take")
	for _, want := range []int{2 * boundFirst, 4 * boundFirst, boundMost, boundMost} {
		b.ran(b.ops, attempt/8-1, attempt)
		require.Equal(t, want, b.ops)
	}
}

func TestTheBoundShrinksToWhatAnEighthOfTheLimitCovers(t *testing.T) {
	b := newBound(boundMost)
	b.ran(boundFirst, attempt/4-1, attempt)
	require.Equal(t, boundFirst, b.ops, "a load in between changes nothing")
	b.ran(boundFirst, attempt/4, attempt)
	require.Equal(t, boundFirst/2, b.ops)
	b.ran(boundFirst/2, attempt*3/8, attempt)
	require.Equal(t, boundFirst/6, b.ops)
	b.ran(1, 2*attempt, attempt)
	require.Equal(t, boundLeast, b.ops, "one command can always be sent")
	b.ran(boundLeast, attempt, attempt)
	require.Equal(t, boundLeast, b.ops)
	b.ran(boundLeast, time.Millisecond, attempt)
	require.Equal(t, 2*boundLeast, b.ops, "it grows again")

	b = newBound(boundMost)
	b.ran(1, 2*attempt, attempt)
	require.Equal(t, boundFirst/4, b.ops, "a server that stood still once may be quick")
	b.ran(8*boundFirst, attempt/4, attempt)
	require.Equal(t, boundFirst/4, b.ops, "no slow run raises it")
}

// Whatever the rate of the server, runs come to take less than a quarter of the limit, and as soon as the rate allows it
// no run is small.
func TestTheBoundFindsWhatAServerCanDo(t *testing.T) {
	for _, perSecond := range []int{2000, 10_000, 50_000, 1_000_000} {
		b := newBound(boundMost)
		took := func() time.Duration { return time.Duration(b.ops) * time.Second / time.Duration(perSecond) }
		for range 20 {
			b.ran(b.ops, took(), attempt)
		}
		require.Less(t, took(), attempt/4, "%d keys a second", perSecond)
		require.True(t, b.ops == boundMost || took() >= attempt/16, "%d keys a second: %d", perSecond, b.ops)
	}
}

func TestARunIsSharedByUrgency(t *testing.T) {
	b := bound{ops: 100}
	for _, c := range []struct{ releases, singles, acquires, r, s, a int }{
		{0, 0, 0, 0, 0, 0},
		{0, 0, 1000, 0, 0, 100},
		{10, 20, 1000, 10, 20, 70},
		{100, 20, 1000, 100, 0, 0},
		{1000, 20, 1000, 100, 0, 0}, // who waits behind releases may ask for what they free
		{60, 1000, 1000, 60, 30, 10},
		{0, 1000, 1000, 0, 75, 25},
		{0, 1000, 5, 0, 95, 5},
		{0, 1000, 0, 0, 100, 0},
		{99, 1000, 1000, 99, 1, 0},
	} {
		r, s, a := b.share(c.releases, c.singles, c.acquires)
		require.Equal(t, [3]int{c.r, c.s, c.a}, [3]int{r, s, a}, "%+v", c)
	}
}

func TestASmallRunHasAPlaceForAnAcquireBesideSingleOps(t *testing.T) {
	for most, acquires := range map[int]int{2: 1, 3: 1, 4: 1, 5: 1, 6: 2} {
		b := bound{ops: most}
		_, s, a := b.share(0, 1000, 1000)
		require.Equal(t, [2]int{most - acquires, acquires}, [2]int{s, a}, "a run of %d", most)
	}
}

// A queue of random steps, and a slice as its twin.
func TestAFifoKeepsTheOrderAndTheTimes(t *testing.T) {
	type twin struct {
		op     *Op
		at     clock.Instant
		listed bool
	}
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it must repeat
	var f fifo
	var twins []twin
	now, number := clock.Instant(1), 0
	for range 20_000 {
		now++
		switch rnd.IntN(8) {
		case 0:
			f.note(now)
		case 1:
			before := now - clock.Instant(rnd.IntN(200))
			keys := f.overdue(before, nil)
			for i := range twins {
				w := &twins[i]
				switch {
				case len(keys) > 0 && keys[0] == w.op.Key:
					require.False(t, w.listed, "once")
					w.listed, keys = true, keys[1:]
				case w.op.state.Load() != opCancelled:
					require.True(t, w.listed || w.at.After(before), "listed when it is old")
				}
			}
			require.Empty(t, keys)
		case 2:
			if len(twins) > 0 && rnd.IntN(10) == 0 {
				op := twins[rnd.IntN(len(twins))].op
				op.state.Store(opCancelled)
				for _, op := range f.sweep(nil) {
					require.Equal(t, opCancelled, op.state.Load())
				}
			}
		case 3, 4:
			for range min(rnd.IntN(9), len(twins)) {
				require.False(t, f.oldest().After(twins[0].at), "it was not queued before that")
				op := f.pop()
				if twins[0].op.state.Load() == opCancelled {
					require.Nil(t, op)
				} else {
					require.Same(t, twins[0].op, op)
				}
				twins = twins[1:]
			}
		default:
			op := &Op{Key: fmt.Sprint(number)}
			number++
			f.push(op)
			twins = append(twins, twin{op: op, at: now})
		}
		require.Equal(t, len(twins), f.len())
	}
}

func TestAFifoUsesItsRoomAgain(t *testing.T) {
	var f fifo
	for range boundMost {
		f.push(&Op{})
	}
	for range 20 * boundMost {
		f.push(&Op{})
		f.pop()
	}
	require.Less(t, cap(f.ops), 8*boundMost)
	require.Equal(t, boundMost, f.len())
	for range boundMost {
		require.NotNil(t, f.pop())
	}
}

// What one write does not carry waits for the next: it can be taken back, and what is more urgent goes first.
func TestWhatIsBeyondTheBoundStaysInTheQueue(t *testing.T) {
	const most = 4
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{RunMost: most})
	a := newNodeAnswers()
	held := nodeSubmit(t, n, nodeOp(OpAcquire, "held", a))
	require.Equal(t, CodeGranted, a.await(t, held).Code)

	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	nodeSubmit(t, n, nodeOp(OpAcquire, "flying", a))
	<-hold.C()
	var ops []*Op
	for i := range 3 * most {
		ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("queued:", i), a)))
	}
	before := n.Stats().Batches
	// The next run is on its way, and carries as many as it may.
	hold = p.HoldNext(faultproxy.Command("EVALSHA"), -1)
	<-hold.C()
	require.Equal(t, 2*most, n.Stats().Queued)
	for _, op := range ops[:most] {
		require.False(t, op.Cancel(), "it was sent")
	}
	require.True(t, ops[most+1].Cancel(), "it was not")
	release := nodeOp(OpRelease, "held", a)
	release.Field = held.Field
	nodeSubmit(t, n, release)
	p.ReleaseCommands()
	for i, op := range ops {
		if i != most+1 {
			require.Equal(t, CodeGranted, a.await(t, op).Code)
		}
	}
	require.Equal(t, CodeCancelled, a.await(t, ops[most+1]).Code)
	require.Equal(t, CodeReleased, a.await(t, release).Code)
	require.NotContains(t, s.Keys(t), ops[most+1].Key)
	require.EqualValues(t, 4, n.Stats().Batches-before, "the one held first, four acquires, a release and three, and four")
	a.mu.Lock()
	defer a.mu.Unlock()
	at := make(map[*Op]int)
	for i, op := range a.order {
		at[op] = i
	}
	require.Less(t, at[release], at[ops[most]], "a release waits for no acquires")
	last := -1
	for i, op := range ops {
		if i != most+1 {
			require.Greater(t, at[op], last, "they are served in the order of their coming")
			last = at[op]
		}
	}
}

// While renewals are late acquires wait, and nothing else does.
func TestAcquiresAreHeldBackAndNothingElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	held := nodeSubmit(t, n, nodeOp(OpAcquire, "held", a))
	require.Equal(t, CodeGranted, a.await(t, held).Code)
	now := n.opts.Clock.Now
	n.HoldBack(now().Add(time.Hour))
	n.HoldBack(now()) // does not cut that short
	waits, cancelled := nodeSubmit(t, n, nodeOp(OpAcquire, "waits", a)), nodeSubmit(t, n, nodeOp(OpAcquire, "cancelled", a))
	again := nodeOp(OpReacquire, "again", a)
	again.Field, again.Count = nodeID+":1", 1
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, again)).Code)
	release := nodeOp(OpRelease, "held", a)
	release.Field = held.Field
	require.Equal(t, CodeReleased, a.await(t, nodeSubmit(t, n, release)).Code)
	require.EqualValues(t, -2, a.await(t, nodeSubmit(t, n, nodeOp(OpInspect, "held", a))).Value)
	require.True(t, cancelled.Cancel())
	require.Equal(t, CodeCancelled, a.await(t, cancelled).Code, "who was cancelled is told meanwhile")
	require.Equal(t, []string{"again"}, s.Keys(t))
	require.True(t, waits.state.Load() == opQueued)

	n.heldBack.Store(int64(now()))
	require.Equal(t, CodeGranted, a.await(t, waits).Code, "they go on when that is over")

	n.HoldBack(now().Add(time.Hour))
	last := nodeSubmit(t, n, nodeOp(OpAcquire, "last", a))
	n.Close()
	require.Equal(t, CodeGranted, a.await(t, last).Code, "what was queued is sent before a node ends")
}

// A lane measures its writes. The last answer of each came after what it has learnt.
func TestALaneLearnsHowMuchItMaySend(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{AttemptLimit: 2 * time.Second})
	a := newNodeAnswers()
	b := &n.lanes[0].bound
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "quick", a))).Code)
	require.Equal(t, boundFirst, b.ops)
	p.Delay(300*time.Millisecond, 300*time.Millisecond)
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "slow", a))).Code)
	require.Equal(t, boundFirst/4, b.ops)
	// One that has no answer within its limit has taken all of it.
	p.Delay(0, 0)
	hold := p.Hold(faultproxy.Command("EVALSHA"), 1)
	unanswered := nodeSubmit(t, n, nodeOp(OpAcquire, "unanswered", a))
	<-hold.C()
	require.Equal(t, ClassUnknown, a.await(t, unanswered).Err.Class)
	require.Equal(t, boundLeast, b.ops)
	p.ReleaseCommands()
}

// Who was cancelled takes no room of those who wait.
func TestWhatWasSweptTakesNoRoom(t *testing.T) {
	var f fifo
	ops := []*Op{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	for _, op := range ops {
		op.state.Store(opQueued)
		f.push(op)
	}
	ops[1].state.Store(opCancelled)
	require.Equal(t, ops[1:2], f.sweep(nil))
	require.Empty(t, f.sweep(nil), "once")
	require.Equal(t, [2]int{3, 2}, [2]int{f.len(), f.live()})
	require.Equal(t, [3]*Op{ops[0], nil, ops[2]}, [3]*Op{f.pop(), f.pop(), f.pop()})
	require.Equal(t, [2]int{0, 0}, [2]int{f.len(), f.live()})
}
