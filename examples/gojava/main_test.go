package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const times = 100

func TestTwoGoProgramsCountTogether(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := run(testkit.Limited(t), s.Addr(), times)
			errs <- err
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Equal(t, strconv.Itoa(2*times), s.Do(t, "GET", "counter"))
}

// Java and Maven are needed, and the first time the network: as for the tests of interop, which HOLDFAST_INTEROP asks for.
func TestGoAndJavaCountTogether(t *testing.T) {
	if os.Getenv("HOLDFAST_INTEROP") == "" {
		t.Skip("HOLDFAST_INTEROP is not set: see the package interop")
	}
	s := redistest.Run(t, redistest.Options{})
	target := filepath.Join(t.TempDir(), "target")
	build := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "package", "-DbuildDirectory="+target)
	build.Dir = "java"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	classpath := filepath.Join(target, "gojava.jar") + string(filepath.ListSeparator) + filepath.Join(target, "lib", "*")
	java := exec.CommandContext(t.Context(), "java", "-cp", classpath, "example.Counter", s.Addr(), strconv.Itoa(times))
	said := make(chan error, 1)
	go func() {
		out, err = java.CombinedOutput()
		said <- err
	}()
	testkit.Eventually(t, "Java counts", func() bool { return len(said) > 0 || s.Do(t, "EXISTS", "counter") == "1" })
	_, counted := run(testkit.Limited(t), s.Addr(), times)
	require.NoError(t, <-said, "%s", out)
	require.NoError(t, counted)
	require.Contains(t, string(out), "java: ")
	require.Equal(t, strconv.Itoa(2*times), s.Do(t, "GET", "counter"))
}
