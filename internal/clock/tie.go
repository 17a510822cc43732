package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tieSlack is by how much the wall clock may differ from what it should show: the runtime reads its two clocks one after
	// the other. No machine is suspended for so short.
	tieSlack = int64(100 * time.Microsecond)
	// tieEvery is how long the boot clock is not asked for at most.
	tieEvery = int64(100 * time.Millisecond)
	// tieFar is more than two readings of one moment can be apart.
	tieFar = int64(time.Second)
)

// A tie tells the boot clock from the runtime's monotonic clock, which stands still while the machine is suspended. When
// the kernel resumes, it adds the time that was slept to the boot clock and to the wall clock at once. So as long as the
// wall clock runs beside the monotonic one, nothing was slept. Where it has jumped, for that reason or because somebody
// has set it, and every tenth of a second, the boot clock itself is asked.
type tie struct {
	read     func() (mono, wall int64)
	readBoot func() int64

	// Less the monotonic clock. boot is written before wall: who knows the wall clock after a suspend knows the boot clock.
	boot, wall atomic.Int64
	checked    atomic.Int64 // by the monotonic clock

	mu sync.Mutex // of who looks
}

// at tells the boot clock of a moment, unless it is to be asked.
func (t *tie) at(mono, wall int64) (now Instant, known bool) {
	jump := wall - mono - t.wall.Load()
	if jump > tieSlack || jump < -tieSlack {
		return 0, false
	}
	if since := mono - t.checked.Load(); since > tieEvery || since < -tieEvery {
		return 0, false
	}
	return Instant(mono + t.boot.Load()), true
}

// look asks the boot clock. What is told never goes back, so it may be ahead of the boot clock by as long as it once
// took to read the clocks, but not behind.
func (t *tie) look() Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, _ := t.read()
	boot := t.readBoot()
	mono, wall := t.read()
	least, most := boot-mono, boot-before // the truth is between
	tied := t.boot.Load()
	if tied < least || tied > most+tieFar { // suspended; or tied by another clock than this, as a test's
		tied = most
	}
	t.boot.Store(tied)
	t.wall.Store(wall - mono)
	t.checked.Store(mono)
	return Instant(mono + tied)
}
