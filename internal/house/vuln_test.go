package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// C-163: silence must not look like a clean bill.
func TestC163_VulnSaysLoudlyWhenItCannotAsk(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script, err := filepath.Abs(filepath.Join(root, "tools", "vuln.sh"))
	require.NoError(t, err)
	for _, c := range []struct {
		name, check, required string
		fails, loud           bool
	}{
		{name: "nothing found", check: "exit 0"},
		{name: "something found", check: "echo found; exit 3", fails: true},
		{name: "no database", check: "echo no route >&2; exit 1", loud: true},
		{name: "no database, and one is required", check: "echo no route >&2; exit 1", required: "1", fails: true, loud: true},
		{name: "nothing found, as required", check: "exit 0", required: "1"},
	} {
		stub := filepath.Join(t.TempDir(), "stub")
		require.NoError(t, os.WriteFile(stub, []byte(c.check+"\n"), 0o600))
		cmd := exec.CommandContext(t.Context(), bash, script)
		cmd.Env = append(os.Environ(), "GOVULNCHECK="+bash+" "+stub, "VULN_REQUIRED="+c.required)
		out, err := cmd.CombinedOutput()
		require.Equal(t, c.fails, err != nil, "%s: %v\n%s", c.name, err, out)
		if c.loud {
			require.Contains(t, string(out), "NOTHING WAS CHECKED", c.name)
			require.Contains(t, string(out), "no route", "and why")
		} else {
			require.NotContains(t, string(out), "NOTHING WAS CHECKED", c.name)
		}
	}
}
