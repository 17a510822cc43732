package resp

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Asking again under the same owner id, for the same or for another count, gives the whole lease again: to the key, and to
// the mark of a read hold.
func TestAskingAgainGivesTheWholeLeaseAgain(t *testing.T) {
	r := newFamilyRig(t)
	for f := range familyEnd {
		if f.row().renew == nil || f.row().ids { // permits have no lease, or not on their key
			continue
		}
		key := fmt.Sprint("k", f)
		name := nameIn(f, key)
		op, got := r.ask(OpAcquire, f, name)
		require.Equal(t, CodeGranted, got.Code)
		kinds := []OpKind{OpReacquire, OpExtend}
		if f.row().count != nil {
			kinds = append(kinds, OpCount)
		}
		for _, kind := range kinds {
			keys := []string{key}
			if f == FamilyRead {
				keys = append(keys, slot.ReadHold(key, op.Field, 1))
			}
			for _, k := range keys {
				r.do("PEXPIRE", k, "15000")
			}
			_, got = r.ask(kind, f, name, as(op.Field), func(op *Op) { op.Count = 1 })
			require.Contains(t, []Code{CodeGranted, CodeOurs, CodeRenewed}, got.Code)
			for _, k := range keys {
				require.Greater(t, r.number("PTTL", k), int64(20_000), "%s, kind %v of family %v", k, kind, f)
			}
		}
	}
}

// nameIn is what an op of a family is about: of values, one of them behind their group, or their owner.
func nameIn(f Family, text string) string {
	if f.row().values {
		return slot.GroupOf(text, valueA)
	}
	return text
}

// Locks that one command has granted are renewed by one owner id for many of them: each is asked for under its own.
func TestRenewalsOfManyKeysUnderAFewOwnerIDs(t *testing.T) {
	r := newFamilyRig(t)
	for _, f := range []Family{FamilyLock, FamilyRead} {
		var batch []Renewal
		for i, field := range strings.Split("FFFFFFGGGG", "") {
			key := fmt.Sprint("many", f, i)
			_, got := r.ask(OpReacquire, f, key, as(nodeID+":"+field))
			require.Equal(t, CodeGranted, got.Code)
			r.do("PEXPIRE", key, "15000")
			batch = append(batch, Renewal{Key: key, Field: nodeID + ":" + field, Family: f, LeaseMs: 30_000})
		}
		gone, taken := 3, 7
		r.do("DEL", batch[gone].Key)
		r.do("HDEL", batch[taken].Key, batch[taken].Field)
		r.do("HSET", batch[taken].Key, batch[gone].Field, "1")
		r.do("PEXPIRE", batch[taken].Key, "15000")
		r.n.Renew(false, 2*time.Second, batch)
		for i, one := range batch {
			if i == gone || i == taken {
				require.Equal(t, CodeNotOurs, one.Code, "%v %d", f, i)
				require.Less(t, r.number("PTTL", one.Key), int64(15_001), "%v %d", f, i)
				continue
			}
			require.Equal(t, CodeRenewed, one.Code, "%v %d", f, i)
			require.Greater(t, r.number("PTTL", one.Key), int64(20_000), "%v %d", f, i)
		}
	}
}

// Where a read hold's mark has run out, or was deleted, the next renewal makes it anew: Redisson takes a reader without one
// for dead.
func TestARenewalMakesTheMarkOfAReadHoldAgain(t *testing.T) {
	r := newFamilyRig(t)
	op, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	mark := slot.ReadHold("rw", op.Field, 1)
	r.do("DEL", mark)
	batch := []Renewal{{Key: "rw", Field: op.Field, Family: FamilyRead, LeaseMs: 30_000}}
	r.n.Renew(false, 2*time.Second, batch)
	require.Equal(t, CodeRenewed, batch[0].Code)
	require.Equal(t, "1", r.do("GET", mark))
	require.InDelta(t, 30_000, r.number("PTTL", mark), 10_000)
}

// A count is set of what is held. Of what is gone, or another's, it makes nothing and changes nothing.
func TestACountOfALockThatIsGoneMakesNone(t *testing.T) {
	r := newFamilyRig(t)
	for f := range familyEnd {
		if f.row().count == nil {
			continue
		}
		for _, kind := range []OpKind{OpCount, OpLeave} {
			field := nodeID + ":2"
			if f == FamilyWrite {
				field += writeSuffix
			}
			field = nameIn(f, field)
			_, got := r.ask(kind, f, nameIn(f, "k"), as(field), func(op *Op) { op.Count = 2 })
			require.Equal(t, CodeGone, got.Code, "%v", f)
			require.Empty(t, r.s.Keys(t), "%v", f)
			r.do("HSET", "k", others(1), "1")
			r.do("PEXPIRE", "k", "60000")
			_, got = r.ask(kind, f, nameIn(f, "k"), as(field), func(op *Op) { op.Count = 2 })
			require.Equal(t, CodeGone, got.Code, "%v", f)
			require.Equal(t, others(1)+"\n1", r.do("HGETALL", "k"), "%v", f)
			r.do("DEL", "k")
		}
	}
}

// The messages are Redisson's: a "1" of a read-write lock wakes all of its readers, a "0" one who waits. A read hold that
// was not the last tells nobody.
func TestAReleaseTellsWhatItsFamilySays(t *testing.T) {
	r := newFamilyRig(t)
	conn, err := r.s.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	hears := func(channel, message string) {
		t.Helper()
		got, err := conn.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, []any{"message", channel, message}, got)
	}
	for f, want := range map[Family]string{FamilyLock: "0", FamilyFenced: "0", FamilyRead: "0", FamilyWrite: "1"} {
		channel := slot.LockChannel("k")
		if f == FamilyRead || f == FamilyWrite {
			channel = slot.RWChannel("k")
		}
		_, err = conn.Do(t.Context(), "SUBSCRIBE", channel)
		require.NoError(t, err)
		op, got := r.ask(OpAcquire, f, "k")
		require.Equal(t, CodeGranted, got.Code)
		if f == FamilyRead {
			first, _ := r.ask(OpAcquire, f, "k")
			_, got = r.ask(OpRelease, f, "k", as(first.Field))
			require.Equal(t, CodeReleased, got.Code)
			require.Zero(t, got.Value, "another reads on")
		}
		_, got = r.ask(OpRelease, f, "k", as(op.Field))
		require.Equal(t, CodeReleased, got.Code)
		require.Equal(t, int64(1), got.Value, "one heard it: %v", f)
		hears(channel, want)
		_, got = r.ask(OpAcquire, f, "k")
		require.Equal(t, CodeGranted, got.Code)
		_, got = r.ask(OpForce, f, "k", as(channel))
		require.Equal(t, CodeReleased, got.Code)
		hears(channel, want)
		_, err = conn.Do(t.Context(), "UNSUBSCRIBE", channel)
		require.NoError(t, err)
	}
}

// Who takes a read-write lock away takes the note of a writer that waits, too: readers come in at once.
func TestAForceReleaseTakesTheNoteOfAWriterThatWaits(t *testing.T) {
	r := newFamilyRig(t)
	_, got := r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeBusy, got.Code)
	r.do("PEXPIRE", slot.WriterNote("rw"), "60000") // or it would end by itself meanwhile
	_, got = r.ask(OpForce, FamilyRead, "rw", as(slot.RWChannel("rw")))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, "0", r.do("EXISTS", slot.WriterNote("rw")))
	_, got = r.ask(OpAcquire, FamilyRead, "rw")
	require.Equal(t, CodeGranted, got.Code)
}

// A note keeps readers out that would come to others. Where somebody writes none is needed, and when it has written it is
// the readers' turn.
func TestAWriterThatWaitsForAWriterLeavesNoNote(t *testing.T) {
	r := newFamilyRig(t)
	_, got := r.ask(OpAcquire, FamilyWrite, "rw")
	require.Equal(t, CodeGranted, got.Code)
	_, got = r.ask(OpAcquire, FamilyWrite, "rw", waiting)
	require.Equal(t, CodeBusy, got.Code)
	require.Equal(t, []string{"rw"}, r.s.Keys(t))
}

// In the last millisecond of a key PTTL answers 0: somebody has it still, and its time is as good as over.
func TestALockInItsLastMillisecondIsBusy(t *testing.T) {
	const last = `local redis = {call = redis.call, pcall = function(command, ...)
  if command == 'PTTL' then return 0 end
  return redis.pcall(command, ...)
end}
`
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for script, args := range map[string][]string{
		"acquire": {"30000", "e1:2", ahead, "0"}, "acquireone": {"30000", "e1:2", ahead}, "fenced": {"30000", "e1:2", ahead, "0", "1"},
		"read": {"30000", "e1:2", ahead, "0", ""}, "write": {"30000", "e1:2:write", ahead, "0", "0"},
		"fair": {"30000", ahead, "0", "5000", "300000", "PUBLISH", "0", "e1:02", "1"},
	} {
		s.Do(t, "HSET", "k", "x:9", "1")
		if script == "read" || script == "write" {
			s.Do(t, "HSET", "k", "mode", "write")
		}
		s.Do(t, "PEXPIRE", "k", "60000")
		answer := strings.Split(s.Do(t, append([]string{"EVAL", last + ScriptTexts()[script], "1", "k"}, args...)...), "\n")
		want := "0"
		if script == "fenced" {
			want = "-10" // what is more is a token
		}
		if script == "acquireone" {
			require.Equal(t, want, answer[1], "%v", answer)
		} else {
			require.Equal(t, []string{"1", want}, answer[len(answer)-2:], "%s: %v", script, answer)
		}
		require.Equal(t, "0", s.Do(t, "HEXISTS", "k", "e1:2"), script)
		s.Do(t, "DEL", "k")
	}
}

// The server's clock may stand still, or be set back: a token is greater than the last all the same.
func TestATokenRisesThoughTheClockDoesNot(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	for _, swaps := range []string{"0", "1"} { // whether SET knows GET
		for i, micros := range []string{"5", "5", "4", "8", "8"} {
			text := strings.Replace(ScriptTexts()["fenced"], "redis.call('TIME')", "{'1700000000', '"+micros+"'}", 1)
			s.Do(t, "EVAL", text, "1", "f", "30000", fmt.Sprint("e1:", i), ahead, "1", swaps)
			want := []string{"1700000000000005", "1700000000000006", "1700000000000007", "1700000000000008", "1700000000000009"}[i]
			require.Equal(t, want, s.Do(t, "GET", slot.FenceToken("f")))
			s.Do(t, "DEL", "f")
		}
		s.Do(t, "FLUSHALL")
	}
}

// askedAt has one wait for the fair lock q, at a time of the server, and returns since when it stands in the queue; "": nobody knows.
func askedAt(t *testing.T, s *redistest.Server, field, micros string) string {
	t.Helper()
	text := strings.Replace(ScriptTexts()["fair"], "redis.call('TIME')", "{'1700000000', '"+micros+"'}", 1)
	answer := s.Do(t, "EVAL", text, "1", "q", "30000", "1700000099000", "1", "5000", "300000", "PUBLISH", "0", field, "1")
	lines := strings.Split(answer, "\n")
	if len(lines) == 4 {
		return ""
	}
	require.Len(t, lines, 6, answer)
	require.Equal(t, []string{"0", "1"}, lines[1:3])
	require.Equal(t, "-1", lines[4])
	return lines[5]
}

// Each answer to one of ours that waits for a fair lock says since when it stands in the queue: in the order in which they stand
// there, though the server's clock stands still, or is set back, and though Redis evicts it.
func TestWhoWaitsForAFairLockIsToldSinceWhen(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "HSET", "q", "x:9", "1")
	s.Do(t, "PEXPIRE", "q", "60000")
	ask := func(field, micros string) string { return askedAt(t, s, field, micros) }
	fields := []string{"e1:00", "e1:01", "e2:02", "e1:03", "e2:04"}
	for i, micros := range []string{"5", "5", "4", "8", "8"} {
		require.Equal(t, []string{"1700000000000005", "1700000000000006", "1700000000000007", "1700000000000008", "1700000000000009"}[i], ask(fields[i], micros))
	}
	require.Equal(t, "1700000000000006", ask("e1:01", "900000"), "it is the same each time")
	for _, lost := range [][]string{{slot.FairAsked("q")}, {slot.FairAsked("q"), slot.FairHeard("q")}} {
		s.Do(t, append([]string{"DEL"}, lost...)...)
		last := ask("e9:0"+strconv.Itoa(len(lost)), "900000") // who comes before those that stand there have asked again
		fields = append(fields, "e9:0"+strconv.Itoa(len(lost)))
		before := ask(fields[0], "900001")
		for _, f := range fields[1:] {
			since := ask(f, "900002")
			require.Less(t, before, since, "%s, without %v", f, lost)
			before = since
		}
		require.Equal(t, last, before)
	}
	require.Equal(t, strings.Join(fields, "\n"), s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1"))
}

// The same of more waiters than a script goes through: who stands behind those is known again when it comes among them.
func TestOfManyWhoWaitForAFairLockTheFirstThousandAreToldSinceWhen(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "HSET", "q", "x:9", "1")
	s.Do(t, "PEXPIRE", "q", "60000")
	field := func(i int) string { return fmt.Sprintf("e1:0%d", i) }
	before := ""
	for i := range 1100 {
		before = askedAt(t, s, field(i), strconv.Itoa(500_000+i*10))
	}
	for i := range 3 { // the clock was set back
		since := askedAt(t, s, field(1100+i), strconv.Itoa(100_000+i))
		require.Less(t, before, since)
		before = since
	}
	s.Do(t, "DEL", slot.FairAsked("q"))
	newcomer := askedAt(t, s, "e2:01", "600000")
	var all []string
	for i := range 1000 {
		all = append(all, askedAt(t, s, field(i), "2900000"))
	}
	require.Empty(t, askedAt(t, s, field(1000), "2900001"), "nobody knows")
	for i := range 5 {
		s.Do(t, "LREM", slot.FairQueue("q"), "1", field(i))
		s.Do(t, "ZREM", slot.FairTimeouts("q"), field(i))
		s.Do(t, "ZREM", slot.FairHeard("q"), field(i))
		s.Do(t, "ZREM", slot.FairAsked("q"), field(i))
		all = append(all, askedAt(t, s, field(1000+i), "2900002"))
	}
	require.True(t, slices.IsSorted(all))
	require.Len(t, slices.Compact(all), 1005, "no two came at the same time")
	require.Less(t, all[1004], newcomer)
}

// A thousand of Redisson's stand in front: what is kept of ours does not end while they ask.
func TestOursBehindAThousandOfRedissonsKeepTheirOrder(t *testing.T) {
	r := newScriptRig(t)
	_, ahead := notAfters()
	r.do("HSET", "q", "x:9", "1")
	r.do("PEXPIRE", "q", "600000")
	for i := range 1001 {
		java := fmt.Sprintf("java:%d", i+1)
		r.do("RPUSH", slot.FairQueue("q"), java)
		r.do("ZADD", slot.FairTimeouts("q"), strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), java)
	}
	ask := func(field string) any {
		v := r.shortly("fair", "q", "30000", ahead, "1", "5000", "300000", "PUBLISH", "0", field, "1")
		require.Len(t, v, 6)
		return v[5]
	}
	since := ask("e1:01")
	for _, key := range []string{slot.FairHeard("q"), slot.FairAsked("q")} {
		r.do("PEXPIRE", key, "5000") // 55 s later
		require.Equal(t, since, ask("e1:01"))
		require.Greater(t, r.do("PTTL", key), int64(50_000), key)
	}
}

// Redisson's waiter behind one of ours keeps its place for as long as it waits from when it is the head. What ours ask adds
// the same to all, and a grant of ours takes nothing off.
func TestRedissonsWaitersBehindOursKeepTheirTime(t *testing.T) {
	r := newFamilyRig(t)
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	first, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	timeouts, java := slot.FairTimeouts("q"), others(7)
	score := func(field string) int64 {
		till, err := strconv.ParseFloat(r.do("ZSCORE", timeouts, field), 64)
		require.NoError(t, err)
		return int64(till)
	}
	r.do("RPUSH", slot.FairQueue("q"), java)
	r.do("ZADD", timeouts, strconv.FormatInt(score(first.Field)+300_000, 10), java)
	last, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)

	was := score(first.Field)
	for _, field := range []string{first.Field, java, last.Field} { // two seconds pass
		r.do("ZINCRBY", timeouts, "-2000", field)
	}
	r.do("HINCRBY", slot.FairNotes("q"), "base", "-2000")
	for _, op := range []*Op{last, first} {
		_, busy := r.ask(OpReacquire, FamilyFair, "q", as(op.Field), waiting)
		require.Equal(t, CodeBusy, busy.Code)
		require.Equal(t, score(first.Field)+300_000, score(java))
		require.Equal(t, score(java), score(last.Field))
		require.GreaterOrEqual(t, score(first.Field), was, "whoever is alive is waited for")
	}
	before := score(java)
	_, got := r.ask(OpRelease, FamilyFair, "q", as(holder.Field), inherits(Heir{first.Field, 30_000}))
	require.Equal(t, CodePassed, got.Code)
	require.GreaterOrEqual(t, score(java), before)
	require.Less(t, score(java), before+250_000)
	require.Equal(t, score(java), score(last.Field))
}

// One of ours that Redisson took out comes back. What others of ours had lifted since its question, or since an outage was
// noted as its question, those behind it may not have had.
func TestWhoComesBackHasTheOldestTimeOfThoseBehind(t *testing.T) {
	r := newFamilyRig(t)
	r.ask(OpAcquire, FamilyFair, "q")
	back, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	timeouts, notes, java := slot.FairTimeouts("q"), slot.FairNotes("q"), others(7)
	for _, c := range []struct{ lifted, stood, front, oldest int64 }{
		{lifted: 0, stood: -1, front: -3000, oldest: 5000},
		{lifted: 700, stood: -1, front: 4800, oldest: 0},
		{lifted: 0, stood: 0, front: -3000, oldest: -3000},
	} {
		asked := time.Now().UnixMilli()
		at := func(n int64) string { return strconv.FormatInt(asked+n, 10) }
		r.do("DEL", slot.FairQueue("q"), timeouts)
		r.do("RPUSH", slot.FairQueue("q"), java)
		r.do("ZADD", timeouts, at(300_000), java)
		r.do("ZADD", slot.FairHeard("q"), at(0), back.Field)
		r.do("HSET", notes, "base", at(5000+c.lifted), "front", at(c.front), "edge", java, "stood", at(c.stood))
		_, busy := r.ask(OpReacquire, FamilyFair, "q", as(back.Field), waiting)
		require.Equal(t, CodeBusy, busy.Code)
		require.Equal(t, back.Field+"\n"+java, r.do("LRANGE", slot.FairQueue("q"), "0", "-1"))
		require.Equal(t, 300_000-c.oldest, r.number("ZSCORE", timeouts, java)-r.number("ZSCORE", timeouts, back.Field), "%+v", c)
	}
}

// A waiter of Redisson's computes once until when its place is kept, and may wait for longer. As long as it listens it is
// alive: whoever asks keeps its place, and a release tells it, whatever its time. What it still has is left alone.
func TestARedissonWaiterThatListensKeepsItsPlace(t *testing.T) {
	r := newFamilyRig(t)
	holder, java, timeouts := others(9), others(7), slot.FairTimeouts("q")
	r.do("HSET", "q", holder, "1")
	r.do("PEXPIRE", "q", "60000")
	r.do("RPUSH", slot.FairQueue("q"), java)
	conn, err := r.s.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	channel := slot.FairWaiterChannel("q", java)
	_, err = conn.Do(t.Context(), "SUBSCRIBE", channel)
	require.NoError(t, err)
	place := func(from time.Time) string {
		till := strconv.FormatInt(from.UnixMilli(), 10)
		r.do("ZADD", timeouts, till, java)
		return till
	}

	till := place(time.Now().Add(100 * time.Second))
	_, got := r.ask(OpAcquire, FamilyFair, "q")
	require.Equal(t, CodeBusy, got.Code)
	require.Equal(t, till, r.do("ZSCORE", timeouts, java))

	from := time.Now()
	place(from.Add(-time.Second))
	_, got = r.ask(OpAcquire, FamilyFair, "q")
	require.Equal(t, CodeBusy, got.Code)
	require.GreaterOrEqual(t, r.number("ZSCORE", timeouts, java), from.Add(5*time.Second).UnixMilli())

	place(time.Now().Add(-time.Second))
	_, got = r.ask(OpRelease, FamilyFair, "q", as(holder))
	require.Equal(t, CodeReleased, got.Code)
	require.Equal(t, int64(1), got.Value, "it has heard it")
	require.Equal(t, java, r.queueOf("q"))

	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return r.do("PUBSUB", "NUMSUB", channel) == channel+"\n0" }, nodeLong, time.Millisecond)
	place(time.Now().Add(-time.Second))
	_, got = r.ask(OpAcquire, FamilyFair, "q")
	require.Equal(t, CodeGranted, got.Code, "who does not listen any more is taken out")
}

// Whoever waits and who does not ask for different things: they share no command.
func TestATryAndAWaiterOfFairLocksAreTwoCommands(t *testing.T) {
	var ops []*Op
	for i, waits := range []bool{true, true, false, false, true} {
		op := pureOp(OpAcquire, fmt.Sprint("name:", i), 1000)
		op.Family, op.Waits = FamilyFair, waits
		ops = append(ops, op)
	}
	_, keys := cut(t, ops)
	require.Equal(t, [][]string{{"name:0", "name:1"}, {"name:2", "name:3"}, {"name:4"}}, keys)
}

// A server that refuses COPY is not asked for it with each batch: each refusal is a line in its log of them.
func TestCopyIsNotTriedAgainWhereItIsRefused(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "default", "-copy")
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	batch := func(name string) {
		hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
		ops := []*Op{nodeSubmit(t, n, nodeOp(OpAcquire, name, a))}
		<-hold.C()
		for i := range 5 { // they collect behind the first
			ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint(name, i), a)))
		}
		p.ReleaseCommands()
		hold.Remove()
		for _, op := range ops {
			require.Equal(t, CodeGranted, a.await(t, op).Code)
		}
	}
	batch("first")
	require.Contains(t, s.Do(t, "ACL", "LOG"), "copy")
	s.Do(t, "ACL", "LOG", "RESET")
	batch("second")
	require.Empty(t, s.Do(t, "ACL", "LOG"))
}

// A reader whose mark cannot be written is not in the hash, and a fenced lock whose token cannot be is not held: nobody would
// know of them.
func TestWhatIsGrantedByHalvesIsTakenBack(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, ahead := notAfters()
	refused := func(answer string) {
		t.Helper()
		said := answer[strings.LastIndexByte(answer, '\n')+1:] // each version has other words for it
		require.Equal(t, ClassNoPerm, classOfReply(said), answer)
	}
	for _, swaps := range []string{"0", "1"} {
		s.Do(t, "ACL", "SETUSER", "default", "-set")
		refused(scriptRun(t, s, "fenced", "k", "30000", "e1:2", ahead, "0", swaps))
		require.Empty(t, s.Keys(t), "a lock without a token")
		refused(scriptRun(t, s, "read", "k", "30000", "e1:2", ahead, "0", ""))
		require.Empty(t, s.Keys(t), "a reader without a mark")
		s.Do(t, "HSET", "k", "mode", "read", "x:9", "1")
		s.Do(t, "PEXPIRE", "k", "60000")
		refused(scriptRun(t, s, "read", "k", "30000", "e1:2", ahead, "0", ""))
		require.Equal(t, "mode\nread\nx:9\n1", s.Do(t, "HGETALL", "k"), "a reader without a mark, beside another")
		s.Do(t, "DEL", "k")
		s.Do(t, "ACL", "SETUSER", "default", "+set")
	}
}

// Whoever asks of a free lock has its head told, once a second. A hold that has expired in between is given back, and tells the
// head all the same: nobody else has.
func TestAReleaseThatComesTooLateTellsWhoIsNext(t *testing.T) {
	r := newFamilyRig(t)
	told := func() string {
		return regexp.MustCompile(`cmdstat_publish:calls=\d+`).FindString(r.do("INFO", "commandstats"))
	}
	holder, _ := r.ask(OpAcquire, FamilyFair, "q")
	first, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	second, _ := r.ask(OpAcquire, FamilyFair, "q", waiting)
	r.do("DEL", "q") // it has expired
	r.ask(OpReacquire, FamilyFair, "q", as(second.Field), waiting)
	before := told()
	require.NotEmpty(t, before, "the head")
	r.ask(OpReacquire, FamilyFair, "q", as(second.Field), waiting)
	require.Equal(t, before, told(), "once a second")
	r.ask(OpRelease, FamilyFair, "q", as(holder.Field))
	require.NotEqual(t, before, told())
	before = told()
	r.ask(OpRelease, FamilyFair, "q", as(second.Field))
	require.Equal(t, before, told(), "who stood behind the head and leaves changes nothing")
	_, got := r.ask(OpReacquire, FamilyFair, "q", as(first.Field), waiting)
	require.Equal(t, CodeGranted, got.Code)
}

// The server stood still for longer than one of ours may be silent. Nobody is dead for that, however many wait; who has not asked
// since then is.
func TestNobodyOfManyIsDeadBecauseTheServerStoodStill(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "HSET", "q", "x:9", "1")
	s.Do(t, "PEXPIRE", "q", "60000")
	const many = 1500
	field := func(i int) string { return fmt.Sprintf("e1:0%d", i) }
	for i := range many {
		askedAt(t, s, field(i), strconv.Itoa(i))
	}
	stand := func() string { return s.Do(t, "LLEN", slot.FairQueue("q")) }
	for _, at := range []int{7_000_000, 11_000_000} {
		for i := range 100 { // in any order
			askedAt(t, s, field(many-1-i*13), strconv.Itoa(at+i))
			require.Equal(t, strconv.Itoa(many), stand())
		}
	}
	for i := range 20 {
		askedAt(t, s, field(i), strconv.Itoa(12_100_000+i))
	}
	require.Equal(t, strconv.Itoa(100+20), stand(), "those stand who have asked")
}
