package resp

import (
	"cmp"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// A busyPoll decides how a lane waits for the replies of a round on its own connection: blocked, until the system wakes
// it, or polling, which asks for them again and again while other goroutines run. A processor that goes idle needs tens
// of microseconds to wake on many virtual machines, as long as a server nearby needs for the whole round; so does the
// server's, and while one side polls the other is idle for less. On a busy machine it is the other way round: who polls
// takes the server's time. So both are tried now and then, and what carries more is kept. Where callers have more to do
// than to wait both carry the same, and the lane blocks.
type busyPoll struct {
	trip    time.Duration // of a round, smoothed
	left    int           // rounds of this cycle
	began   time.Time     // of the last round
	ops     int           // how many it had
	mode    int
	prefers int
	score   int                       // trials that polling has won, less those that it has lost, of the last few
	trials  [2][busyPollTries]oneCost // of this cycle, by mode
	tried   [2]int
	pollers *atomic.Int32 // lanes of the engine that poll; mostly one at a time
}

// A oneCost is what a round took, and the ops it had.
type oneCost struct {
	took time.Duration
	ops  int
}

// The modes.
const (
	blocked = iota
	polling
)

const (
	// busyPollMost is how long a lane polls in one round: longer than a server nearby takes, shorter than would hurt.
	// Where rounds take more than twice that nothing is tried.
	busyPollMost = 200 * time.Microsecond
	// busyPollCycle is a number of rounds. Of the last of them busyPollTries have the preferred mode, and as many the
	// other one: so the two are compared side by side, whatever the machine does from one moment to the next.
	busyPollCycle, busyPollTries = 256, 16
	// busyPollSure is the greatest score, busyPollTurns from where on it changes what is preferred. Who is sure tries more
	// seldom.
	busyPollSure, busyPollTurns, busyPollSeldom = 4, 2, 4
	busyPollSmooth                              = 16
)

// begin begins a round of so many ops. It returns whether the lane is to poll. One that may not is not learned from:
// beside other lanes, which have work for the processor, or to see whether the server is there.
func (p *busyPoll) begin(now time.Time, ops int, may bool) bool {
	if n := p.tried[p.mode]; p.left <= 2*busyPollTries && p.ops > 0 && n < busyPollTries {
		p.trials[p.mode][n] = oneCost{min(now.Sub(p.began), 8*busyPollMost), p.ops}
		p.tried[p.mode]++
	}
	if !may {
		p.began, p.ops, p.mode = now, 0, blocked
		return false
	}
	if p.left--; p.left <= 0 {
		p.judge()
	}
	p.began, p.ops, p.mode = now, ops, p.prefers
	if p.left <= busyPollTries {
		p.mode = 1 - p.mode
	}
	// With one processor nobody else would see what comes from the network. How many there are is asked last: that
	// takes a lock of the runtime's.
	if p.trip > 2*busyPollMost || p.mode == polling && runtime.GOMAXPROCS(0) == 1 {
		p.mode = blocked
	}
	return p.mode == polling
}

// judge ends a cycle: it prefers what has carried more in most of the last trials, and begins the next one. Polling
// wins only by enough to be worth the processor's time. What is preferred stays so while the other is hardly better.
func (p *busyPoll) judge() {
	if p.tried[blocked] == busyPollTries && p.tried[polling] == busyPollTries {
		waits, polls := usualCost(&p.trials[blocked]), usualCost(&p.trials[polling])
		least := waits / 8
		if p.prefers == polling {
			least /= 2
		}
		if polls < waits-least {
			p.score = min(p.score+1, busyPollSure)
		} else {
			p.score = max(p.score-1, -busyPollSure)
		}
	}
	switch {
	case p.score >= busyPollTurns:
		p.prefers = polling
	case p.score <= -busyPollTurns:
		p.prefers = blocked
	}
	p.tried, p.left = [2]int{}, busyPollCycle
	if p.score == busyPollSure || p.score == -busyPollSure {
		p.left *= busyPollSeldom
	}
}

// usualCost is what an op took, without the quarter of the rounds that took longest for each: a process that did not
// get to run for a moment says nothing.
func usualCost(rounds *[busyPollTries]oneCost) time.Duration {
	slices.SortFunc(rounds[:], func(a, b oneCost) int {
		return cmp.Compare(a.took*time.Duration(b.ops), b.took*time.Duration(a.ops))
	})
	var took time.Duration
	ops := 0
	for _, r := range rounds[:busyPollTries*3/4] {
		took, ops = took+r.took, ops+r.ops
	}
	return took / time.Duration(ops)
}

// end notes how long a round has taken.
func (p *busyPoll) end(now time.Time) {
	took := min(now.Sub(p.began), 8*busyPollMost)
	if p.trip == 0 {
		p.trip = took
	}
	p.trip += (took - p.trip) / busyPollSmooth
}

// poll asks until there is something to read, for busyPollMost at the longest. If another lane polls it returns at
// once.
func (p *busyPoll) poll(ready func() bool) {
	if p.pollers.Add(1) > 1 {
		p.pollers.Add(-1)
		return
	}
	defer p.pollers.Add(-1)
	for began := time.Now(); !ready() && time.Since(began) < busyPollMost; {
		runtime.Gosched()
	}
}
