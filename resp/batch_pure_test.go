package resp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// bareWire is a connection of which only the builder of commands is used.
func bareWire(caps capabilities) *wire {
	return &wire{client: mock.NewDedicatedClient(nil), caps: caps}
}

// heirSink is the sink of a release that may pass its lock on, of a reader who is let in, of some who want permits, or who
// wait for a latch.
type heirSink struct {
	heirs  []Heir
	inside string
	wanted []int32
	known  int64
}

func (*heirSink) Answered(*Op, *Result) {}
func (s *heirSink) Heirs() []Heir       { return s.heirs }
func (s *heirSink) Inside() string      { return s.inside }
func (s *heirSink) Wanted() []int32     { return s.wanted }
func (s *heirSink) Known() int64        { return s.known }

// loweringSink is the sink of an op that lowers a key's expiry.
type loweringSink struct {
	heirSink
	until clock.Instant
}

func (s *loweringSink) Keep(now clock.Instant) time.Duration { return s.until.Sub(now) }

// builtOf is what a command is to the client.
func builtOf(c *command, e *envelope) rueidis.Completed {
	var o outbox
	o.begin(e.wire)
	c.build(e, &o)
	return o.built[0]
}

// argued are the KEYS and ARGV with which ops of one command leave, each as one word.
func argued(t *testing.T, e envelope, ops ...*Op) (keys int, args string) {
	t.Helper()
	for i, op := range ops {
		op.Key = string(rune('a' + i))
	}
	c := &command{script: scriptOf(ops[0].Kind, ops[0].Family), ops: ops}
	built := builtOf(c, &e)
	words := slices.Clone(built.Commands())
	require.Equal(t, []string{"EVALSHA", c.script.sha}, words[:2])
	_, err := fmt.Sscan(words[2], &keys)
	require.NoError(t, err)
	for i, word := range words {
		if word == "" {
			words[i] = "''"
		}
	}
	return keys, strings.Join(words[3:], " ")
}

// Locks that one command has granted have one owner id: where that makes fewer arguments it is said once for all of
// them.
func TestTheFieldOfManyRenewalsInARowIsSentOnce(t *testing.T) {
	for fields, want := range map[string]string{
		"F":      "a 30000 1 0 F",
		"FF":     "a b 30000 1 0 F F",
		"FFF":    "a b c 30000 1 0 F 3",
		"FGFF":   "a b c d 30000 1 0 F G F F",
		"FFFG":   "a b c d 30000 1 0 F F F G",
		"FFFFG":  "a b c d e 30000 1 0 F 4 G 1",
		"FGGGGF": "a b c d e f 30000 1 0 F G G G G F",
	} {
		var part []Renewal
		for i, field := range fields {
			part = append(part, Renewal{Key: string(rune('a' + i)), Field: string(field), Family: FamilyLock, LeaseMs: 30000})
		}
		for _, cluster := range []bool{false, true} {
			built := renewCommand(bareWire(capabilities{Greater: true}), cluster, part)
			words := slices.Clone(built.Commands())
			if cluster && len(part) > 1 {
				keys := strings.Join(strings.Split(want, " ")[:len(part)], " ")
				rest := strings.TrimPrefix(want, keys+" 30000 1 0 ")
				require.Equal(t, fmt.Sprintf("0 30000 1 %d %s %s", len(part), keys, rest), strings.Join(words[2:], " "), fields)
				continue
			}
			require.Equal(t, fmt.Sprintf("%d %s", len(part), want), strings.Join(words[2:], " "), fields)
		}
	}
}

// What every script is given, as its header asks for it.
func TestEveryScriptIsGivenWhatItsHeaderAsksFor(t *testing.T) {
	op := func(kind OpKind, f Family, changes ...func(*Op)) *Op {
		o := &Op{Kind: kind, Family: f, LeaseMs: 30000, Field: "F", Count: 21, Sink: &heirSink{inside: "mine", wanted: []int32{2, 1, 5}, known: 9007199254740991}}
		for _, change := range changes {
			change(o)
		}
		return o
	}
	waits := func(o *Op) { o.Waits = true }
	asking := func(o *Op) { o.asking = true }
	inside := func(o *Op) { o.Inside = true }
	left := func(o *Op) { o.Left = true }
	other := func(o *Op) { o.Field = "G" }
	nobody := func(o *Op) { o.Sink = nil }
	lowers := func(o *Op) { o.Sink = &loweringSink{until: clock.Instant(30 * time.Second)} }
	heirs := func(all ...Heir) func(*Op) { return func(o *Op) { o.Sink = &heirSink{heirs: all} } }
	for name, c := range map[string]struct {
		ops           []*Op
		want, cluster string
	}{
		"acquire":            {[]*Op{op(OpAcquire, FamilyLock)}, "a 30000 F 77 0", ""},
		"acquire some":       {[]*Op{op(OpAcquire, FamilyLock), op(OpAcquire, FamilyLock)}, "a b 30000 F 77 1", "30000 F 77 1 a b"},
		"spin":               {[]*Op{op(OpAcquire, FamilySpin), op(OpAcquire, FamilySpin)}, "a b 30000 F 77 1", "30000 F 77 1 a b"},
		"fenced":             {[]*Op{op(OpAcquire, FamilyFenced), op(OpAcquire, FamilyFenced)}, "a b 30000 F 77 1 1", "30000 F 77 0 1 a b"},
		"fenced again":       {[]*Op{op(OpReacquire, FamilyFenced)}, "a 30000 F 77 0 1", ""},
		"read":               {[]*Op{op(OpAcquire, FamilyRead), op(OpAcquire, FamilyRead)}, "a b 30000 F 77 1 ''", "30000 F 77 0 '' a b"},
		"read inside":        {[]*Op{op(OpAcquire, FamilyRead, inside)}, "a 30000 F 77 0 mine", ""},
		"read again":         {[]*Op{op(OpReacquire, FamilyRead)}, "a 30000 F 77 0 ''", ""},
		"write":              {[]*Op{op(OpAcquire, FamilyWrite)}, "a 30000 F 77 0 0", ""},
		"write, waits":       {[]*Op{op(OpAcquire, FamilyWrite, waits)}, "a 30000 F 77 0 2500", ""},
		"write on its way":   {[]*Op{op(OpAcquire, FamilyWrite, waits, asking)}, "a 30000 F 77 0 0", ""},
		"write again":        {[]*Op{op(OpReacquire, FamilyWrite, waits)}, "a 30000 F 77 0 2500", ""},
		"fair":               {[]*Op{op(OpAcquire, FamilyFair, waits)}, "a 30000 77 1 5000 300000 SPUBLISH 0 F 1", ""},
		"fair, does not":     {[]*Op{op(OpReacquire, FamilyFair)}, "a 30000 77 0 5000 300000 SPUBLISH 0 F 1", ""},
		"fair, some":         {[]*Op{op(OpReacquire, FamilyFair), op(OpReacquire, FamilyFair), op(OpReacquire, FamilyFair, other)}, "a b c 30000 77 0 5000 300000 SPUBLISH 0 F 2 G 1", "30000 77 0 5000 300000 SPUBLISH 3 a b c F 2 G 1"},
		"again":              {[]*Op{op(OpReacquire, FamilyLock)}, "a 30000 F 77 21 0", ""},
		"count":              {[]*Op{op(OpCount, FamilyFenced)}, "a 30000 F 77 21 1", ""},
		"count of a writer":  {[]*Op{op(OpCount, FamilyWrite)}, "a 30000 F 77 21 1", ""},
		"count, fair":        {[]*Op{op(OpCount, FamilyFair)}, "a 30000 F 77 21 1", ""},
		"leave":              {[]*Op{op(OpLeave, FamilyLock)}, "a 30000 F 77 21 2", ""},
		"leave, later":       {[]*Op{op(OpLeave, FamilyLock, lowers)}, "a 20000 F 77 21 2", ""},
		"release":            {[]*Op{op(OpRelease, FamilyLock), op(OpRelease, FamilyLock, other)}, "a b SPUBLISH 0 0 '' F 1 G 1", "SPUBLISH 0 2 '' a b F 1 G 1"},
		"release, left":      {[]*Op{op(OpRelease, FamilyLock, left)}, "a SPUBLISH 00 0 '' F 1", ""},
		"release of spin":    {[]*Op{op(OpRelease, FamilySpin)}, "a '' 0 0 '' F 1", ""},
		"release of write":   {[]*Op{op(OpRelease, FamilyWrite)}, "a SPUBLISH 1 0 F 1", ""},
		"write, left":        {[]*Op{op(OpRelease, FamilyWrite, left)}, "a SPUBLISH 01 0 F 1", ""},
		"release of fair":    {[]*Op{op(OpRelease, FamilyFair, nobody)}, "a SPUBLISH 0 0 0 5000 300000 F 1", ""},
		"passed on":          {[]*Op{op(OpRelease, FamilyFair), op(OpRelease, FamilyFair, heirs(Heir{"X", 5000}, Heir{"Y", 6000}))}, "a b SPUBLISH 0 0 2 5000 300000 F 2 2 X 5000 2 Y 6000", "SPUBLISH 0 2 2 5000 300000 a b F 2 2 X 5000 2 Y 6000"},
		"extend":             {[]*Op{op(OpExtend, FamilyLock)}, "a 30000 1 0 F", ""},
		"force":              {[]*Op{op(OpForce, FamilyLock)}, "a SPUBLISH 0 F '' 77", ""},
		"force, spin":        {[]*Op{op(OpForce, FamilySpin)}, "a '' 0 F '' 77", ""},
		"force read":         {[]*Op{op(OpForce, FamilyRead)}, "a SPUBLISH 0 F read 77", ""},
		"force write":        {[]*Op{op(OpForce, FamilyWrite)}, "a SPUBLISH 1 F write 77", ""},
		"force fair":         {[]*Op{op(OpForce, FamilyFair)}, "a SPUBLISH 0 F fair 77", ""},
		"inspect":            {[]*Op{op(OpInspect, FamilyLock)}, "a", ""},
		"queue":              {[]*Op{op(OpQueue, FamilyFair)}, "a", ""},
		"take":               {[]*Op{op(OpReacquire, FamilySemaphore)}, "a 30000 F 77 0 2 1 5", ""},
		"give":               {[]*Op{op(OpRelease, FamilySemaphore), op(OpRelease, FamilySemaphore, other)}, "a b SPUBLISH 0 0 F 1 G 1", "SPUBLISH 0 2 a b F 1 G 1"},
		"call":               {[]*Op{op(OpCall, FamilySemaphore)}, "a SPUBLISH F 21 30000 77 0", ""},
		"look":               {[]*Op{op(OpReacquire, FamilyLatch)}, "a 30000 F 77 0 9007199254740991", ""},
		"count down":         {[]*Op{op(OpRelease, FamilyLatch), op(OpRelease, FamilyLatch, other)}, "a b SPUBLISH 0 0 F 1 G 1", "SPUBLISH tagged 2 a b F 1 G 1"},
		"meet":               {[]*Op{op(OpReacquire, FamilyBarrier)}, "a 30000 F 77 0 SPUBLISH", ""},
		"leave a barrier":    {[]*Op{op(OpRelease, FamilyBarrier), op(OpRelease, FamilyBarrier, other)}, "a b SPUBLISH 0 0 F 1 G 1", "SPUBLISH 0 2 a b F 1 G 1"},
		"call of a latch":    {[]*Op{op(OpCall, FamilyLatch)}, "a SPUBLISH F 21 30000 77 0", "a SPUBLISH F 21 30000 77 tagged"},
		"permits":            {[]*Op{op(OpReacquire, FamilyPermits)}, "a 30000 F 77 0 SPUBLISH", ""},
		"permits given back": {[]*Op{op(OpRelease, FamilyPermits), op(OpRelease, FamilyPermits, other)}, "a b SPUBLISH 0 0 F 1 G 1", "SPUBLISH 0 2 a b F 1 G 1"},
		"permits extended":   {[]*Op{op(OpExtend, FamilyPermits)}, "{a}:timeout 30000 1 0 F", ""},
		"permits listed":     {[]*Op{op(OpQueue, FamilyPermits)}, "{a}:timeout", ""},
		"acquire for writes": {[]*Op{op(OpAcquire, FamilyWrite), op(OpAcquire, FamilyWrite)}, "a b 30000 F 77 1 0", "30000 F 77 0 0 a b"},
	} {
		e := envelope{wire: bareWire(capabilities{Copy: true, Greater: true}), publish: "SPUBLISH", notAfter: 77, now: clock.Instant(10 * time.Second)}
		keys, args := argued(t, e, c.ops...)
		require.Equal(t, c.want, args, name)
		require.Equal(t, len(c.ops), keys, name)
		e.cluster = true
		keys, args = argued(t, e, c.ops...)
		if c.cluster == "" {
			require.Equal(t, c.want, args, "one key alone is declared: %s", name)
			require.Equal(t, 1, keys, name)
			continue
		}
		require.Equal(t, c.cluster, args, name)
		require.Equal(t, map[bool]int{true: 1}[strings.HasPrefix(c.cluster, "a ")], keys, name)
	}
	old := envelope{wire: bareWire(capabilities{}), publish: "PUBLISH", notAfter: 77}
	_, args := argued(t, old, op(OpExtend, FamilyLock))
	require.Equal(t, "a 30000 0 0 F", args, "no PEXPIRE GT")
	_, args = argued(t, old, op(OpAcquire, FamilyFenced), op(OpAcquire, FamilyFenced))
	require.Equal(t, "a b 30000 F 77 0 0", args, "no COPY, and no SET GET")
	refused := envelope{wire: bareWire(capabilities{Copy: true}), cluster: true, notAfter: 77}
	refused.wire.noCopy.Store(true)
	_, args = argued(t, refused, op(OpAcquire, FamilyLock), op(OpAcquire, FamilyLock))
	require.Equal(t, "30000 F 77 0 a b", args, "the ACL refuses it")
}

func TestBatchIsCutWhereOpsDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		kind   OpKind
		change func(*Op)
		cuts   bool
	}{
		"a lease":             {OpAcquire, func(o *Op) { o.LeaseMs++ }, true},
		"who waits":           {OpAcquire, func(o *Op) { o.Waits = true }, true},
		"a family":            {OpAcquire, func(o *Op) { o.Family = FamilySpin }, true},
		"alone":               {OpAcquire, func(o *Op) { o.alone = true }, true},
		"inside":              {OpAcquire, func(o *Op) { o.Inside = true }, true},
		"nothing":             {OpAcquire, func(*Op) {}, false},
		"left to others":      {OpRelease, func(o *Op) { o.Left = true }, true},
		"a release's lease":   {OpRelease, func(o *Op) { o.LeaseMs++ }, false},
		"a release's waiting": {OpRelease, func(o *Op) { o.Waits = true }, false},
	} {
		for first := range 2 {
			ops := []*Op{pureOp(c.kind, "a", 1000), pureOp(c.kind, "b", 1000)}
			c.change(ops[first])
			_, keys := cut(t, ops)
			require.Equal(t, c.cuts, len(keys) == 2, "%s, first %d", name, first)
		}
	}
	fair := []*Op{pureOp(OpReacquire, "a", 1000), pureOp(OpReacquire, "b", 1000)}
	fair[0].Family, fair[1].Family = FamilyFair, FamilyFair
	_, keys := cut(t, fair)
	require.Len(t, keys, 1, "there may be thousands of them")

	n := &Node{}
	n.declares.Store(true)
	ops := []*Op{pureOp(OpRelease, "a", 1000), pureOp(OpRelease, "b", 1000)}
	require.Len(t, appendCommands(nil, ops, make([]Result, 2), n), 2, "the server wants every key declared")
}

func TestKeysLookOnAtTheEndOfTheTable(t *testing.T) {
	var set keySet
	end := uint64(len(set.slots) - 1)
	a, b := &Op{Key: "a", Hash: end}, &Op{Key: "b", Hash: end}
	require.True(t, set.add(a))
	require.True(t, set.add(b))
	require.Same(t, a, set.slots[end])
	require.Same(t, b, set.slots[0])
}

func TestWaitersOfOneReleaseAreKnownByTheirNumbers(t *testing.T) {
	op := &Op{Sink: &heirSink{heirs: []Heir{{FairField("e", 5), 1}, {FairField("e", 70), 1}}}}
	require.True(t, op.bequeaths(5))
	require.True(t, op.bequeaths(70))
	require.False(t, op.bequeaths(7))
	require.False(t, (&Op{}).bequeaths(5))
}

func TestReleaseIsPassedOnToItsOwnWaiterOnly(t *testing.T) {
	read := func(text string) (*wire, []Result) {
		w, c := &wire{}, asking(OpRelease, FamilyFair, 2)
		c.ops[0].Sink = &heirSink{heirs: []Heir{{FairField("e", -1), 1}, {FairField("e", 0), 1}, {FairField("e", 5), 1}}}
		require.Equal(t, settled, c.readReply(w, replyOf(t, text), 1, 2))
		return w, c.results
	}
	for text, number := range map[string]int64{"*4 :1 :2 :1 :-15": 5, "*4 :1 :2 :1 :-10": 0} {
		w, results := read(text)
		require.False(t, w.malformed.Load(), text)
		require.Equal(t, [2]any{CodePassed, number}, [2]any{results[0].Code, results[0].Value}, text)
		require.Equal(t, CodeReleased, results[1].Code)
	}
	for _, text := range []string{"*4 :1 :2 :2 :-15", "*4 :1 :2 :1 :-9"} {
		w, _ := read(text)
		require.True(t, w.malformed.Load(), "nobody of this key's has that number: %s", text)
	}
}

// Behind a busy key of a fair lock follows since when who asked stands in its queue.
func TestSinceWhenOneStandsInTheQueueIsRead(t *testing.T) {
	read := func(kind OpKind, family Family, text string) (*wire, []Result) {
		w, c := &wire{}, asking(kind, family, 3)
		require.Equal(t, settled, c.readReply(w, replyOf(t, text), 1, 2))
		return w, c.results
	}
	w, r := read(OpAcquire, FamilyFair, "*10 :1 :1 :1 :7 :-1 :1700000000000005 :3 :8 :-3 :1700000000000006")
	require.False(t, w.malformed.Load())
	require.Equal(t, []Code{CodeBusy, CodeGranted, CodeBusy}, []Code{r[0].Code, r[1].Code, r[2].Code})
	require.Equal(t, []int64{7, 0, 8}, []int64{r[0].Value, r[1].Value, r[2].Value})
	require.Equal(t, []int64{1_700_000_000_000_005, 0, 1_700_000_000_000_006}, []int64{r[0].Since, r[1].Since, r[2].Since})
	w, r = read(OpAcquire, FamilyFair, "*8 :1 :1 :1 :7 :-1 :5 :3 :8")
	require.False(t, w.malformed.Load(), "of one it may not be known")
	require.Equal(t, []int64{5, 0, 0}, []int64{r[0].Since, r[1].Since, r[2].Since})
	for _, text := range []string{
		"*6 :1 :2 :-1 :5 :1 :7",        // of a key that was not named
		"*8 :1 :1 :1 :7 :3 :7 :-1 :5",  // of another than the one before
		"*8 :1 :2 :1 :7 :-1 :5 :-1 :6", // twice
		"*6 :1 :2 :1 :7 :-1 :0",        // no time
		"*6 :1 :2 :1 :7 :-1 -NOPERM",   // none at all
		"*6 :1 :2 :1 :-3 :-1 :5",       // of another kind
		"*6 :1 :2 :1 -NOPERM :-1 :5",   // of what was refused
		"*6 :1 :2 :1 :7 :-9223372036854775808 :5",
	} {
		w, _ := read(OpAcquire, FamilyFair, text)
		require.True(t, w.malformed.Load(), text)
	}
	for _, c := range []struct {
		kind   OpKind
		family Family
	}{{OpAcquire, FamilyLock}, {OpAcquire, FamilyWrite}, {OpAcquire, FamilyFenced}, {OpRelease, FamilyFair}} {
		w, _ := read(c.kind, c.family, "*6 :1 :2 :1 :7 :-1 :5")
		require.True(t, w.malformed.Load(), "nobody stands in a queue there: %v", c)
	}
}

func TestUndeclaredKeysAreSuspectedOfWhatNobodyKnows(t *testing.T) {
	c := asking(OpAcquire, FamilyLock, 3)
	c.results[0].Err = &ServerError{Class: ClassOther}
	c.results[2].Err = &ServerError{Class: ClassOOM}
	c.noteUndeclared()
	require.Equal(t, []bool{true, false, false}, []bool{c.ops[0].among, c.ops[1].among, c.ops[2].among})
	one := asking(OpAcquire, FamilyLock, 1)
	one.results[0].Err = &ServerError{Class: ClassOther}
	one.noteUndeclared()
	require.False(t, one.ops[0].among, "its key was declared")
}

func TestRefusedCommandIsRepairedOrSplitFirst(t *testing.T) {
	for name, c := range map[string]struct {
		class   Class
		keys    int
		reloads int
		want    outcome
	}{
		"no script":         {ClassNoScript, 2, maxReloads - 1, noScript},
		"none for good":     {ClassNoScript, 2, maxReloads, settled},
		"one key's fault":   {ClassNoPerm, 2, 0, split},
		"its own":           {ClassNoPerm, 1, 0, settled},
		"nobody's":          {ClassOOM, 2, 0, settled},
		"nobody's, reloads": {ClassOOM, 2, maxReloads, settled},
	} {
		w, cmd := &wire{}, asking(OpAcquire, FamilyLock, c.keys)
		cmd.reloads = c.reloads
		cmd.results[0] = Result{Code: CodeGranted, Value: 7}
		err := &ServerError{Class: c.class}
		require.Equal(t, c.want, cmd.fail(w, err), name)
		require.False(t, w.malformed.Load(), name)
		if c.want == settled {
			require.Equal(t, Result{Err: err}, cmd.results[0], name)
		}
	}
	for class := ClassNone; class <= ClassOther; class++ {
		one := class == ClassNoPerm || class == ClassCrossSlot || class == ClassMoved || class == ClassAsk || class == ClassTryAgain || class == ClassWrongType
		require.Equal(t, one, class.perKey(), class)
	}
}

// Answers of one key, as scripts word them.
func TestEveryAnswerOfAScriptHasItsCode(t *testing.T) {
	longest := fmt.Sprint(longestMs)
	for _, c := range []struct {
		kind   OpKind
		family Family
		text   string
		code   Code
		value  int64
	}{
		{OpForce, FamilyLock, "*2 :1 :0", CodeNone, 0},
		{OpForce, FamilyLock, "*2 :1 :1", CodeReleased, 0},
		{OpForce, FamilyLock, "*2 :1 :-3", CodeWrongKind, 0},
		{OpReacquire, FamilyLock, "*3 :1 :1 :5", CodeGranted, 5},
		{OpReacquire, FamilyLock, "*3 :1 :2 :0", CodeOurs, 0},
		{OpCount, FamilyLock, "*3 :1 :2 :0", CodeOurs, 0},
		{OpLeave, FamilyLock, "*3 :1 :-1 :0", CodeGone, 0},
		{OpReacquire, FamilyLock, "*3 :1 :0 :-1", CodeBusy, -1},
		{OpReacquire, FamilyLock, "*3 :1 :0 :-2", CodeBusy, -2},
		{OpReacquire, FamilyLock, "*3 :1 :-3 :0", CodeWrongKind, 0},
		{OpAcquire, FamilyLock, "*4 :1 :0 :1 :-2", CodeBusy, -2},
		{OpAcquire, FamilyLock, "*4 :1 :0 :1 :0", CodeBusy, 0},
		{OpAcquire, FamilyLock, "*4 :1 :0 :1 :-3", CodeWrongKind, 0},
		{OpReacquire, FamilyWrite, "*2 :1 :1", CodeGranted, 0},
		{OpAcquire, FamilyFenced, "*3 :1 :1 :1", CodeGranted, 1},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :1", CodeGranted, 1},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-3", CodeWrongKind, 0},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-1", CodeBusy, -1},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-10", CodeBusy, 0},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-11", CodeBusy, 1},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 -NOPERM", CodeError, 0},
		{OpReacquire, FamilyFenced, "*3 :1 :1 :9", CodeGranted, 9},
		{OpRelease, FamilyLock, "*2 :1 :1", CodeReleased, 0},
		{OpRelease, FamilyLock, "*4 :1 :1 :1 :1", CodeReleased, 1},
		{OpRelease, FamilyLock, "*4 :1 :1 :1 :-2", CodeReleased, -1},
		{OpExtend, FamilyLock, "*2 :1 :1", CodeRenewed, 0},
		{OpInspect, FamilyLock, "*1 :-1", CodeInspected, -1},
		{OpQueue, FamilyFair, "*1 :5", CodeInspected, 5},
		{OpInspect, FamilyLock, "*1 :" + longest, CodeInspected, longestMs},
		{OpReacquire, FamilySemaphore, "*3 :1 :1 :4", CodeGranted, 4},
		{OpReacquire, FamilySemaphore, "*5 :1 :0 :0 :1 :-1", CodeBusy, -1},
		{OpReacquire, FamilySemaphore, "*5 :1 :0 :0 :1 :-3", CodeWrongKind, 0},
		{OpReacquire, FamilySemaphore, "*5 :1 :0 :0 :1 -OOM", CodeError, 0},
		{OpRelease, FamilySemaphore, "*4 :1 :1 :1 :2", CodeReleased, 2},
		{OpRelease, FamilySemaphore, "*4 :1 :0 :1 :-1", CodeNotOurs, 0},
		{OpCall, FamilySemaphore, "*3 :1 :1 :-7", CodeDone, -7},
		{OpCall, FamilySemaphore, "*3 :1 :0 :0", CodeNone, 0},
		{OpCall, FamilySemaphore, "*3 :1 :-3 :0", CodeWrongKind, 0},
		{OpCall, FamilySemaphore, "-OOM", CodeError, 0},
		{OpReacquire, FamilyLatch, "*3 :1 :0 :7", CodeBusy, 7},
		{OpReacquire, FamilyLatch, "*3 :1 :1 :7", CodeGranted, 7},
		{OpReacquire, FamilyLatch, "*3 :1 :2 :7", CodeOpened, 7},
		{OpReacquire, FamilyLatch, "*3 :1 :3 :7", CodeGone, 7},
		{OpReacquire, FamilyLatch, "*3 :1 :4 :7", CodeDeleted, 7},
		{OpReacquire, FamilyLatch, "*3 :1 :-3 :0", CodeWrongKind, 0},
		{OpReacquire, FamilyLatch, "-OOM", CodeError, 0},
		{OpRelease, FamilyLatch, "*4 :1 :1 :1 :2", CodeReleased, 2},
		{OpRelease, FamilyLatch, "*4 :1 :1 :1 :-2", CodeReleased, -1},
		{OpRelease, FamilyLatch, "*4 :1 :0 :1 :-1", CodeNotOurs, 0},
		{OpCall, FamilyLatch, "*3 :1 :1 :7", CodeDone, 7},
		{OpReacquire, FamilyBarrier, "*4 :1 :0 :7 $0 ", CodeMet, 7},
		{OpReacquire, FamilyBarrier, "*4 :1 :-3 :0 $0 ", CodeWrongKind, 0},
		{OpReacquire, FamilyBarrier, "-OOM", CodeError, 0},
	} {
		w, cmd := &wire{}, asking(c.kind, c.family, 1)
		require.Equal(t, settled, cmd.readReply(w, replyOf(t, c.text), 3, 4), c.text)
		r := cmd.results[0]
		require.Equal(t, [2]any{c.code, c.value}, [2]any{r.Code, r.Value}, "%s of kind %d", c.text, c.kind)
		require.Equal(t, [2]clock.Instant{3, 4}, [2]clock.Instant{r.SentAt, r.ReceivedAt})
		require.Equal(t, c.code == CodeError, r.Err != nil)
		require.False(t, w.malformed.Load(), c.text)
	}
	for _, kind := range []OpKind{OpAcquire, OpReacquire, OpCount, OpLeave, OpForce} {
		require.Equal(t, tooLate, asking(kind, FamilyLock, 1).readReply(&wire{}, replyOf(t, "*1 :5"), 1, 2))
	}
	for _, kind := range []OpKind{OpReacquire, OpCall} {
		require.Equal(t, tooLate, asking(kind, FamilySemaphore, 1).readReply(&wire{}, replyOf(t, "*1 :5"), 1, 2))
		require.Equal(t, tooLate, asking(kind, FamilyLatch, 1).readReply(&wire{}, replyOf(t, "*1 :5"), 1, 2))
	}
	w := &wire{}
	asking(OpRelease, FamilyLock, 1).readReply(w, replyOf(t, "*2 :5000 :1"), 1, clock.Instant(7))
	require.EqualValues(t, 5000*1_000_000-7, w.est.offset.Load(), "the server's clock is learnt when the reply has come")
}

// askingOne is asking with the script for a single key.
func askingOne(kind OpKind) *command {
	cmd := asking(kind, FamilyLock, 1)
	cmd.script = cmd.script.one
	return cmd
}

// The same of the scripts for a single key.
func TestEveryAnswerForASingleKeyHasItsCode(t *testing.T) {
	for _, c := range []struct {
		kind  OpKind
		text  string
		code  Code
		value int64
	}{
		{OpAcquire, ":100000000000", CodeGranted, 0},
		{OpAcquire, ":1800000000000", CodeGranted, 0},
		{OpAcquire, "*2 :1 :0", CodeBusy, 0},
		{OpAcquire, "*2 :1 :5", CodeBusy, 5},
		{OpAcquire, "*2 :1 :-1", CodeBusy, -1},
		{OpAcquire, "*2 :1 :-2", CodeBusy, -2},
		{OpAcquire, "*2 :1 :9223372036854775807", CodeBusy, longestMs},
		{OpAcquire, "*2 :1 :-3", CodeWrongKind, 0},
		{OpAcquire, "*2 :1 -NOPERM", CodeError, 0},
		{OpAcquire, "-NOPERM", CodeError, 0},
		{OpRelease, ":0", CodeReleased, 0},
		{OpRelease, ":7", CodeReleased, 7},
		{OpRelease, ":99999999999", CodeReleased, 99_999_999_999},
		{OpRelease, ":-1", CodeNotOurs, 0},
		{OpRelease, ":-2", CodeReleased, -1},
		{OpRelease, "-WRONGTYPE", CodeError, 0},
	} {
		w, cmd := &wire{}, askingOne(c.kind)
		require.Equal(t, settled, cmd.readReply(w, replyOf(t, c.text), 3, 4), c.text)
		r := cmd.results[0]
		require.Equal(t, c.code, r.Code, "%s: %v", c.text, r.Err)
		require.Equal(t, c.value, r.Value, c.text)
		require.Equal(t, c.code == CodeError, r.Err != nil, c.text)
		require.True(t, r.Definite(), c.text)
		require.Equal(t, [2]clock.Instant{3, 4}, [2]clock.Instant{r.SentAt, r.ReceivedAt}, c.text)
		require.False(t, w.malformed.Load(), c.text)
	}
	// The server's time is in each answer of an acquire, and in none of a release.
	for text, learnt := range map[string]bool{":100000005000": true, "*1 :100000005000": true, "*2 :100000005000 :7": true, "-NOPERM": false} {
		w, cmd := &wire{}, askingOne(OpAcquire)
		cmd.readReply(w, replyOf(t, text), 3, 7)
		require.Equal(t, learnt, w.est.offset.Load() == 100_000_005_000*1_000_000-7, text)
	}
	w, cmd := &wire{}, askingOne(OpRelease)
	cmd.readReply(w, replyOf(t, ":5000"), 3, 7)
	require.Zero(t, w.est.offset.Load())
	w, cmd = &wire{}, askingOne(OpAcquire)
	require.Equal(t, tooLate, cmd.readReply(w, replyOf(t, "*1 :5"), 3, 4))
	require.Equal(t, noScript, cmd.readReply(w, replyOf(t, "-NOSCRIPT"), 3, 4))
	for _, c := range []struct {
		kind  OpKind
		texts string
	}{
		{OpAcquire, ":0|:-1|:1|:99999999999|_|+OK|$2 no|*0|*1 :0|*1 +x|*2 :1 :-4|*2 :1 +x|*2 :1 _|*2 :1 *0|*2 :0 :5|*2 +x :5|*3 :1 :0 :5|*4 :1 :0 :1 :5"},
		{OpRelease, ":100000000000|:-3|:-10|:-18|:-9223372036854775808|_|+OK|$2 no|*0|*1 :1|*2 :1 :1|*4 :1 :0 :1 :-1"},
	} {
		for text := range strings.SplitSeq(c.texts, "|") {
			w, cmd := &wire{}, askingOne(c.kind)
			require.Equal(t, settled, cmd.readReply(w, replyOf(t, text), 3, 4), text)
			require.True(t, w.malformed.Load(), "%s of kind %d", text, c.kind)
			require.Equal(t, CodeError, cmd.results[0].Code, text)
			require.Equal(t, ClassPartly, cmd.results[0].Err.Class, text)
			require.Contains(t, cmd.results[0].Err.Text, cmd.script.name, text)
			require.Zero(t, cmd.results[0].Value, text)
			// Behind it nothing is believed.
			require.Equal(t, settled, cmd.readReply(w, replyOf(t, ":5"), 3, 4))
			require.Equal(t, ClassUnknown, cmd.results[0].Err.Class)
		}
	}
}

// An op that is alone in its command has the script for a single key, if there is one, in a cluster as well.
func TestAnOpThatIsAloneHasTheScriptForASingleKey(t *testing.T) {
	for name, c := range map[string]struct {
		kind   OpKind
		family Family
		script *script
		args   string
	}{
		"lock":              {OpAcquire, FamilyLock, scriptAcquireOne, "key 30000 F 77"},
		"spin":              {OpAcquire, FamilySpin, scriptAcquireOne, "key 30000 F 77"},
		"fenced":            {OpAcquire, FamilyFenced, scriptFenced, ""},
		"read":              {OpAcquire, FamilyRead, scriptRead, ""},
		"fair":              {OpAcquire, FamilyFair, scriptFair, ""},
		"again":             {OpReacquire, FamilyLock, scriptReacquire, ""},
		"release":           {OpRelease, FamilyLock, scriptReleaseOne, "key SPUBLISH redisson_lock__channel:{key} 0 F"},
		"release of spin":   {OpRelease, FamilySpin, scriptReleaseOne, "key   0 F"},
		"release of fenced": {OpRelease, FamilyFenced, scriptReleaseOne, "key SPUBLISH redisson_lock__channel:{key} 0 F"},
		"release of write":  {OpRelease, FamilyWrite, scriptWriteRelease, ""},
	} {
		for _, cluster := range []bool{false, true} {
			op := pureOp(c.kind, "key", 30_000)
			op.Family = c.family
			cmds, _ := cut(t, []*Op{op})
			require.Same(t, c.script, cmds[0].script, name)
			op.Field = "F"
			if c.args == "" {
				continue
			}
			e := envelope{wire: bareWire(capabilities{Copy: true, Greater: true}), cluster: cluster, publish: "SPUBLISH", notAfter: 77}
			built := builtOf(&cmds[0], &e)
			require.Equal(t, []string{"EVALSHA", c.script.sha, "1"}, built.Commands()[:3], name)
			require.Equal(t, c.args, strings.Join(built.Commands()[3:], " "), name)
		}
	}
	two := []*Op{pureOp(OpAcquire, "a", 1000), pureOp(OpAcquire, "b", 1000), pureOp(OpRelease, "c", 0), pureOp(OpRelease, "d", 0)}
	cmds, _ := cut(t, two)
	require.Len(t, cmds, 2)
	require.Same(t, scriptAcquire, cmds[0].script)
	require.Same(t, scriptRelease, cmds[1].script)
	left := pureOp(OpRelease, "{tag}key", 0)
	left.Left, left.Field = true, "F"
	cmds, _ = cut(t, []*Op{left})
	built := builtOf(&cmds[0], &envelope{wire: bareWire(capabilities{}), publish: "PUBLISH"})
	require.Equal(t, "{tag}key PUBLISH redisson_lock__channel:{tag}key 00 F", strings.Join(built.Commands()[3:], " "))
}

func TestAnswersThatNoScriptGivesAreMalformed(t *testing.T) {
	for _, c := range []struct {
		kind   OpKind
		family Family
		text   string
	}{
		{OpForce, FamilyLock, "*3 :1 :0 :0"},
		{OpForce, FamilyLock, "*2 :1 +x"},
		{OpReacquire, FamilyLock, "*3 :1 :0 :-3"},
		{OpReacquire, FamilyLock, "*3 :1 :-1 :0"},
		{OpReacquire, FamilyLock, "*3 :1 +x :0"},
		{OpReacquire, FamilyLock, "*3 :1 :1 +x"},
		{OpCount, FamilyLock, "*3 :1 :1 :0"},
		{OpLeave, FamilyLock, "*3 :1 :0 :5"},
		{OpAcquire, FamilyLock, "*4 :1 :0 :1 :-4"},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :0"},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-9"},
		{OpAcquire, FamilyFenced, "*5 :1 :0 :0 :1 :-2"},
		{OpAcquire, FamilyFenced, "*3 :1 :1 :0"},
		{OpRelease, FamilyLock, "*4 :1 :0 :1 :-3"},
		{OpRelease, FamilyLock, "*4 :1 :1 :1 :0"},
		{OpRelease, FamilyLock, "*4 :1 :1 :1 :-9"},
		{OpExtend, FamilyLock, "*4 :1 :0 :1 :-3"},
		{OpInspect, FamilyLock, "*2 :1 +a"},
		{OpInspect, FamilyLock, "*1 :-3"},
		{OpInspect, FamilyLock, "*3 :1 :0 +lock"},
		{OpRelease, FamilyLock, "*2 :0 :1"},
		{OpAcquire, FamilyLock, "*4 :1 +x :1 :5"},
		{OpAcquire, FamilyFenced, "*5 :1 +x :0 :1 :-1"},
		{OpAcquire, FamilyFenced, "*5 :1 :0 +x :1 :-1"},
		{OpReacquire, FamilySemaphore, "*2 :1 :1"},
		{OpReacquire, FamilySemaphore, "*3 :1 :1 :0"},
		{OpReacquire, FamilySemaphore, "*3 :1 :0 :0"},
		{OpReacquire, FamilySemaphore, "*5 :1 :1 :2 :1 :-1"},
		{OpReacquire, FamilySemaphore, "*5 :1 :0 :0 :2 :-1"},
		{OpReacquire, FamilySemaphore, "*5 :1 :0 :0 :1 :-2"},
		{OpRelease, FamilySemaphore, "*4 :1 :1 :1 :-15"},
		{OpCall, FamilySemaphore, "*2 :1 :1"},
		{OpCall, FamilySemaphore, "*3 :1 :2 :0"},
		{OpCall, FamilySemaphore, "*3 :1 :-1 :0"},
		{OpCall, FamilySemaphore, "*3 :1 +x :0"},
		{OpCall, FamilySemaphore, "*3 :1 :1 +x"},
		{OpCall, FamilySemaphore, "*4 :1 :1 :0 :0"},
		{OpReacquire, FamilyLatch, "*2 :1 :1"},
		{OpReacquire, FamilyLatch, "*3 :1 :5 :0"},
		{OpReacquire, FamilyLatch, "*3 :1 :-1 :0"},
		{OpReacquire, FamilyLatch, "*3 :1 +x :0"},
		{OpReacquire, FamilyLatch, "*3 :1 :1 +x"},
		{OpReacquire, FamilyLatch, "*5 :1 :0 :0 :1 :-1"},
		{OpReacquire, FamilyBarrier, "*3 :1 :0 :7"},
		{OpReacquire, FamilyBarrier, "*4 :1 :0 :7 :7"},
		{OpReacquire, FamilyBarrier, "*4 :1 :0 :-2 $0 "},
		{OpReacquire, FamilyBarrier, "*4 :1 :1 :7 $0 "},
		{OpReacquire, FamilyBarrier, "*4 :1 :0 +x $0 "},
		{OpReacquire, FamilyBarrier, "*4 :1 :0 :7 $1 w"}, // there is no party that it could be of
		{OpReacquire, FamilyBarrier, "*4 :1 :-3 :0 $1 w"},
		{OpRelease, FamilyLatch, "*4 :1 :1 :1 :-15"},
		{OpCall, FamilyLatch, "*3 :1 :2 :0"},
	} {
		w, cmd := &wire{}, asking(c.kind, c.family, 1)
		require.Equal(t, settled, cmd.readReply(w, replyOf(t, c.text), 3, 4), c.text)
		require.True(t, w.malformed.Load(), "%s of kind %d", c.text, c.kind)
		require.Equal(t, ClassPartly, cmd.results[0].Err.Class, c.text)
		require.Zero(t, cmd.results[0].Value, c.text)
		require.Equal(t, CodeError, cmd.results[0].Code, c.text)
	}
}

func TestCopyThatIsRefusedIsNotTriedAgain(t *testing.T) {
	w, cmd := &wire{}, asking(OpAcquire, FamilyLock, 2)
	cmd.readReply(w, replyOf(t, "*4 :1 :2 :0 :0"), 1, 2)
	require.True(t, w.noCopy.Load())
	require.Equal(t, CodeGranted, cmd.results[1].Code)
	for _, text := range []string{"*2 :1 :2", "*4 :1 :1 :0 :0"} { // the second is malformed
		w = &wire{}
		asking(OpAcquire, FamilyLock, 2).readReply(w, replyOf(t, text), 1, 2)
		require.False(t, w.noCopy.Load(), text)
	}
}

func TestInspectReadsFieldsOrHowManyThereAre(t *testing.T) {
	read := func(text string) Result {
		cmd := asking(OpInspect, FamilyLock, 1)
		require.Equal(t, settled, cmd.readReply(&wire{}, replyOf(t, text), 0, 0))
		return cmd.results[0]
	}
	require.Equal(t, Result{Code: CodeInspected, Value: 9, Fields: []string{"a", "1", "b", "2"}}, read("*5 :9 +a +1 +b +2"))
	require.Equal(t, Result{Code: CodeInspected, Value: 9, More: 1, Fields: []string{"read"}}, read("*3 :9 :1 +read"))
	require.Equal(t, Result{Code: CodeInspected, Value: -2, Fields: []string{}}, read("*1 :-2"))
	require.Equal(t, Result{Code: CodeInspected, Value: 9, Fields: []string{"5", "1"}}, read("*3 :9 +5 +1"))
}

func TestSparseRepliesNameKeysInTheirOrder(t *testing.T) {
	mustRefuse := func(text string, head int) {
		values, err := mustArray(t, text)
		require.NoError(t, err)
		_, _, ok := sparseOf(values, head, 3)
		require.False(t, ok, text)
	}
	mustRefuse("*1 :1", 2)
	mustRefuse("*3 :1 :1 :1", 2)
	mustRefuse("*2 :1 :4", 2)
	mustRefuse("*2 :1 :-1", 2)
	mustRefuse("*2 :1 :1", 3)
	values, err := mustArray(t, "*8 :1 :3 :1 :7 :3 -NOPERM :4 :1")
	require.NoError(t, err)
	s, n, ok := sparseOf(values, 2, 3)
	require.True(t, ok)
	require.EqualValues(t, 3, n)
	require.True(t, s.next() && s.rises())
	require.EqualValues(t, [2]int64{1, 7}, [2]int64{s.at, s.v})
	require.Nil(t, s.refused)
	require.False(t, s.rises(), "it was named before")
	require.True(t, s.next() && s.rises())
	require.Equal(t, ClassNoPerm, s.refused.Class)
	require.True(t, s.next())
	require.Nil(t, s.refused, "of the key before")
	require.False(t, s.rises(), "there is no fourth key")
	require.False(t, s.next())
	require.False(t, s.bad)
	for _, text := range []string{"*4 :1 :1 +x :1", "*4 :1 :1 :1 +x"} {
		values, err := mustArray(t, text)
		require.NoError(t, err)
		s, _, _ := sparseOf(values, 2, 3)
		require.False(t, s.next(), text)
		require.True(t, s.bad, text)
		s.left = values[:2]
		require.False(t, s.next(), "nothing behind it is believed")
	}
}

func TestServerTimeIsAfterItsBeginning(t *testing.T) {
	for text, want := range map[string]bool{"*1 :1": true, "*1 :0": false, "*1 :-1": false, "*1 +x": false, "*0": false} {
		values, err := mustArray(t, text)
		require.NoError(t, err)
		_, ok := serverTime(values)
		require.Equal(t, want, ok, text)
	}
}

func TestRepliesOfScriptsAreArrays(t *testing.T) {
	read := func(text string) *ServerError {
		values, err := arrayOf(&wire{}, scriptAcquire, replyOf(t, text))
		require.Equal(t, err == nil, values != nil)
		return err
	}
	require.Nil(t, read("*1 :1"))
	require.Equal(t, ClassOOM, read("-OOM").Class)
	require.True(t, read("_").malformed)
	require.Equal(t, `malformed reply of the script acquire: nil`, read("_").Text)
	_, err := arrayOf(&wire{}, scriptAcquire, mock.ErrorResult(errors.New("reset")))
	require.Equal(t, ClassUnknown, err.Class)
	require.False(t, err.malformed)
}

func TestExcerptsAreShort(t *testing.T) {
	texts := func(n int) (values []rueidis.RedisMessage) {
		for range n {
			values = append(values, mock.RedisString("a"))
		}
		return values
	}
	require.Equal(t, "0 elements", excerpt(nil))
	require.Equal(t, `6 elements`+strings.Repeat(`, "a"`, 6), excerpt(texts(6)))
	require.Equal(t, `7 elements`+strings.Repeat(`, "a"`, 6)+", …", excerpt(texts(7)))
	for n, want := range map[int]string{24: `"` + strings.Repeat("x", 24) + `"`, 25: `"` + strings.Repeat("x", 24) + `"…`} {
		m := mock.RedisString(strings.Repeat("x", n))
		require.Equal(t, want, excerptOf(&m))
	}
	m := mock.RedisMap(map[string]rueidis.RedisMessage{})
	require.Equal(t, "an aggregate", excerptOf(&m))
	err := unexpected("ROLE", replyOf(t, ":5"))
	require.Equal(t, "malformed reply to ROLE: 5", err.Text)
	require.True(t, err.malformed)
	require.Equal(t, ClassUnknown, err.Class)
	require.Equal(t, "malformed reply to ROLE", unexpected("ROLE", mock.ErrorResult(errors.New("reset"))).Text)
	require.True(t, malformed("x", nil).malformed)
}

// One envelope serves round after round: what it keeps of numbers is theirs.
func TestANumberIsWrittenAsItIsAndNotAsTheLastOne(t *testing.T) {
	var d decimal
	for _, n := range []int64{0, 0, 30_000, 30_000, -1, 0, 1 << 62} {
		require.Equal(t, fmt.Sprint(n), d.of(n))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { d.of(1 << 62) }))
}
