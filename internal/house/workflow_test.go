package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// The workflow tests inside the images of these servers: CHANGELOG.md names the oldest and the newest.
func TestTheWorkflowRunsOnEveryServer(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "ci.yml"))
	require.NoError(t, err)
	var images []string
	for _, found := range regexp.MustCompile(`(?m)^\s+- ((?:redis|valkey/valkey):\S+)$`).FindAllStringSubmatch(string(text), -1) {
		images = append(images, found[1])
	}
	require.Equal(t, []string{
		"redis:6.2", "redis:7.0", "redis:7.2", "redis:7.4", "redis:8", "valkey/valkey:7.2", "valkey/valkey:8", "valkey/valkey:9",
	}, images)
}

// A release has loadgen for each system that make cross builds, and files that there are.
func TestAReleaseHasWhatIsBuilt(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	require.NoError(t, err)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	entry := func(pattern string, in []byte) string {
		found := regexp.MustCompile(pattern).FindSubmatch(in)
		require.NotNil(t, found, pattern)
		return string(found[1])
	}
	list := func(s string) []string { return strings.Fields(strings.ReplaceAll(s, ",", " ")) }
	require.ElementsMatch(t, list(entry(`(?m)^SYSTEMS = (.*)$`, makefile)), list(entry(`goos: \[(.*)\]`, text)))
	require.FileExists(t, filepath.Join(root, entry(`main: (\S+)`, text), "main.go"))
	for _, file := range list(entry(`(?m)^    files: \[(.*)\]`, text)) {
		require.FileExists(t, filepath.Join(root, file))
	}
}
