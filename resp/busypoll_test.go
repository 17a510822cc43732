package resp

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A pollRun is a lane that polls or not, and its time.
type pollRun struct {
	busyPoll
	now    time.Time
	beside bool // others
}

// rounds lets so many rounds go by, of which each takes as long as its mode says, and returns how many polled.
func (p *pollRun) rounds(n, ops int, trips [2]time.Duration, think time.Duration) (polls int) {
	for range n {
		mode := blocked
		if p.begin(p.now, ops, !p.beside) {
			mode = polling
			polls++
		}
		p.now = p.now.Add(trips[mode])
		p.end(p.now)
		p.now = p.now.Add(think)
	}
	return polls
}

func severalProcessors(t *testing.T) {
	t.Helper()
	if had := runtime.GOMAXPROCS(0); had == 1 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(had) })
	}
}

func TestABusyPollKeepsWhatCarriesMore(t *testing.T) {
	severalProcessors(t)
	const us, n, tries = time.Microsecond, 100 * busyPollCycle, 100 * busyPollTries
	for name, c := range map[string]struct {
		trips       [2]time.Duration
		think       time.Duration
		least, most int
	}{
		"polling is faster":                {[2]time.Duration{90 * us, 50 * us}, us, n - tries - busyPollCycle, n - tries + busyPollTries},
		"blocked is faster":                {[2]time.Duration{50 * us, 90 * us}, us, tries - busyPollTries, tries + busyPollTries},
		"both are the same":                {[2]time.Duration{50 * us, 48 * us}, us, tries - busyPollTries, tries + busyPollTries},
		"callers have other things to do":  {[2]time.Duration{90 * us, 50 * us}, time.Millisecond, tries - busyPollTries, tries + busyPollTries},
		"a server far away is never tried": {[2]time.Duration{500 * us, 400 * us}, us, 0, busyPollCycle},
		"and one that is busy neither":     {[2]time.Duration{time.Second, time.Second}, us, 0, busyPollCycle},
	} {
		t.Run(name, func(t *testing.T) {
			got := new(pollRun).rounds(n, 8, c.trips, c.think)
			require.GreaterOrEqual(t, got, c.least)
			require.LessOrEqual(t, got, c.most)
		})
	}
	// What was better once is found to be so no more, and again.
	p := new(pollRun)
	p.rounds(n, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, polling, p.better())
	p.rounds(2*busyPollCycle, 1, [2]time.Duration{50 * us, 90 * us}, 0)
	require.Equal(t, blocked, p.better())
	p.rounds(2*busyPollCycle, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, polling, p.better())
}

// A process that stands still for a moment now and then, or a neighbour that takes its processor, does not decide.
func TestABusyPollLeavesOutliersOut(t *testing.T) {
	severalProcessors(t)
	const us = time.Microsecond
	p, polls := new(pollRun), 0
	p.rounds(2*busyPollCycle, 8, [2]time.Duration{90 * us, 60 * us}, 0)
	const stalls, between = 100, busyPollCycle + 50
	for range stalls {
		polls += p.rounds(between, 8, [2]time.Duration{90 * us, 60 * us}, 0)
		polls += p.rounds(1, 8, [2]time.Duration{5 * time.Millisecond, 5 * time.Millisecond}, 0)
	}
	require.Greater(t, polls, stalls*between*9/10)
	// What takes long again and again does decide.
	p.rounds(2*busyPollCycle, 8, [2]time.Duration{90 * us, 400 * us}, 0)
	require.Equal(t, blocked, p.better())
}

// Both are known by a few rounds: a preference does not go to and fro.
func TestABusyPollIsSteady(t *testing.T) {
	severalProcessors(t)
	const us, n = time.Microsecond, 10 * busyPollCycle
	p := new(pollRun)
	p.rounds(n, 1, [2]time.Duration{100 * us, 91 * us}, 0)
	require.Equal(t, blocked, p.better(), "it is not worth a beginning")
	p.rounds(n, 1, [2]time.Duration{100 * us, 80 * us}, 0)
	require.Equal(t, polling, p.better())
	p.rounds(n, 1, [2]time.Duration{100 * us, 91 * us}, 0)
	require.Equal(t, polling, p.better(), "it is not worth an end")
	p.rounds(n, 1, [2]time.Duration{100 * us, 97 * us}, 0)
	require.Equal(t, blocked, p.better())
}

// A lane beside others blocks, and forgets nothing meanwhile of what it does alone.
func TestALaneBesideOthersDoesNotPoll(t *testing.T) {
	severalProcessors(t)
	const us, n = time.Microsecond, 10 * busyPollCycle
	p := new(pollRun)
	p.rounds(n, 8, [2]time.Duration{90 * us, 50 * us}, 0)
	before := p.costs
	p.beside = true
	require.Zero(t, p.rounds(n, 8, [2]time.Duration{20 * us, 20 * us}, 0))
	p.beside = false
	require.Positive(t, p.rounds(1, 8, [2]time.Duration{90 * us, 50 * us}, 0))
	require.Equal(t, before, p.costs)

	s := redistest.Run(t, redistest.Options{})
	node := nodeOpen(t, s.Addr(), Options{Lanes: 2, ManyOps: 100})
	a := newNodeAnswers()
	for _, wide := range []bool{false, true, false} {
		node.spread.turn(wide)
		a.await(t, nodeSubmit(t, node, nodeOp(OpAcquire, fmt.Sprint("lock:", a.count()), a)))
		learns := node.lanes[0].link.cur.Load().direct.poll.ops > 0
		require.Equal(t, !wide, learns)
	}
}

func TestABusyPollOfOneProcessorBlocks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	require.Zero(t, new(pollRun).rounds(10*busyPollCycle, 1, [2]time.Duration{90 * time.Microsecond, 50 * time.Microsecond}, 0))
}

func TestABusyPollEnds(t *testing.T) {
	p := busyPoll{pollers: new(atomic.Int32)}
	asked := 0
	p.poll(func() bool { asked++; return asked == 3 })
	require.Equal(t, 3, asked)
	began := time.Now()
	p.poll(func() bool { return false })
	require.GreaterOrEqual(t, time.Since(began), busyPollMost)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Zero(t, p.pollers.Load())
	// Another lane of the engine polls.
	p.pollers.Store(1)
	p.poll(func() bool { t.Error("it polls"); return true })
	require.EqualValues(t, 1, p.pollers.Load())
}

// Whatever a lane does while it waits, what has come is seen.
func TestADirectThatPollsSeesItsReplies(t *testing.T) {
	p := newDirectPair(t)
	p.asks(1)
	p.polls = true
	time.AfterFunc(busyPollMost/4, func() { p.says(t, ":1\r\n") })
	require.NoError(t, p.talk(p.over, false))
	p.asks(1)
	p.polls = true
	time.AfterFunc(2*busyPollMost, func() { p.says(t, ":2\r\n") })
	require.NoError(t, p.talk(p.over, false))
	n, err := p.finish(nil)[0].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}

// A lane that polls asks a million times a second.
func TestAPeekerTakesNoMemory(t *testing.T) {
	p := newDirectPair(t)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.peeker.ready() }))
	require.False(t, p.peeker.ready())
	p.says(t, ":1\r\n")
	require.Eventually(t, p.peeker.ready, 5*time.Second, time.Millisecond)
	require.True(t, p.peeker.ready(), "what has come stays")
}
