package resp

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A vigil decides how a lane waits for the replies of a round on its own connection: asleep, until the system wakes it,
// or awake, looking again and again while other goroutines run. A processor that goes to sleep needs tens of
// microseconds to wake on many virtual machines, as long as a server nearby needs for the whole round; so does the
// server's, and while one side is awake the other sleeps less. On a busy machine it is the other way round: who stays
// awake takes the server's time. So both are tried now and then, and what carries more is kept. Where callers have more
// to do than to wait both carry the same, and the lane sleeps.
type vigil struct {
	costs [2]time.Duration // of an op, asleep and awake: from round to round, smoothed; 0: not known
	trip  time.Duration    // of a round, smoothed
	round uint
	began time.Time     // of the last round
	ops   time.Duration // how many it had
	mode  int
	at    *atomic.Int32 // lanes of the engine that are awake; mostly one at a time
}

const (
	asleep, awake = 0, 1

	// vigilMost is how long a lane stays awake in one round: longer than a server nearby takes, shorter than would
	// hurt. Where rounds take more than twice that nothing is tried.
	vigilMost = 200 * time.Microsecond
	// vigilTurn is how many rounds there are to a turn; in the last vigilTries of it the other way is tried.
	vigilTurn, vigilTries = 256, 16
	vigilSmooth           = 8
)

// begin begins a round of so many ops. It returns whether the lane is to stay awake.
func (v *vigil) begin(now time.Time, ops int) bool {
	if v.ops > 0 {
		smooth(&v.costs[v.mode], min(now.Sub(v.began), 8*vigilMost)/v.ops)
	}
	v.began, v.ops, v.mode = now, time.Duration(ops), v.better()
	if v.round++; v.round%vigilTurn >= vigilTurn-vigilTries || v.costs[awake] == 0 && v.round >= vigilTries {
		v.mode = 1 - v.mode
	}
	// With one processor nobody else would see what comes from the network.
	if v.trip > 2*vigilMost || runtime.GOMAXPROCS(0) == 1 {
		v.mode = asleep
	}
	return v.mode == awake
}

// better is what carries more, by enough to be worth the processor's time.
func (v *vigil) better() int {
	if s, a := v.costs[asleep], v.costs[awake]; a != 0 && a < s-s/8 {
		return awake
	}
	return asleep
}

// end notes how long a round has taken.
func (v *vigil) end(now time.Time) { smooth(&v.trip, min(now.Sub(v.began), 8*vigilMost)) }

func smooth(have *time.Duration, one time.Duration) {
	if *have == 0 {
		*have = one
		return
	}
	*have += (one - *have) / vigilSmooth
}

// keep looks until there is something to read, for vigilMost at the longest. Other lanes may be awake: then it sleeps.
func (v *vigil) keep(there func() bool) {
	if v.at.Add(1) > 1 {
		v.at.Add(-1)
		return
	}
	defer v.at.Add(-1)
	for began := time.Now(); !there() && time.Since(began) < vigilMost; {
		runtime.Gosched()
	}
}
