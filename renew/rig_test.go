package renew

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms    = time.Millisecond
	start = clock.Instant(1_000_000 * ms) // a multiple of bucket
	step  = 5 * ms                        // how finely the tests let time pass
	long  = 20 * time.Second              // of real time: for what must happen some time
)

//nolint:gochecknoglobals // constants in all but name
var (
	unanswered = &resp.ServerError{Class: resp.ClassUnknown, Text: "no answer"}
	wrongType  = &resp.ServerError{Class: resp.ClassWrongType, Text: "WRONGTYPE"}
)

// subject is what the engine would put under watch.
type subject struct {
	Hold
	name string
}

func (s *subject) Watched() *Hold { return &s.Hold }

func (s *subject) Key() string { return s.name }

// event is one word of the watchdog.
type event struct {
	what  string // lost, jeopardy, renewed
	name  string
	cause Cause
	at    clock.Instant
	lag   time.Duration // of a renewal
}

// call is one call of Renew; it returns when the test has answered it.
type call struct {
	retry        bool
	limit, lease time.Duration
	batch        []resp.Renewal
	at           clock.Instant
	done         chan struct{}
}

func (c *call) keys() []string {
	keys := make([]string, len(c.batch))
	for i := range c.batch {
		keys[i] = c.batch[i].Key
	}
	return keys
}

// rig is a watchdog on a fake clock with the Renewer in the test's hands. The clock moves only in
// the test, and the test knows when a call must come: no real time passes.
type rig struct {
	*Cohorts
	t     testing.TB
	clock *clock.Fake
	wheel *wheel.Wheel
	calls chan *call

	connects atomic.Int64  // how often a sender has made its connection, or has begun to
	heldBack atomic.Int64  // until when acquires are held back
	connect  chan struct{} // nil: it is made at once; else when this is closed
	subjects []*subject
	open     map[*call]bool // taken and not answered
	onLost   func()         // nil: nothing; called before a loss is noted
	answers  int64          // given so far

	mu     sync.Mutex
	events []event
	counts map[string]int
	told   chan struct{} // capacity 1: there is something new
}

func newRig(t testing.TB, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(start), calls: make(chan *call, 4096), told: make(chan struct{}, 1), open: make(map[*call]bool), counts: make(map[string]int)}
	w, err := wheel.New(wheel.Config{Clock: r.clock, Ticks: make(chan time.Time), NoTimingWheel: true})
	require.NoError(t, err)
	r.wheel = w
	for _, f := range change {
		f(r)
	}
	r.Cohorts = New(r.clock, w, func(Subject) Renewer { return r }, r)
	t.Cleanup(func() {
		w.Stop()
		for c := range r.open {
			close(c.done)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Close()
		}()
		for over := false; !over; {
			select {
			case c := <-r.calls: // whoever still waits for an answer gets one
				close(c.done)
			case <-ended:
				over = true
			}
		}
	})
	return r
}

// Connect is part of the Renewer.
func (r *rig) Connect() {
	r.connects.Add(1)
	if r.connect != nil {
		<-r.connect
	}
}

// Renew is the Renewer.
func (r *rig) Renew(retry bool, limit time.Duration, batch []resp.Renewal) {
	c := &call{retry: retry, limit: limit, lease: time.Duration(batch[0].LeaseMs) * ms, batch: batch, at: r.clock.Now(), done: make(chan struct{})}
	r.calls <- c
	<-c.done
}

// HoldBack is part of the Renewer.
func (r *rig) HoldBack(until clock.Instant) { r.heldBack.Store(int64(until)) }

// secondNode is another node, which serves what is called there.
func (r *rig) secondNode() Renewer {
	other := &struct{ *rig }{r}
	r.route = func(s Subject) Renewer {
		if s.Key() == "there" {
			return other
		}
		return r
	}
	return other
}

func (r *rig) Lost(s Subject, cause Cause) {
	if r.onLost != nil {
		r.onLost()
	}
	r.say(event{what: "lost", cause: cause}, s)
}

func (r *rig) Jeopardy(s Subject) { r.say(event{what: "jeopardy"}, s) }
func (r *rig) Renewed(all []Success) {
	for _, one := range all {
		r.say(event{what: "renewed", lag: one.Lag}, one.Subject)
	}
}

func (r *rig) Ended(s Subject)     { r.say(event{what: "ended"}, s) }
func (r *rig) Outlasted(s Subject) { r.say(event{what: "outlasted"}, s) }

func (r *rig) say(e event, s Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.name, e.at = s.(*subject).name, r.clock.Now()
	r.events = append(r.events, e)
	r.counts[e.what]++
	select {
	case r.told <- struct{}{}:
	default:
	}
}

// count is how many events of a kind there were.
func (r *rig) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// heard returns the events of a kind so far; "" means all.
func (r *rig) heard(what string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e event) bool { return what != "" && e.what != what })
}

// hear waits until there have been n events of a kind, and returns them.
func (r *rig) hear(what string, n int) []event {
	r.t.Helper()
	limit := time.After(long)
	for r.count(what) < n {
		select {
		case <-r.told:
		case <-limit:
			require.FailNow(r.t, "not told: "+what)
		}
	}
	events := r.heard(what)
	require.Len(r.t, events, n)
	return events
}

// watch puts a fresh hold under watch, granted to an attempt sent now.
func (r *rig) watch(name string, lease time.Duration, change ...func(*Terms)) *subject {
	s := &subject{name: name}
	s.Field = "field of " + name
	terms := Terms{SentAt: r.clock.Now(), Lease: lease, Renew: true}
	for _, f := range change {
		f(&terms)
	}
	r.subjects = append(r.subjects, s)
	r.Watch(s, terms)
	return s
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	for end := r.clock.Now().Add(d); r.clock.Now().Before(end); {
		r.clock.Advance(min(step, end.Sub(r.clock.Now())))
		r.wheel.Settle()
	}
}

// due counts the subjects that the watchdog wants renewed and nobody has seen in a call yet.
func (r *rig) due() int {
	r.Cohorts.mu.Lock()
	defer r.Cohorts.mu.Unlock()
	seen := make(map[string]bool)
	for c := range r.open {
		for _, key := range c.keys() {
			seen[key] = true
		}
	}
	n := 0
	for _, s := range r.subjects {
		if s.attempt != noAttempt && !s.gone() && !seen[s.name] {
			n++
		}
	}
	return n
}

// next lets time go by until something is sent, at most limit.
func (r *rig) next(limit time.Duration) *call {
	r.t.Helper()
	for end := r.clock.Now().Add(limit); r.due() == 0; r.pass(step) {
		require.True(r.t, r.clock.Now().Before(end), "nothing was sent for %v", limit)
	}
	return r.take()
}

// occupy has as many calls under way as there may be over the first connection, before any of them is sent over the
// second, too.
func (r *rig) occupy() (hung []*call) {
	r.t.Helper()
	for i, lease := range [rounds]time.Duration{12 * time.Minute, 2 * time.Minute, 30 * time.Second} {
		r.watch(fmt.Sprint("hung:", i), lease)
		hung = append(hung, r.next(lease))
	}
	return hung
}

// take waits for a call that the watchdog owes already.
func (r *rig) take() *call {
	r.t.Helper()
	select {
	case c := <-r.calls:
		r.open[c] = true
		return c
	case <-time.After(long):
		require.FailNow(r.t, "no call")
		return nil
	}
}

// answer gives every key of a call the same answer, for an attempt sent when the call was made.
func (r *rig) answer(c *call, code resp.Code, err *resp.ServerError) {
	r.t.Helper()
	for i := range c.batch {
		c.batch[i].Code, c.batch[i].Err, c.batch[i].SentAt = code, err, c.at
	}
	r.finish(c)
}

// finish returns the call, and waits until the watchdog has taken its answers.
func (r *rig) finish(c *call) {
	r.t.Helper()
	r.answers += int64(len(c.batch))
	delete(r.open, c)
	close(c.done)
	for deadline := time.Now().Add(long); r.Stats().Sent < r.answers; runtime.Gosched() {
		require.True(r.t, time.Now().Before(deadline), "the answers are not taken")
	}
}

// renewed answers a call with success and waits until that was told.
func (r *rig) renewed(c *call) {
	r.t.Helper()
	before := r.count("renewed")
	r.answer(c, resp.CodeRenewed, nil)
	r.hear("renewed", before+len(c.batch))
}
