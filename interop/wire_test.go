package interop

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

var update = flag.Bool("update", false, "write testdata/wire-*.txt anew")

// A step is one operation of one thread and what it does to the server.
type step struct {
	who, kind, op string
	args          []string
	waits         bool     // it does not return in this step
	grants        []string // whose waiting operations return in this step
	note          string
}

// A scenario is played on one server by threads 1 and 2 of two clients, A and B.
type scenario struct {
	name    string // of the lock, and of the file
	about   string
	cluster bool // on a cluster: the master that serves the name is watched
	steps   []step
}

const wireHeader = `# What Redisson does on the wire: %s
#
# Redisson 4.7.0, Redis 7, lock %q, lockWatchdogTimeout 60 s, fairLockWaitTimeout 300 s (its default).
# A:1 is thread 1 of client A: "<uuid of A>:<id of thread 1>".  now: a time of day in ms.
# Times are rounded up to ten seconds.
#
# Of each step: its commands and, further in, the messages that scripts publish; = its result; then
# all keys, without the latches, and the channels that somebody listens to.
`

func TestWire(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) { playScenario(t, sc) })
	}
}

func playScenario(t *testing.T, sc scenario) {
	demand(t)
	d := &deployment{}
	if sc.cluster {
		d.cluster = redistest.RunCluster(t, 3, 0)
		d.servers, d.addrs, d.args = d.cluster.Masters, d.cluster.Addrs(), []string{"topology", "cluster"}
	} else {
		d.servers = []*redistest.Server{redistest.Run(t, redistest.Options{})}
		d.addrs = []string{d.servers[0].Addr()}
	}
	server := d.at(t, sc.name)
	threads, owners := map[string]*javaThread{}, []string{}
	for _, client := range []string{"A", "B"} {
		c := d.openJava(t, "watchdogMs", "60000")
		for _, n := range []string{"1", "2"} {
			th := c.thread(t, n)
			threads[client+":"+n] = th
			owners = append(owners, th.owner, client+":"+n)
		}
	}
	r := record(t, server, owners...)
	file := filepath.Join("testdata", "wire-"+sc.name+".txt")
	text := fmt.Sprintf(wireHeader, sc.about, sc.name)
	golden := goldenSteps(t, file)
	waiting := map[string]*call{}
	for i, st := range sc.steps {
		r.take()
		l := threads[st.who].lock(st.kind, sc.name)
		c := l.start(st.op, st.args...)
		var results []string
		if st.waits {
			waiting[st.who] = c
		} else {
			results = append(results, "= "+resultOf(r, st.op, c.wait(t)))
		}
		for _, who := range st.grants {
			results = append(results, fmt.Sprintf("= %s %s", who, resultOf(r, "", waiting[who].wait(t))))
			delete(waiting, who)
		}
		title := strings.TrimSpace(fmt.Sprintf("## %s %s.%s(%s)", st.who, st.kind, st.op, strings.Join(st.args, " ")))
		if st.note != "" {
			title += "   # " + st.note
		}
		if *update {
			text += "\n" + strings.Join(slices.Concat([]string{title}, settled(t, r), results, r.keys(t)), "\n") + "\n"
			continue
		}
		require.Greater(t, len(golden), i, "no such step in %s", file)
		compareStep(t, r, golden[i], title, results)
		if st.waits && st.op == "lock" {
			threads[st.who].parks(t)
		}
	}
	for who, c := range waiting {
		require.False(t, c.answered(), "%s should still be waiting", who)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	require.Len(t, golden, len(sc.steps), "steps in %s", file)
}

// compareStep waits until the server has seen and has what the golden step says: that is also how one knows
// that a waiter waits. Within a step the order of two threads' commands is nobody's promise.
func compareStep(t *testing.T, r *recorder, want []string, title string, results []string) {
	t.Helper()
	var got []string
	same := func() bool {
		got = slices.Concat([]string{title}, r.seen(t), results, r.keys(t))
		return slices.Equal(sorted(got), sorted(want))
	}
	deadline := time.Now().Add(patience / 2)
	for !same() && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if !same() {
		require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

// settled waits until nothing has happened for a while, for writing a golden file: nobody knows yet what
// will happen.
func settled(t *testing.T, r *recorder) []string {
	t.Helper()
	before := -1
	require.Eventually(t, func() bool {
		n := len(r.seen(t))
		quiet := n == before
		before = n
		return quiet
	}, patience, 400*time.Millisecond)
	lines := r.seen(t)
	slices.SortStableFunc(lines, func(a, b string) int { return latchLast(a) - latchLast(b) })
	return lines
}

// latchLast puts the deletion of a latch last: it comes whenever it comes.
func latchLast(line string) int {
	if strings.HasPrefix(line, "  DEL ") {
		return 1
	}
	return 0
}

func resultOf(r *recorder, op string, rep reply) string {
	var je *javaError
	if errors.As(rep.err, &je) {
		return r.plain(je.Type + ": " + unthread(je.Message))
	}
	if rep.err != nil {
		return rep.err.Error()
	}
	if rep.value() == "" {
		return "ok"
	}
	if op == "remainTimeToLive" {
		return tensOf(rep.value())
	}
	return rep.value()
}

// unthread cuts off what a message says of who is not the owner.
func unthread(s string) string {
	s, _, _ = strings.Cut(s, " by node id")
	return s
}

// goldenSteps reads a golden file: the lines of each step.
func goldenSteps(t *testing.T, file string) [][]string {
	t.Helper()
	if *update {
		return nil
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var steps [][]string
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			steps = append(steps, []string{line})
		case line != "" && len(steps) > 0:
			steps[len(steps)-1] = append(steps[len(steps)-1], line)
		}
	}
	return steps
}
