package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wanting is an op that wants so many units of a family.
func wanting(f *Traits, units int32) *testOp {
	return newOp(&Terms{Family: f, Lease: time.Second, Watchdog: true, Units: units})
}

func TestServePermitsGoToAsManyAsThereAreEnoughForInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		units  int32
		wanted []int32
		served int
		left   int32
	}{
		"nobody waits":            {3, nil, 0, 3},
		"one":                     {1, []int32{1}, 1, 0},
		"all, and some are left":  {9, []int32{2, 1, 3}, 3, 3},
		"as many as there are":    {6, []int32{2, 1, 3}, 3, 0},
		"the last does not fit":   {5, []int32{2, 1, 3}, 2, 2},
		"it stops those behind":   {5, []int32{2, 4, 1, 1}, 1, 3},
		"the first does not fit":  {2, []int32{3, 1}, 0, 2},
		"there is nothing at all": {0, []int32{1}, 0, 0},
	} {
		var ops []*testOp
		for _, units := range c.wanted {
			ops = append(ops, wanting(permitTraits, units))
		}
		q := queueOf(ops...)
		q.late = 2
		if len(ops) > 0 {
			beginAsking(q)
			q.Sent()
			q.Landed()
		}
		served, left := q.Serve(permitTraits, c.units, 0)
		require.Equal(t, c.left, left, name)
		require.Equal(t, len(ops[:c.served]), len(ops)-len(inLine(t, q)), name)
		for i, op := range taken(served) {
			require.Same(t, ops[i], op, name)
			require.False(t, op.Pending(), "%s: its result is the engine's to give", name)
			require.False(t, op.Queued(), name)
		}
		for i, op := range inLine(t, q) {
			require.Same(t, ops[c.served+i], op, name)
			require.True(t, op.Pending(), name)
		}
		require.Nil(t, q.Attempt(), "%s: the answer was the last word", name)
		require.Zero(t, q.late, name)
		require.False(t, q.Standing(), "%s: what is held keeps nobody out", name)
	}
}

func TestServePassesOverWhoHasLeft(t *testing.T) {
	a, b := wanting(permitTraits, 2), wanting(permitTraits, 1)
	beaten := wanting(permitTraits, 3)
	beaten.beaten = true
	left1, left2, left3 := gone(wanting(permitTraits, 9)), gone(wanting(permitTraits, 2)), gone(wanting(permitTraits, 1))
	q := queueOf(left1, a, left2, beaten, b, left3)
	served, left := q.Serve(permitTraits, 4, 0)
	require.Equal(t, []*testOp{a}, taken(served), "b has to wait for who had not left yet, or so it seemed")
	require.EqualValues(t, 2, left)
	require.Equal(t, []*testOp{beaten, b}, inLine(t, q)[:2])

	served, left = q.Serve(permitTraits, 3, 0)
	require.Equal(t, []*testOp{b}, taken(served), "who left at that moment takes nothing of it")
	require.EqualValues(t, 2, left)
	require.Empty(t, inLine(t, q))
}

func TestServeStopsAtAnotherFamily(t *testing.T) {
	a, other, b := wanting(permitTraits, 1), wanting(latchTraits, 1), wanting(permitTraits, 1)
	q := queueOf(a, other, b)
	served, left := q.Serve(permitTraits, 5, 0)
	require.Equal(t, []*testOp{a}, taken(served))
	require.EqualValues(t, 4, left)
	require.Equal(t, []*testOp{other, b}, inLine(t, q))
}

// A force-release may have taken what was granted: all of it is given back, and everybody waits on.
func TestServeBelievesNoGrantThatAForceReleaseMayHaveTaken(t *testing.T) {
	for name, spoil := range map[string]func(*testQueue){
		"it began since":        func(q *testQueue) { q.ForceBegun(); q.Overtake(); q.ForceAnswered() },
		"it is on its way":      func(q *testQueue) { q.ForceBegun() },
		"one of the name's, is": func(q *testQueue) { q.ensureExtra().name = &testQueue{}; q.ensureExtra().name.ForceBegun() },
	} {
		for _, f := range []*Traits{permitTraits, latchTraits} {
			a, b := wanting(f, 1), wanting(f, 1)
			q := asked(a, b)
			spoil(q)
			q.Landed()
			served, left := q.Serve(f, 5, 0)
			require.True(t, served.Empty(), name)
			require.EqualValues(t, 5, left, name)
			require.Equal(t, []*testOp{a, b}, inLine(t, q), name)
			require.Nil(t, q.Attempt(), name)
			for q.Forcing() {
				require.Equal(t, StepRest, q.Next(), name)
				q.whole().ForceAnswered()
			}
			require.Equal(t, StepSend, q.Next(), "%s: it is asked for again", name)
			q.Begin(&a.attempt)
			q.Sent()
			q.Landed()
			served, _ = q.Serve(f, 2, 0)
			require.Equal(t, []*testOp{a, b}, taken(served), name)
		}
	}
}

func TestServeALatchIsForEverybody(t *testing.T) {
	a, b, c := wanting(latchTraits, 0), wanting(latchTraits, 7), wanting(latchTraits, 1)
	q := asked(gone(wanting(latchTraits, 1)), a, b, gone(wanting(latchTraits, 1)), c)
	q.Landed()
	served, left := q.Serve(latchTraits, 0, 0)
	require.Equal(t, []*testOp{a, b, c}, taken(served), "whatever their units")
	require.Zero(t, left)
	require.Empty(t, inLine(t, q))
	require.Equal(t, StepTidy, q.Next())
	require.True(t, q.Empty())

	served, left = (&testQueue{}).Serve(latchTraits, 0, 0)
	require.True(t, served.Empty())
	require.Zero(t, left)
}

func TestChainKeepsTheOrderAndLinksNobodyWhoWasTaken(t *testing.T) {
	var c Chain
	require.True(t, c.Empty())
	require.Nil(t, c.Take())
	a, b, d := opFor(lockTraits), opFor(lockTraits), opFor(lockTraits)
	for range 2 { // it can be filled again
		c.Add(&a.Waiter)
		require.False(t, c.Empty())
		c.Add(&b.Waiter)
		require.Same(t, &a.Waiter, c.Take())
		require.Nil(t, a.Next(), "who keeps it must not keep those that were behind it")
		require.False(t, c.Empty())
		c.Add(&d.Waiter) // behind who is left
		require.Same(t, &b.Waiter, c.Take())
		require.Nil(t, b.Next())
		require.Same(t, &d.Waiter, c.Take())
		require.True(t, c.Empty())
		require.Nil(t, c.Take())
	}
	// One that was taken can wait again, where it is linked to others.
	q := queueOf(a, d)
	require.Equal(t, []*testOp{a, d}, inLine(t, q))
}

// faultOnce is no answer to what may not be sent twice: it may count, and would count twice.
//
//nolint:gochecknoglobals // a constant in all but name
var faultOnce = Fault{Transient: true, Once: true}

// Nobody may ask again for what might count twice. So everybody who was asked for is told at once that nobody knows, a
// waiter that was told "busy" before, too.
func TestFaultOfWhatMayCountTwiceIsToldAtOnce(t *testing.T) {
	for name, who := range map[string]struct{ parked, try bool }{
		"a Try": {false, true}, "a newcomer": {false, false}, "a waiter": {true, false},
	} {
		for _, out := range []bool{false, true} {
			for kind, f := range map[string]Fault{
				"no answer": faultOnce,
				"in part":   {Partly: true, Once: true},
				// The first sending got no answer; whatever is said of the next says nothing of that one.
				"refused":     {Definite: true, Once: true},
				"passes":      {Definite: true, Passes: true, Once: true},
				"unreachable": {Definite: true, Transient: true, Once: true},
				"moves":       {Definite: true, Transient: true, Moving: true, Once: true},
			} {
				t.Run(name+"/"+kind, func(t *testing.T) {
					var a Asking
					a.Failed(false, Sending{machineNow, attemptLimit, time.Second}, machineNow)
					if f.Definite {
						a.Failed(true, Sending{machineNow, attemptLimit, time.Second}, machineNow)
					}
					require.Equal(t, FailUnknown, a.Judge(f, who.parked, who.try, out), "out of patience: %v", out)
				})
			}
		}
	}
}

// What the server has refused, or never got, counts once at most: it is judged like any other family's.
func TestFaultOfWhatMayCountTwiceIsOneOfManyWhileNothingIsUnknown(t *testing.T) {
	for _, f := range []Fault{
		faultUnreachable, faultWrongType, faultNoPerm, faultOOM, faultMisconf, faultNoReplicas, faultTryAgain,
	} {
		once := f
		once.Once = true
		for i := range 8 {
			parked, try, out := i&1 != 0, i&2 != 0, i&4 != 0
			var a Asking
			a.Failed(f.Definite, Sending{machineNow, attemptLimit, time.Second}, machineNow)
			require.Equal(t, a.Judge(f, parked, try, out), a.Judge(once, parked, try, out), "%+v %d", f, i)
		}
	}
}

// Permits that were too few for who was first may be enough for the next.
func TestWhoStandsBehindOneThatLeavesIsAskedFor(t *testing.T) {
	many, one := wanting(permitTraits, 3), wanting(permitTraits, 1)
	q := queueOf(many, one)
	beginAsking(q)
	q.Sent()
	q.Landed()
	q.Busy(0, false)
	require.Equal(t, StepPark, q.AfterBusy(permitTraits))
	require.Equal(t, StepSend, q.Leave(&many.Waiter))
	require.Equal(t, []*testOp{one}, inLine(t, q))

	// Of a lock there is no more for the next.
	a, b := opFor(lockTraits), opFor(lockTraits)
	q = queueOf(a, b)
	beginAsking(q)
	q.Sent()
	q.Landed()
	q.Busy(0, false)
	require.Equal(t, StepPark, q.AfterBusy(lockTraits))
	require.Equal(t, StepRest, q.Leave(&a.Waiter))
}
