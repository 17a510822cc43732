package witness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The number of a process that ended may be another's by now.
func TestAProcessThatBeganAtAnotherTimeIsAnother(t *testing.T) {
	me := os.Getpid()
	began := startOf(me)
	require.NotZero(t, began)
	require.True(t, alive(me, began))
	require.True(t, alive(me, 0), "unknown")
	require.False(t, alive(me, began+1))
	require.False(t, alive(me, began-1))
}

func TestAProcessThatWasWaitedForIsNotAlive(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	require.NoError(t, cmd.Run())
	require.False(t, alive(cmd.Process.Pid, 0))
	require.Zero(t, startOf(cmd.Process.Pid))
}

func TestLives(t *testing.T) {
	for _, c := range []struct {
		state          byte
		began, started uint64
		want           bool
	}{
		{'S', 5, 5, true},
		{'S', 5, 6, false},
		{'S', 5, 0, true},
		{'S', 1, 5, false},
		{0, 0, 5, true}, // not for us to see
		{'Z', 5, 5, false},
		{'X', 5, 5, false},
		{'Z', 5, 0, false},
	} {
		require.Equal(t, c.want, lives(c.state, c.began, c.started), "%+v", c)
	}
}

func TestParseReadsStateAndStart(t *testing.T) {
	const between = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
	for text, want := range map[string]struct {
		state byte
		began uint64
	}{
		"12 (name) S" + between + "8589934599 20 21": {'S', 8_589_934_599},
		"12 (a) Z b) R" + between + "17":             {'R', 17}, // its name looks like the end of one
		"12 (name) S" + between:                      {0, 0},
		"12 (name) S" + between + "x":                {'S', 0},
		"12 (name":                                   {0, 0},
		"":                                           {0, 0},
	} {
		state, began := parse([]byte(text))
		require.Equal(t, want.state, state, text)
		require.Equal(t, want.began, began, text)
	}
}

// A load generator opens many: a mapping stays while it is in use, a descriptor does not.
func TestAWitnessKeepsNoDescriptorAndLeavesNoMapping(t *testing.T) {
	path := newPath(t)
	mapped := func() bool {
		text, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Contains(string(text), path)
	}
	w := open(t, path)
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // it may be gone by now
		require.NotEqual(t, path, to)
	}
	require.True(t, mapped())
	require.NoError(t, w.Leave())
	require.False(t, mapped())
	require.NoError(t, w.Leave(), "once more does no harm")
}

// A sealed file can be mapped, whatever its length: who went on would write behind its end, or find old marks.
func TestAFileThatKeepsItsLengthIsRefused(t *testing.T) {
	for name, seal := range map[string]int{"CannotBeLonger": unix.F_SEAL_GROW, "CannotBeEmpty": unix.F_SEAL_SHRINK} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.MemfdCreate("witness", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
			require.NoError(t, err)
			f := os.NewFile(uintptr(fd), "witness")
			defer func() { require.NoError(t, f.Close()) }()
			if seal == unix.F_SEAL_SHRINK {
				require.NoError(t, f.Truncate(8))
			}
			_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seal)
			require.NoError(t, err)
			require.ErrorIs(t, new(Witness).begin(f, Options{Keys: 4}), unix.EPERM)
		})
	}
}
