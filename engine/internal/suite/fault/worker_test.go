package fault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// workerEnv makes the test binary a worker: a process of its own that a test can stop. Its value is
// the server's address.
const workerEnv = "HOLDFAST_TEST_WORKER"

// runWorker holds two locks, says so, and after each line on its standard input says what it believes
// of them, in the order in which a careful holder would look: before any command is sent.
func runWorker(addr string) int {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{addr}})
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	watched, err1 := e.Lock("watched", engine.WatchdogLease(time.Second)).Acquire(ctx)
	fixed, err2 := e.Lock("fixed", engine.FixedLease(time.Second)).Acquire(ctx)
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println("acquire:", err)
		return 1
	}
	held := []*engine.Lease{watched, fixed}
	ends := []context.Context{watched.Context(), fixed.Context()}
	fmt.Println("held")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		for i, ls := range held {
			lost, err := ls.Lost(), ends[i].Err()
			late := !time.Now().Before(ls.Deadline())
			released := ls.Release(ctx)
			fmt.Println(ls.Name(), lost, err != nil, context.Cause(ends[i]) == engine.ErrLost, late, errors.Is(released, engine.ErrLost)) //nolint:errorlint // the cause itself
		}
		fmt.Println("renewed", e.Stats().Renewals.Sent)
	}
	return 0
}

// TestC001_WorkerIsStoppedPastItsLease: the process of a holder stands still for longer than its
// lease. Another one gets the lock when the lease is over; the first knows that it has lost as soon
// as it looks, and touches nothing of its successor's. C-002: a fixed lease is the same.
func TestC001_WorkerIsStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	worker := exec.Command(os.Args[0], "-test.run=^$") //nolint:gosec // this very binary
	worker.Env = append(os.Environ(), workerEnv+"="+s.Addr())
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := worker.StdinPipe()
	require.NoError(t, err)
	stdout, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	out := bufio.NewReader(stdout)
	read := func() string {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(line)
	}
	require.Equal(t, "held", read())
	waiting := []*engine.Future[*engine.Lease]{
		e.Lock("watched").AcquireAsync(testkit.Limited(t)), e.Lock("fixed").AcquireAsync(testkit.Limited(t)),
	}
	testkit.Eventually(t, "both are waited for", func() bool { return e.Stats().Waits == 2 })
	stopped := time.Now()
	require.NoError(t, worker.Process.Signal(syscall.SIGSTOP))
	var leases []*engine.Lease
	for _, f := range waiting {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		leases = append(leases, ls)
		require.Less(t, testkit.Ran(stopped), 1500*time.Millisecond, "granted soon after the lease's end")
	}
	testkit.LastUntil(stopped.Add(2 * time.Second))
	before := []string{s.Do(t, "HGETALL", "watched"), s.Do(t, "HGETALL", "fixed")}
	_, err = io.WriteString(stdin, "look\n") // it is the first thing the worker finds when it goes on
	require.NoError(t, err)
	require.NoError(t, worker.Process.Signal(syscall.SIGCONT))
	require.Equal(t, "watched true true true true true", read())
	require.Equal(t, "fixed true true true true true", read())
	require.Regexp(t, `^renewed \d$`, read())
	require.Equal(t, before, []string{s.Do(t, "HGETALL", "watched"), s.Do(t, "HGETALL", "fixed")})
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
		testkit.Release(t, ls)
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, worker.Wait())
	testkit.Finish(t, s, e)
}
