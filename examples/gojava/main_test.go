package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const times = 100

func TestTwoGoProgramsCountTogether(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	errs, lasts := make(chan error, 2), make(chan int, 2)
	for range 2 {
		go func() {
			last, err := run(testkit.Limited(t), s.Addr(), times)
			errs <- err
			lasts <- last
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Greater(t, min(<-lasts, <-lasts), times, "both counted at the same time")
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
	last, counted := run(testkit.Limited(t), s.Addr(), times)
	require.NoError(t, <-said, "%s", out)
	require.NoError(t, counted)
	require.Contains(t, string(out), "java: ")
	var javas int
	_, err = fmt.Sscanf(string(out[strings.Index(string(out), "java: "):]), "java: %d", &javas)
	require.NoError(t, err, "%s", out)
	require.Greater(t, min(last, javas), times, "both counted at the same time")
	require.Equal(t, strconv.Itoa(2*times), s.Do(t, "GET", "counter"))
}
