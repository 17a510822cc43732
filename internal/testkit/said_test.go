package testkit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pretended test notes what it is told.
type pretended struct {
	testing.TB
	failed bool
	clean  []func()
	told   string
}

func (p *pretended) Helper()                         {}
func (p *pretended) Failed() bool                    { return p.failed }
func (p *pretended) Cleanup(f func())                { p.clean = append(p.clean, f) }
func (p *pretended) Logf(format string, args ...any) { p.told += fmt.Sprintf(format, args...) }

func (p *pretended) end() {
	for _, f := range p.clean {
		f()
	}
}

// A test that fails tells what its engines said, the last lines of it, and when the process stood still; one that passes
// tells nothing.
func TestWhatFailsTellsWhatItsEnginesSaid(t *testing.T) {
	for _, failed := range []bool{false, true} {
		p := &pretended{TB: t, failed: failed}
		log := onFailure(p)
		for i := range saidAtMost + 1 {
			log.Warn(fmt.Sprint("line <", i, ">"), "name", "a")
		}
		now := time.Now()
		stood(t, stall{now.Add(-time.Hour), now.Add(-time.Hour + 4321*time.Millisecond)},
			stall{now, now.Add(1234 * time.Millisecond)}, stall{now, now.Add(50 * time.Millisecond)})
		p.end()
		if !failed {
			require.Empty(t, p.told)
			continue
		}
		require.NotContains(t, p.told, "<0>")
		require.Contains(t, p.told, "s WARN line <1> name=a\n")
		require.Contains(t, p.told, fmt.Sprint("<", saidAtMost, ">"))
		require.Contains(t, p.told, "had not run for 1.234s")
		require.NotContains(t, p.told, "4.321s")
		require.NotContains(t, p.told, "50ms")
	}
}

// What a test has taken is counted without the stalls in it.
func TestRanIsTimeWithoutStalls(t *testing.T) {
	stood(t)
	now := time.Now()
	began := now.Add(-10 * time.Second)
	require.InDelta(t, 10, Ran(began).Seconds(), 1)
	ago := func(s float64) time.Time { return now.Add(-time.Duration(s * float64(time.Second))) }
	stood(t, stall{ago(30), ago(20)}, stall{ago(12), ago(9)}, stall{ago(5), ago(3)})
	require.InDelta(t, 10-1-2, Ran(began).Seconds(), 1, "one before, one that it began in, one within")

	stood(t)
	stalls.Lock()
	stalls.last = ago(4) // as if it had looked then at last
	stalls.Unlock()
	require.InDelta(t, 6, Ran(began).Seconds(), 1, "the present one counts, too")
}

// Where Main does not run the tests nobody looks for stalls: the time between two questions is none.
func TestTimeIsNoStallWhereNobodyLooks(t *testing.T) {
	stood(t)
	began := time.Now()
	_ = Ran(began)
	LastUntil(began.Add(4 * stallLeast))
	require.GreaterOrEqual(t, Ran(began), 4*stallLeast)
}

// stood makes the process believe that it has stood still then, and only then, and that nobody looks.
func stood(t *testing.T, at ...stall) {
	t.Helper()
	stalls.Lock()
	defer stalls.Unlock()
	stalls.at, stalls.last = at, time.Time{}
}
