package resp

import (
	"runtime"
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
	costs   [2]time.Duration // of an op, by mode, from round to round, smoothed; 0: not known
	trip    time.Duration    // of a round, smoothed
	round   uint
	began   time.Time     // of the last round
	ops     time.Duration // how many it had
	mode    int
	prefers int
	pollers *atomic.Int32 // lanes of the engine that poll; mostly one at a time
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
	// busyPollCycle is a number of rounds; in the last busyPollTries of it the other mode is tried.
	busyPollCycle, busyPollTries = 256, 16
	busyPollSmooth               = 16
)

// begin begins a round of so many ops. It returns whether the lane is to poll. One that may not is not learned from:
// beside other lanes, which have work for the processor, or to see whether the server is there.
func (p *busyPoll) begin(now time.Time, ops int, may bool) bool {
	if !may {
		p.began, p.ops, p.mode = now, 0, blocked
		return false
	}
	if p.ops > 0 {
		smooth(&p.costs[p.mode], min(now.Sub(p.began), 8*busyPollMost)/p.ops)
	}
	p.prefers = p.better()
	p.began, p.ops, p.mode = now, time.Duration(ops), p.prefers
	p.round++
	if p.round%busyPollCycle >= busyPollCycle-busyPollTries || p.costs[polling] == 0 && p.round >= busyPollTries {
		p.mode = 1 - p.mode
	}
	// With one processor nobody else would see what comes from the network. How many there are is asked last: that
	// takes a lock of the runtime's.
	if p.trip > 2*busyPollMost || p.mode == polling && runtime.GOMAXPROCS(0) == 1 {
		p.mode = blocked
	}
	return p.mode == polling
}

// better is what carries more: polling only by enough to be worth the processor's time. What is preferred stays
// so while the other is hardly better, for both are known by a few rounds only.
func (p *busyPoll) better() int {
	least := p.costs[blocked] / 8
	if p.prefers == polling {
		least /= 2
	}
	if cost := p.costs[polling]; cost != 0 && cost < p.costs[blocked]-least {
		return polling
	}
	return blocked
}

// end notes how long a round has taken.
func (p *busyPoll) end(now time.Time) { smooth(&p.trip, min(now.Sub(p.began), 8*busyPollMost)) }

// smooth follows what rounds take. One that took very long counts as twice the usual: a process that did not get to run
// for a moment would else decide for hundreds of rounds.
func smooth(have *time.Duration, one time.Duration) {
	if *have == 0 {
		*have = one
		return
	}
	*have += (min(one, 2**have+1) - *have) / busyPollSmooth
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
