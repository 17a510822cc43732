package witness

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	sharedfile "github.com/seed-786ebc8c/holdfast/internal/witness"
)

// A violation that another process saw is one of this run, too, and so is a process that died.
func TestWhatIsWrongElsewhereIsWrongHere(t *testing.T) {
	w, err := sharedfile.Open(filepath.Join(t.TempDir(), "w"), sharedfile.Options{Keys: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Leave()) })
	for _, c := range []struct {
		of     report.Process
		kills  []string
		status int
	}{
		{report.Process{}, nil, report.StatusOK},
		{report.Process{Violations: 1}, nil, report.StatusViolation},
		{report.Process{Gone: true}, nil, report.StatusFailed},
		{report.Process{Gone: true}, []string{"client"}, report.StatusOK},
	} {
		o := &Observer{cfg: &config.Config{Chaos: c.kills}, w: w}
		r, out := &report.Report{Errors: map[string]int64{}}, &report.Witness{}
		out.Add(c.of)
		o.blame(r, out)
		r.Settle()
		require.Equal(t, c.status, r.Status, "%+v: %v", c, r.Failures)
	}
}
