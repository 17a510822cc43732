package renew

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

func TestTheSmallestTimes(t *testing.T) {
	for lease, want := range map[time.Duration]bool{
		200 * ms: true, 250 * ms: true, 299 * ms: true, 300 * ms: false, 350 * ms: false, 30 * time.Second: false,
	} {
		require.Equal(t, want, brief(lease), "%v", lease)
	}
	for lease, want := range map[time.Duration]time.Duration{
		12 * ms: 20 * ms, 240 * ms: 20 * ms, 360 * ms: 30 * ms, 30 * time.Second: 2500 * ms,
	} {
		require.Equal(t, want, retryAfter(lease), "%v", lease)
	}
	// A third of 15 ns is 5 ns, and the fifth of that by which it may be shorter is 1 ns.
	seen, random := map[clock.Instant]bool{}, world.New(3, 0)
	for range 200 {
		seen[nextRenewal(random, start, 15)] = true
	}
	require.Equal(t, map[clock.Instant]bool{start + 5: true, start + 4: true}, seen)
}

// A renewal lags from when it was first due, whatever becomes of the first attempt.
func TestTheLagOfARenewalCountsFromItsFirstAttempt(t *testing.T) {
	const lease = 30 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	c := r.next(lease)
	due := s.next
	r.pass(300 * ms)
	r.renewed(c)
	require.Equal(t, r.clock.Now().Sub(due), r.hear("renewed", 1)[0].lag)

	c = r.next(lease)
	due = s.sentAt.Add(lease / 3) // at the latest
	r.answer(c, resp.CodeError, unanswered)
	r.renewed(r.next(lease))
	require.Equal(t, r.clock.Now().Sub(due), r.hear("renewed", 2)[1].lag)
	require.GreaterOrEqual(t, r.clock.Now().Sub(due), retryAfter(lease)-jitter(lease))
}

// A renewal that is sent over both connections counts once, by the first answer that says that it succeeded.
func TestARenewalOverBothConnectionsIsToldOnce(t *testing.T) {
	for name, failure := range map[string]*resp.ServerError{"BothSucceed": nil, "TheFirstAnswerIsAFailure": unanswered} {
		t.Run(name, func(t *testing.T) {
			const lease = 3 * time.Second
			r := newRig(t)
			s := r.watch("name", lease)
			hangs := r.next(lease)
			due := s.next
			r.pass(hedgeAt(s.sentAt, lease).Add(bucket).Sub(r.clock.Now()))
			again := r.take()
			require.True(t, again.retry)
			if failure == nil {
				r.renewed(again)
				r.answer(hangs, resp.CodeRenewed, nil)
			} else {
				due = s.sentAt.Add(lease / 3) // at the latest
				r.answer(again, resp.CodeError, failure)
				r.renewed(hangs)
			}
			require.Equal(t, r.clock.Now().Sub(due), r.hear("renewed", 1)[0].lag)
			r.renewed(r.next(lease))
			require.Equal(t, 2, r.count("renewed"))
		})
	}
}

// An answer over the connection that was slower may come when the next renewal is on its way: that one is still waited
// for, and not sent again.
func TestALateAnswerIsNotThatOfTheNextRenewal(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	slow := r.next(lease)
	r.pass(hedgeAt(s.sentAt, lease).Add(bucket).Sub(r.clock.Now()))
	r.renewed(r.take())
	proven, due := s.Deadline(), s.next
	r.pass(due.Add(2 * bucket).Sub(r.clock.Now()))
	next := r.take()
	r.answer(slow, resp.CodeRenewed, nil)
	require.Equal(t, due, s.next)
	require.Equal(t, attemptSent, s.attempt)
	require.Equal(t, proven, s.Deadline())
	r.pass(lease / 12)
	require.Empty(t, r.calls, "it is not sent again")
	require.Equal(t, 1, r.count("renewed"))
	r.renewed(next)
	require.Equal(t, noAttempt, s.attempt)
	r.renewed(r.next(lease))
	require.Equal(t, 3, r.count("renewed"))
}

// A loss that is told shortly before the deadline is told to the tenth of a cohort; all others come together.
func TestABriefLeaseIsLostPreciselyAndLongerOnesTogether(t *testing.T) {
	fixed := func(terms *Terms) { terms.Renew = false }
	r := newRig(t)
	s := r.watch("brief", 217*ms, fixed)
	signal := SignalAt(s.Deadline(), 217*ms)
	r.pass(time.Second)
	at := r.hear("lost", 1)[0].at
	require.False(t, at.Before(signal))
	require.LessOrEqual(t, at.Sub(signal), bucket/10+step)

	begun := r.clock.Now()
	const lease = time.Second
	late := func(terms *Terms) { terms.Renew, terms.SentAt = false, begun.Add(10*ms) }
	r.watch("long", lease, fixed)
	r.watch("a little longer", lease, late)
	r.pass(2 * lease)
	lost := r.hear("lost", 3)[1:]
	require.Equal(t, lost[0].at, lost[1].at, "in one cohort")
}

func TestOtherTermsRenewAPeriodAfterTheyWereGiven(t *testing.T) {
	const before, lease = 30 * time.Second, 3 * time.Second
	for _, c := range []struct {
		name string
		wait time.Duration // until the terms change
	}{{"BeforeTheFirstRenewalIsDrawn", 0}, {"WhenItIsDrawn", before / 15}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			for i := range 10 {
				r.watch(fmt.Sprint("name:", i), before)
			}
			r.clock.Set(start.Add(c.wait))
			r.wheel.Settle()
			changed := r.clock.Now()
			for i, s := range r.subjects {
				drawn := s.next
				require.Equal(t, c.wait > 0, drawn != 0)
				r.Change(s, Terms{Lease: lease, Renew: true})
				if drawn != 0 && drawn.Before(changed.Add(lease/3-lease/15)) {
					require.Equal(t, drawn, s.next, "%d: what is due sooner stays due", i)
					continue
				}
				require.GreaterOrEqual(t, s.next, changed.Add(lease/3-lease/15))
				require.LessOrEqual(t, s.next, changed.Add(lease/3))
			}
			call := r.next(lease/3 + bucket + step)
			require.LessOrEqual(t, call.at, changed.Add(lease/3+bucket+step))
			require.Equal(t, lease, call.lease)
		})
	}
}

// Terms that ask for no more than before do not put off the word of a jeopardy.
func TestTheSameTermsAgainDoNotBeginAPeriod(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	r.pass(2*lease/3 - 10*step)
	r.take()
	r.Change(s, Terms{Lease: lease, Renew: true})
	r.pass(bucket + 11*step)
	require.Len(t, r.heard("jeopardy"), 1)

	r.Change(s, Terms{Lease: lease, Renew: true})
	r.pass(bucket)
	require.Len(t, r.heard("jeopardy"), 1, "it was told")
	require.True(t, s.jeopardy)
	require.Equal(t, start, s.sentAt)
}

func TestAHoldThatIsOverTakesNoOtherTerms(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	require.True(t, r.Forget(s))
	r.Change(s, Terms{Lease: time.Minute, Until: start.Add(time.Hour)})
	require.Equal(t, lease, s.Lease())
	require.Zero(t, r.Until(s))
	require.True(t, s.Renewing())
	require.False(t, r.Cohorts.Extended(s, start, time.Minute), "nothing is proven for anybody")
	require.Equal(t, TrustUntil(start, lease), s.Deadline())
}

func TestLowerMovesTheDeadlineBackAndTheWordOfTheLossWithIt(t *testing.T) {
	const lease = 10 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Renew = false })
	first := s.Deadline()
	r.Lower(s, first.Add(time.Second))
	require.Equal(t, first, s.Deadline(), "never forward")
	lowered := start.Add(2 * time.Second)
	r.Lower(s, lowered)
	require.Equal(t, lowered, s.Deadline())
	r.pass(2 * time.Second)
	require.True(t, r.hear("lost", 1)[0].at.Before(lowered))
}

func TestExtendedSaysWhetherTheHoldLivesOn(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Renew = false })
	r.pass(lease / 3)
	now := r.clock.Now()
	require.True(t, r.Cohorts.Extended(s, now, lease))
	require.Equal(t, TrustUntil(now, lease), s.Deadline())
	require.True(t, r.Cohorts.Extended(s, start, lease), "an old answer, of a hold that lives")
	over := s.Deadline()
	r.clock.Set(over) // the watchdog has not looked yet
	require.False(t, r.Cohorts.Extended(s, over, time.Minute), "whoever looked has seen that it is lost")
	require.Equal(t, over, s.Deadline())
}

// MaxHold ends once, also where the hold lives on because somebody else extended it.
func TestTheEndOfRenewalsIsToldOnce(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Until = start.Add(500 * ms) })
	for r.count("ended") == 0 {
		require.True(t, r.clock.Now().Before(start.Add(lease)), "the end of renewals is not told")
		r.pass(step)
		if r.due() > 0 {
			r.renewed(r.take())
		}
	}
	require.Zero(t, r.Until(s), "there is nothing more to end")
	require.True(t, r.Cohorts.Extended(s, r.clock.Now(), time.Minute))
	r.pass(lease)
	require.Len(t, r.heard("ended"), 1)
	require.Empty(t, r.heard("lost"))
}

func TestRetireLeavesOtherNodesAlone(t *testing.T) {
	r := newRig(t)
	other := r.secondNode()
	r.Cohorts.mu.Lock()
	var out dueByNode
	here, there := out.of(r.Cohorts, &subject{name: "here"}).senders, out.of(r.Cohorts, &subject{name: "there"}).senders
	r.Cohorts.mu.Unlock()
	require.Equal(t, []*nodeSenders{here, there}, r.order)
	r.Retire(other)
	require.Equal(t, []*nodeSenders{here}, r.order)
	require.Equal(t, map[Renewer]*nodeSenders{r: here}, r.senders)
	require.True(t, there.first.retired && there.again.retired)
	require.False(t, here.first.retired || here.again.retired || there.first.closed)
}

// A node whose senders have ended may serve a hold again: it gets new ones, and nobody is left behind.
func TestRetireEndsTheSendersOnceTheirQueueIsEmpty(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	r.Retire(r) // it has none yet
	hung := r.occupy()
	s := r.watch("name", lease)
	r.pass(lease/3 + bucket + step) // it waits behind the hung calls
	require.Equal(t, 1, r.due())
	r.Retire(r)
	r.renewed(hung[0])
	c := r.take()
	require.Equal(t, []string{"name"}, c.keys(), "what they have is still sent")
	r.renewed(c)
	for _, c := range hung[1:] {
		r.renewed(c)
	}
	c = r.next(lease)
	require.Equal(t, []string{"name"}, c.keys())
	r.renewed(c)
	require.True(t, r.Forget(s))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Close()
	}()
	select {
	case <-ended:
	case <-time.After(long):
		require.FailNow(t, "Close waits for senders that were retired")
	}
}

// silent is a node that does not answer from a while on, in a simulated world: it counts what it is sent until then.
type silent struct {
	slowNode
	fails        int // so many are answered with an error first
	first, again int
}

func (n *silent) Renew(retry bool, limit time.Duration, batch []resp.Renewal) {
	if retry {
		n.again++
	} else {
		n.first++
	}
	takes := time.Hour
	if n.fails > 0 {
		n.fails--
		takes = ms
	}
	n.w.Sleep(takes)
	for i := range batch {
		batch[i].Code, batch[i].Err = resp.CodeError, unanswered
	}
}

// What hangs is sent over the second connection, too, but not again at every look.
func TestARenewalThatHangsIsSentOnceOverEachConnection(t *testing.T) {
	for name, c := range map[string]struct{ fails, first, again int }{
		"TheFirstAttemptHangs": {0, 1, 1},
		"TheSecondOneHangs":    {1, 2, 1},
		"TheThirdOneHangs":     {2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(1, 0)
			node := &silent{slowNode: slowNode{w: w}, fails: c.fails}
			w.Go("test", func() {
				timers, err := wheel.New(wheel.Config{Clock: w, NoTimingWheel: true})
				require.NoError(t, err)
				k := New(w, timers, func(Subject) Renewer { return node }, node)
				k.Watch(&subject{name: "name"}, Terms{SentAt: w.Now(), Lease: 3 * time.Second, Renew: true})
			})
			require.NoError(t, w.Run(func() bool { return node.lost > 0 }))
			w.Close()
			require.Equal(t, []int{c.first, c.again}, []int{node.first, node.again})
		})
	}
}
