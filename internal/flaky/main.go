package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	times := flag.Int("times", 10, "how often the command runs")
	out := flag.String("out", "bin/flaky", "the folder that gets the output of each run")
	var still stalls
	flag.DurationVar(&still.lasts, "stall", 0, "instead of busy loops: how long all stands still each time, as on a machine that is taken away")
	flag.DurationVar(&still.every, "every", 6*time.Second, "how often it does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, *times, *out, still, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// run runs the command so often and prints what failed; an interrupt ends the run at hand, and what the others
// showed is printed all the same.
func run(ctx context.Context, times int, out string, still stalls, command []string) (failed bool, err error) {
	if times < 1 || len(command) == 0 {
		return false, errors.New("no command, or no time to run it: flaky [-times n] [-out folder] [-stall time] command")
	}
	if err := still.check(); err != nil {
		return false, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return false, err
	}
	if still.lasts == 0 {
		keepBusy(runtime.NumCPU())
	}
	found := finds{}
	for i := 1; i <= times && ctx.Err() == nil; i++ {
		file := filepath.Join(out, fmt.Sprintf("run-%02d.txt", i))
		began := time.Now()
		failures, err := once(ctx, command, file, still)
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			break // what it says is the interrupt's
		}
		fmt.Printf("run %d of %d: %d failed, %v, %s\n", i, times, len(failures), time.Since(began).Round(time.Second), file)
		found.add(i, failures)
	}
	fmt.Print(found.table())
	if ctx.Err() != nil {
		fmt.Println("interrupted")
	}
	return len(found) > 0 || ctx.Err() != nil, nil
}

// keepBusy keeps so many cores busy for as long as this process lives. The loops are threads of it, so nothing is
// left of them however it ends.
func keepBusy(cores int) {
	runtime.GOMAXPROCS(cores + 1) // one is left for the reading
	for range cores {
		go func() {
			for n := uint64(0); ; n++ {
				spun.Store(n)
			}
		}()
	}
}

// spun is written by the busy loops and read by nobody: a loop without an effect is a mistake to a linter.
var spun atomic.Uint64

// once runs the command, with its output in the file, and returns what failed.
func once(ctx context.Context, command []string, file string, still stalls) ([]string, error) {
	w, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // it is ours
	cmd.Stdout, cmd.Stderr = w, w
	endAsGroup(cmd)
	err = still.run(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	text, readErr := os.ReadFile(file)
	if readErr != nil {
		return nil, readErr
	}
	failures := failuresOf(text)
	if err != nil && len(failures) == 0 {
		failures = []string{"the command itself: " + err.Error()}
	}
	return failures, nil
}

// stalls are times in which a command and all that it has started stand still.
type stalls struct {
	lasts time.Duration // 0: never
	every time.Duration // from the end of one to the begin of the next
}

// check refuses what makes no sense, or cannot be done here.
func (s stalls) check() error {
	switch {
	case s.lasts < 0 || s.lasts > 0 && s.every <= 0:
		return errors.New("-stall and -every are longer than nothing")
	case s.lasts > 0 && !canStandStill:
		return errors.New("-stall needs Linux")
	}
	return nil
}

// run runs a command that stands still now and then.
func (s stalls) run(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for s.lasts > 0 {
			select {
			case <-ended:
				return
			case <-time.After(s.every):
			}
			stopped := stop(cmd.Process.Pid)
			time.Sleep(s.lasts) // this process runs on: it is not of that session
			goOn(stopped)
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-over
	return err
}

var (
	failedTest    = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	failedPackage = regexp.MustCompile(`^FAIL\t(\S+)`)
	stillRunning  = regexp.MustCompile(`^\t+(Test\S+|Fuzz\S+) \(`) // below "running tests:" of a timeout
)

// failuresOf reads the output of go test: each failed test with its package, the innermost subtests only, and a
// package that failed without one. The tests of a package stand before it.
func failuresOf(output []byte) []string {
	var all, tests []string
	for line := range bytes.Lines(output) {
		text := strings.TrimRight(string(line), "\n")
		if m := failedTest.FindStringSubmatch(text); m != nil {
			tests = append(tests, m[1])
		} else if m := stillRunning.FindStringSubmatch(text); m != nil {
			tests = append(tests, m[1])
		} else if m := failedPackage.FindStringSubmatch(text); m != nil {
			if len(tests) == 0 {
				all = append(all, m[1])
			}
			for _, name := range tests {
				if !slices.ContainsFunc(tests, func(t string) bool { return strings.HasPrefix(t, name+"/") }) {
					all = append(all, m[1]+" "+name)
				}
			}
			tests = nil
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// finds maps what failed to the runs in which it did.
type finds map[string][]int

func (f finds) add(run int, failures []string) {
	for _, name := range failures {
		f[name] = append(f[name], run)
	}
}

// table lists what failed, the most frequent first.
func (f finds) table() string {
	if len(f) == 0 {
		return "nothing failed\n"
	}
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(f[b]), len(f[a])), cmp.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%3d times  %s  (runs %s)\n", len(f[name]), name, strings.Trim(fmt.Sprint(f[name]), "[]"))
	}
	return b.String()
}
