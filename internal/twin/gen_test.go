package twin

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// A generator makes random calls.
type generator struct {
	*rand.Rand
	start  int64 // µs
	micros int64 // of the next action
	keys   []string
	ids    []string // owner ids
	// fairIDs are those who wait for a fair lock.
	fairIDs []string
	odds    int64 // ms, see odd
	healthy bool  // nothing is wrong with the server
	theme   theme
	trouble int    // in so many of a hundred calls something is wrong with the server
	aim     string // the script of every other call; "": none
}

// A theme is what happens in one sequence: which scripts run, which fields they name, and how often somebody else
// changes a key, in a hundred.
type theme struct {
	scripts []string
	field   func(*generator) string
	foreign int
	others  func(*generator) action // what somebody else does; nil: foreign
}

var themes = []theme{
	{scripts: lockScripts, field: (*generator).id, foreign: 4},
	{scripts: rwScripts, field: (*generator).rwField, foreign: 3},
	{scripts: rwScripts, field: (*generator).rwField, foreign: 12},
	{scripts: fairScripts, field: (*generator).fairID, foreign: 2},
	{scripts: fairScripts, field: (*generator).fairID, foreign: 10},
	{scripts: semaphoreScripts, field: (*generator).request, foreign: 5, others: (*generator).foreignPermits},
	{scripts: semaphoreScripts, field: (*generator).request, foreign: 15, others: (*generator).foreignPermits},
	{scripts: latchScripts, field: (*generator).request, foreign: 5, others: (*generator).foreignLatch},
	{scripts: latchScripts, field: (*generator).request, foreign: 15, others: (*generator).foreignLatch},
	{scripts: permitScripts, field: (*generator).permits, foreign: 5, others: (*generator).foreignLeases},
	{scripts: permitScripts, field: (*generator).permits, foreign: 15, others: (*generator).foreignLeases},
	{scripts: groupScripts, field: (*generator).taken, foreign: 5, others: (*generator).foreignValues},
	{scripts: groupScripts, field: (*generator).taken, foreign: 15, others: (*generator).foreignValues},
	{scripts: barrierScripts, field: (*generator).request, foreign: 2, others: (*generator).foreignBarrier},
	{scripts: barrierScripts, field: (*generator).request, foreign: 12, others: (*generator).foreignBarrier},
	{scripts: slices.Concat(lockScripts, rwScripts, fairScripts, semaphoreScripts, latchScripts), field: (*generator).anyField, foreign: 15},
}

var (
	lockScripts = []string{
		"acquire", "acquireone", "acquireone", "reacquire", "release", "releaseone", "releaseone", "renew", "inspect", "force", "fenced", "fenced",
		"redisson lock", "redisson unlock", "redisson force", "redisson renew",
	}
	rwScripts = []string{
		"read", "read", "readrenew", "readrelease", "readrelease", "write", "write", "writerelease", "writerelease",
		"renew", "reacquire", "force", "inspect", "redisson readlock", "redisson readunlock", "redisson readrenew",
		"redisson writelock", "redisson writeunlock",
	}
	fairScripts = []string{
		"fair", "fair", "fair", "fairrelease", "fairrelease", "renew", "reacquire", "force", "queue",
		"redisson fairlock", "redisson fairlock", "redisson fairtry", "redisson fairgiveup", "redisson fairunlock",
	}
	semaphoreScripts = []string{
		"semaphore", "semaphore", "semaphore", "semaphorerelease", "semaphorerelease", "semaphorerelease", "semaphoreset",
		"semaphoreset", "redisson semtry", "redisson semrelease", "redisson semset", "redisson semadd", "redisson semdrain",
	}
	latchScripts = []string{
		"latch", "latch", "latch", "latchdown", "latchdown", "latchdown", "latchset", "latchset", "latchset",
		"redisson latchset", "redisson latchdown", "redisson latchdelete",
	}
)

var permitScripts = []string{
	"permits", "permits", "permits", "permitsrelease", "permitsrelease", "permitsrenew", "permitsset", "permitsset", "permitsleased",
}

var groupScripts = []string{
	"group", "group", "group", "group", "groupcount", "groupcount", "grouprelease", "grouprelease", "grouprenew", "grouprenew",
	"groupforce", "groupheld",
}
var barrierScripts = []string{"barrier", "barrier", "barrier", "barrier", "barrierleave", "barrierset"}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), trouble: 8}
	g.start = 1_700_000_000_000_000 + g.Int64N(1e12)
	g.micros = g.start
	g.keys = []string{"a", "b", "{t}c", "d{t}", "ee"}[:1+g.IntN(5)]
	g.ids = []string{"e1:11", "e1:12", "e2:21", "e2:22", "j:7"}[:2+g.IntN(4)]
	g.fairIDs = []string{"e1:011", "e1:012", "e2:021", "e2:022", "j:7", "j:8", "j:0", "e1:0", "e1"}
	if g.chance(80) {
		g.fairIDs = []string{"e1:011", "e1:012", "j:7", "e2:021", "j:8"}[:2+g.IntN(4)]
	}
	g.theme = themes[g.IntN(len(themes))]
	return g
}

// aimAt makes half of the calls such of this script, among others of its theme, and many while something is wrong with the
// server: some answers are so rare that chance alone does not bring them in every run.
func (g *generator) aimAt(script string) {
	var of []theme
	for _, t := range themes {
		if slices.Contains(t.scripts, script) {
			of = append(of, t)
		}
	}
	g.theme, g.aim, g.trouble = of[g.IntN(len(of))], script, 40
}

// inCluster makes the calls such as are sent to a node of a cluster: keys of other slots among them, and nothing that
// is wrong with the server.
func (g *generator) inCluster() {
	g.keys = []string{"a", "b", "{b}c", "d{b}", "ee", "f", "g"}[:2+g.IntN(6)]
	g.healthy = true
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

// chance is true in so many of a hundred.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) sequence(n int) []action {
	actions := make([]action, 0, n)
	for range n {
		a := g.action()
		actions = append(actions, a)
		g.micros += a.step * 1000
	}
	return actions
}

func (g *generator) action() action {
	switch n := g.IntN(100); {
	case n < 5:
		return action{step: quantum * (1 + g.Int64N(20))}
	case n < 5+g.theme.foreign && g.theme.others != nil:
		return g.theme.others(g)
	case n < 5+g.theme.foreign:
		return g.foreign()
	}
	name := g.one(g.theme.scripts...)
	if g.aim != "" && g.chance(50) {
		name = g.aim
	}
	a := g.call(name)
	if !g.healthy && g.chance(g.trouble) {
		a.under = g.wrong()
	}
	return a
}

// wrong is something that the server or the ACL refuses.
func (g *generator) wrong() string {
	if g.chance(50) {
		return g.one("no-copy", "no-restore", "no-dump", "no-publish", "some-channels", "some-keys", "out of memory",
			"no-pexpire", "no-undo-of-expiry", "no-undo-of-token")
	}
	return g.one(wrongs...)
}

func (g *generator) now() int64 { return g.micros / 1000 }

func (g *generator) key() string { return g.one(g.keys...) }

func (g *generator) id() string { return g.one(g.ids...) }

func (g *generator) rwField() string { return g.id() + g.one("", ":write") }

// fairID is the field of one who waits for a fair lock: of an engine, or of Redisson.
func (g *generator) fairID() string { return g.one(g.fairIDs...) }

func (g *generator) anyField() string {
	return g.one(g.id(), g.id(), g.rwField(), g.fairID())
}

// request is one to take permits, by one of two engines. Its number is of few, so that some come again or too late.
func (g *generator) request() string {
	return g.one("e1", "e1", "e1.1", "e2") + ":" + strconv.Itoa(1+g.IntN(6)+g.IntN(6))
}

// giving is a request to give permits back, or to give back what one took.
func (g *generator) giving() string { return g.request() + g.one("", "", ":1", ":2", ":3", ":") }

// countingDown is a request to count a latch down.
func (g *generator) countingDown() string { return g.request() + g.one(":1", ":1", ":2", ":7") }

// mark is when somebody has seen a latch closed: never, long ago, or a moment before or after now.
func (g *generator) mark() string {
	return g.one("-1", "-1", "0", "5", strconv.FormatInt(g.micros-quantum*1000*g.Int64N(20), 10), strconv.FormatInt(g.micros+quantum*1000, 10))
}

func (g *generator) tag() string { return g.one("0", "tagged") }

// wants are how many permits each of some waiters wants.
func (g *generator) wants() (out []string) {
	for range 1 + g.IntN(4) {
		out = append(out, g.one("1", "1", "2", "3", "5"))
	}
	return out
}

// lease is a multiple of quantum, and rarely none that can be used.
func (g *generator) lease() string {
	if g.chance(2) {
		return g.one("0", "-5000", "x", "9223372036854775807")
	}
	return g.one("30000", "60000", "60000", "90000", "120000")
}

func (g *generator) notAfter() string {
	late := g.Int64N(1000)
	switch g.IntN(20) {
	case 0:
		return strconv.FormatInt(g.now()-1-late, 10)
	case 1:
		return strconv.FormatInt(g.now(), 10)
	default:
		return strconv.FormatInt(g.now()+late, 10)
	}
}

func (g *generator) flag() string { return g.one("0", "1") }

// some are different keys; rarely one of them comes twice.
func (g *generator) some() []string {
	keys := slices.Clone(g.keys)
	g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+g.IntN(len(keys))]
	if g.chance(2) {
		keys = append(keys, keys[0])
	}
	return keys
}

// keyed are the arguments of a call whose keys are declared or, in place of the word KEYS in argv, among the arguments.
// The word N stands for how many are there.
func (g *generator) keyed(keys []string, argv ...string) []string {
	inline := g.chance(40)
	args := []string{strconv.Itoa(len(keys))}
	if inline {
		args[0] = "0"
	} else {
		args = append(args, keys...)
	}
	for _, a := range argv {
		switch {
		case a == "KEYS" && inline:
			args = append(args, keys...)
		case a == "KEYS":
		case a == "N" && inline:
			args = append(args, strconv.Itoa(len(keys)))
		case a == "N":
			args = append(args, "0")
		default:
			args = append(args, a)
		}
	}
	return args
}

// stretches are fields for n keys: field, how many, field, how many.
func (g *generator) stretches(n int, field func() string) []string {
	var out []string
	for n > 0 {
		k := 1 + g.IntN(n)
		out = append(out, field(), strconv.Itoa(k))
		n -= k
	}
	return out
}

// eachOrStretches are the fields of n keys as renewals have them.
func (g *generator) eachOrStretches(n int, field func() string) (out []string) {
	if g.IntN(2) == 0 {
		return g.stretches(n, field)
	}
	for range n {
		out = append(out, field())
	}
	return out
}

// heirs are some waiters that may have one of n keys next.
func (g *generator) heirs(n int) (out []string) {
	for range g.IntN(3 * n) {
		out = append(out, strconv.Itoa(1+g.IntN(n)), g.fairID(), g.one("30000", "60000"))
	}
	return out
}

func (g *generator) publish() string {
	if g.chance(3) {
		return "NOSUCH"
	}
	return g.one("PUBLISH", "PUBLISH", "SPUBLISH")
}

func (g *generator) field() string { return g.theme.field(g) }

// call is a call of this script.
func (g *generator) call(name string) action {
	keys := g.some()
	var args []string
	switch name {
	case "acquire":
		args = g.keyed(keys, g.lease(), g.field(), g.notAfter(), g.one("0", "1", "1"), "KEYS")
	case "acquireone":
		args = []string{"1", keys[0], g.lease(), g.field(), g.notAfter()}
	case "releaseone":
		args = []string{"1", keys[0], g.one("", g.publish()), slot.LockChannel(keys[0]), "0", g.field()}
	case "reacquire":
		args = []string{"1", keys[0], g.lease(), g.field(), g.notAfter(), g.one("1", "2", "3"), g.one("0", "1", "2")}
	case "release":
		args = g.keyed(keys, slices.Concat([]string{g.one("", g.publish(), g.publish()), "0", "N", g.one("", "alone", "masters", "masters"), "KEYS"}, g.stretches(len(keys), g.field))...)
	case "renew", "readrenew":
		args = g.keyed(keys, slices.Concat([]string{g.lease(), g.flag(), "N", "KEYS"}, g.eachOrStretches(len(keys), g.field))...)
	case "force":
		args = []string{"1", keys[0], g.one("", g.publish()), "0", "channel", g.one("", "read", "write", "fair"), g.notAfter()}
	case "inspect":
		args = []string{"1", keys[0]}
	case "semaphore":
		args = slices.Concat([]string{"1", keys[0], "0", g.request(), g.notAfter(), "0"}, g.wants())
	case "semaphorerelease":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", "KEYS"}, g.stretches(len(keys), g.giving))...)
	case "semaphoreset":
		verb := g.one("get", "set", "set", "add", "add", "some", "some", "drain", "delete")
		args = []string{"1", keys[0], g.publish(), verb, g.one("1", "3", "5", "10", "-2"), g.one("0", "0", "30000"), g.notAfter()}
	case "latch":
		args = []string{"1", keys[0], "0", "0", g.notAfter(), "0", g.mark()}
	case "latchdown":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), g.tag(), "N", "KEYS"}, g.stretches(len(keys), g.countingDown))...)
	case "latchset":
		verb := g.one("get", "set", "set", "set", "delete", "delete")
		args = []string{"1", keys[0], g.publish(), verb, g.one("1", "2", "3", "5"), "0", g.notAfter(), g.tag()}
	case "barrier":
		args = []string{"1", keys[0], g.one("5000", "30000", "60000"), g.request() + ":" + g.parties(), g.notAfter(), "0", g.publish()}
	case "barrierleave":
		leaves := func() string {
			return g.request() + ":" + g.party() + g.one("", "/2/0", "/3/0", "/2/10+", "/3/0+", "/2/90000")
		}
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", "KEYS"}, g.stretches(len(keys), leaves))...)
	case "barrierset":
		args = []string{"1", keys[0], g.publish(), g.one("waiting", "broken", "reset", "reset"), "0", "0", g.notAfter()}
	case "permits":
		args = []string{"1", keys[0], g.one("30000", "60000", "90000"), g.permits(), g.notAfter(), "0", g.publish()}
	case "permitsrelease":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", "KEYS"}, g.stretches(len(keys), g.permits))...)
	case "permitsrenew":
		argv, sets := []string{g.one("30000", "60000", "90000"), g.flag(), "N", "KEYS"}, []string(nil)
		for _, key := range keys {
			sets = append(sets, permitTimeouts(key))
		}
		args = g.keyed(sets, append(argv, g.eachOrStretches(len(keys), g.permits)...)...)
	case "permitsset":
		args = []string{"1", keys[0], g.publish(), g.permitVerb(), g.one("0", "1", "3", "5", "10", "-2"), g.one("30000", "90000"), g.notAfter()}
	case "permitsleased":
		args = []string{"1", permitTimeouts(keys[0])}
	case "group":
		args = []string{"1", keys[0], g.one("30000", "60000", "90000"), g.taken(), g.notAfter(), "0"}
	case "groupcount":
		args = []string{"1", keys[0], g.one("30000", "60000", "90000"), g.taken(), g.notAfter(), g.one("1", "2", "3"), g.one("1", "2")}
	case "grouprelease":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", "KEYS"}, g.stretches(len(keys), g.taken))...)
	case "grouprenew":
		argv := []string{g.one("30000", "60000", "90000"), g.flag(), "N", "KEYS"}
		args = g.keyed(keys, append(argv, g.eachOrStretches(len(keys), g.taken)...)...)
	case "groupforce":
		args = []string{"1", keys[0], g.publish(), "0", "channel", "", g.notAfter(), g.someValues()}
	case "groupheld":
		args = append([]string{"1", keys[0]}, valuesIn(g.someValues())...)
	case "queue":
		args = []string{"1", slot.FairQueue(keys[0])}
	case "fenced":
		args = g.keyed(keys, g.lease(), g.id(), g.notAfter(), g.flag(), g.flag(), "KEYS")
	case "read":
		args = g.keyed(keys, g.lease(), g.id(), g.notAfter(), g.flag(), g.one("", "", g.field()), "KEYS")
	case "write":
		args = g.keyed(keys, g.lease(), g.id()+":write", g.notAfter(), g.flag(), g.one("0", "5000", "10000", "x"), "KEYS")
	case "readrelease":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", "KEYS"}, g.stretches(len(keys), g.id))...)
	case "writerelease":
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "1", "N", "KEYS"}, g.stretches(len(keys), g.rwField))...)
	case "fair":
		args = g.keyed(keys, slices.Concat([]string{g.lease(), g.notAfter(), g.one("1", "1", "0"), "5000", "300000", g.publish(), "N", "KEYS"},
			g.stretches(len(keys), g.fairID))...)
	case "fairrelease":
		heirs := g.heirs(len(keys))
		args = g.keyed(keys, slices.Concat([]string{g.publish(), "0", "N", strconv.Itoa(len(heirs) / 3), "5000", "300000", "KEYS"},
			g.stretches(len(keys), g.fairID), heirs)...)
	default:
		args = g.redisson(name)[2:]
	}
	return action{script: name, args: args}
}

// redisson is a call of one of Redisson's scripts.
func (g *generator) redisson(name string) []string {
	lease, _ := strconv.ParseInt(g.one("30000", "60000", "90000"), 10, 64)
	r := Redisson{
		Name: g.key(), Field: g.theme.field(g), LeaseMs: lease, WaitMs: quantum * (1 + g.Int64N(60)),
		NowMs: g.now() + g.Int64N(2000) - 1000, Publish: g.publish(), Request: g.one("q1", "q2", "q3", "q4"), LatchMs: 2 * quantum,
		Permits: g.Int64N(5),
	}
	if field := g.id(); name[9] == 'r' && name != "redisson renew" || name[9] == 'w' {
		r.Field = field
	}
	return map[string]func() []string{
		"redisson lock": r.Lock, "redisson unlock": r.Unlock, "redisson force": r.ForceUnlock, "redisson renew": r.Renew,
		"redisson fairlock": r.FairLock, "redisson fairtry": r.FairTryLock, "redisson fairgiveup": r.FairGiveUp,
		"redisson fairunlock": r.FairUnlock, "redisson readlock": r.ReadLock, "redisson readunlock": r.ReadUnlock,
		"redisson readrenew": r.ReadRenew, "redisson writelock": r.WriteLock, "redisson writeunlock": r.WriteUnlock,
		"redisson semtry": r.SemaphoreTry, "redisson semrelease": r.SemaphoreRelease, "redisson semset": r.SemaphoreSet,
		"redisson semadd": r.SemaphoreAdd, "redisson semdrain": r.SemaphoreDrain,
		"redisson latchset": r.LatchSet, "redisson latchdown": r.LatchDown, "redisson latchdelete": r.LatchDelete,
	}[name]()
}

// derived is a key that scripts make of a lock's.
func (g *generator) derived(key string) string {
	tag := tagged(key)
	return g.one(tag+":rwlock_writer", tag+":"+g.id()+":rwlock_timeout:1", tag+":"+g.id()+":rwlock_timeout:2",
		"redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag, "redisson_lock_token:"+tag,
		"redisson_unlock_latch:"+tag+":q1", tag+":fair_heard", tag+":fair_asked", tag+":fair_notes", notesOf(key))
}

// foreign is a plain command: somebody who is not of ours, or an operator.
func (g *generator) foreign() action {
	key := g.key()
	if g.chance(40) {
		key = g.derived(key)
	}
	plain := func(args ...string) action { return action{args: args} }
	switch g.IntN(14) {
	case 0, 1, 2, 3:
		return plain("DEL", key)
	case 4:
		return plain("SET", key, g.one("text", "1", "2", "9007199254740000", "9007199254740991", "9007199254740992", "-5", "0.5", "nan", "inf", g.id()))
	case 5:
		return plain("SET", key, g.one("text", "1", g.id()), "PX", "60000")
	case 6:
		return plain("HSET", key, g.one(g.field(), g.field(), "foreign"), g.one("1", "2", "3", "x", "-1"))
	case 7:
		return plain("HSET", key, "mode", g.one("read", "write", "other", ""))
	case 8:
		return plain("RPUSH", key, g.field())
	case 9:
		return plain("ZADD", key, strconv.FormatInt(g.now()+quantum*(g.Int64N(30)-5), 10), g.field())
	case 10:
		return plain("HDEL", key, g.field())
	case 11:
		return plain("PEXPIRE", key, g.one("5000", "60000", "120000"))
	case 12:
		return plain("PERSIST", g.key())
	default:
		return plain("DEL", g.key())
	}
}

// party is one of few, so that some come again.
func (g *generator) party() string { return strconv.Itoa(1 + g.IntN(6)) }

// parties are some, mostly of a barrier for two or three. Rarely one is named twice.
func (g *generator) parties() string {
	most := g.one("2", "2", "3")
	var all []string
	for range 1 + g.IntN(3) {
		if g.chance(5) {
			most = g.one("1", "4", "0")
		}
		all = append(all, g.party()+"/"+most+g.one("", "", "+"))
	}
	return strings.Join(all, ",")
}

// foreignBarrier is what somebody else does with a barrier; or there is one already, in some state.
func (g *generator) foreignBarrier() action {
	key := g.key()
	at := func(ms int64) string { return strconv.FormatInt(g.now()+quantum*ms, 10) }
	switch g.IntN(9) {
	case 0:
		return action{args: []string{"DEL", key}}
	case 8: // so many have gone that those who are overdue are forgotten, or so many that nobody may come
		line, most := "\nlong"+strings.Repeat("-gone", 400)+" 1 "+at(-3)+" 1=50 2=100", []int{barrierSpare, barrierLongest}[g.IntN(2)]
		return action{args: []string{"SET", key, "barrier 100 3 1 0 0 " + strings.Repeat(line, most/len(line)+g.IntN(2))}}
	case 1:
		return action{args: []string{"HSET", key, "no", "barrier"}}
	case 2:
		return action{args: []string{"SET", key, g.one("text", "", "barrier", "barrier 1 2 3", "barrier 5 2 1 2 0 ", "barrier 05 2 0 0 0 ,,7,\nx", "barrier 9 2 1 0 0 \ne1 3 x 1=9")}}
	case 3: // generations that nobody remembers
		return action{args: []string{"SET", key, "barrier 100 2 0 0 50 51,52\ne1 3 " + at(4) + " 1=20 2=51 3=60 4=100\ne2 1 " + at(2) + " 5=50"}}
	case 4: // an engine that is overdue, and one that is long gone
		return action{args: []string{"SET", key, "barrier 100 3 2 0 0 \ne1 3 " + at(-2) + " 1=100\ne2 1 " + at(3) + " 5=100\ne3 7 " + at(-800) + " 6=70"}}
	case 5:
		long := make([]string, barriersListed)
		for i := range long {
			long[i] = strconv.Itoa(10 + i)
		}
		return action{args: []string{"SET", key, "barrier 100 3 1 0 0 " + strings.Join(long, ",") + "\ne1 3 " + at(4) + " 1=100 2=10 3=12"}}
	default:
		return action{args: []string{"PEXPIRE", key, "60000"}}
	}
}

// permits are the ids of some permits, mostly different.
func (g *generator) permits() string {
	ids := ""
	for range 1 + g.IntN(3) {
		ids += "permit, number " + strconv.Itoa(1+g.IntN(7))
	}
	return ids
}

// value is the name of one of few values of a group, and someValues are some different ones.
func (g *generator) value() string { return "value number " + strconv.Itoa(100000000+g.IntN(4)) }

func (g *generator) someValues() string {
	values := []string{g.value()}
	for range g.IntN(3) {
		values = append(values, g.value())
	}
	slices.Sort(values)
	return strings.Join(slices.Compact(values), "")
}

// taken is what an owner has of a group, or wants.
func (g *generator) taken() string { return g.id() + "\x00" + g.someValues() }

// foreignValues is what somebody else does with a group: mostly what Redisson does with one value.
func (g *generator) foreignValues() action {
	key, value, owner := g.key(), g.value(), g.one(g.id(), "j:7", "j:8")
	plain := func(args ...string) action { return action{args: args} }
	till := strconv.FormatInt(g.now()+quantum*(g.Int64N(30)-10), 10)
	switch g.IntN(12) {
	case 0, 1, 2, 3:
		return plain("HSET", key, value, owner, tillOf(value, owner), till, holdsOf(value, owner), g.one("1", "2"))
	case 4:
		return plain("HSET", key, value, owner)
	case 5:
		return plain("HSET", key, tillOf(value, owner), g.one(till, "", "x", "0.5", "1e30", "9223372036854775807", "-1"))
	case 6:
		return plain("HDEL", key, g.one(value, tillOf(value, owner), holdsOf(value, owner)))
	case 7:
		return plain("HSET", key, "mode", "read")
	case 8:
		return plain("PEXPIRE", key, g.one("5000", "60000"))
	case 9:
		return plain("PERSIST", key)
	case 10:
		return plain("DEL", key)
	default:
		return plain(g.one("SET", "RPUSH"), key, "text")
	}
}

func (g *generator) permitVerb() string {
	switch verb := g.one("free", "leased", "total", "set", "set", "set", "resize", "add", "delete", "give", "give", "left", "lease"); verb {
	case "give":
		return verb + ":" + g.permits()
	case "left", "lease":
		return verb + ":" + g.permits()[:permitID]
	default:
		return verb
	}
}

// foreignLeases is what somebody else does with a semaphore whose permits are leased.
func (g *generator) foreignLeases() action {
	key := g.key()
	set := permitTimeouts(key)
	plain := func(args ...string) action { return action{args: args} }
	switch g.IntN(12) {
	case 0, 1, 2:
		return plain("SET", key, g.one("0", "1", "2", "5", "10", "100"))
	case 3:
		return plain("SET", key, g.one("7", "3"), "PX", "60000")
	case 4:
		return plain("SET", key, g.one("1e3", " 5", "-3", "007", "", "text", "9007199254740992", "9007199254740990", "9223372036854775807"))
	case 5:
		return plain(g.one("DEL", "PERSIST"), g.one(key, set))
	case 6:
		return plain("PEXPIRE", g.one(key, set), g.one("5000", "60000"))
	case 7, 8:
		return plain("ZADD", set, strconv.FormatInt(g.now()+quantum*(g.Int64N(30)-10), 10), g.permits()[:permitID])
	case 9:
		return plain("ZADD", set, g.one("922337203685477", "inf", "-inf", "0.5", "1700000000000.5"), g.one(g.permits()[:permitID], "short"))
	case 10:
		return plain("ZREM", set, g.permits()[:permitID])
	default:
		return plain(g.one("SET", "RPUSH"), g.one(key, set), "text")
	}
}

// foreignPermits is what somebody else does with a semaphore, or with the notes beside it.
func (g *generator) foreignPermits() action {
	key := g.key()
	notes := notesOf(key)
	plain := func(args ...string) action { return action{args: args} }
	switch g.IntN(12) {
	case 0, 1, 2:
		return plain("SET", key, g.one("0", "1", "2", "5", "10", "100"))
	case 3:
		return plain("SET", key, g.one("7", "3"), "PX", "60000")
	case 4, 5:
		return plain("SET", key, g.one("1e3", " 5", "5 ", "0x10", "nan", "inf", "-3", "-0", "+5", "007", "", "text", "2.5",
			"9007199254740991", "9007199254740992", "-9007199254740992", "9223372036854775807", "-9223372036854775807", "99999999999999999999"))
	case 6:
		return plain(g.one("DEL", "PERSIST"), g.one(key, notes))
	case 7:
		return plain("PEXPIRE", g.one(key, notes), g.one("5000", "60000"))
	case 8:
		return plain("HSET", notes, g.one("e1", "e2", "e1:given", "e2:given"), g.one("x", "", "5", "5 ", "5 0", "5 2", "5 2 1", "6 007",
			"7 9007199254740993", "8 99999999999999999999", "99999999999999999999 1", "-1 2", "4 -2", "0 0"))
	case 9:
		return plain("HSET", key, "e1", "1")
	case 10:
		return plain("SET", notes, "text")
	default:
		return plain("HDEL", notes, g.one("e1", "e2", "e1:given"))
	}
}

// foreignLatch is what somebody else does with a latch, or with the notes beside it.
func (g *generator) foreignLatch() action {
	key := g.key()
	notes := notesOf(key)
	plain := func(args ...string) action { return action{args: args} }
	switch g.IntN(10) {
	case 0, 1:
		return plain("SET", key, g.one("0", "1", "2", "5"))
	case 2:
		return plain("SET", key, g.one("1e3", " 5", "0x10", "nan", "-3", "-0", "007", "", "text", "9007199254740991", "9007199254740992",
			"-9007199254740992", "9223372036854775807", "-9223372036854775807", "99999999999999999999"))
	case 3:
		return plain(g.one("DEL", "PERSIST"), g.one(key, notes))
	case 4:
		return plain("PEXPIRE", g.one(key, notes), g.one("5000", "60000"))
	case 5, 6:
		return plain("HSET", notes, "ended", g.one("x", "", "5", "5 ", " 5", "5 5", "5 5 5", "0 0", "007 3", "9007199254740991 0", "0 9007199254740991",
			"9007199254740990 9007199254740990", "99999999999999999999 1", "1 99999999999999999999", "-1 2", strconv.FormatInt(g.micros+5e6, 10)+" 3"))
	case 7:
		return plain("HSET", notes, g.one("e1:given", "e2:given"), g.one("x", "", "5", "5 ", "007", "0x10", "nan", "inf", "99999999999999999999", "-1"))
	case 8:
		if g.chance(50) {
			return plain("HSET", key, "e1", "1")
		}
		return plain("SET", notes, "text")
	default:
		return plain("HDEL", notes, g.one("e1:given", "e2:given", "ended"))
	}
}
