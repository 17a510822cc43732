package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

func TestTableWidth(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for columns, want := range map[string]int{"": 0, "60": 60, "100": 100, "3": leastColumns, "-1": 0, "wide": 0} {
		getenv := func(name string) string { return map[string]string{"COLUMNS": columns}[name] }
		require.Equal(t, want, tableWidth(new(bytes.Buffer), getenv), "a pipe, COLUMNS=%s", columns)
		require.Equal(t, want, tableWidth(file, getenv), "a file, COLUMNS=%s", columns)
	}
	require.Zero(t, columnsOf(file)())
}

func TestWhyARunFailedIsSaidOnceOnATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if runtime.GOOS == "windows" {
		t.Skip("there is no such file")
	}
	require.NoError(t, err)
	defer terminal.Close()
	require.True(t, onScreen(terminal, terminal))
	require.False(t, onScreen(new(bytes.Buffer), terminal), "the table goes elsewhere")
	require.False(t, onScreen(terminal, new(bytes.Buffer)), "the log is to have it")
}

func TestCOLUMNSIsHonoured(t *testing.T) {
	withoutServer(t)
	widest := func() (most int) {
		status, stdout, stderr := invoke(t, "run", "--duration", "100ms", "--warmup", "0s", "--inflight", "64")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		for line := range strings.Lines(stdout) {
			most = max(most, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
		}
		return most
	}
	t.Setenv("COLUMNS", "")
	require.Greater(t, widest(), 60, "nothing is wrapped in a pipe")
	t.Setenv("COLUMNS", "60")
	require.LessOrEqual(t, widest(), 60)
}

func TestTheProgressLineFits(t *testing.T) {
	for _, width := range []int{40, 80} {
		line := progressLine(width, "lock 1/5", 0.5, 123_456)
		require.Less(t, utf8.RuneCountInString(line), width)
		require.Contains(t, line, " 50 % ███████████████░░░░░░░░░░░░░░░")
	}
	require.Contains(t, progressLine(80, "lock 1/5", 1, 123_456), "lock 1/5  123,456 pairs/s")
}
