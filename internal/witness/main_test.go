package witness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childEnv makes the test binary one process of a run: it opens the file named there, says
// "joined", and does what the lines on its standard input say, answering each.
const childEnv = "WITNESS_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

func child(path string) int {
	w, err := Open(path, Options{Keys: 4, FallbackPrefix: "child"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("joined")
	lines := bufio.NewScanner(os.Stdin)
	var mark uint64
	for lines.Scan() {
		switch command, rest, _ := strings.Cut(lines.Text(), " "); command {
		case "take":
			mark = w.Take(0, 7)
		case "give":
			w.Give(0, mark)
		case "await":
			var want int
			_, _ = fmt.Sscan(rest, &want)
			if err := w.Await(context.Background(), want, 10*time.Second); err != nil {
				fmt.Println(err)
				continue
			}
		case "leave":
			if err := w.Leave(); err != nil {
				fmt.Println(err)
			}
			fmt.Println("ok")
			return 0
		}
		fmt.Println("ok")
	}
	return 0
}

// other is a child: another process of the run.
type other struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startOther(t *testing.T, path string) *other {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	o := &other{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	require.Equal(t, "joined", o.answer())
	return o
}

func (o *other) answer() string {
	o.t.Helper()
	require.True(o.t, o.lines.Scan(), "the other process ended")
	return o.lines.Text()
}

// say sends a command without waiting for its answer.
func (o *other) say(command string) {
	o.t.Helper()
	_, err := fmt.Fprintln(o.in, command)
	require.NoError(o.t, err)
}

func (o *other) do(command string) {
	o.t.Helper()
	o.say(command)
	require.Equal(o.t, "ok", o.answer())
}

// kill ends the other process where it stands. It is not waited for: it stays a zombie, and
// must count as gone all the same.
func (o *other) kill() {
	o.t.Helper()
	require.NoError(o.t, o.cmd.Process.Kill())
	require.Eventually(o.t, func() bool { return !alive(o.cmd.Process.Pid, 0) }, 10*time.Second, time.Millisecond)
}
