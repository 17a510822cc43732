package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tieMachine is a machine whose clocks are the test's.
type tieMachine struct {
	mono, wall, boot int64
	asked            int   // the boot clock
	pause            int64 // what each reading may take
	r                *rand.Rand
	tie
}

func newTieMachine(seed uint64) *tieMachine {
	m := &tieMachine{
		mono: 5, wall: int64(1_800_000_000 * time.Second), boot: int64(3 * time.Hour),
		r: rand.New(rand.NewPCG(seed, 7)), //nolint:gosec // it must repeat
	}
	m.tie.read = func() (mono, wall int64) { m.takes(); return m.mono, m.wall }
	m.readBoot = func() int64 { m.takes(); m.asked++; return m.boot }
	return m
}

// runs lets time pass.
func (m *tieMachine) runs(d int64) { m.mono, m.wall, m.boot = m.mono+d, m.wall+d, m.boot+d }

// sleeps suspends the machine.
func (m *tieMachine) sleeps(d int64) { m.wall, m.boot = m.wall+d, m.boot+d }

func (m *tieMachine) takes() {
	if m.pause > 0 {
		m.runs(m.r.Int64N(m.pause))
	}
}

func (m *tieMachine) Now() Instant {
	if now, known := m.at(m.mono, m.wall); known {
		return now
	}
	return m.look()
}

func TestTheBootClockIsAskedOnceATenthOfASecond(t *testing.T) {
	m := newTieMachine(1)
	for range 1000 {
		require.Equal(t, Instant(m.boot), m.Now())
		m.runs(int64(time.Millisecond))
	}
	require.Equal(t, 10, m.asked)
}

func TestASuspendIsSeenAtOnce(t *testing.T) {
	m := newTieMachine(1)
	for _, slept := range []time.Duration{time.Hour, time.Second, time.Millisecond} {
		m.Now()
		m.sleeps(int64(slept))
		require.Equal(t, Instant(m.boot), m.Now(), slept)
	}
}

func TestSettingTheWallClockChangesNothing(t *testing.T) {
	m := newTieMachine(1)
	for _, by := range []time.Duration{time.Hour, -time.Hour, 50 * time.Microsecond, -time.Millisecond} {
		m.Now()
		m.wall += int64(by)
		m.runs(1)
		require.Equal(t, Instant(m.boot), m.Now(), by)
	}
}

// Somebody sets the wall clock back by what was slept before anybody has looked.
func TestAHiddenSuspendIsSeenWithinATenthOfASecond(t *testing.T) {
	m := newTieMachine(1)
	m.Now()
	m.sleeps(int64(time.Hour))
	m.wall -= int64(time.Hour)
	m.runs(tieEvery + 1)
	require.Equal(t, Instant(m.boot), m.Now())
}

// A test in a bubble of package synctest has clocks of its own.
func TestTheClocksOfATestAreNotTheMachines(t *testing.T) {
	m := newTieMachine(1)
	m.Now()
	mono, wall := m.mono, m.wall
	m.mono, m.wall = int64(-100*time.Hour), int64(946_684_800*time.Second)
	m.Now()
	m.mono, m.wall = mono, wall
	m.runs(int64(time.Millisecond))
	require.Equal(t, Instant(m.boot), m.Now())
}

// Whatever happens between the readings, what is told never goes back, and is never behind.
func TestTheTiedClockNeverGoesBackAndIsNeverBehind(t *testing.T) {
	for seed := range uint64(200) {
		m := newTieMachine(seed)
		m.pause = []int64{0, 1_000, 100_000, 30_000_000}[seed%4]
		last := Instant(0)
		for range 2000 {
			switch n := m.r.IntN(100); {
			case n < 2:
				m.sleeps(int64(time.Second) + m.r.Int64N(int64(time.Hour)))
			case n < 4:
				m.wall += m.r.Int64N(int64(2*time.Hour)) - int64(time.Hour)
			case n < 40:
				m.runs(m.r.Int64N(int64(time.Second)))
			default:
				m.runs(m.r.Int64N(int64(time.Millisecond)))
			}
			truth, now := Instant(m.boot), m.Now()
			require.GreaterOrEqual(t, now, last, "seed %d: it went back", seed)
			require.GreaterOrEqual(t, now, truth, "seed %d: it is behind", seed)
			require.LessOrEqual(t, now, Instant(m.boot+2*max(m.pause, 1)), "seed %d: it is ahead", seed)
			last = now
		}
	}
}
