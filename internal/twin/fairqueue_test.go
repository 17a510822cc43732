package twin

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fairRig is a fair lock, n, that callers of ours and of Redisson want, in a time of its own.
type fairRig struct {
	*testing.T
	*Server
	now    int64 // ms
	told   []string
	listen map[string]bool
}

func newFairRig(t *testing.T) *fairRig {
	t.Helper()
	r := &fairRig{T: t, Server: New(), now: 1_700_000_000_000, listen: make(map[string]bool)}
	r.Micros = func() int64 { return r.now * 1000 }
	r.Publish = func(channel, _ string) int64 {
		r.told = append(r.told, strings.TrimPrefix(channel, "redisson_lock__channel:{n}:"))
		return 1
	}
	r.Listeners = func(channel string) int64 {
		return flag(r.listen[strings.TrimPrefix(channel, "redisson_lock__channel:{n}:")])
	}
	r.loaded[idFair], r.loaded[idFairRelease] = true, true
	return r
}

// in lets time pass, ms.
func (r *fairRig) in(ms int64) { r.now += ms }

// ask is one of ours: whether it has the lock now.
func (r *fairRig) ask(field string) bool {
	r.Helper()
	v := r.Do([]string{"EVALSHA", scriptShas[idFair], "1", "n", "30000", strconv.FormatInt(r.now+1000, 10), "1", "5000", "300000", "PUBLISH", "0", field, "1"})
	require.Equal(r, Array, v.Kind, "%v", v)
	return v.Array[1].Int == 1
}

// leave gives back, or leaves the queue; heirs may have it next.
func (r *fairRig) leave(field string, heirs ...string) int64 {
	r.Helper()
	args := []string{"EVALSHA", scriptShas[idFairRelease], "1", "n", "PUBLISH", "0", "0", strconv.Itoa(len(heirs)), "5000", "300000", field, "1"}
	for _, h := range heirs {
		args = append(args, "1", h, "30000")
	}
	v := r.Do(args)
	require.Equal(r, Array, v.Kind, "%v", v)
	if len(v.Array) < 4 {
		return 0
	}
	return v.Array[3].Int
}

// java is one of Redisson's that waits so long, by a clock that is ahead of ours.
func (r *fairRig) java(field string, wait, ahead int64) Redisson {
	return Redisson{Name: "n", Field: field, LeaseMs: 30_000, WaitMs: wait, NowMs: r.now + ahead, Publish: "PUBLISH", Request: field + strconv.FormatInt(r.now, 10), LatchMs: 1}
}

// jask is one of Redisson's: whether it has the lock now.
func (r *fairRig) jask(field string, wait int64) bool {
	r.Helper()
	return r.Do(r.java(field, wait, 0).FairLock()).Kind == Nil
}

func (r *fairRig) junlock(field string) { r.Do(r.java(field, 0, 0).FairUnlock()) }

// kept is how long a place is kept, in ms.
func (r *fairRig) kept(field string) int64 {
	for _, m := range r.ZSet("redisson_lock_timeout:{n}") {
		if m.Name == field {
			return int64(m.Score) - r.now
		}
	}
	return -1
}

// stay lets time pass in which those of ours ask, and the holder's lease is renewed.
func (r *fairRig) stay(ms int64, ours ...string) {
	r.Helper()
	for ; ms > 0; ms -= 1000 {
		r.in(min(ms, 1000))
		r.Do([]string{"PEXPIRE", "n", "30000"})
		for _, field := range ours {
			require.False(r, r.ask(field))
		}
	}
}

func TestFairQueueAPlaceOfOursIsWorthNothingAndRedissonsItsWait(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 20_000))
	require.False(t, r.ask("f:03"))
	require.False(t, r.jask("j:0", 300_000))
	require.False(t, r.ask("e:04"))
	check := func(waits ...any) {
		t.Helper()
		base := r.kept(waits[0].(string))
		require.InDelta(t, 5000, base, 500)
		for i := 0; i < len(waits); i += 2 {
			require.InDelta(t, base+int64(waits[i+1].(int)), r.kept(waits[i].(string)), 1, "%v", waits[i])
		}
	}
	check("e:02", 0, "j:7", 20_000, "f:03", 20_000, "j:0", 320_000, "e:04", 320_000)
	r.stay(60_000, "e:02", "f:03", "e:04")
	check("e:02", 0, "j:7", 20_000, "f:03", 20_000, "j:0", 320_000, "e:04", 320_000)

	require.Less(t, r.leave("e:01", "e:02"), int64(-9), "passed on")
	r.in(600)
	require.False(t, r.ask("f:03"))
	require.Equal(t, int64(1), r.leave("e:02"))
	require.Equal(t, []string{"j:7"}, r.told)
	require.True(t, r.jask("j:7", 20_000))
	r.stay(20_000, "f:03", "e:04")
	check("f:03", 0, "j:0", 300_000, "e:04", 300_000)
	r.junlock("j:7")
	require.True(t, r.ask("f:03"))
	require.Equal(t, int64(1), r.leave("f:03"))
	require.True(t, r.jask("j:0", 300_000))
	r.stay(7000, "e:04")
	check("e:04", 0)
	r.junlock("j:0")
	require.True(t, r.ask("e:04"))
	require.Equal(t, int64(0), r.leave("e:04"))
}

// A dead one of ours costs Redisson's waiters nothing but their own sleep.
func TestFairQueueDeadPlacesAreTakenOutWhereverTheyStand(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	for i := range 10 {
		require.False(t, r.ask("e:09"+strconv.Itoa(i)))
	}
	require.False(t, r.jask("j:7", 300_000))
	require.False(t, r.ask("f:099"))
	r.in(8000)
	require.Equal(t, int64(1), r.leave("e:01"))
	require.Equal(t, []string{"j:7"}, r.told)
	require.Equal(t, []string{"j:7"}, r.List("redisson_lock_queue:{n}"))
	require.True(t, r.jask("j:7", 300_000))
}

// Redisson has taken one of ours out whose process stood still: it comes back to its place, and those behind keep theirs.
func TestFairQueueWhoWasTakenOutComesBack(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 20_000))
	require.False(t, r.ask("f:03"))
	r.in(3000)
	r.Do(r.java("j:8", 60_000, 2500).FairLock()) // its clock is ahead
	require.Equal(t, []string{"j:7", "f:03", "j:8"}, r.List("redisson_lock_queue:{n}"))
	r.in(200)
	require.False(t, r.ask("e:02"))
	require.Equal(t, []string{"e:02", "j:7", "f:03", "j:8"}, r.List("redisson_lock_queue:{n}"))
	require.InDelta(t, 5000, r.kept("e:02"), 1)
	require.InDelta(t, 25_000, r.kept("j:7"), 1, "what it takes off is what is there")
	require.InDelta(t, 25_000, r.kept("f:03"), 1)
}

// The same while others asked, which moves b for those behind them only. Who stands between, or comes when they have left,
// has not got it.
func TestFairQueueWhoComesBackDoesNotHaveWhatOthersHadLifted(t *testing.T) {
	begin := func() *fairRig {
		r := newFairRig(t)
		require.True(t, r.ask("e:01"))
		require.False(t, r.ask("e:02"))
		require.False(t, r.jask("j:7", 60_000))
		require.False(t, r.ask("f:03"))
		return r
	}
	end := func(r *fairRig, java string) {
		t.Helper()
		require.False(t, r.ask("g:04"))
		require.Equal(t, []string{"e:02", java, "g:04"}, r.List("redisson_lock_queue:{n}"))
		require.Less(t, r.leave("e:01", "e:02"), int64(-9), "passed on")
		require.Equal(t, int64(1), r.leave("e:02"))
		require.True(t, r.jask(java, 60_000))
		require.GreaterOrEqual(t, r.kept("g:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
	}

	r := begin()
	r.in(3000)
	r.Do(r.java("j:7", 60_000, 2500).FairLock()) // its clock is ahead
	r.in(900)
	require.False(t, r.ask("f:03"))
	require.False(t, r.ask("e:02"))
	require.Equal(t, []string{"e:02", "j:7", "f:03"}, r.List("redisson_lock_queue:{n}"))
	require.Equal(t, int64(-1), r.leave("f:03"))
	end(r, "j:7")

	r = begin()
	r.in(3000)
	r.Do(r.java("j:7", 60_000, 2500).FairLock())
	r.Do(r.java("j:7", 60_000, 0).FairGiveUp())
	r.in(900)
	require.False(t, r.ask("f:03"))
	require.Equal(t, int64(-1), r.leave("f:03"))
	r.Do([]string{"PEXPIRE", "n", "100"})
	require.False(t, r.jask("j:8", 60_000), "it has what is left of the lease")
	require.False(t, r.ask("e:02"))
	end(r, "j:8")

	r = begin()
	r.in(20_000)
	require.False(t, r.jask("j:7", 60_000))
	require.False(t, r.ask("f:03"), "after an outage all of ours are taken to have asked")
	require.Equal(t, []string{"j:7", "f:03"}, r.List("redisson_lock_queue:{n}"))
	require.False(t, r.ask("e:02"))
	require.Equal(t, int64(-1), r.leave("f:03"))
	end(r, "j:7")
}

// A thread of Redisson comes again under the name it had: what was known of its last place is not known of this one.
func TestFairQueueAThreadThatComesAgainIsAnotherPlace(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 20_000))
	require.Equal(t, int64(-1), r.leave("e:02"), "what the notes say of j:7 is the time when the lease of 30 s is over")
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:7", 20_000))
	r.junlock("j:7")
	require.True(t, r.ask("e:03"))
	r.Do([]string{"PEXPIRE", "n", "1000"})
	require.False(t, r.jask("j:7", 5_000))
	require.False(t, r.ask("f:04"))
	require.Equal(t, int64(1), r.leave("e:03"))
	require.True(t, r.jask("j:7", 5_000))
	require.GreaterOrEqual(t, r.kept("f:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// Those who come later guess nothing about a front that has been guessed once: the surplus would grow with each of them,
// and a dead one of ours costs Redisson's waiters what is left of it.
func TestFairQueueAFrontIsGuessedOnce(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.jask("j:6", 300_000))
	require.False(t, r.jask("j:7", 60_000))
	require.False(t, r.ask("e:01"))
	guessed := r.kept("e:01")
	for i := range 5 {
		require.False(t, r.jask("j:1"+strconv.Itoa(i), 20_000))
		require.False(t, r.ask("f:02"+strconv.Itoa(i)))
		require.Equal(t, guessed, r.kept("e:01"))
	}
}

// Of those in front of ours some may be older than those behind: what is noted of the last says nothing of the first.
func TestFairQueueWhoStoodInFrontIsOlder(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:6", 60_000))
	r.Do([]string{"PEXPIRE", "n", "1000"})
	require.Equal(t, int64(-1), r.leave("e:02"))
	require.False(t, r.ask("e:03"))
	require.False(t, r.jask("j:7", 20_000))
	r.stay(10_000, "e:03")
	r.Do([]string{"PEXPIRE", "n", "1000"})
	require.Equal(t, int64(-1), r.leave("e:03"))
	r.Do(r.java("j:7", 20_000, 0).FairGiveUp())
	require.False(t, r.jask("j:7", 20_000))
	require.False(t, r.ask("f:04"))
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:6", 60_000))
	r.junlock("j:6")
	require.True(t, r.jask("j:7", 20_000))
	require.GreaterOrEqual(t, r.kept("f:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// Redisson has taken one of ours out, another comes and leaves behind those of Redisson's, and then the first is dead: b is
// what the other asked for, which those in front of it never had.
func TestFairQueueWhoStoodBehindADeadOneIsAsOldAsItsLastQuestion(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 20_000))
	r.in(3000)
	r.Do(r.java("j:7", 20_000, 2500).FairLock()) // its clock is ahead
	require.Equal(t, []string{"j:7"}, r.List("redisson_lock_queue:{n}"))
	require.False(t, r.ask("f:03"))
	r.in(1900)
	require.False(t, r.ask("f:03"))
	r.in(200)
	r.Do([]string{"PEXPIRE", "n", "1000"})
	require.Equal(t, int64(-1), r.leave("f:03"), "with it e:02 is gone, the last of ours")
	require.False(t, r.ask("g:04"))
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:7", 20_000))
	require.GreaterOrEqual(t, r.kept("g:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// The same where one of ours left first, and those of Redisson's came when nobody was there: they have what the lease says.
func TestFairQueueWhoCameBehindNobodyIsNoYoungerThanTheLease(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 20_000))
	require.False(t, r.ask("f:03"))
	r.in(3000)
	r.Do(r.java("j:7", 20_000, 2500).FairLock()) // its clock is ahead
	r.in(1900)
	require.False(t, r.ask("f:03"))
	r.Do(r.java("j:7", 20_000, 0).FairGiveUp())
	require.Equal(t, int64(-1), r.leave("f:03"))
	r.Do([]string{"PEXPIRE", "n", "100"})
	require.False(t, r.jask("j:8", 20_000))
	r.in(99)
	require.False(t, r.ask("g:04"), "e:02 is not dead yet")
	r.in(1)
	require.Equal(t, int64(-1), r.leave("g:04"), "with it e:02 is gone, the last of ours")
	require.False(t, r.ask("g:05"))
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:8", 20_000))
	require.GreaterOrEqual(t, r.kept("g:05"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// afterAnOutage is a queue of two of Redisson's, that stood behind one of ours which Redisson took out in an outage, and
// which is dead now. The last of ours that were alive has left.
func afterAnOutage(t *testing.T) *fairRig {
	t.Helper()
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.jask("j:7", 60_000))
	require.False(t, r.jask("j:8", 60_000))
	require.False(t, r.ask("f:03"))
	r.in(20_000)
	require.False(t, r.jask("j:7", 60_000))
	require.Equal(t, []string{"j:7", "j:8", "f:03"}, r.List("redisson_lock_queue:{n}"))
	for range 4 {
		require.False(t, r.ask("f:03"))
		r.in(1300)
	}
	r.Do([]string{"PEXPIRE", "n", "1000"})
	require.Equal(t, int64(-1), r.leave("f:03"), "with it e:02 is gone, the last of ours")
	require.Equal(t, []string{"j:7", "j:8"}, r.List("redisson_lock_queue:{n}"))
	return r
}

// After an outage all of ours are taken to have asked: for one that Redisson had taken out before that says nothing of
// those that stood behind it.
func TestFairQueueAnOutageIsNobodysQuestion(t *testing.T) {
	r := afterAnOutage(t)
	require.False(t, r.ask("g:04"))
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:7", 60_000))
	r.junlock("j:7")
	require.True(t, r.jask("j:8", 60_000))
	require.GreaterOrEqual(t, r.kept("g:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// The same where it has to be guessed: the last of those that were noted is gone.
func TestFairQueueNobodyIsYoungerForALateDeath(t *testing.T) {
	r := afterAnOutage(t)
	r.Do(r.java("j:8", 60_000, 0).FairGiveUp())
	require.False(t, r.ask("g:04"))
	require.Equal(t, int64(1), r.leave("e:01"))
	require.True(t, r.jask("j:7", 60_000))
	require.GreaterOrEqual(t, r.kept("g:04"), int64(3_300), "it would be taken out by the next script of Redisson's")
}

// The server stands still for longer than places are kept: nobody loses one for that, whoever asks, or gives back, first.
func TestFairQueueAnOutageIsNobodysDeath(t *testing.T) {
	queue := []string{"e:02", "j:7", "e:03", "f:04", "g:05"}
	ask := func(t *testing.T) *fairRig {
		t.Helper()
		r := newFairRig(t)
		require.True(t, r.ask("e:01"))
		require.False(t, r.ask("e:02"))
		require.False(t, r.jask("j:7", 300_000))
		for _, f := range queue[2:] {
			require.False(t, r.ask(f))
		}
		return r
	}
	for _, first := range []string{"e:02", "f:04", "g:05"} {
		r := ask(t)
		r.in(7000)
		require.False(t, r.ask(first))
		require.Equal(t, queue, r.List("redisson_lock_queue:{n}"))
		r.in(6000)
		require.False(t, r.ask(first), "but who asks as seldom keeps nobody")
		require.NotContains(t, r.List("redisson_lock_queue:{n}"), "e:03")
	}
	r := ask(t)
	r.in(7000)
	require.Equal(t, int64(-12), r.leave("e:01", "e:02"))
	require.Equal(t, queue[1:], r.List("redisson_lock_queue:{n}"))
}

// A waiter of Redisson that listens, and whose time is over, is told of a release of ours like any other.
func TestFairQueueWhoListensIsToldWhateverItsTime(t *testing.T) {
	for _, listens := range []bool{true, false} {
		r := newFairRig(t)
		require.True(t, r.ask("e:01"))
		require.False(t, r.jask("j:7", 1_000))
		r.listen["j:7"] = listens
		r.stay(42_000)
		require.Equal(t, listens, r.leave("e:01") == 1)
		require.Equal(t, listens, r.jask("j:7", 1_000) && len(r.told) == 1)
	}
}

// A waiter of Redisson that listens keeps its place as long as one of ours asks; one that does not listen has Redisson's time.
func TestFairQueueRedissonsWaiterThatListensIsAlive(t *testing.T) {
	for _, listens := range []bool{true, false} {
		r := newFairRig(t)
		require.True(t, r.ask("e:01"))
		require.False(t, r.jask("j:7", 1_000))
		require.False(t, r.ask("e:02"))
		r.listen["j:7"] = listens
		r.stay(40_000, "e:02")
		require.Equal(t, listens, r.kept("j:7") > 0)
	}
}

// A free lock whose head sleeps is told to it, but not with every question.
func TestFairQueueTheHeadOfAFreeLockIsToldOnceASecond(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.jask("j:7", 300_000))
	require.False(t, r.ask("e:02"))
	r.Do([]string{"DEL", "n"})
	for range 4 {
		r.in(400)
		require.False(t, r.ask("e:02"))
	}
	require.Equal(t, []string{"j:7", "j:7"}, r.told)
}

// Whose turn comes because the one before it is dead is told, however short ago it was told of another turn.
func TestFairQueueWhoComesToTheHeadOfAFreeLockIsTold(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.jask("j:7", 300_000))
	require.False(t, r.ask("e:02"))
	r.in(4500)
	r.Do([]string{"DEL", "n"})
	require.False(t, r.ask("f:03"))
	require.Equal(t, []string{"j:7"}, r.told)
	require.Equal(t, int64(-1), r.leave("f:03"))
	require.True(t, r.jask("j:7", 300_000))
	r.junlock("j:7")
	require.False(t, r.jask("j:7", 300_000))
	r.in(600)
	r.told = nil
	require.False(t, r.ask("f:04"))
	require.Equal(t, []string{"j:7", "f:04"}, r.List("redisson_lock_queue:{n}"))
	require.Equal(t, []string{"j:7"}, r.told)
}

// Nobody of Redisson's has been seen: nothing is left of a queue, and whatever is has an end.
func TestFairQueueLeavesNothingBehind(t *testing.T) {
	r := newFairRig(t)
	require.True(t, r.ask("e:01"))
	require.False(t, r.ask("e:02"))
	require.False(t, r.ask("f:03"))
	for _, e := range r.Keys() {
		if strings.HasPrefix(e.Key, "{n}:") {
			require.InDelta(t, 60_000, e.TTL, 1, e.Key)
		}
	}
	require.Equal(t, int64(-1), r.leave("f:03"))
	require.Less(t, r.leave("e:01", "e:02"), int64(-9))
	require.Equal(t, int64(0), r.leave("e:02"))
	require.Empty(t, r.Keys())
}
