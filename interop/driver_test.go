package interop

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// patience bounds every wait for something that should happen at once, on a slow machine, too.
const patience = 20 * time.Second

// TestMain ends the driver that the tests share and then looks for leaks. Where a test has started this program as
// another process, it is that process instead.
func TestMain(m *testing.M) {
	for env, run := range map[string]func(string) error{doomedEnv: runDoomedGo, permitsEnv: runPermitsProcess} {
		value := os.Getenv(env)
		if value == "" {
			continue
		}
		if err := run(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	there := goleak.IgnoreCurrent() // what imported packages start by themselves
	code := m.Run()
	shared.stop()
	if code == 0 {
		if err := goleak.Find(there); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// A driver is one Java process.
type driver struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	read    sync.WaitGroup // the goroutine that reads answers

	mu      sync.Mutex
	last    int
	pending map[string]chan reply // by the id of the command
	ended   bool                  // no more answers will come
}

// shared is the one driver of a test run: starting a JVM takes a second.
var shared sharedDriver

type sharedDriver struct {
	once   sync.Once
	driver *driver
	err    error
}

// startAnother starts a driver for one test, which may kill it.
func startAnother(t testing.TB) *driver {
	t.Helper()
	demand(t)
	d, err := startDriver()
	require.NoError(t, err)
	t.Cleanup(d.stop)
	return d
}

// java returns the driver, built and started if this is the first test that asks.
func java(t testing.TB) *driver {
	t.Helper()
	demand(t)
	shared.once.Do(func() { shared.driver, shared.err = startDriver() })
	require.NoError(t, shared.err)
	return shared.driver
}

func (s *sharedDriver) stop() {
	if s.driver != nil {
		s.driver.stop()
	}
}

func startDriver() (*driver, error) {
	classpath, err := buildDriver()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("java", "-XX:+UseSerialGC", "-Xmx512m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, "holdfast.interop.Driver")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &driver{process: cmd, stdin: stdin, pending: map[string]chan reply{}}
	d.read.Go(func() { d.receive(stdout) })
	return d, nil
}

func (d *driver) stop() {
	_ = d.stdin.Close() // the end of its input ends the program
	d.read.Wait()
	_ = d.process.Wait()
}

// A reply is the answer to one command.
type reply struct {
	values url.Values
	err    error     // what Java threw
	at     time.Time // when it was read
}

func (r reply) value() string { return r.values.Get("value") }

// A javaError is an exception.
type javaError struct{ Type, Message string }

func (e *javaError) Error() string { return e.Type + ": " + e.Message }

// receive hands every answer to who waits for it, until the process is gone.
func (d *driver) receive(stdout io.Reader) {
	in := bufio.NewScanner(stdout)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		id, r := parseReply(in.Text())
		d.mu.Lock()
		if ch, ok := d.pending[id]; ok {
			delete(d.pending, id)
			ch <- r
		}
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for id, ch := range d.pending {
		delete(d.pending, id)
		ch <- reply{err: fmt.Errorf("the Java process ended: %w", io.EOF)}
	}
}

func parseReply(line string) (id string, r reply) {
	r.at = time.Now()
	id, rest, _ := strings.Cut(line, " ")
	outcome, query, _ := strings.Cut(rest, " ")
	r.values, r.err = url.ParseQuery(query)
	if r.err == nil && outcome != "ok" {
		r.err = &javaError{Type: r.values.Get("type"), Message: r.values.Get("message")}
	}
	return id, r
}

// A call is a command on its way.
type call struct {
	what string
	ch   chan reply
}

// send gives the driver a command and does not wait.
func (d *driver) send(verb string, args url.Values) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	id := strconv.Itoa(d.last)
	c := &call{what: verb + " " + args.Encode(), ch: make(chan reply, 1)}
	if d.ended {
		c.ch <- reply{err: fmt.Errorf("the Java process ended: %w", io.EOF)}
		return c
	}
	d.pending[id] = c.ch
	if _, err := fmt.Fprintf(d.stdin, "%s %s %s\n", id, verb, args.Encode()); err != nil {
		delete(d.pending, id)
		c.ch <- reply{err: err}
	}
	return c
}

// wait waits for the answer, whatever it is.
func (c *call) wait(t testing.TB) reply {
	t.Helper()
	return c.waitFor(t, patience)
}

// waitFor is wait for what takes long.
func (c *call) waitFor(t testing.TB, d time.Duration) reply {
	t.Helper()
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case r := <-c.ch:
		c.ch <- r // whoever asks again gets the same
		return r
	case <-timeout.C:
		require.FailNow(t, "no answer from Java", "%s: none within %v", c.what, d)
		return reply{}
	}
}

// ok waits for an answer that is no exception.
func (c *call) ok(t testing.TB) reply {
	t.Helper()
	r := c.wait(t)
	require.NoError(t, r.err, c.what)
	return r
}

// answered reports whether there is an answer.
func (c *call) answered() bool { return len(c.ch) > 0 }

// interopEnv says whether the tests of this package run: see doc.go.
const interopEnv = "HOLDFAST_INTEROP"

// demand skips the test, or fails it, where the Java side cannot be had.
func demand(t testing.TB) {
	t.Helper()
	mode := os.Getenv(interopEnv)
	if mode == "" || testing.Short() {
		t.Skipf("tests against Redisson run under %s=auto or =required (make interop)", interopEnv)
	}
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			if mode == "required" {
				t.Fatalf("%s=required, but there is no %s: %v (tools/setup.sh java maven)", interopEnv, tool, err)
			}
			t.Skipf("no %s on PATH: tools/setup.sh java maven", tool)
		}
	}
}

// A javaClient is one Redisson client.
type javaClient struct {
	d    *driver
	name string
	id   string // its UUID
}

// openJava opens a Redisson client for one test. args are those of Clients.open, in pairs.
func openJava(t testing.TB, addrs string, args ...string) *javaClient {
	t.Helper()
	return java(t).open(t, addrs, args...)
}

func (d *driver) open(t testing.TB, addrs string, args ...string) *javaClient {
	t.Helper()
	c := &javaClient{d: d, name: fmt.Sprintf("%s#%d", t.Name(), clientNumber())}
	v := url.Values{"client": {c.name}, "addrs": {addrs}, "connections": {"8"}}
	for i := 0; i < len(args); i += 2 {
		v.Set(args[i], args[i+1])
	}
	r := c.d.send("open", v).waitFor(t, 3*patience) // its process may just begin
	require.NoError(t, r.err)
	c.id = r.values.Get("id")
	t.Cleanup(func() { c.close(t) })
	return c
}

// close ends the client; the threads that wait in it never come back.
func (c *javaClient) close(t testing.TB) {
	t.Helper()
	c.d.send("close", url.Values{"client": {c.name}}).wait(t)
}

var clientNumber = func() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}()

// A javaThread is a thread that uses a client.
type javaThread struct {
	c     *javaClient
	name  string
	owner string // "<uuid>:<thread id>", the field its locks carry
	zero  bool   // its id is 0
}

// anonymous is a thread whose owner id nobody asks for.
func (c *javaClient) anonymous(name string) *javaThread {
	return &javaThread{c: c, name: c.name + "/" + name}
}

func (c *javaClient) thread(t *testing.T, name string) *javaThread {
	t.Helper()
	th := &javaThread{c: c, name: c.name + "/" + name}
	th.owner = c.d.send("owner", url.Values{"client": {c.name}, "thread": {th.name}}).ok(t).values.Get("owner")
	return th
}

// A javaLock is a lock as a thread of Java sees it.
type javaLock struct {
	th   *javaThread
	kind string
	name string
}

func (th *javaThread) lock(kind, name string) javaLock {
	return javaLock{th: th, kind: kind, name: name}
}

// start begins an operation; args are leaseMs and waitMs, in pairs.
func (l javaLock) start(op string, args ...string) *call {
	return l.send("call", append([]string{"op", op}, args...)...)
}

// interrupt interrupts the thread in what it is doing.
func (th *javaThread) interrupt(t *testing.T) {
	t.Helper()
	th.c.d.send("interrupt", url.Values{"thread": {th.name}}).ok(t)
}

// parks waits until the thread waits for a message of its lock. Only then can it be woken by the release of a
// writer: Redisson wakes as many threads as are parked when the message arrives (docs/REDISSON.md, "Observed").
func (th *javaThread) parks(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, th.name+" is parked", func() bool {
		return th.c.d.send("parked", url.Values{"thread": {th.name}}).ok(t).value() == "true"
	})
}

// send begins a command about the lock.
func (l javaLock) send(verb string, args ...string) *call {
	v := url.Values{"client": {l.th.c.name}, "thread": {l.th.name}, "kind": {l.kind}, "name": {l.name}}
	if l.th.zero {
		v.Set("threadId", "0")
	}
	for i := 0; i < len(args); i += 2 {
		v.Set(args[i], args[i+1])
	}
	return l.th.c.d.send(verb, v)
}

// do is start for what must succeed, and returns its value.
func (l javaLock) do(t *testing.T, op string, args ...string) string {
	t.Helper()
	return l.start(op, args...).ok(t).value()
}

// javaDir is where the driver's sources are, binDir where what is built from them goes.
var (
	javaDir = "java"
	binDir  = filepath.Join("..", "bin", "interop")
)
