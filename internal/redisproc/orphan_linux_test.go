package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const parentEnv = "REDISPROC_PARENT"

// TestServerDiesWithItsParent starts this test binary again as a parent that is
// killed without a chance to clean up.
func TestServerDiesWithItsParent(t *testing.T) {
	if os.Getenv(parentEnv) != "" {
		beParent()
		return
	}
	Run(t, Options{}).Stop() // skips or fails like the other tests

	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithItsParent$")
	cmd.Env = append(os.Environ(), parentEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.False(t, gone(pid))

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NoError(t, poll(t.Context(), func() error {
		if !ended(pid) {
			return errors.New("the server outlives its parent")
		}
		return nil
	}))
}

// beParent prints the server's pid and waits to be killed.
func beParent() {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Pid())
	select {}
}

// ended reports whether a process that is not our child has ended; whoever adopted
// it may not have waited for it yet.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
