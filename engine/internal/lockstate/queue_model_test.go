package lockstate

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
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
		case w.q.Forcing():
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
			w.fatalIf(!w.q.Empty() || w.q.wait != waitNot || w.holder != 0, "something is left behind")
			return
		}
		w.check()
	}
}

func (w *queueWorld) force() {
	w.q.ForceBegun()
	w.q.Overtake()
	w.overtaken = w.flying
	if w.held != 0 {
		w.lose()
	}
}

func (w *queueWorld) forced() {
	w.free(w.holder)
	w.q.ForceAnswered()
	w.do(w.q.Next())
}

// events are what may happen next.
func (w *queueWorld) events() []event {
	waits, released := len(w.line) > 0, len(w.releases) > 0
	return []event{
		{"submit", len(w.line) < 6, func() {
			w.submit(w.seldom("try"), w.terms[max(0, rapid.IntRange(-3, 3).Draw(w.t, "kind"))])
		}},
		{"give up", waits, func() { w.giveUp(w.line[rapid.IntRange(0, len(w.line)-1).Draw(w.t, "who")]) }},
		{"leave", len(w.leaving) > 0, w.leave},
		{"run", w.flying && !w.ran, w.run},
		{"answer", w.flying && w.ran, func() { w.reply(false, w.slow, false) }},
		{"no answer", w.flying, func() { w.reply(true, false, w.seldom("out of patience")) }},
		{"recalled", w.flying && w.cancel && !w.ran, func() { w.reply(false, false, false) }},
		{"weather", true, func() { w.full, w.slow = w.oneIn(3, "full") == 1, w.oneIn(3, "slow") == 1 }},
		{"other", w.holder <= 0, w.other},
		{"message", w.mail > 0, func() { w.mail--; w.wake(WakeMessage) }},
		{"message that leaves it to others", w.mail > 0, func() { w.mail--; w.wake(WakeLeft) }},
		{"reconnect", w.subscribed, func() { w.wake(WakeLook) }},
		{"release", w.held != 0, func() { w.release(w.oneIn(2, "hand over") == 1) }},
		{"let go", released && !w.releases[0].ran, func() { w.releases[0].ran = true; w.free(w.releases[0].id) }},
		{"released", released && w.releases[0].ran, func() {
			heard, us := rapid.Int64Range(0, 2).Draw(w.t, "heard"), rapid.Int64Range(0, 1).Draw(w.t, "us")
			w.released(heard, us, w.oneIn(2, "counted") == 0)
		}},
		{"lost", w.held != 0, w.lose},
		{"an older hold is lost", w.held != 0, func() {
			w.fatalIf(w.freed(&Grant{}) || w.q.Next() == StepSend, "an older hold opened the queue")
		}},
		{"force", w.q.seldom().forceReleases < 2, w.force},
		// An acquire that ran before it is answered before it, if they travel on one connection.
		{"forced", w.q.seldom().forceReleases > 0 && (!w.flying || !w.ran || w.set.Ack != nil), w.forced},
		{"clean", len(w.ghosts) > 0, func() { w.free(w.ghosts[0]); w.ghosts = w.ghosts[1:] }},
		{"time", true, func() {
			us := rapid.SampledFrom([]int{100, 1000, 60_000, 1_300_000}).Draw(w.t, "µs")
			w.now = w.now.Add(time.Duration(us) * time.Microsecond)
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
		w := &queueWorld{t: t, now: clock.Instant(time.Hour), served: make(map[*testOp]string)}
		w.terms = [4]*Terms{
			{Family: lockTraits, Lease: time.Second, Watchdog: true},
			{Family: lockTraits, Lease: 2 * time.Second, Watchdog: true},
			{Family: lockTraits, Lease: time.Second, Watchdog: true, Ack: &Ack{Replicas: 1}},
			{
				Family: spinTraits, Lease: time.Second, Watchdog: true,
				Spin: &Spin{4 * time.Second, 4 * time.Second},
			},
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
	var q testQueue
	op := opFor(lockTraits)
	q.Push(&op.Waiter)
	for range maxLate - 1 {
		beginAsking(&q)
		q.Sent()
		q.Landed()
		require.Nil(t, q.GrantedLate())
		require.Equal(t, StepSend, q.Next(), "it is asked for again")
	}
	require.Same(t, op, whose(q.GrantedLate()))
}

// A release passes a fair lock on in its answer, and a force-release that was sent after it runs before that is
// read: it may have taken what was passed on.
func TestQueueBelievesNoGrantWhileAForceReleaseIsOnItsWay(t *testing.T) {
	var q testQueue
	op := opFor(fairTraits)
	q.Push(&op.Waiter)
	q.ForceBegun()
	q.Overtake()
	beginAsking(&q)
	require.Nil(t, q.Granted(fairTraits, op.terms.Lease, 0))
	require.Equal(t, StepRest, q.Next())
	q.ForceAnswered()
	require.Equal(t, StepSend, q.Next(), "it is asked for again")
	require.Same(t, op, whose(q.Granted(fairTraits, op.terms.Lease, 0)))
}

func TestQueuePollsAfterAFifthMoreThanASecondAtMost(t *testing.T) {
	q := testQueue{}
	q.Push(&opFor(lockTraits).Waiter)
	now := clock.Instant(time.Hour)
	for _, left := range []time.Duration{-1, 0, 10, 998, 999, 1000, 2000} {
		for _, more := range []time.Duration{-1, 0, 1, 900_000} {
			q.ensureExtra().busyUntil = now.Add(left*time.Millisecond + more)
			least, spread := q.PollSpan(now)
			require.LessOrEqual(t, least+spread, 1200*time.Millisecond, "%v and %v left", left*time.Millisecond, more)
		}
	}
}

func TestQueueKeepsCourtesyWhateverTheAnswerToAnEarlierAcquire(t *testing.T) {
	var q testQueue
	q.Push(&opFor(lockTraits).Waiter)
	beginAsking(&q)
	q.Sent()
	q.Yield()
	q.Landed()
	q.Busy(0, false)
	require.Equal(t, StepPark, q.AfterBusy(lockTraits), "the poll is armed")
	s, _, _ := q.Wake(WakeMessage)
	require.Equal(t, StepRest, s, "nothing cuts a yield pause short")
	s, _, _ = q.Wake(WakePause)
	require.Equal(t, StepSend, s)
}

func TestQueueAsksForANewHeadOfAnotherKindInsteadOfBelievingTheAnswer(t *testing.T) {
	for _, asked := range []*Traits{writeTraits, lockTraits} {
		var q testQueue
		try := tryFor(asked)
		reader := opFor(readTraits)
		q.Push(&try.Waiter)
		q.Push(&reader.Waiter)
		beginAsking(&q)
		q.Sent()
		q.Landed()
		q.Busy(0, false)
		require.Equal(t, []*testOp{try}, taken(q.TakeTries(asked, false)))
		require.False(t, q.Meant(asked))
		require.Equal(t, StepSend, q.AfterBusy(asked), "nobody has asked for the reader yet")
	}
}

func TestQueueAnswersATryToReadOnlyWithWhatAReaderWasTold(t *testing.T) {
	lock, read, write := lockTraits, readTraits, writeTraits
	for _, c := range []struct {
		asked   *Traits
		granted bool
		before  *Traits // of who waits before it, if not the plain lock's
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
		var q testQueue
		try := tryFor(read)
		if c.before != lock {
			q.Push(&opFor(c.before).Waiter)
		}
		q.Push(&try.Waiter)
		tries := q.TakeTries(c.asked, c.granted)
		require.Equal(t, c.takes, whose(tries.Take()) == try, "%+v", c)
		require.True(t, tries.Empty(), "%+v", c)
	}
}
