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

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

func TestC028_DeadlineCountsFromTheSendingOfTheAnsweredAttempt(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.SentAt = start.Add(-200 * ms) }) // the grant took 200 ms
	require.Equal(t, start.Add(-200*ms+lease-30*ms), s.Deadline(), "lease minus 1 %, from the sending")

	c := r.next(lease)
	require.Equal(t, "name", c.batch[0].Key)
	require.Equal(t, "field of name", c.batch[0].Field)
	require.Equal(t, lease, c.lease)
	before := s.Deadline()
	r.pass(300 * ms) // the answer takes its time
	require.Equal(t, before, s.Deadline(), "nothing is earned by sending")
	r.renewed(c)
	require.Equal(t, c.at.Add(lease-30*ms), s.Deadline())

	c = r.next(lease)
	before = s.Deadline()
	r.answer(c, resp.CodeError, unanswered)
	require.Equal(t, before, s.Deadline(), "no answer earns nothing")
}

func TestMarginIsOnePercentAndAtLeastTenMilliseconds(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		100 * ms: 10 * ms, time.Second: 10 * ms, 2 * time.Second: 20 * ms, 30 * time.Second: 300 * ms,
	} {
		require.Equal(t, want, Margin(lease), "%v", lease)
		require.Equal(t, start.Add(lease-want), TrustUntil(start, lease))
	}
}

func TestLossIsToldEarlyByTheSmallerOfACohortAndAQuarterOfTheLease(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		100 * ms: 25 * ms, 200 * ms: 50 * ms, 300 * ms: 75 * ms, time.Second: 75 * ms, time.Hour: 75 * ms,
	} {
		deadline := TrustUntil(start, lease)
		require.Equal(t, deadline.Add(-want), SignalAt(deadline, lease), "%v", lease)
	}
}

func TestDeadlineOnlyMovesForward(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	c := r.next(lease)
	before := s.Deadline()
	c.batch[0].Code, c.batch[0].SentAt = resp.CodeRenewed, start.Add(-time.Second) // an old answer
	r.finish(c)
	require.Zero(t, r.count("renewed"), "it is not that of the renewal on its way")
	require.Equal(t, before, s.Deadline())

	r.Cohorts.Extended(s, start.Add(-time.Minute), lease)
	require.Equal(t, before, s.Deadline())
	r.Cohorts.Extended(s, r.clock.Now(), time.Second)
	require.Equal(t, before, s.Deadline(), "shorter than what is proven already")
	r.Cohorts.Extended(s, r.clock.Now(), time.Minute)
	require.Equal(t, TrustUntil(r.clock.Now(), time.Minute), s.Deadline())

	// Of many answers at once the latest counts, in whatever order they come.
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { r.Cohorts.Extended(s, start.Add(time.Duration(i*37%64)*time.Minute), time.Hour) })
	}
	wg.Wait()
	require.Equal(t, TrustUntil(start.Add(63*time.Minute), time.Hour), s.Deadline())
}

// An answer that comes when nobody may trust the hold any more does not bring it back: whoever asked meanwhile has seen
// that it is lost.
func TestADeadlineThatIsOverStaysOver(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	c := r.next(lease)
	over := s.Deadline()
	r.clock.Set(over) // the watchdog has not looked yet
	c.batch[0].Code, c.batch[0].SentAt = resp.CodeRenewed, c.at
	r.finish(c)
	require.Equal(t, over, s.Deadline())
	r.Cohorts.Extended(s, c.at, time.Minute)
	require.Equal(t, over, s.Deadline())
}

func TestRenewalsComeOncePerThirdOfTheLeaseForAsLongAsTheHoldLives(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	last := start
	for range 50 {
		c := r.next(lease)
		gap := c.at.Sub(last)
		if least := lease/3 - lease/15; last != start {
			require.GreaterOrEqual(t, gap, least)
		}
		require.LessOrEqual(t, gap, lease/3+bucket+step)
		require.False(t, c.retry, "all is well: the first connection")
		require.Equal(t, lease/3, c.limit)
		last = c.at
		r.renewed(c)
		require.Equal(t, TrustUntil(c.at, lease), s.Deadline())
	}
	require.Empty(t, r.heard("lost"))
	require.Empty(t, r.heard("jeopardy"))
	require.Equal(t, Stats{Watched: 1, Sent: 50}, r.Stats())
}

func TestHoldsTakenAtOneMomentAreRenewedOverTheWholePeriod(t *testing.T) {
	const lease, n = 30 * time.Second, 2000
	r := newRig(t)
	for i := range n {
		r.watch(fmt.Sprint("name:", i), lease)
		r.subjects[i].Field = "of one command"
	}
	seen, calls, largest := 0, 0, 0
	for seen < n {
		c := r.next(lease)
		require.LessOrEqual(t, c.at.Sub(start), lease/3+bucket+step)
		require.GreaterOrEqual(t, c.at.Sub(start), lease/15)
		seen += len(c.batch)
		calls++
		largest = max(largest, len(c.batch))
		r.renewed(c)
	}
	require.Equal(t, n, seen, "each once")
	require.Greater(t, calls, n/bunchMost/2, "they do not renew in one moment")
	require.LessOrEqual(t, largest, 8*bunchMost)
}

func TestAHoldThatEndsInTheFirstFifthOfItsPeriodIsNeverRenewed(t *testing.T) {
	const lease = 30 * time.Second
	r := newRig(t)
	for i := range 100 {
		r.watch(fmt.Sprint("name:", i), lease)
	}
	r.pass(lease/15 - bucket)
	require.Zero(t, r.due())
}

func TestAttemptLimitLeavesTimeForTheNext(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		time.Second: time.Second / 3, 6 * time.Second: 2 * time.Second, 12 * time.Second: 2 * time.Second, time.Hour: 2 * time.Second,
	} {
		require.Equal(t, want, attemptLimit(lease))
		end := SignalAt(TrustUntil(start, lease), lease)
		require.True(t, hedgeAt(start, lease).Add(bucket+attemptLimit(lease)).Before(end), "%v: a second try fits", lease)
	}
}

func TestFailedRenewalIsTriedAgainSoonOverTheOtherConnection(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	r.watch("name", lease)
	c := r.next(lease)
	require.False(t, c.retry)
	for _, second := range []bool{true, false, true} {
		r.answer(c, resp.CodeError, unanswered)
		failedAt := r.clock.Now()
		c = r.next(lease)
		require.Equal(t, second, c.retry, "the last one may be hung")
		require.LessOrEqual(t, c.at.Sub(failedAt), lease/12+bucket+step)
		require.GreaterOrEqual(t, c.at.Sub(failedAt), lease/12, "not in a tight loop")
	}
	r.renewed(c)
	seen := r.Stats()
	seen.Late = 0 // the fourth comes about half a lease after the watch began, before it or behind it
	require.Equal(t, Stats{Watched: 1, Sent: 4, Failed: 3}, seen)
	c = r.next(lease)
	require.False(t, c.retry, "after a success the first connection is trusted again")
	r.renewed(c)
	require.Empty(t, r.heard("lost"))
}

// A connection that brings an answer is well, whatever it says; of the other one nothing is known.
func TestARenewalThatTheServerRefusesIsTriedAgainOverTheSameConnection(t *testing.T) {
	const lease = 3 * time.Second
	busy := &resp.ServerError{Class: resp.ClassBusy, Text: "BUSY"}
	r := newRig(t)
	s := r.watch("name", lease)
	c := r.next(lease)
	for range 2 {
		require.False(t, c.retry)
		r.answer(c, resp.CodeError, busy)
		c = r.next(lease)
	}
	r.answer(c, resp.CodeError, unanswered)
	for c = r.next(lease); r.clock.Now().Before(s.Deadline().Add(-lease / 4)); c = r.next(lease) {
		require.True(t, c.retry)
		r.answer(c, resp.CodeError, busy)
	}
	require.True(t, c.retry)
	r.renewed(c)
	require.Empty(t, r.heard("lost"))
}

// One error, and then the connection that is tried instead brings no answer within the limit: the other one is asked.
func TestAHoldOutlastsAnErrorAndAConnectionThatHangs(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second} {
		r := newRig(t)
		s := r.watch("name", lease)
		r.answer(r.next(lease), resp.CodeError, unanswered)
		hung := r.next(lease)
		require.True(t, hung.retry)
		for s.attempt != attemptHedged { // its timers have settled: nobody else looks
			require.Empty(t, r.heard("lost"), "%v", lease)
			r.pass(step)
		}
		soon := max(start.Add(lease/2), hung.at.Add(lease/6))
		require.LessOrEqual(t, r.clock.Now(), soon.Add(2*bucket+step))
		c := r.take()
		require.False(t, c.retry)
		r.renewed(c)
		r.answer(hung, resp.CodeError, unanswered)
		require.Empty(t, r.heard("lost"))
	}
}

// Whoever has seen that a deadline is over has seen that the hold is lost: an answer that was there before, and waits for
// its turn meanwhile, does not raise it.
func TestADeadlineThatEndsBeforeTheTurnOfAnAnswerStaysOver(t *testing.T) {
	const lease = 3 * time.Second
	for how, answer := range map[string]func(*rig, *subject){
		"Renewed": func(r *rig, s *subject) {
			r.answered(false, lease, []Subject{s}, []resp.Renewal{{Code: resp.CodeRenewed, SentAt: r.clock.Now()}})
		},
		"Extended": func(r *rig, s *subject) { r.Extended(s, r.clock.Now(), lease) },
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			s := r.watch("name", lease)
			over := s.Deadline()
			r.clock.Set(over - 1)
			r.Cohorts.mu.Lock()
			begun, done := make(chan struct{}), make(chan struct{})
			go func() {
				close(begun)
				answer(r, s)
				close(done)
			}()
			<-begun
			for range 100 { // it comes as far as it can
				runtime.Gosched()
			}
			r.clock.Set(over)
			r.Cohorts.mu.Unlock()
			<-done
			require.Equal(t, over, s.Deadline())
		})
	}
}

func TestARenewalIsLateWhenHalfALeaseHasPassedSinceTheLast(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	r.watch("name", lease)
	r.renewed(r.next(lease))
	c := r.next(lease)
	r.pass(lease/6 - 4*step - bucket) // the answer takes so long
	r.renewed(c)
	require.Zero(t, r.Stats().Late)
	c = r.next(lease)
	r.pass(lease/2 - (lease/3 - lease/15) + step) // they come up to a fifteenth early
	r.renewed(c)
	require.EqualValues(t, 1, r.Stats().Late)
}

// The node said that the key's slot is elsewhere now, and the route knows where: no pause.
func TestMovedRenewalGoesToItsNewNodeAtOnce(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	r.watch("name", lease)
	c := r.next(lease)
	r.answer(c, resp.CodeError, &resp.ServerError{Class: resp.ClassMoved, Text: "MOVED"})
	movedAt := r.clock.Now()
	c = r.next(lease)
	require.LessOrEqual(t, c.at.Sub(movedAt), bucket+step)
	require.False(t, c.retry, "nothing is wrong with the connection")
	require.EqualValues(t, 1, r.Stats().Failed)
	r.renewed(c)
	require.Empty(t, r.heard("lost"))
}

func TestC057_JeopardyIsToldAfterTwoPeriodsWithoutASuccessAndOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		hangs bool
	}{{"BecauseRenewalsFail", false}, {"BecauseTheRenewerHangs", true}} {
		t.Run(c.name, func(t *testing.T) {
			const lease = 3 * time.Second
			r := newRig(t)
			r.watch("name", lease)
			calm := start.Add(2*lease/3 - 2*step)
			var hung *call
			for r.clock.Now().Before(calm) {
				r.pass(step)
				if hung == nil && r.due() > 0 {
					if hung = r.take(); !c.hangs {
						r.answer(hung, resp.CodeError, unanswered)
						hung = nil
					}
				}
			}
			require.Empty(t, r.heard("jeopardy"), "not before two periods")
			latest := calm.Add(bucket + 4*step)
			if !c.hangs {
				latest = latest.Add(lease / 12) // between two tries nobody looks
			}
			for r.clock.Now().Before(latest) {
				r.pass(step)
				if hung == nil && r.due() > 0 {
					hung = r.take()
				}
			}
			require.Len(t, r.heard("jeopardy"), 1)
			require.EqualValues(t, 1, r.Stats().Jeopardies)
			if c.hangs {
				second := r.take()
				require.True(t, second.retry, "the other connection may be well")
				r.renewed(second)
				r.answer(hung, resp.CodeError, unanswered) // it comes back at last
			} else {
				if hung == nil {
					hung = r.next(lease)
				}
				hung.at = r.clock.Now()
				r.renewed(hung)
			}
			require.Empty(t, r.heard("lost"))

			// It recovered; the next time it is told again.
			for r.count("jeopardy") == 1 {
				r.answer(r.next(lease), resp.CodeError, unanswered)
			}
			require.Empty(t, r.heard("lost"))
			require.EqualValues(t, 2, r.Stats().Jeopardies)
		})
	}
}

func TestC006_LossIsToldBeforeTheDeadlineEvenIfTheRenewerHangs(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			r := newRig(t)
			s := r.watch("name", lease)
			hung := r.next(lease)
			signal, deadline := SignalAt(s.Deadline(), lease), s.Deadline()
			r.pass(signal.Sub(r.clock.Now()) - 1)
			require.Empty(t, r.heard("lost"), "not before the signal")
			r.pass(bucket + step)
			lost := r.heard("lost")
			require.Len(t, lost, 1)
			require.Equal(t, CauseDeadline, lost[0].cause)
			require.False(t, lost[0].at.Before(signal))
			require.True(t, lost[0].at.Before(deadline), "told at %v, the deadline was %v", lost[0].at, deadline)
			require.Zero(t, r.Stats().Watched)

			// Final: an answer that comes now changes nothing.
			r.answer(hung, resp.CodeRenewed, nil)
			r.pass(2 * lease)
			require.Len(t, r.heard("lost"), 1)
			require.Empty(t, r.heard("renewed"), "nobody is told that a lost hold was renewed")
			require.Equal(t, deadline, s.Deadline())
			require.Zero(t, r.due(), "it is never renewed again")
			require.False(t, r.Forget(s))
			r.Lose(s, CauseForced)
			require.Len(t, r.heard("lost"), 1)
		})
	}
}

// The process stood still, or the machine slept: on a clock that counts it, what is over is over
// before anything is sent.
func TestC015_AfterASuspendLongerThanTheLeaseEverythingIsLostBeforeAnythingIsSent(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.watch(fmt.Sprint("name:", i), 30*time.Second)
	}
	r.clock.Set(start.Add(time.Hour))
	r.wheel.Settle()
	lost := r.heard("lost")
	require.Len(t, lost, 100)
	require.Equal(t, 100, len(slices.CompactFunc(slices.SortedFunc(slices.Values(lost), func(a, b event) int { return len(a.name) - len(b.name) }),
		func(a, b event) bool { return a.name == b.name })), "each once")
	require.Empty(t, r.calls)
	require.Zero(t, r.Stats().Sent)
}

func TestC005_StallShorterThanTheLeaseIsJeopardyAndThenARenewal(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	r.clock.Set(start.Add(2300 * ms))
	r.wheel.Settle()
	require.Len(t, r.heard("jeopardy"), 1)
	c := r.take()
	r.renewed(c)
	require.Empty(t, r.heard("lost"))
	require.Equal(t, TrustUntil(c.at, lease), s.Deadline())
}

func TestNotOursIsLostAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  resp.Code
		err   *resp.ServerError
		cause Cause
	}{
		{"TheServerSaysSo", resp.CodeNotOurs, nil, CauseNotOurs},
		{"AnotherTypeStandsThere", resp.CodeError, wrongType, CauseWrongType},
	} {
		t.Run(c.name, func(t *testing.T) {
			const lease, n = 3 * time.Second, 10
			r := newRig(t)
			for i := range n {
				r.watch(fmt.Sprint("name:", i), lease)
			}
			r.clock.Set(start.Add(lease / 3)) // all at once
			r.wheel.Settle()
			const guilty = "name:4"
			now := r.clock.Now()
			for seen := 0; seen < n; {
				batch := r.take()
				seen += len(batch.batch)
				for i := range batch.batch {
					a := &batch.batch[i]
					a.Code, a.SentAt = resp.CodeRenewed, batch.at
					if a.Key == guilty {
						a.Code, a.Err = c.code, c.err
					}
				}
				r.finish(batch)
			}
			require.Equal(t, []event{{what: "lost", name: guilty, cause: c.cause, at: now}}, r.hear("lost", 1))
			r.hear("renewed", n-1) // C-167: a poison key is its own trouble
			require.EqualValues(t, n-1, r.Stats().Watched)
			for range 3 {
				seen := 0
				for seen < n-1 {
					next := r.next(lease)
					require.NotContains(t, next.keys(), guilty)
					seen += len(next.batch)
					r.renewed(next)
				}
			}
			require.Len(t, r.heard("lost"), 1)
		})
	}
}

// One loss is told after the other. A hold whose turn has not come is known not to be ours: nobody renews it meanwhile.
func TestWhoWaitsToBeToldOfALossIsNotRenewed(t *testing.T) {
	for name, err := range map[string]*resp.ServerError{"NotOurs": nil, "AnotherType": wrongType} {
		t.Run(name, func(t *testing.T) {
			const lease, n = 3 * time.Second, 3
			var again atomic.Int64
			r := newRig(t)
			r.onLost = func() { // while the first loss is told
				r.wheel.Settle()
				again.Add(int64(r.due()))
			}
			for i := range n {
				r.watch(fmt.Sprint("name:", i), lease)
			}
			r.clock.Set(start.Add(lease / 3)) // all at once
			r.wheel.Settle()
			c := r.take()
			require.Len(t, c.batch, n)
			code := resp.CodeNotOurs
			if err != nil {
				code = resp.CodeError
			}
			r.answer(c, code, err)
			r.hear("lost", n)
			require.Zero(t, again.Load())
			require.EqualValues(t, n, r.Stats().Sent)
		})
	}
}

// A release begins while a renewal is on its way: whatever that answers means nothing any more.
func TestC042_AnswerAfterForgetIsIgnored(t *testing.T) {
	for _, code := range []resp.Code{resp.CodeRenewed, resp.CodeNotOurs, resp.CodeError} {
		t.Run(fmt.Sprint("Code", code), func(t *testing.T) {
			const lease = 3 * time.Second
			r := newRig(t)
			s := r.watch("name", lease)
			other := r.watch("other", 10*time.Minute)
			c := r.next(lease)
			deadline := s.Deadline()
			require.True(t, r.Forget(s))
			require.False(t, r.Forget(s), "only one caller ends a watch")
			require.EqualValues(t, 1, r.Stats().Watched)
			var err *resp.ServerError
			if code == resp.CodeError {
				err = wrongType
			}
			r.answer(c, code, err)
			r.pass(2 * lease)
			require.Equal(t, deadline, s.Deadline())
			require.Zero(t, r.due())
			r.renewed(r.next(10 * time.Minute)) // the other one: the sender has finished with the first
			for _, e := range r.heard("") {
				require.Equal(t, "other", e.name, "nobody is told anything of a hold that was released: %v", e)
			}
			require.True(t, r.Forget(other))
		})
	}
}

func TestForgottenWhileQueuedIsNotSent(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	hung := r.occupy()
	a, b := r.watch("a", 4*time.Second), r.watch("b", lease)
	r.pass(4*time.Second/3 + bucket + step) // both wait behind the hung calls
	require.Equal(t, 2, r.due())
	require.True(t, r.Forget(a))
	r.renewed(hung[0])
	c := r.take()
	require.Equal(t, []string{"b"}, c.keys())
	require.Equal(t, attemptLimit(lease), c.limit, "of those that are sent")
	r.renewed(c)
	require.False(t, b.gone())
}

func TestWatchEndsOnceHoweverManyEndIt(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		s := r.watch(fmt.Sprint("name:", i), time.Minute)
		var forgot atomic.Int32
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				if g%2 == 0 {
					if r.Forget(s) {
						forgot.Add(1)
					}
				} else {
					r.Lose(s, CauseForced)
				}
			})
		}
		wg.Wait()
		lost := len(slices.DeleteFunc(r.heard("lost"), func(e event) bool { return e.name != s.name }))
		require.EqualValues(t, 1, int(forgot.Load())+lost)
	}
	require.Zero(t, r.Stats().Watched)
	r.pass(2 * time.Minute)
	require.Zero(t, r.Stats().Sent)
}

func TestFixedLeaseIsNeverRenewedAndEndsAtItsSignal(t *testing.T) {
	const lease = 500 * ms
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Renew = false })
	signal, deadline := SignalAt(s.Deadline(), lease), s.Deadline()
	r.pass(signal.Sub(start) - 1)
	require.Empty(t, r.heard(""))
	r.pass(bucket + step)
	lost := r.heard("lost")
	require.Len(t, lost, 1)
	require.False(t, lost[0].at.Before(signal))
	require.True(t, lost[0].at.Before(deadline))
	require.Empty(t, r.calls)
	require.Empty(t, r.heard("jeopardy"), "nobody expected a renewal")
}

func TestExtendedFixedLeaseLivesOn(t *testing.T) {
	const lease = 500 * ms
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Renew = false })
	r.pass(200 * ms)
	r.Cohorts.Extended(s, r.clock.Now(), 10*time.Second)
	r.pass(9 * time.Second)
	require.Empty(t, r.heard(""))
	r.pass(time.Second)
	require.Len(t, r.heard("lost"), 1)
	require.Empty(t, r.calls)
}

func TestStopRenewingLetsTheHoldRunOutAtItsDeadline(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease)
	r.renewed(r.next(lease))
	s.StopRenewing()
	require.False(t, s.Renewing())
	deadline := s.Deadline()
	r.pass(lease / 2)
	require.Zero(t, r.due())
	r.pass(deadline.Sub(r.clock.Now()))
	lost := r.heard("lost")
	require.Len(t, lost, 1)
	require.False(t, lost[0].at.Before(SignalAt(deadline, lease)))
	require.Zero(t, r.due())
	require.EqualValues(t, 1, r.Stats().Sent)
}

func TestC020_MaxHoldEndsTheRenewals(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	until := start.Add(10 * time.Second)
	s := r.watch("name", lease, func(terms *Terms) { terms.Until = until })
	for r.count("lost") == 0 {
		r.pass(step)
		if r.due() > 0 {
			c := r.take()
			require.True(t, c.at.Before(until), "renewed at %v, MaxHold ended at %v", c.at, until)
			r.renewed(c)
		}
	}
	end := r.heard("lost")[0].at
	require.True(t, end.After(until), "it is kept for all of MaxHold")
	require.True(t, end.Before(until.Add(lease)), "and one lease at most beyond")
	require.GreaterOrEqual(t, len(r.heard("renewed")), 9)
	require.False(t, r.Forget(s))
}

// Other terms have another end: a later one, an earlier one, none.
func TestC020_ChangeMovesTheEndOfMaxHold(t *testing.T) {
	const lease = 3 * time.Second
	for _, c := range []struct{ first, then clock.Instant }{
		{start.Add(5 * time.Second), start.Add(12 * time.Second)},
		{start.Add(12 * time.Second), start.Add(5 * time.Second)},
		{start.Add(5 * time.Second), 0},
	} {
		r := newRig(t)
		s := r.watch("name", lease, func(terms *Terms) { terms.Until = c.first })
		r.renewed(r.next(lease))
		r.Change(s, Terms{Lease: lease, Renew: true, Until: c.then})
		require.Equal(t, c.then, r.Until(s))
		var last clock.Instant
		for r.clock.Now().Before(start.Add(20 * time.Second)) {
			r.pass(step)
			if r.due() > 0 {
				call := r.take()
				last = call.at
				r.renewed(call)
			}
		}
		if c.then == 0 {
			require.Empty(t, r.heard("lost"))
			continue
		}
		require.True(t, last.Before(c.then) && last.Add(lease).After(c.then), "renewed last at %v, until %v", last, c.then)
		require.Len(t, r.heard("lost"), 1)
	}
}

func TestRoundsHoldAllKindsThatAreDueAndAtMostAChunk(t *testing.T) {
	const n = resp.MaxRenewWork + 100
	r := newRig(t)
	hung := r.occupy()
	for i := range n { // they come due together, behind calls that take long
		r.watch(fmt.Sprint("long:", i), 12*time.Second)
	}
	r.clock.Set(r.clock.Now().Add(1200 * ms))
	r.wheel.Settle()
	for i := range 50 {
		r.watch(fmt.Sprint("short:", i), 9*time.Second)
	}
	r.clock.Set(r.clock.Now().Add(3100 * ms))
	r.wheel.Settle()
	require.Equal(t, n+50, r.due())
	r.renewed(hung[0])
	sizes, sent := make(map[time.Duration]int), 0
	for r.due() > 0 {
		c := r.take()
		require.LessOrEqual(t, len(c.batch), resp.MaxRenewWork)
		for _, one := range c.batch {
			lease := time.Duration(one.LeaseMs) * ms
			require.Equal(t, lease == 9*time.Second, one.Key[0] == 's', "%q for %v", one.Key, lease)
			sizes[lease]++
		}
		sent++
		r.renewed(c)
	}
	require.Equal(t, 2, sent)
	require.Equal(t, map[time.Duration]int{12 * time.Second: n, 9 * time.Second: 50}, sizes)
}

func TestCloseWaitsForTheCallsOnTheirWayAndNoOther(t *testing.T) {
	r := newRig(t)
	hung := r.occupy()
	r.watch("due", 3*time.Second)
	r.pass(1200 * ms) // it waits behind the calls
	require.Equal(t, 1, r.due())
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close()
	}()
	for ended := false; !ended; runtime.Gosched() { // Close has begun
		r.Cohorts.mu.Lock()
		ended = r.ended
		r.Cohorts.mu.Unlock()
	}
	select {
	case <-closed:
		require.FailNow(t, "Close did not wait for the call")
	default:
	}
	for _, c := range hung {
		select {
		case <-closed:
			require.FailNow(t, "Close did not wait for all calls")
		default:
		}
		r.answer(c, resp.CodeError, unanswered)
	}
	select {
	case <-closed:
	case c := <-r.calls:
		close(c.done)
		require.FailNow(t, "sent after Close", "%v", c.keys())
	case <-time.After(long):
		require.FailNow(t, "Close does not end")
	}
	r.Close() // once more does no harm
}

// A hold that was not renewed for a while, because nobody wanted that, is in no danger when it is again.
func TestRenewalsThatGoOnPutNobodyInJeopardy(t *testing.T) {
	const lease = 3 * time.Second
	r := newRig(t)
	s := r.watch("name", lease, func(terms *Terms) { terms.Renew = false })
	r.pass(2*lease/3 + 10*step)
	r.Cohorts.Extended(s, r.clock.Now(), lease) // as an owner's second acquire does
	resumed := r.clock.Now()
	r.Change(s, Terms{Lease: lease, Renew: true})
	c := r.next(lease / 3)
	require.Empty(t, r.heard("jeopardy"))
	for range 3 {
		r.renewed(c)
		c = r.next(lease)
	}
	require.Empty(t, r.heard("jeopardy"))
	require.Less(t, c.at.Sub(resumed), 4*lease/3+bucket+4*step)
	for r.clock.Now().Before(c.at.Add(lease/2)) && r.count("jeopardy") == 0 {
		r.pass(step)
	}
	require.NotEmpty(t, r.heard("jeopardy"), "from the last success on it counts as ever")
}
