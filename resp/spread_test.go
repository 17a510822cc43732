package resp

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// runs lets every lane begin so many runs with so many ops each.
func runs(s *spread, n, ops int) {
	for range n {
		for lane := len(s.loads) - 1; lane >= 0; lane-- {
			s.begins(lane, ops, 0)
		}
	}
}

func TestSpreadTakesOneLaneForFewAndAllForMany(t *testing.T) {
	wide := new(atomic.Int32)
	s := newSpread(&Options{Lanes: 4, ManyOps: 8, Wide: wide})
	runs(s, patientRuns-1, 2)
	require.Zero(t, wide.Load(), "a moment is no load")
	runs(s, 1, 1)
	runs(s, patientRuns-1, 2)
	require.Zero(t, wide.Load(), "it was not so all the time")
	runs(s, 1, 2)
	require.EqualValues(t, 1, wide.Load(), "eight are many")
	runs(s, 100, 1)
	require.EqualValues(t, 1, wide.Load(), "four are not few")
	s.rests(3)
	for range patientRuns {
		s.begins(0, 1, 0)
	}
	require.Zero(t, wide.Load(), "three are")

	s.rests(2)
	s.rests(1)
	for range patientRuns {
		s.begins(0, 3, 1)
	}
	require.Zero(t, wide.Load(), "seven are not many")
	for range patientRuns {
		s.begins(0, 1, 1)
		s.begins(0, 2, 2)
	}
	require.Zero(t, wide.Load(), "now and then is no load")
	for range patientRuns {
		s.begins(0, 4, 1)
	}
	require.EqualValues(t, 1, wide.Load(), "to wake one caller is as much as four others")
	s.rests(0)
	for range patientTicks {
		s.tick()
	}

	alone := newSpread(&Options{Lanes: 1, ManyOps: 8, Wide: wide})
	runs(alone, 100, 100)
	require.Zero(t, wide.Load(), "there is one lane only")
}

// The first lane judges, and need not run: then the ticks do.
func TestSpreadTakesOneLaneAgainThoughTheFirstHasNothingToDo(t *testing.T) {
	wide := new(atomic.Int32)
	s := newSpread(&Options{Lanes: 2, ManyOps: 8, Wide: wide})
	ticks := func(n int) {
		for range n {
			s.tick()
		}
	}
	runs(s, patientRuns, 4)
	ticks(100)
	require.EqualValues(t, 1, wide.Load(), "eight are many")
	s.rests(0)
	ticks(100)
	require.EqualValues(t, 1, wide.Load(), "four are not few")
	s.begins(1, 3, 0)
	ticks(patientTicks - 1)
	require.EqualValues(t, 1, wide.Load(), "a moment is no rest")
	s.begins(1, 4, 0)
	ticks(1)
	s.begins(1, 3, 0)
	ticks(patientTicks - 1)
	require.EqualValues(t, 1, wide.Load(), "it was not so all the time")
	ticks(1)
	require.Zero(t, wide.Load())
	ticks(100)
	require.Zero(t, wide.Load())
}

// QueueMax is a node's, however its acquires are spread over the lanes, and whatever other nodes want.
func TestQueueMaxIsThatOfAllLanesTogether(t *testing.T) {
	const most = 12
	s := redistest.Run(t, redistest.Options{})
	for name, wide := range map[string]func(i int) bool{
		"one":   func(int) bool { return false },
		"both":  func(int) bool { return true },
		"turns": func(i int) bool { return i >= most-1 }, // all but one are in the first when others come
	} {
		n := nodeUnticked(t, s.Addr(), Options{Lanes: 2, QueueMax: most, Wide: new(atomic.Int32)})
		a := newNodeAnswers()
		for i := range 20 { // both have sent before, and have a connection
			op := nodeOp(OpAcquire, fmt.Sprint(name, "before:", i), a)
			op.Wide = true
			a.await(t, nodeSubmit(t, n, op))
		}
		n.HoldBack(n.opts.Clock.Now().Add(time.Hour))
		var queued []*Op
		refused := 0
		for i := range 5 * most {
			op := nodeOp(OpAcquire, fmt.Sprint(name, i), a)
			if op.Wide = wide(i); n.Submit(op) != nil {
				refused++
				continue
			}
			queued = append(queued, op)
		}
		require.Len(t, queued, most, name)
		require.Equal(t, 4*most, refused, name)
		n.heldBack.Store(0)
		n.Tick(n.opts.Clock.Now(), time.Minute, nil)
		for _, op := range queued {
			require.Equal(t, CodeGranted, a.await(t, op).Code, name)
		}
		require.Zero(t, n.crowded.Load(), "%s: there is room again", name)
		a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, name+"afterwards", a)))
	}
}

// Once a node wanted all lanes and has nothing to do, its ticks end that.
func TestTheTicksOfANodeTakeOneLaneAgain(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	wide := new(atomic.Int32)
	n := nodeUnticked(t, s.Addr(), Options{Lanes: 2, Wide: wide})
	n.spread.turn(true)
	for range patientTicks {
		require.EqualValues(t, 1, wide.Load())
		n.Tick(n.opts.Clock.Now(), time.Minute, nil)
	}
	require.Zero(t, wide.Load())
}

// Ops that are wide are spread over the lanes by their keys; others take the first.
func TestWideOpsTakeAllLanes(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{Lanes: 2})
	a := newNodeAnswers()
	used := func() (lanes []int) {
		for i, l := range n.lanes {
			l.mu.Lock()
			if l.begun != 0 {
				lanes = append(lanes, i)
			}
			l.mu.Unlock()
		}
		return lanes
	}
	for i := range 32 {
		a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("few:", i), a)))
	}
	require.Equal(t, []int{0}, used())
	for i := range 32 {
		op := nodeOp(OpAcquire, fmt.Sprint("many:", i), a)
		op.Wide = true
		a.await(t, nodeSubmit(t, n, op))
	}
	require.Equal(t, []int{0, 1}, used())
	// Each has a connection for itself.
	first, second := n.lanes[0].link, n.lanes[1].link
	require.NotSame(t, first, second)
	for _, l := range []*link{first, second} {
		require.NotNil(t, l.cur.Load().direct)
	}
}

// A lane counts whose callers wait, each in the run that carries it.
func TestALaneCountsTheCallersThatWait(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	const ops = 3
	n := nodeOpen(t, s.Addr(), Options{Lanes: 2, ManyOps: ops + 2*wakeCost})
	a := newNodeAnswers()
	for _, c := range []struct{ waits, wide int }{{0, 0}, {1, 0}, {2, 1}, {0, 0}} {
		for range patientRuns {
			n.HoldBack(n.opts.Clock.Now().Add(time.Hour)) // so that one run carries them
			var queued []*Op
			for i := range ops {
				op := nodeOp(OpAcquire, fmt.Sprint("lock:", a.count(), ":", i), a)
				lead, err := n.SubmitLed(op, i < c.waits)
				require.NoError(t, err)
				lead.Run()
				queued = append(queued, op)
			}
			n.heldBack.Store(0)
			for _, op := range queued {
				require.Equal(t, CodeGranted, a.await(t, op).Code)
			}
		}
		require.EqualValues(t, c.wide, n.opts.Wide.Load(), "%d of %d wait", c.waits, ops)
	}
}
