package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A side says what a waiter of a planned queue is.
type side byte

const (
	goWaits   side = 'G'
	javaWaits side = 'J'
	goKilled  side = 'k' // a process that is killed when the queues stand
	goStopped side = 's' // a process that is stopped then
	javaGone  side = 'x' // a client of Java that is closed then
)

// dead reports whether the waiter never comes back.
func (s side) dead() bool { return s != goWaits && s != javaWaits }

// A queuer is one waiter of a planned queue.
type queuer struct {
	side  side
	wait  time.Duration // 0: for as long as it takes
	after time.Duration // how long it comes after the one before stands in the queue
	keep  time.Duration // how long it holds what it gets
	brief bool          // Java: its client has a fairLockWaitTimeout of 10 s
	zero  bool          // Java: its thread has the id 0
}

// A queuePlan is a queue of a fair lock: the waiters come one after the other while somebody holds it.
type queuePlan struct {
	what      string
	waiters   []queuer
	javaHolds bool
	lease     time.Duration // of the holder; 0: it is watched
	hold      time.Duration // from the coming of the last waiter, and the death of the dead, to the release
	abandons  bool          // the holder does not release, its lease ends
	early     bool          // the hold begins before the first waiter comes
}

func (p *queuePlan) String() string {
	var b strings.Builder
	b.WriteString(p.what)
	b.WriteString(" [")
	for i, w := range p.waiters {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte(byte(w.side))
		if w.wait > 0 {
			fmt.Fprintf(&b, "(%v)", w.wait)
		}
		if w.brief {
			b.WriteString("(brief)")
		}
		if w.zero {
			b.WriteString("(id 0)")
		}
	}
	fmt.Fprintf(&b, "] held for %v", p.hold)
	return b.String()
}

// An outcome is what a waiter was told.
type outcome struct {
	waiter   int
	granted  bool
	began    time.Time // its call
	at       time.Time // the answer
	released time.Time // granted: the answer to its release
	err      error
}

// A queueResult is what became of a plan.
type queueResult struct {
	plan     *queuePlan
	err      error     // the queue did not come about
	freed    time.Time // the holder's release, or the end of its lease
	died     time.Time // the death of the dead
	queue    string    // the waiters as they stood on the server at the end of the hold
	outcomes []outcome // in the order in which they came; who is not in it got no answer
}

// A fairStage is where many queues are played at once.
type fairStage struct {
	*deployment
	t        *testing.T
	name     string
	holder   *engine.Engine
	waiting  [2]*engine.Engine
	javas    map[string]*javaClient // "", "brief", "gone"
	doomed   map[side]*doomedGo
	watches  []*queueWatch
	owners   []*redistest.Server // by slot
	dooms    sync.WaitGroup      // the plans whose dead still live
	building chan struct{}       // a token for each queue that is being built
	dead     chan struct{}
	diedAt   time.Time
}

// newFairStage opens the clients of both sides. Java's have a subscription for each of its threads.
func newFairStage(t *testing.T, d *deployment) *fairStage {
	t.Helper()
	f := &fairStage{
		deployment: d, t: t, name: t.Name(), holder: d.openGo(t), javas: map[string]*javaClient{},
		building: make(chan struct{}, buildingMost), dead: make(chan struct{}),
	}
	for i := range f.waiting {
		f.waiting[i] = d.openGo(t)
	}
	many := []string{"connections", "64", "subscriptions", "400"}
	f.javas[""] = d.openJava(t, many...)
	f.javas["brief"] = d.openJava(t, append(many, "fairWaitMs", "10000")...)
	f.javas["gone"] = d.openJava(t, "fairWaitMs", "1000")
	for _, s := range d.servers {
		f.watches = append(f.watches, watchQueues(t, s))
	}
	if d.cluster != nil {
		owners, err := d.cluster.Owners(t.Context())
		require.NoError(t, err)
		f.owners = owners
	}
	return f
}

// watch returns the watch of the server that serves a name.
func (f *fairStage) watch(name string) *queueWatch {
	if f.owners == nil {
		return f.watches[0]
	}
	return f.watches[slices.Index(f.servers, f.owners[slot.Of(name)])]
}

// playAll plays all plans at the same time, each on a lock of its own.
func (f *fairStage) playAll(plans []*queuePlan) []*queueResult {
	f.t.Helper()
	f.doomed = map[side]*doomedGo{goKilled: nil, goStopped: nil}
	for kind := range f.doomed {
		if slices.ContainsFunc(plans, func(p *queuePlan) bool { return p.has(kind) }) {
			f.doomed[kind] = startDoomedGo(f.t, f.addrs)
		}
	}
	results := make([]*queueResult, len(plans))
	for _, p := range plans {
		if p.has(side.dead) {
			f.dooms.Add(1)
		}
	}
	var playing sync.WaitGroup
	for i, p := range plans {
		playing.Go(func() { results[i] = f.play(fmt.Sprintf("%s %d", f.name, i), p) })
	}
	playing.Go(f.kill)
	playing.Wait()
	return results
}

// kill ends those who are to die, when all of them stand in their queues.
func (f *fairStage) kill() {
	f.dooms.Wait()
	if d := f.doomed[goKilled]; d != nil {
		_ = d.process.Process.Kill()
	}
	if d := f.doomed[goStopped]; d != nil {
		_ = d.process.Process.Signal(syscall.SIGSTOP)
	}
	gone := f.javas["gone"]
	<-gone.d.send("close", url.Values{"client": {gone.name}}).ch
	f.diedAt = time.Now()
	close(f.dead)
}

// has reports whether a waiter is of a side, or of one for which a condition holds.
func (p *queuePlan) has(what any) bool {
	return slices.ContainsFunc(p.waiters, func(w queuer) bool {
		if cond, ok := what.(func(side) bool); ok {
			return cond(w.side)
		}
		return w.side == what
	})
}

// buildingMost is how many queues are built at a time. More would only keep each other waiting: while a queue is built,
// the time of those that stand in it runs.
const buildingMost = 24

// playLimit bounds a plan, from the end of its hold.
const playLimit = 45 * time.Second

// A playing is a plan that is being played.
type playing struct {
	*fairStage
	*queueResult
	lock  string
	ctx   context.Context
	ended chan outcome // by each waiter, when its answer has come

	mu     sync.Mutex
	fields []string // who stands in the queue, by waiter
}

func (f *fairStage) play(lock string, p *queuePlan) *queueResult {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := &playing{
		fairStage: f, queueResult: &queueResult{plan: p}, lock: lock, ctx: ctx,
		ended: make(chan outcome, len(p.waiters)), fields: make([]string, len(p.waiters)),
	}
	doomed := p.has(side.dead)
	if !doomed { // later, so that no lease is over before the dead are dead
		<-f.dead
	}
	if !p.early { // whose waiters come slowly
		f.building <- struct{}{}
	}
	release, err := g.holds()
	end := func() { g.freed, g.err = release() }
	var ending sync.WaitGroup
	if p.early && err == nil {
		ending.Go(func() {
			pause(ctx, p.hold)
			end()
		})
	}
	if err == nil {
		err = g.build()
	}
	if !p.early {
		<-f.building
	}
	ending.Wait()
	if doomed {
		f.dooms.Done()
		<-f.dead
		g.died = f.diedAt
	}
	if err != nil {
		g.err = err
		return g.queueResult
	}
	if !p.early && !p.abandons {
		pause(ctx, p.hold)
		g.queue = g.standing()
	}
	if !p.early {
		end()
	}
	if g.err != nil {
		return g.queueResult
	}
	living := 0
	for _, w := range p.waiters {
		if !w.side.dead() {
			living++
		}
	}
	limit := time.NewTimer(time.Until(g.freed) + playLimit)
	defer limit.Stop()
	for range living {
		select {
		case o := <-g.ended:
			g.outcomes = append(g.outcomes, o)
		case <-limit.C:
			return g.queueResult
		}
	}
	slices.SortStableFunc(g.outcomes, func(a, b outcome) int { return a.at.Compare(b.at) })
	return g.queueResult
}

// holds takes the lock for the holder, and returns how it ends.
func (g *playing) holds() (end func() (time.Time, error), err error) {
	p := g.plan
	if p.javaHolds {
		l := g.javas[""].anonymous(g.lock+"/holds").lock("fair", g.lock)
		args := []string{}
		if p.lease > 0 {
			args = []string{"leaseMs", fmt.Sprint(p.lease.Milliseconds())}
		}
		r := <-l.start("lock", args...).ch
		return func() (time.Time, error) {
			if p.abandons {
				return r.at.Add(p.lease), nil
			}
			r := <-l.start("unlock").ch
			return r.at, r.err
		}, r.err
	}
	var opts []engine.Option
	if p.lease > 0 {
		opts = append(opts, engine.FixedLease(p.lease))
	}
	ls, err := g.holder.FairLock(g.lock, opts...).Acquire(g.ctx)
	granted := time.Now()
	return func() (time.Time, error) {
		if p.abandons {
			return granted.Add(p.lease), nil
		}
		err := ls.Release(g.ctx)
		return time.Now(), err
	}, err
}

// build lets the waiters come, each when the one before stands in the queue.
func (g *playing) build() error {
	for i, w := range g.plan.waiters {
		pause(g.ctx, w.after)
		answered := make(chan struct{})
		began := time.Now()
		switch w.side {
		case goWaits:
			go g.goWaiter(i, began, answered)
		case javaWaits:
			go g.javaWaiter(i, began, answered)
		case javaGone:
			g.javas["gone"].anonymous(fmt.Sprint(g.lock, "/", i)).lock("fair", g.lock).start("lock")
		default:
			g.doomed[w.side].wait(g.lock)
		}
		stands := g.watch(g.lock).until(g.lock, func(queue []string) bool { return g.newcomer(i, queue) })
		limit := time.NewTimer(patience)
		select {
		case <-stands:
		case <-answered:
		case <-limit.C:
			return fmt.Errorf("waiter %d of %s does not stand in the queue", i, g.plan)
		}
		limit.Stop()
	}
	return nil
}

// newcomer finds out under which field waiter i stands in the queue.
func (g *playing) newcomer(i int, queue []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, field := range queue {
		if !slices.Contains(g.fields, field) {
			g.fields[i] = field
			return true
		}
	}
	return false
}

// standing is the queue as the server has it, by waiters; a question mark is a waiter nobody knows.
func (g *playing) standing() string {
	var now []string
	<-g.watch(g.lock).until(g.lock, func(queue []string) bool {
		now = queue
		return true
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for _, field := range now {
		if i := slices.Index(g.fields, field); i >= 0 {
			fmt.Fprint(&b, i)
		} else {
			b.WriteByte('?')
		}
	}
	return b.String()
}

func (g *playing) goWaiter(i int, began time.Time, answered chan struct{}) {
	w := g.plan.waiters[i]
	var opts []engine.Option
	if w.wait > 0 {
		opts = append(opts, engine.MaxWait(w.wait))
	}
	ls, err := g.waiting[i%len(g.waiting)].FairLock(g.lock, opts...).Acquire(g.ctx)
	o := outcome{waiter: i, began: began, at: time.Now(), granted: err == nil, err: err}
	close(answered)
	if err == nil {
		pause(g.ctx, w.keep)
		o.err = ls.Release(g.ctx)
		o.released = time.Now()
	}
	g.ended <- o
}

func (g *playing) javaWaiter(i int, began time.Time, answered chan struct{}) {
	w := g.plan.waiters[i]
	client := g.javas[""]
	if w.brief {
		client = g.javas["brief"]
	}
	th := client.anonymous(fmt.Sprint(g.lock, "/", i))
	th.zero = w.zero
	l := th.lock("fair", g.lock)
	var r reply
	if w.wait > 0 {
		r = <-l.start("tryLock", "waitMs", fmt.Sprint(w.wait.Milliseconds())).ch
	} else {
		r = <-l.start("lock").ch
	}
	o := outcome{waiter: i, began: began, at: r.at, granted: r.err == nil && r.value() != "false", err: r.err}
	close(answered)
	if o.granted {
		pause(g.ctx, w.keep)
		r = <-l.start("unlock").ch
		o.released, o.err = r.at, r.err
	}
	g.ended <- o
}

// pause lets time pass in a plan.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A queueWatch looks at the queues of the fair locks of a server, many in one round.
type queueWatch struct {
	looks chan queueLook
}

// A queueLook waits for a queue to look as it should.
type queueLook struct {
	key   string
	ready func(queue []string) bool
	done  chan struct{}
}

// watchEvery is how often the queues are looked at.
const watchEvery = 4 * time.Millisecond

func watchQueues(t *testing.T, s *redistest.Server) *queueWatch {
	t.Helper()
	conn, err := s.Dial(context.Background())
	require.NoError(t, err)
	w := &queueWatch{looks: make(chan queueLook, 1024)}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { w.run(ctx, conn) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		_ = conn.Close()
	})
	return w
}

// until returns a channel that is closed when the queue is as it should be.
func (w *queueWatch) until(lock string, ready func([]string) bool) <-chan struct{} {
	look := queueLook{key: slot.FairQueue(lock), ready: ready, done: make(chan struct{})}
	w.looks <- look
	return look.done
}

func (w *queueWatch) run(ctx context.Context, conn *redistest.Conn) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var open []queueLook
	for {
		select {
		case <-ctx.Done():
			return
		case look := <-w.looks:
			open = append(open, look)
			continue
		case <-tick.C:
		}
		var ask []byte
		for _, look := range open {
			ask = redistest.AppendCommand(ask, "LRANGE", look.key, "0", "-1")
		}
		if _, err := conn.Write(ask); err != nil {
			return
		}
		left := open[:0]
		for _, look := range open {
			v, err := conn.Receive(ctx)
			if err != nil {
				return
			}
			var queue []string
			for _, field := range v.([]any) {
				queue = append(queue, field.(string))
			}
			if look.ready(queue) {
				close(look.done)
			} else {
				left = append(left, look)
			}
		}
		open = left
	}
}

// doomedEnv makes this program one that waits for fair locks, or takes permits: its value are the addresses of the servers.
const doomedEnv = "HOLDFAST_INTEROP_DOOMED"

// A doomedGo is a process with an engine that waits for fair locks, or has permits, until it dies.
type doomedGo struct {
	process *exec.Cmd
	mu      sync.Mutex
	stdin   io.WriteCloser
}

func startDoomedGo(t *testing.T, addrs []string) *doomedGo {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), doomedEnv+"="+strings.Join(addrs, ","))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return &doomedGo{process: cmd, stdin: stdin}
}

// wait makes the process wait for a lock once more.
func (d *doomedGo) wait(lock string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = fmt.Fprintln(d.stdin, lock) // who does not come is missed in the queue
}

// doomedPermits is what a line begins with that names a semaphore: the process takes two of its permits for doomedLease.
const (
	doomedPermits = "permits "
	doomedLease   = 8 * time.Second
)

// runDoomedGo is such a process. Each line names a lock, or a semaphore.
func runDoomedGo(addrs string) error {
	e, err := engine.Open(context.Background(), engine.Config{Addrs: strings.Split(addrs, ",")})
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if name, ok := strings.CutPrefix(in.Text(), doomedPermits); ok {
			e.PermitSemaphore(name, engine.FixedLease(doomedLease)).AcquireAsync(context.Background(), 2)
			continue
		}
		e.FairLock(in.Text()).AcquireAsync(context.Background())
	}
	return in.Err()
}
