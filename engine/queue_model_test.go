package engine

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// checkModel runs a model test often enough for its rare interleavings. A failure is shrunk, and says
// with which seed it comes again.
func checkModel(t *testing.T, run func(*rapid.T)) {
	for name, value := range map[string]string{"rapid.checks": "2000", "rapid.steps": "100"} {
		f := flag.Lookup(name)
		if was := f.Value.String(); was == f.DefValue && !testing.Short() { // not where somebody asked for another number
			require.NoError(t, f.Value.Set(value))
			t.Cleanup(func() { _ = f.Value.Set(was) })
		}
	}
	rapid.Check(t, run)
}

// An event of a model: what may happen if the condition holds.
type event struct {
	name string
	may  bool
	do   func()
}

// happen lets random events happen, one of those that may at a time.
func happen(t *rapid.T, events func() []event, check func()) {
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { check() },
		"event": func(t *rapid.T) {
			all := slices.DeleteFunc(events(), func(e event) bool { return !e.may })
			names := make([]string, len(all))
			for i := range all {
				names[i] = all[i].name
			}
			name := rapid.SampledFrom(names).Draw(t, "event")
			all[slices.Index(names, name)].do()
		},
	})
}

// settle lets everything that is on its way arrive, and time pass, until nothing changes any more: as
// long as anybody waits the lock is given on. Messages are lost: the poll alone must do.
func (w *queueWorld) settle() {
	w.full, w.mail = false, 0
	for rounds := 0; ; rounds++ {
		w.fatalIf(rounds > 2000, "%d are forgotten in the queue", len(w.line))
		if w.holder == -1 {
			w.holder = 0
		}
		for _, id := range w.ghosts {
			w.free(id)
		}
		w.ghosts = nil
		switch {
		case len(w.leaving) > 0:
			w.leave()
		case w.flying && w.ran:
			w.reply(false, false, false)
		case w.q.forceReleases > 0:
			w.forced()
		case w.flying:
			w.run()
		case len(w.releases) > 0:
			w.free(w.releases[0].id)
			w.released(0, 0, true)
		case w.held != 0:
			w.release(false)
		case w.fire():
		case w.poll != 0 || w.pause != 0 || w.again != 0:
			w.now = w.now.Add(10 * time.Millisecond)
			continue
		default:
			w.fatalIf(len(w.line) > 0, "%d are forgotten in the queue", len(w.line))
			w.fatalIf(!w.q.empty() || w.q.wait != waitNot || w.holder != 0, "something is left behind")
			return
		}
		w.check()
	}
}

func (w *queueWorld) force() {
	w.q.forceReleases++
	w.q.overtake()
	w.overtaken = w.flying
	if w.held != 0 {
		w.lose()
	}
}

func (w *queueWorld) forced() {
	w.free(w.holder)
	w.q.forceReleases--
	w.do(w.q.next())
}

// events are what may happen next.
func (w *queueWorld) events() []event {
	waits, released := len(w.line) > 0, len(w.releases) > 0
	return []event{
		{"submit", len(w.line) < 6, func() { w.submit(w.seldom("try"), w.settings[max(0, rapid.IntRange(-3, 3).Draw(w.t, "kind"))]) }},
		{"give up", waits, func() { w.giveUp(w.line[rapid.IntRange(0, len(w.line)-1).Draw(w.t, "who")]) }},
		{"leave", len(w.leaving) > 0, w.leave},
		{"run", w.flying && !w.ran, w.run},
		{"answer", w.flying && w.ran, func() { w.reply(false, w.slow, false) }},
		{"no answer", w.flying, func() { w.reply(true, false, w.seldom("out of patience")) }},
		{"recalled", w.flying && w.cancel && !w.ran, func() { w.reply(false, false, false) }},
		{"weather", true, func() { w.full, w.slow = w.oneIn(3, "full") == 1, w.oneIn(3, "slow") == 1 }},
		{"other", w.holder <= 0, w.other},
		{"message", w.mail > 0, func() { w.mail--; w.wake(wakeMessage) }},
		{"message that leaves it to others", w.mail > 0, func() { w.mail--; w.wake(wakeLeft) }},
		{"reconnect", w.subscribed, func() { w.wake(wakeLook) }},
		{"release", w.held != 0, func() { w.release(w.oneIn(2, "hand over") == 1) }},
		{"let go", released && !w.releases[0].ran, func() { w.releases[0].ran = true; w.free(w.releases[0].id) }},
		{"released", released && w.releases[0].ran, func() {
			w.released(rapid.Int64Range(0, 2).Draw(w.t, "heard"), rapid.Int64Range(0, 1).Draw(w.t, "us"), w.oneIn(2, "counted") == 0)
		}},
		{"lost", w.held != 0, w.lose},
		{"an older hold is lost", w.held != 0, func() { w.fatalIf(w.q.freed(&hold{}), "an older hold opened the queue") }},
		{"force", w.q.forceReleases < 2, w.force},
		// An acquire that ran before it is answered before it, if they travel on one connection.
		{"forced", w.q.forceReleases > 0 && (!w.flying || !w.ran || w.set.ack != nil), w.forced},
		{"clean", len(w.ghosts) > 0, func() { w.free(w.ghosts[0]); w.ghosts = w.ghosts[1:] }},
		{"time", true, func() {
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{100, 1000, 60_000, 1_300_000}).Draw(w.t, "µs")) * time.Microsecond)
			for w.fire() {
				w.check()
			}
		}},
	}
}

func (w *queueWorld) oneIn(n int, what string) int {
	if rapid.IntRange(0, n-1).Draw(w.t, what) == n-1 {
		return 1
	}
	return 0
}

func (w *queueWorld) seldom(what string) bool { return w.oneIn(6, what) == 1 }

// Whatever happens around a queue, and in whatever order: nobody is served twice, nobody is forgotten,
// the lock goes to the first who still wants it, and one acquire is on its way at most. At the end
// everybody who still waits is served although no message comes any more.
func TestModelQueue(t *testing.T) {
	checkModel(t, func(t *rapid.T) {
		w := &queueWorld{t: t, now: clock.Instant(time.Hour), served: make(map[*acquireOp]string)}
		w.settings = [4]*settings{
			{lease: time.Second, watchdog: true},
			{lease: 2 * time.Second, watchdog: true},
			{lease: time.Second, watchdog: true, ack: &resp.Ack{Replicas: 1}},
			{lease: time.Second, watchdog: true, spin: &spinning{4 * time.Second, 4 * time.Second}, family: resp.FamilySpin},
		}
		happen(t, w.events, w.check)
		if rapid.Bool().Draw(t, "close") {
			w.close()
		}
		w.settle()
	})
}

// What random events seldom reach.
func TestQueueTellsTheFirstAfterThreeGrantsThatCameTooLate(t *testing.T) {
	var q queue
	op := &acquireOp{set: defaults[resp.FamilyLock]}
	q.push(op)
	for range maxLate - 1 {
		q.asking(nil)
		q.sent()
		q.landed()
		require.Nil(t, q.grantedLate())
		require.Equal(t, stepSend, q.next(), "it is asked for again")
	}
	require.Same(t, op, q.grantedLate())
}

// A release passes a fair lock on in its answer, and a force-release that was sent after it runs before that is
// read: it may have taken what was passed on.
func TestQueueBelievesNoGrantWhileAForceReleaseIsOnItsWay(t *testing.T) {
	var q queue
	op := &acquireOp{set: defaults[resp.FamilyFair]}
	q.push(op)
	q.forceReleases++
	q.overtake()
	q.asking(nil)
	require.Nil(t, q.granted(op.set.lease, resp.FamilyFair, 0))
	require.Equal(t, stepRest, q.next())
	q.forceReleases--
	require.Equal(t, stepSend, q.next(), "it is asked for again")
	require.Same(t, op, q.granted(op.set.lease, resp.FamilyFair, 0))
}

func TestQueuePollsAfterAFifthMoreThanASecondAtMost(t *testing.T) {
	q := queue{}
	q.push(&acquireOp{set: defaults[resp.FamilyLock]})
	now := clock.Instant(time.Hour)
	for _, left := range []time.Duration{-1, 0, 10, 998, 999, 1000, 2000} {
		for _, more := range []time.Duration{-1, 0, 1, 900_000} {
			q.busyUntil = now.Add(left*time.Millisecond + more)
			least, spread := q.pollSpan(now)
			require.LessOrEqual(t, least+spread, 1200*time.Millisecond, "%v and %v left", left*time.Millisecond, more)
		}
	}
}

func TestQueueKeepsCourtesyWhateverTheAnswerToAnEarlierAcquire(t *testing.T) {
	var q queue
	q.push(&acquireOp{set: defaults[resp.FamilyLock]})
	q.asking(nil)
	q.sent()
	q.yield()
	q.landed()
	q.busy(0, false)
	require.Equal(t, stepPark, q.afterBusy(resp.FamilyLock), "the poll is armed")
	s, _ := q.wake(wakeMessage)
	require.Equal(t, stepRest, s, "nothing cuts a yield pause short")
	s, _ = q.wake(wakePause)
	require.Equal(t, stepSend, s)
}

func TestQueueAsksForANewHeadOfAnotherKindInsteadOfBelievingTheAnswer(t *testing.T) {
	for _, asked := range []resp.Family{resp.FamilyWrite, resp.FamilyLock} {
		var q queue
		try := &acquireOp{set: defaults[asked], try: true}
		reader := &acquireOp{set: defaults[resp.FamilyRead]}
		q.push(try)
		q.push(reader)
		q.asking(nil)
		q.sent()
		q.landed()
		q.busy(0, false)
		require.Same(t, try, q.takeTries(asked, false))
		require.False(t, q.meant(asked))
		require.Equal(t, stepSend, q.afterBusy(asked), "nobody has asked for the reader yet")
	}
}

func TestQueueAnswersATryToReadOnlyWithWhatAReaderWasTold(t *testing.T) {
	const lock, read, write = resp.FamilyLock, resp.FamilyRead, resp.FamilyWrite
	for _, c := range []struct {
		asked   resp.Family
		granted bool
		before  resp.Family // of who waits before it, if not the plain lock's
		takes   bool
	}{
		{read, true, lock, false},
		{read, true, read, false},
		{read, true, write, true},
		{read, false, lock, true},
		{write, true, lock, true},
		{write, false, lock, false},
		{write, false, write, true},
	} {
		var q queue
		try := &acquireOp{set: defaults[read], try: true}
		if c.before != lock {
			q.push(&acquireOp{set: defaults[c.before]})
		}
		q.push(try)
		require.Equal(t, c.takes, q.takeTries(c.asked, c.granted) == try, "%+v", c)
	}
}
