package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

const (
	hotProcesses = 4
	// processWarmup: a Java process that has just begun needs longer than one that has done this before.
	processWarmup = 8 * time.Second
)

// BenchmarkPermitsOfProcesses is BenchmarkPermits with the callers in four processes of their own, of each side: 16 in
// each, so that there are 64 in all, or 64 in each. A wait's median and its 99th hundredth are those of the process where
// they are longest. Each process checks what it holds itself.
func BenchmarkPermitsOfProcesses(b *testing.B) {
	for _, hold := range []time.Duration{0, time.Millisecond} {
		for _, each := range []int{hotCallers / hotProcesses, hotCallers} {
			for _, impl := range []string{"redisson", "holdfast"} {
				name := fmt.Sprintf("impl=%s/permits=%d/callers=%d/processes=%d/hold=%v", impl, hotPermits, each*hotProcesses, hotProcesses, hold)
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						m := permitsMix{
							permits: hotPermits, most: 1, hold: hold, warmup: processWarmup, counted: time.Duration(hotSeconds(b)) * time.Second,
						}
						hotPermitsOfProcesses(b, m, impl, each)
					}
				})
			}
		}
	}
}

// hotPermitsOfProcesses has each of four processes begin when all are ready.
func hotPermitsOfProcesses(b *testing.B, m permitsMix, impl string, each int) {
	s := redistest.Run(b, redistest.Options{})
	const name = "permits"
	s.Do(b, "SET", name, strconv.Itoa(m.permits))
	var begin []func() (url.Values, error)
	for range hotProcesses {
		if impl == "holdfast" {
			begin = append(begin, startPermitsProcess(b, m.values(s.Addr(), name, each)))
			continue
		}
		java := m
		java.java = []*javaClient{startAnother(b).open(b, s.Addr(), "connections", "64", "subscriptions", "50")}
		java.threads = each
		begin = append(begin, func() (url.Values, error) {
			r := java.startJava(name, "").waitFor(b, m.warmup+m.counted+3*patience)
			return r.values, r.err
		})
	}
	answers, errs := make([]url.Values, hotProcesses), make([]error, hotProcesses)
	var all sync.WaitGroup
	for i := range begin {
		all.Go(func() { answers[i], errs[i] = begin[i]() })
	}
	all.Wait()
	require.NoError(b, errors.Join(errs...))
	var sum permitsShare
	for _, v := range answers {
		one := m.shareOf(b, v)
		sum.rate += one.rate
		sum.broken += one.broken
		sum.p50, sum.p99, sum.longest = max(sum.p50, one.p50), max(sum.p99, one.p99), max(sum.longest, one.longest)
	}
	require.Zero(b, sum.broken, "a process held more permits than there are")
	require.Equal(b, strconv.Itoa(m.permits), s.Do(b, "GET", name), "permits are missing, or too many")
	sum.reportTo(b)
}

// permitsEnv makes this program one whose callers want permits: its value says which and how.
const permitsEnv = "HOLDFAST_INTEROP_PERMITS"

func (m permitsMix) values(addr, name string, callers int) url.Values {
	return url.Values{
		"addr": {addr}, "name": {name}, "permits": {strconv.Itoa(m.permits)}, "callers": {strconv.Itoa(callers)},
		"warmup": {m.warmup.String()}, "counted": {m.counted.String()}, "hold": {m.hold.String()},
	}
}

// startPermitsProcess starts such a process and waits until it is ready. What it returns lets its callers begin, and
// returns its answer.
func startPermitsProcess(b *testing.B, v url.Values) (begin func() (url.Values, error)) {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), permitsEnv+"="+v.Encode())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = stdin.Close() // which ends it before it begins
		_ = cmd.Wait()
	})
	said := bufio.NewReader(stdout)
	_, err = said.ReadString('\n')
	require.NoError(b, err, "it is not ready")
	return func() (url.Values, error) {
		if _, err := fmt.Fprintln(stdin); err != nil {
			return nil, err
		}
		line, err := said.ReadString('\n')
		if err != nil {
			return nil, err
		}
		return url.ParseQuery(strings.TrimSpace(line))
	}
}

// runPermitsProcess is such a process: it says that it is ready, begins when it is told, and says what its callers got.
func runPermitsProcess(query string) (err error) {
	v, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	e, err := engine.Open(context.Background(), engine.Config{Addrs: []string{v.Get("addr")}})
	if err != nil {
		return err
	}
	m := permitsMix{most: 1, engines: []*engine.Engine{e}}
	for what, n := range map[string]*int{"permits": &m.permits, "callers": &m.callers} {
		if *n, err = strconv.Atoi(v.Get(what)); err != nil {
			return err
		}
	}
	for what, d := range map[string]*time.Duration{"warmup": &m.warmup, "counted": &m.counted, "hold": &m.hold} {
		if *d, err = time.ParseDuration(v.Get(what)); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); errors.Is(err, io.EOF) {
		return nil
	}
	var failed sync.Once
	s := m.goSide(func(one error) { failed.Do(func() { err = one }) }, v.Get("name"), countedHere())
	if err != nil {
		return err
	}
	fmt.Println(url.Values{
		"grants": {strconv.Itoa(s.grants)}, "p50": {ns(s.p50)}, "p99": {ns(s.p99)}, "longest": {ns(s.longest)},
		"broken": {strconv.Itoa(s.broken)},
	}.Encode())
	return e.Close(context.Background())
}

func ns(d time.Duration) string { return strconv.FormatInt(d.Nanoseconds(), 10) }
