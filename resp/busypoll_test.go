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

// changes is how many rounds a busyPoll needs at most to change what it is sure of.
const changes = busyPollSeldom*busyPollCycle + (busyPollSure+busyPollTurns)*busyPollCycle

func TestABusyPollKeepsWhatCarriesMore(t *testing.T) {
	severalProcessors(t)
	const us, n = time.Microsecond, 100 * busyPollCycle
	const few, most = 100 / busyPollSeldom * busyPollTries, 100/busyPollSeldom*busyPollTries + busyPollSure*busyPollTries
	for name, c := range map[string]struct {
		trips       [2]time.Duration
		think       time.Duration
		least, most int
	}{
		"polling is faster":                {[2]time.Duration{90 * us, 50 * us}, us, n - most - busyPollTurns*busyPollCycle, n - few},
		"blocked is faster":                {[2]time.Duration{50 * us, 90 * us}, us, few - busyPollTries, most},
		"both are the same":                {[2]time.Duration{50 * us, 48 * us}, us, few - busyPollTries, most},
		"callers have other things to do":  {[2]time.Duration{90 * us, 50 * us}, time.Millisecond, few - busyPollTries, most},
		"a server far away is never tried": {[2]time.Duration{500 * us, 400 * us}, us, 0, 0},
		"and one that is busy neither":     {[2]time.Duration{time.Second, time.Second}, us, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := new(pollRun).rounds(n, 8, c.trips, c.think)
			require.GreaterOrEqual(t, got, c.least)
			require.LessOrEqual(t, got, c.most)
		})
	}
	// What was better once is found to be so no more, and again.
	p := new(pollRun)
	p.rounds(busyPollTurns*busyPollCycle+1, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, polling, p.prefers)
	p.rounds(n, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	p.rounds(changes, 1, [2]time.Duration{50 * us, 90 * us}, 0)
	require.Equal(t, blocked, p.prefers)
	p.rounds(n, 1, [2]time.Duration{50 * us, 90 * us}, 0)
	p.rounds(changes, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, polling, p.prefers)
}

// A process that stands still for a moment now and then, or a neighbour that takes its processor, does not decide, nor
// does a machine that is now fast and now slow.
func TestABusyPollLeavesOutliersOut(t *testing.T) {
	severalProcessors(t)
	const us = time.Microsecond
	p, polls := new(pollRun), 0
	p.rounds(changes, 8, [2]time.Duration{90 * us, 60 * us}, 0)
	const stalls, between = 200, 9
	for range stalls {
		polls += p.rounds(between, 8, [2]time.Duration{90 * us, 60 * us}, 0)
		polls += p.rounds(1, 8, [2]time.Duration{5 * time.Millisecond, 5 * time.Millisecond}, 0)
	}
	require.Greater(t, polls, stalls*(between+1)*9/10)
	for range 2 * busyPollSure {
		for p.left != busyPollTries+4 { // it polls, and its rounds count
			p.rounds(1, 8, [2]time.Duration{90 * us, 60 * us}, 0)
		}
		p.rounds(1, 8, [2]time.Duration{5 * time.Millisecond, 5 * time.Millisecond}, 0)
	}
	require.Equal(t, polling, p.prefers)
	polls = 0
	for i := range 500 {
		slow := time.Duration(1 + i%3)
		polls += p.rounds(50, 8, [2]time.Duration{slow * 90 * us, slow * 60 * us}, 0)
	}
	require.Greater(t, polls, 500*50*9/10)
	// One trial that goes wrong, by chance, neither.
	for p.left > 2*busyPollTries+1 {
		p.rounds(1, 8, [2]time.Duration{90 * us, 60 * us}, 0)
	}
	p.rounds(2*busyPollTries+1, 8, [2]time.Duration{90 * us, 100 * us}, 0)
	require.Equal(t, polling, p.prefers)
	require.Equal(t, busyPollSure-1, p.score)
	// What takes long again and again does decide.
	p.rounds(changes, 8, [2]time.Duration{90 * us, 380 * us}, 0)
	require.Equal(t, blocked, p.prefers)
}

// Both are known by a few rounds: a preference does not go to and fro.
func TestABusyPollIsSteady(t *testing.T) {
	severalProcessors(t)
	const us = time.Microsecond
	p := new(pollRun)
	p.rounds(changes, 1, [2]time.Duration{100 * us, 91 * us}, 0)
	require.Equal(t, blocked, p.prefers, "it is not worth a beginning")
	p.rounds(changes, 1, [2]time.Duration{100 * us, 80 * us}, 0)
	require.Equal(t, polling, p.prefers)
	p.rounds(changes, 1, [2]time.Duration{100 * us, 91 * us}, 0)
	require.Equal(t, polling, p.prefers, "it is not worth an end")
	p.rounds(changes, 1, [2]time.Duration{100 * us, 97 * us}, 0)
	require.Equal(t, blocked, p.prefers)
}

// Rounds beside others in between take nothing away from a trial.
func TestABusyPollLearnsBetweenRoundsBesideOthers(t *testing.T) {
	severalProcessors(t)
	const us = time.Microsecond
	p := new(pollRun)
	p.rounds(changes, 8, [2]time.Duration{90 * us, 50 * us}, us)
	require.Equal(t, polling, p.prefers)
	for range changes {
		p.beside = false
		p.rounds(5, 8, [2]time.Duration{50 * us, 90 * us}, us)
		p.beside = true
		p.rounds(2, 8, [2]time.Duration{50 * us, 90 * us}, us)
	}
	require.Equal(t, blocked, p.prefers)
}

// Rounds of one op and of many are weighed by what they carry.
func TestABusyPollCountsOps(t *testing.T) {
	severalProcessors(t)
	const us = time.Microsecond
	p := new(pollRun)
	for range changes {
		p.rounds(1, 1, [2]time.Duration{40 * us, 40 * us}, 0)
		p.rounds(1, 7, [2]time.Duration{160 * us, 80 * us}, 0)
	}
	require.Equal(t, polling, p.prefers)
	var trial [busyPollTries]oneCost
	for i := range trial {
		trial[i] = []oneCost{{30 * us, 1}, {60 * us, 6}, {90 * us, 2}, {900 * us, 9}}[i%4]
	}
	require.Equal(t, 20*us, usualCost(&trial))
}

// A lane beside others blocks, and forgets nothing meanwhile of what it does alone.
func TestALaneBesideOthersDoesNotPoll(t *testing.T) {
	severalProcessors(t)
	const us, n = time.Microsecond, 10 * busyPollCycle
	p := new(pollRun)
	p.rounds(n, 8, [2]time.Duration{90 * us, 50 * us}, 0)
	before := p.busyPoll
	p.beside = true
	require.Zero(t, p.rounds(n, 8, [2]time.Duration{20 * us, 20 * us}, 0))
	p.beside = false
	require.Positive(t, p.rounds(1, 8, [2]time.Duration{90 * us, 50 * us}, 0))
	require.Equal(t, before.trials, p.trials)
	require.Equal(t, before.score, p.score)

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
