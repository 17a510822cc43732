package resp

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rounds lets so many rounds go by, of which each takes as long as its mode says, and returns how many were awake.
func (v *vigil) rounds(n, ops int, trips [2]time.Duration, think time.Duration) (awakes int) {
	now := time.Unix(1, 0)
	for range n {
		mode := asleep
		if v.begin(now, ops) {
			mode = awake
			awakes++
		}
		now = now.Add(trips[mode])
		v.end(now)
		now = now.Add(think)
	}
	return awakes
}

func TestAVigilKeepsWhatCarriesMore(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	const us, n, tries = time.Microsecond, 100 * vigilTurn, 100 * vigilTries
	for name, c := range map[string]struct {
		trips       [2]time.Duration
		think       time.Duration
		least, most int
	}{
		"awake is faster":                  {[2]time.Duration{90 * us, 50 * us}, us, n - tries - vigilTurn, n - tries + vigilTries},
		"asleep is faster":                 {[2]time.Duration{50 * us, 90 * us}, us, tries - vigilTries, tries + vigilTries},
		"both are the same":                {[2]time.Duration{50 * us, 48 * us}, us, tries - vigilTries, tries + vigilTries},
		"callers have other things to do":  {[2]time.Duration{90 * us, 50 * us}, time.Millisecond, tries - vigilTries, tries + vigilTries},
		"a server far away is never tried": {[2]time.Duration{500 * us, 400 * us}, us, 0, vigilTurn},
		"and one that is busy neither":     {[2]time.Duration{time.Second, time.Second}, us, 0, vigilTurn},
	} {
		t.Run(name, func(t *testing.T) {
			got := new(vigil).rounds(n, 8, c.trips, c.think)
			require.GreaterOrEqual(t, got, c.least)
			require.LessOrEqual(t, got, c.most)
		})
	}
	// What was better once is found to be so no more, and again.
	v := new(vigil)
	v.rounds(n, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, awake, v.better())
	v.rounds(2*vigilTurn, 1, [2]time.Duration{50 * us, 90 * us}, 0)
	require.Equal(t, asleep, v.better())
	v.rounds(2*vigilTurn, 1, [2]time.Duration{90 * us, 50 * us}, 0)
	require.Equal(t, awake, v.better())
}

func TestAVigilOfOneProcessorSleeps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	require.Zero(t, new(vigil).rounds(10*vigilTurn, 1, [2]time.Duration{90 * time.Microsecond, 50 * time.Microsecond}, 0))
}

func TestAVigilEnds(t *testing.T) {
	v := vigil{at: new(atomic.Int32)}
	looks := 0
	v.keep(func() bool { looks++; return looks == 3 })
	require.Equal(t, 3, looks)
	began := time.Now()
	v.keep(func() bool { return false })
	require.GreaterOrEqual(t, time.Since(began), vigilMost)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Zero(t, v.at.Load())
	// Another lane of the engine is awake.
	v.at.Store(1)
	v.keep(func() bool { t.Error("it looks"); return true })
	require.EqualValues(t, 1, v.at.Load())
}

// Whatever a lane does while it waits, what has come is seen.
func TestADirectThatIsAwakeSeesItsReplies(t *testing.T) {
	p := newDirectPair(t)
	p.asks(1)
	p.wakeful = true
	time.AfterFunc(vigilMost/4, func() { p.says(t, ":1\r\n") })
	require.NoError(t, p.talk(p.over, false))
	p.asks(1)
	p.wakeful = true
	time.AfterFunc(2*vigilMost, func() { p.says(t, ":2\r\n") })
	require.NoError(t, p.talk(p.over, false))
	n, err := p.finish(nil)[0].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}
