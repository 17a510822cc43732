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
		stalls.Lock()
		stalls.at = append(stalls.at, stall{time.Now().Add(time.Second), 1234 * time.Millisecond},
			stall{time.Now().Add(-time.Hour), 4321 * time.Millisecond})
		stalls.Unlock()
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
	}
}
