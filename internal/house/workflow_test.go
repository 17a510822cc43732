package house

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The workflow runs every step of .ci/run, and both name targets that there are.
func TestTheWorkflowRunsWhatCIRuns(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		return string(text)
	}
	matches := func(pattern, text string) map[string]bool {
		found := make(map[string]bool)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return found
	}
	targets := matches(`(?m)^([a-z-]+):`, read("Makefile"))
	steps := matches(`(?m)^\s*step make ([a-z-]+)`, read(".ci/run"))
	require.Greater(t, len(steps), 8)
	workflow := read(".github/workflows/ci.yml")
	runs := matches(`(?m)^\s+- ([a-z-]+)(?: [A-Z_]+=\S+)*$`, workflow) // the matrix of the job "run"
	for name := range matches(`run: make ([a-z-]+)`, workflow) {
		require.True(t, targets[name], "ci.yml: make has no %q", name)
		runs[name] = true
	}
	for name := range steps {
		require.True(t, targets[name], ".ci/run: make has no %q", name)
		require.True(t, runs[name], "ci.yml does not run make %s", name)
	}
}
