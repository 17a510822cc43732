package lockstate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A permitWorld is a queue for permits and a server that has so many of them. One answer may serve several, and what is
// held here keeps nobody out: the queue is never closed. It waits all the same as a lock's queue does.
type permitWorld struct {
	t   *rapid.T
	q   testQueue
	now clock.Instant

	line    []*testOp // the twin: those still wanted, in order
	leaving []*testOp // given up by their callers, and not yet out of the queue
	told    map[*testOp]string

	limit    int32     // of the server
	others   int32     // permits that somebody else has
	era      int       // grows with every force-release: what was granted before is gone
	holders  []*testOp // who has permits here
	doomed   int32     // permits that a force-release on its way takes from here
	releases []permits // on their way, of holders
	cleanups []permits // the same, of what nobody could use
	mail     int       // messages on their way

	flying    bool      // the one acquire
	ran       bool      // at the server
	overtaken bool      // a force-release began since
	hint      bool      // a hint came since it was sent
	least     int32     // what the first needs
	most      int32     // what those it is sent for need
	sentFor   []*testOp // these
	granted   permits

	poll, pause clock.Instant // timers; 0: not armed
}

// permits are some of the server's.
type permits struct {
	units int32
	era   int
	ran   bool // they are given back, and that is not yet answered
}

func (w *permitWorld) fatalIf(bad bool, format string, args ...any) {
	w.t.Helper()
	if bad {
		w.t.Fatalf(format, args...)
	}
}

func unitsOf(ops []*testOp) (sum int32) {
	for _, op := range ops {
		sum += op.terms.Units
	}
	return sum
}

// taken is how many permits the server has given out, by the twin's count: none is forgotten, and none is given twice.
func (w *permitWorld) taken() int32 {
	sum := w.others + unitsOf(w.holders) + w.doomed
	for _, p := range slices.Concat(w.releases, w.cleanups, []permits{w.granted}) {
		if p.era == w.era && !p.ran {
			sum += p.units
		}
	}
	return sum
}

// tell notes a caller's result. Nobody gets two.
func (w *permitWorld) tell(op *testOp, result string) {
	was, twice := w.told[op]
	w.fatalIf(twice, "one caller was told %q and then %q", was, result)
	w.told[op] = result
	w.line = slices.DeleteFunc(w.line, func(o *testOp) bool { return o == op })
	w.fatalIf(op.Queued(), "a caller that was told %q is still in the queue", result)
}

// do takes a step as the engine does.
func (w *permitWorld) do(s Step) {
	switch s {
	case StepSend:
		w.send()
	case StepPark:
		least, spread := w.q.PollSpan(w.now)
		w.fatalIf(least+spread > 1200*time.Millisecond, "the poll may come after %v", least+spread)
		w.poll = w.now.Add(least)
	case StepTidy:
		if w.q.Deserted() {
			w.unpark()
		}
	}
}

func (w *permitWorld) unpark() {
	w.q.Unpark()
	w.poll, w.pause = 0, 0
}

// send asks for what some of the first need, the server's limit at most.
func (w *permitWorld) send() {
	w.fatalIf(w.flying, "a second acquire is sent")
	w.fatalIf(w.q.Forcing(), "asks for what a force-release may take")
	w.fatalIf(w.pause != 0, "a pause is cut short")
	w.fatalIf(len(w.line)+len(w.leaving) == 0, "an acquire is sent for nobody")
	w.sentFor = nil
	for at := w.q.First(); at != nil && unitsOf(w.sentFor)+at.Of.Terms().Units <= w.limit; at = at.Next() {
		w.sentFor = append(w.sentFor, whose(at))
	}
	w.sentFor = w.sentFor[:rapid.IntRange(1, len(w.sentFor)).Draw(w.t, "for")]
	w.least, w.most = w.sentFor[0].terms.Units, unitsOf(w.sentFor)
	beginAsking(&w.q)
	w.q.Sent()
	w.flying, w.ran, w.overtaken, w.hint = true, false, false, false
}

// run is the server's work on it: as much as is there, but not less than the first needs.
func (w *permitWorld) run() {
	w.ran = true
	if free := w.limit - w.taken(); free >= w.least {
		w.granted = permits{units: min(free, w.most), era: w.era}
	}
}

// land ends the flight.
func (w *permitWorld) land() permits {
	got := w.granted
	w.flying, w.granted = false, permits{}
	w.q.Landed()
	return got
}

func (w *permitWorld) reply() {
	if got := w.land(); got.units > 0 {
		w.serve(got)
	} else {
		w.busy()
	}
}

// serve deals a grant out. The twin says whose it is: of those who want it, in order, as many as it is enough for.
func (w *permitWorld) serve(got permits) {
	var want []*testOp
	left := got.units
	for _, op := range w.line {
		if w.overtaken || w.q.Forcing() || op.terms.Units > left {
			break
		}
		want, left = append(want, op), left-op.terms.Units
	}
	chain, rest := w.q.Serve(permitTraits, got.units, 0)
	served := taken(chain)
	w.fatalIf(!slices.Equal(want, served), "%d are served, %d should be, or others", len(served), len(want))
	w.fatalIf(rest != left, "%d of %d are left, it should be %d", rest, got.units, left)
	w.fatalIf(w.q.Asked(), "an acquire that was answered is kept")
	for _, op := range served {
		w.tell(op, "granted")
		w.holders = append(w.holders, op)
	}
	w.cleanUp(permits{units: rest, era: got.era})
	if len(served) > 0 {
		w.tries(true)
		w.unpark()
	}
	w.do(w.q.Next())
}

// cleanUp gives back what nobody uses. Nobody waits for that.
func (w *permitWorld) cleanUp(p permits) {
	if p.units > 0 {
		w.cleanups = append(w.cleanups, p)
	}
}

func (w *permitWorld) busy() {
	hint := w.hint
	w.q.Busy(w.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(w.t, "remaining ms"))*time.Millisecond), false)
	w.tries(false)
	for at := w.q.First(); at.TellBusy(); at = at.Next() {
	}
	w.do(w.q.AfterBusy(permitTraits))
	due := w.flying || w.pause != 0 || len(w.releases) > 0 || w.q.Forcing()
	w.fatalIf(hint && len(w.line) > 0 && !due, "a busy answer older than the last hint is believed")
}

// tries answers every Try.
func (w *permitWorld) tries(granted bool) {
	for _, op := range taken(w.q.TakeTries(permitTraits, granted)) {
		w.tell(op, "none are left")
	}
	w.fatalIf(slices.ContainsFunc(w.line, func(op *testOp) bool { return op.Try }), "a Try goes on waiting")
}

// lose is no answer at all. It is not asked again: those it was sent for are told, and what it may have got is given
// back. The others are asked for.
func (w *permitWorld) lose() {
	w.cleanUp(w.land())
	w.q.Settled()
	for _, op := range w.sentFor {
		w.q.Unlink(&op.Waiter)
		if op.Claim() {
			w.tell(op, "unknown")
		}
	}
	w.do(w.q.Next())
}

func (w *permitWorld) submit(try bool, units int32) {
	op := wanting(permitTraits, units)
	op.Try = try
	if try && w.q.RefusesTry() {
		w.fatalIf(len(w.line)+len(w.leaving) == 0, "a Try is refused though nobody waits: what is held keeps nobody out")
		return
	}
	w.q.Push(&op.Waiter)
	w.line = append(w.line, op)
	w.do(w.q.Next())
}

// giveUp is the first half of what a caller does who leaves; leave is the second.
func (w *permitWorld) giveUp(op *testOp) {
	op.Claim()
	w.line = slices.DeleteFunc(w.line, func(o *testOp) bool { return o == op })
	w.leaving = append(w.leaving, op)
}

func (w *permitWorld) leave() {
	op := w.leaving[0]
	w.leaving = w.leaving[1:]
	if op.Queued() {
		w.do(w.q.Leave(&op.Waiter))
	}
}

// release gives a holder's permits back, as a lock's release is sent.
func (w *permitWorld) release(op *testOp) {
	w.holders = slices.DeleteFunc(w.holders, func(o *testOp) bool { return o == op })
	w.q.ReleaseSent()
	w.releases = append(w.releases, permits{units: op.terms.Units, era: w.era})
}

func (w *permitWorld) released() {
	w.releases = w.releases[1:]
	w.q.ReleaseAnswered()
	w.do(w.q.Next())
}

func (w *permitWorld) force() {
	w.q.ForceBegun()
	w.q.Overtake()
	w.overtaken = w.overtaken || w.flying
	w.doomed += unitsOf(w.holders)
	w.holders = nil
}

func (w *permitWorld) forced() {
	w.era++
	w.others, w.doomed = 0, 0
	w.mail++
	w.q.ForceAnswered()
	w.do(w.q.Next())
}

func (w *permitWorld) wake(kind WakeKind) {
	paused := w.pause != 0
	if kind != WakePause && kind != WakePoll {
		if !w.q.Waited() { // nobody listens
			return
		}
		w.hint = true
	}
	s, pause, moved := w.q.Wake(kind)
	if !moved {
		return
	}
	w.fatalIf(paused, "a pause is cut short")
	w.poll, w.pause = 0, 0
	if s == StepPause {
		w.pause = w.now.Add(pause)
		return
	}
	w.do(s)
}

// fire runs one timer that is due, and says whether there was one.
func (w *permitWorld) fire() bool {
	switch {
	case w.pause != 0 && !w.now.Before(w.pause):
		w.pause = 0
		w.wake(WakePause)
	case w.poll != 0 && !w.now.Before(w.poll):
		w.poll = 0
		w.wake(WakePoll)
	default:
		return false
	}
	return true
}

func (w *permitWorld) events() []event {
	free := w.limit - w.taken()
	waits, seldom := len(w.line) > 0, func(what string) bool { return rapid.IntRange(0, 5).Draw(w.t, what) == 5 }
	who := func(ops []*testOp) *testOp { return ops[rapid.IntRange(0, len(ops)-1).Draw(w.t, "who")] }
	arrive := func(all []permits) {
		all[0].ran = true
		w.mail++
	}
	return []event{
		{"submit", len(w.line) < 6, func() { w.submit(seldom("try"), rapid.Int32Range(1, w.limit).Draw(w.t, "units")) }},
		{"give up", waits, func() { w.giveUp(who(w.line)) }},
		{"leave", len(w.leaving) > 0, w.leave},
		{"run", w.flying && !w.ran, w.run},
		{"answer", w.flying && w.ran, w.reply},
		{"no answer", w.flying && seldom("lost"), w.lose},
		{"others take", free > 0, func() { w.others += rapid.Int32Range(1, free).Draw(w.t, "units") }},
		{"others give back", w.others > 0, func() { w.others--; w.mail++ }},
		{"message", w.mail > 0, func() { w.mail--; w.wake(WakeMessage) }},
		{"message that leaves it to others", w.mail > 0, func() { w.mail--; w.wake(WakeLeft) }},
		{"reconnect", true, func() { w.wake(WakeLook) }},
		{"release", len(w.holders) > 0, func() { w.release(who(w.holders)) }},
		{"let go", len(w.releases) > 0 && !w.releases[0].ran, func() { arrive(w.releases) }},
		{"released", len(w.releases) > 0 && w.releases[0].ran, w.released},
		{"clean", len(w.cleanups) > 0, func() { w.cleanups = w.cleanups[1:]; w.mail++ }},
		{"force", !w.q.Forcing() && seldom("force"), w.force},
		{"forced", w.q.Forcing(), w.forced},
		{"time", true, func() {
			us := rapid.SampledFrom([]int{100, 1000, 60_000, 1_300_000}).Draw(w.t, "µs")
			w.now = w.now.Add(time.Duration(us) * time.Microsecond)
			for w.fire() {
				w.check()
			}
		}},
	}
}

// check is what holds between any two events.
func (w *permitWorld) check() {
	w.fatalIf(w.taken() > w.limit, "%d permits of %d are out", w.taken(), w.limit)
	var live []*testOp
	for at := w.q.First(); at != nil; at = at.Next() {
		if op := whose(at); !slices.Contains(w.leaving, op) {
			live = append(live, op)
		}
	}
	w.fatalIf(!slices.Equal(live, w.line), "%d wait in the queue, %d should, or in another order", len(live), len(w.line))
	w.fatalIf(w.q.Standing() || w.q.closed != closedNot, "the queue is closed")
	w.fatalIf(w.q.InFlight() != w.flying || w.q.Asked() != w.flying, "an acquire is on its way: %v", w.flying)
	w.fatalIf(w.q.Paused() != (w.pause != 0), "wait is %d with the pause at %d", w.q.wait, w.pause)
	w.fatalIf(w.q.Parked() && w.poll == 0, "parked without a poll")
	due := w.flying || w.poll != 0 || w.pause != 0 || len(w.releases) > 0 || w.q.Forcing()
	w.fatalIf(len(w.line) > 0 && !due, "somebody waits and nothing is due")
	if w.q.Deserted() && !w.flying && len(w.leaving) == 0 {
		w.fatalIf(w.poll != 0 || w.pause != 0 || w.q.Waited(), "a queue that nobody waits in leaves something behind")
	}
}

// settle lets everything that is on its way arrive, everybody give back what they have, and time pass. Messages are
// lost: the poll alone must serve all who wait.
func (w *permitWorld) settle() {
	for rounds := 0; ; rounds++ {
		w.fatalIf(rounds > 2000, "%d are forgotten in the queue", len(w.line))
		w.mail, w.others = 0, 0
		switch {
		case len(w.leaving) > 0:
			w.leave()
		case len(w.cleanups) > 0:
			w.cleanups = w.cleanups[1:]
		case w.flying && w.ran:
			w.reply()
		case w.q.Forcing():
			w.forced()
		case w.flying:
			w.run()
		case len(w.releases) > 0:
			w.released()
		case len(w.holders) > 0:
			w.release(w.holders[0])
		case w.fire():
		case w.poll != 0 || w.pause != 0:
			w.now = w.now.Add(10 * time.Millisecond)
		default:
			w.fatalIf(len(w.line) > 0, "%d are forgotten in the queue", len(w.line))
			w.fatalIf(!w.q.Empty() || w.q.Waited() || w.taken() != 0, "something is left behind, %d permits", w.taken())
			return
		}
		w.check()
	}
}

// Whatever happens around a queue for permits, and in whatever order: no more are out than there are, who comes first
// is served first, nobody is passed over who still wants some, and what is left of a grant is given back. At the end
// everybody who still waits is served although no message comes any more.
func TestModelPermits(t *testing.T) {
	checkModel(t, func(t *rapid.T) {
		w := &permitWorld{
			t: t, now: clock.Instant(time.Hour), told: make(map[*testOp]string),
			limit: rapid.Int32Range(1, 5).Draw(t, "limit"),
		}
		happen(t, w.events, w.check)
		w.settle()
	})
}
