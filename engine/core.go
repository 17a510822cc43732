package engine

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/slot"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// This file is long for a reason: everything in the engine hangs on these structs, and a reader wants to see them
// together. A struct that n files use is n arrows between files, wherever it stands; here they are arrows to one file.

// An Engine is one client of the locks: its connections, its watchdog, its waiters. A process needs
// one for each Redis. All methods may be called by any goroutine.
type Engine struct {
	cfg      Config
	place    string                   // Config.place
	hide     func(text string) string // see resp.Options.Hide; may be nil
	id       string                   // UUID, the first half of every owner id
	clock    clock.Clock
	world    *world.World
	nodes    *resp.Nodes
	watchdog *renew.Cohorts
	renewals renewals

	wheel       *wheel.Wheel
	timers      *wheel.Set[timed] // polls, MaxWait, re-sends: everything of ours that waits for time
	shortTimers *wheel.Set[timed] // short pauses, which a wide cohort would stretch
	callbacks   *callback.Pool
	shards      [shardCount]shard
	joints      joints

	streams      atomic.Pointer[[]*Events] // nil: nobody listens
	streamsMu    sync.Mutex                // for changes of streams
	streamsEnded bool

	requests atomic.Int64 // numbers of requests for what is counted
	ticked   atomic.Int64 // the clock.Instant of the last tick
	classes  classes

	tickItem       wheel.Item[timed]
	overdue        []string      // scratch of tick
	askHoldersFrom atomic.Int64  // a clock.Instant: before it nobody asks who holds a lock
	stuck          bool          // tick's: the logger was told that the timing wheel is stuck
	refused        clock.Instant // tick's: when the logger was told last that the guard closed a connection

	closing  atomic.Bool
	draining atomic.Bool        // what fails now is not sent again
	givenUp  unansweredReleases // those that failed while draining
	ended    *world.Latch       // everything but callbacks has ended
	closed   *world.Latch       // everything has
	settled  *world.Bell        // while closing, a shard has nothing pending any more
	endErr   error              // what Close returns then
}

// shardCount shards the table of names: enough that two busy names seldom share a mutex.
const shardCount = 256

// A shard is one part of the table of names. Its mutex guards its entries and everything that hangs
// on them; under it the lanes' and the wheel's mutexes may be taken, never another shard's, never
// the multiplexer's, and no user code runs.
type shard struct {
	mu      sync.Mutex
	names   table
	pending int // ops on their way whose answer somebody here waits for
	pieces  int // holds whose lease keeps all that it came in one piece with; at most mostPieces

	recent  clock.Instant // the last that is known, for stamps; beside what every operation reads
	counts  counts
	telling atomic.Int32 // callers' calls that decided the results of others, and are still to tell them

	ticked clock.Instant // the tick at which reads began
	reads  int           // of the clock, for stamps

	weakDebt int // see affordsWeak

	_ [64]byte // keeps neighbours off this cache line
}

// joints are an engine's operations on several locks at once. Its mutex is the last one: nothing is called under it.
type joints struct {
	mu      sync.Mutex
	open    map[*joint]uint64 // those that have no result yet, in the order of asking; Close waits for them
	asked   uint64            // how many ever were
	due     []*joint          // there is something to do for them: they lead with this engine
	driving bool              // a goroutine works at due
	watch   partWatch         // mostly nil: the simulation's
}

// timed is whoever waits in e.timers.
type timed interface {
	Scheduled() *wheel.Item[timed]
	due(now clock.Instant)
}

// A partWatch is told of each of several locks that an operation asks for or gives back, before and after.
type partWatch interface {
	asks(l *Lock, o *Owner, try bool) func(*Future[*Lease])
	givesBack(ls *Lease) func(*Future[struct{}])
	extends(ls *Lease, d time.Duration) func(*Future[struct{}])
}

// A joint is an operation on several locks, of one or of several engines. It goes on with their answers. Whoever makes
// turns more than 0 works at it until they are 0 again: one goroutine at a time, so that what it does needs no mutex.
type joint struct {
	work    jointWork
	lead    *Engine   // whose goroutine, timers and callbacks serve it
	engines []*Engine // of all its locks
	turns   atomic.Int32
	left    atomic.Int32                // answers that its present step waits for
	quit    atomic.Bool                 // somebody has given it up: given is set
	given   error                       // with this error
	over    bool                        // it has its result
	stop    atomic.Pointer[func() bool] // ends the watch of its ctx
	item    wheel.Item[timed]           // the end of MaxWait
}

// jointWork is what a kind of joint does.
type jointWork interface {
	// step goes on as far as possible without waiting.
	step()
	// abandon ends it with err, unless it has its result already.
	abandon(err error) bool
}

// unansweredReleases are those without an answer when an engine ends.
type unansweredReleases struct {
	n     atomic.Int64
	first atomic.Pointer[closeError] // what is said of the first
}

// add counts one more. last is what the server said to it; nil: nothing.
func (u *unansweredReleases) add(name string, last *ServerError) {
	u.first.CompareAndSwap(nil, &closeError{name: name, last: last})
	u.n.Add(1)
}

// counts are a shard's counters, guarded by its mutex.
type counts struct {
	grants, releases, heard, busy, waits, errors, lost, leaks,
	ghosts, abandoned, unseen, tooLate, handOffs, byMessage, byPoll,
	messages, subscribed, reconnects, polls, passedOver,
	waitsLocal, endedByMaxWait, endedByContext, endedByCancel,
	lingered, lingersLost int64

	wait, hold Histogram
}

// origin counts what sent the attempt that was granted.
func (c *counts) origin(by lockstate.WakeKind) {
	switch by {
	case lockstate.WakeMessage:
		c.byMessage++
	case lockstate.WakePoll:
		c.byPoll++
	}
}

func (c *counts) add(o *counts) {
	c.grants += o.grants
	c.releases += o.releases
	c.heard += o.heard
	c.busy += o.busy
	c.waits += o.waits
	c.errors += o.errors
	c.lost += o.lost
	c.leaks += o.leaks
	c.ghosts += o.ghosts
	c.abandoned += o.abandoned
	c.unseen += o.unseen
	c.tooLate += o.tooLate
	c.handOffs += o.handOffs
	c.byMessage += o.byMessage
	c.byPoll += o.byPoll
	c.messages += o.messages
	c.subscribed += o.subscribed
	c.reconnects += o.reconnects
	c.polls += o.polls
	c.passedOver += o.passedOver
	c.waitsLocal += o.waitsLocal
	c.endedByMaxWait += o.endedByMaxWait
	c.endedByContext += o.endedByContext
	c.endedByCancel += o.endedByCancel
	c.lingered += o.lingered
	c.lingersLost += o.lingersLost
	c.wait.merge(&o.wait)
	c.hold.merge(&o.hold)
}

// An entry is what goes on locally with one name: the machine that decides, and what its decisions
// need of the world. It exists only while something goes on.
type entry struct {
	lockstate.Queue[*attempt]

	eng            *Engine
	hash           uint64 // beside eng and chain: these are read first, from cold memory
	chain          *entry // the table's
	slot           uint16
	gone           bool  // no longer in the table
	inlineHoldUsed bool  // inlineHold is taken
	wide           bool  // its commands take all lanes of their node: decided with nothing on its way
	class          uint8 // of a root: its name's, see classes
	renewals       uint8 // since the last look, see checkLeak; guarded by Engine.renewals.mu
	key            string

	hold       *hold       // of this engine: while it closes the queue
	extra      *entryExtra // mostly nil
	inlineHold hold        // most entries see one hold
}

// entryExtra is what few entries have.
type entryExtra struct {
	children *children
	wakeups  *wakeups // there if the queue has waited
}

// ensureExtra is an entry's extra part, made if it has none.
func (ent *entry) ensureExtra() *entryExtra {
	if ent.extra == nil {
		ent.extra = &entryExtra{}
	}
	return ent.extra
}

// children are those of a root, or a child's place among them; mostly nil.
func (ent *entry) children() *children {
	if ent.extra == nil {
		return nil
	}
	return ent.extra.children
}

// wakeups is what a queue has that has waited; else nil.
func (ent *entry) wakeups() *wakeups {
	if ent.extra == nil {
		return nil
	}
	return ent.extra.wakeups
}

// wide says which lanes a command of a name takes: those of what goes on with it, so that they stay in order. Where
// nothing does, it takes the one lane that few use: nobody would know of it when the next command comes.
func (sc *section) wide(hash uint64, name string) bool {
	ent := sc.sh.names.get(hash, sc.eng.cfg.Prefix+name)
	return ent != nil && ent.wide
}

// newHold makes the hold of a grant.
func (ent *entry) newHold() *hold {
	h := &ent.inlineHold
	if ent.inlineHoldUsed {
		h = new(hold)
	}
	ent.inlineHoldUsed = true
	h.ent = ent
	return h
}

// held closes the queue by a hold.
func (ent *entry) held(h *hold) {
	ent.hold = h
	ent.Close()
}

// freed opens the queue again, if it was this hold that closed it.
func (ent *entry) freed(h *hold) bool {
	mine := ent.hold == h
	if mine {
		ent.hold = nil
		ent.Reopen()
	}
	return mine
}

// standing is the hold that keeps others out; nil: there is none.
func (ent *entry) standing() *hold {
	if !ent.Standing() {
		return nil
	}
	return ent.hold
}

// head is the op that is first, wanted or not; nil: nobody waits.
func (ent *entry) head() *acquireOp { return opOf(ent.First()) }

// live is the first op that is still wanted; nil: there is none.
func (ent *entry) live() *acquireOp { return opOf(ent.Live()) }

// ops goes through those who wait. Who is yielded may leave.
func (ent *entry) ops(yield func(*acquireOp) bool) {
	for w := ent.First(); w != nil; {
		next := w.Next()
		if !yield(opOf(w)) {
			return
		}
		w = next
	}
}

// opOf is whose place in a queue it is; nil: nobody's.
func opOf(w *lockstate.Waiter) *acquireOp {
	if w == nil {
		return nil
	}
	return w.Of.(*acquireOp)
}

// root is the entry that stands in the table.
func (ent *entry) root() *entry {
	if ent.children() == nil || ent.children().root == nil {
		return ent
	}
	return ent.children().root
}

// wakeups is what a queue that waits has of the world: a subscription and two timers.
type wakeups struct {
	ent       *entry
	item      wheel.Item[timed] // the poll
	sub       pubsub.Subscription
	at        *resp.Node        // where sub is
	pauseItem wheel.Item[timed] // the end of a short pause
	hears     bool              // it was confirmed that messages are heard
	lost      bool              // messages may have been missed since it was asked for
	asked     bool              // a subscription was asked for, of:
	channel   string
	family    resp.Family  // of who asked
	freed     int          // how much the message that woke it said is free
	holder    *holderQuery // who holds the lock; nil: it has not waited yet
}

// A holderQuery asks the server who holds the lock that a queue waits for, again and again.
type holderQuery struct {
	op      resp.Op
	wakeups *wakeups      // whose it is
	next    clock.Instant // before that it is not asked
	asked   bool          // it has no answer yet
	until   clock.Instant // when the lock ends, by the last answer "busy"
	owner   string        // the holder's owner id; "": it is not known
}

// Some locks have more than one owner id of this engine under one name: each fair waiter its own place in
// the queue, each read hold its own field. Each is a child: an entry of its own, with its own queue of
// mostly one and its own hold, that hangs on the name's entry instead of standing in the table.
type children struct {
	root       *entry // of a child; nil: this is the root's
	prev, next *entry // children of one root
	first      *entry // of a root
	last       *entry
	head, tail *entry        // of a root: the first and the last of those of whom since is known
	since      int64         // of a child: when it came to its place in a fair lock's queue, in server µs; 0: unknown
	unbelieved []*cleanup    // of a root: they wait for the end of a force-release, or their time
	noted      bool          // of a root: the server has a note that a writer of this engine waits
	notedHold  bool          // of a root: the same of one that has the lock since; its release takes the note away
	leaves     bool          // of a child: its waiter has left, its acquire is on its way, and a Try waits for the answer
	lasts      clock.Instant // of a root: until when the key may live for the sake of holds that were given back

	releasers []*releaser // of what is counted, one for each family
	undoing   []string    // takers whose last take is being given back

	latch   latchState           // of a latch
	parties map[*acquireOp]int64 // of a barrier: those that the server may know, by their numbers
	fresh   []*acquireOp         // of them: whom no request before the last has named
	left    []*unheardParty      // of those: who has left since

	beside *hold // of a child whose acquire asks to read beside a hold of its owner's
}

// A hold is one wire hold: the field in Redis under which this engine has a lock, from the grant to
// its release or loss. Its renewals are the watchdog's; lease handles attach to it.
type hold struct {
	renew.Hold
	ent *entry

	// Guarded by the shard.
	lockstate.Grant
	lease *Lease              // until leakAfter renewals; afterwards only weak
	weak  weak.Pointer[Lease] // finds out that nobody can release the lease any more
	owner *Owner              // nil: nobody can enter again
	extra *extra              // mostly nil
}

// extra is what few holds have.
type extra struct {
	watch   *leaseContext    // the contexts that were asked for, linked
	token   int64            // of a fenced lock; set before anybody has a lease
	readers map[*Owner]int32 // of a read hold, instead of its owner: handles of each
	shown   bool             // of permits: their ids were told
	wishes  wishes           // what its handles want; nil: all the same, see allCompatible
	extends int32            // Extends on their way
	lingers *lingering       // of a hold that ever lingered

	extended lockstate.Indeterminate // copies of those that are answered may still run until then
}

// A lingering is the time for which a hold stays that was given back. One that is passed on and given back again and
// again has its timer all the while: what is due looks for itself whether it is over.
type lingering struct {
	hold  *hold
	item  wheel.Item[timed]
	until clock.Instant // when the hold is given back to the server
	at    clock.Instant // when the timer is due; 0: it is not armed
}

// ensureExtra is a hold's extra part, made if it has none.
func (h *hold) ensureExtra() *extra {
	if h.extra == nil {
		h.extra = &extra{}
	}
	return h.extra
}

// Key is what the watchdog renews.
func (h *hold) Key() string { return h.ent.key }

// Watched makes a hold the watchdog's subject.
func (h *hold) Watched() *renew.Hold { return &h.Hold }

// ownerID is how the field is shown: of permits the first id, as Redisson shows it.
func (h *hold) ownerID() string {
	switch f := traits(h.Family); {
	case f.Many:
		return hex.EncodeToString([]byte(h.Field[:resp.PermitID]))
	case f.parts:
		owner, _ := slot.CutGroup(h.Field)
		return owner
	default:
		return h.Field
	}
}

// lockRef returns the owner id, and its family, under which the key is held.
func (h *hold) lockRef() lockRef { return lockRef{h.Field, h.Family} }

// maxRemoteLife is how long the key can outlive now at most: what an Extend asked for counts.
func (h *hold) maxRemoteLife(now clock.Instant) time.Duration {
	return max(h.Lease(), h.Deadline().Sub(now)+h.Lease(), h.Indeterminate().Lease)
}

// freeBy is when the server has let go at the latest.
func (h *hold) freeBy() clock.Instant {
	return h.Deadline().Add(max(h.Lease(), h.Indeterminate().Lease))
}

// readsFor is how many handles of a read hold are an owner's.
func (h *hold) readsFor(o *Owner) int32 {
	if h.extra == nil {
		return 0
	}
	return h.extra.readers[o]
}

// contexts lists the contexts of the hold's leases. They are cancelled without the shard's mutex:
// their children are user code.
func (h *hold) contexts() []*leaseContext {
	var all []*leaseContext
	for c := h.watches(); c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}

// watches is the first of the contexts that were asked for.
func (h *hold) watches() *leaseContext {
	if h.extra == nil {
		return nil
	}
	return h.extra.watch
}

// watchOf finds the context of one lease.
func (h *hold) watchOf(ls *Lease) *leaseContext {
	for c := h.watches(); c != nil; c = c.next {
		if c.lease == ls && c.tell == nil {
			return c
		}
	}
	return nil
}

// unwatch takes the context of one lease out, and with it the one that it shares with others.
func (h *hold) unwatch(ls *Lease) (ended *leaseContext) {
	if h.extra == nil {
		return nil
	}
	for at := &h.extra.watch; *at != nil; {
		c := *at
		if c.lease != ls {
			at = &c.next
			continue
		}
		*at = c.next
		c.next, ended = ended, c
	}
	return ended
}

// An attempt is the one acquire of a name that has no final answer. Its owner id changes with every
// sending, except while an earlier copy may still run. It is part of the op that was first when it
// was sent, but outlives its interest: who is first when the answer comes gets it.
type attempt struct {
	ent   *entry // beside op.Sink, which the lane reads
	retry *retryState
	op    resp.Op
}

// retryState is what an attempt needs only once a sending has failed.
type retryState struct {
	lockstate.Asking
	a    *attempt
	item wheel.Item[timed] // the next sending
	last *resp.ServerError // since the last answer
}

// An acquireOp is one caller's wish for a lock: a future, and its place in the name's queue.
type acquireOp struct {
	Future[*Lease]
	lock *Lock
	set  *settings       // lock's: thousands of handles share one, so it is in cache where the handle is not
	ctx  context.Context //nolint:containedctx // the caller's, for the values of the lease's context

	lockstate.Waiter // Of, Try and Async are set before anybody knows it; the rest is guarded by the shard

	// Guarded by the shard.
	watch   *watching
	release releaseOp // how what it is granted is given back: by att's command, so they stand side by side
	att     attempt   // used while the op is first

	// What it is granted, in one piece with it as long as that may stay: see section.newLease. Whose it is, is known from
	// the beginning.
	lease Lease
}

// Claim, Pending and Terms are what a queue asks of an op.
func (op *acquireOp) Claim() bool { return op.claim() }

// Pending reports whether nobody has claimed it.
func (op *acquireOp) Pending() bool { return op.state.Load() == futurePending }

// Terms are what it wants.
func (op *acquireOp) Terms() *lockstate.Terms { return &op.set.Terms }

// A releaseOp gives one wire hold back. It is repeated until a definite answer; callers that wait
// for it are told earlier that the outcome is unknown.
type releaseOp struct {
	Future[struct{}]
	retry *releaseRetry // there once a sending has failed
	hold  *hold
	ent   *entry   // the hold's, so that the answer reads both at once from cold memory
	lease *Lease   // the handle that is given back; nil: Close's
	op    *resp.Op // nil: not sent yet, see Lease.spareOp
}

// releaseRetry is what a releaseOp needs only in trouble.
type releaseRetry struct {
	item    wheel.Item[timed]
	unknown bool // an earlier sending got no answer
	tries   int
	since   clock.Instant // of the first failure
	rests   bool          // it has failed for a while: nobody waits until it is sent again
}

// A fairRelease is the release of a fair lock that may be passed on: it is answered as any other.
type fairRelease struct {
	*releaseOp
	heirs []resp.Heir
}

// A singleOp is a command that stands outside a name's queue: Inspect, ForceRelease, Extend.
type singleOp[T any] struct {
	Future[T]
	eng    *Engine
	name   string
	op     resp.Op
	item   wheel.Item[timed]
	repeat bool // it may be sent again without an answer
	tries  int
	since  clock.Instant
	last   atomic.Pointer[ServerError] // what it was sent again for
	read   func(*resp.Result) (T, error)
	ctx    context.Context //nolint:containedctx // whose end is watched
	stop   func() bool     // ends that
	begin  func()          // before it is sent, and when its ctx was asked: that may take long, or panic
	done   func()          // when no command of it is on its way any more
	raises *extension      // an Extend's

	bounded       bool // its copies change something until their not-after: it ends when none can
	copies        bool // its copies without an answer are noted in:
	indeterminate lockstate.Indeterminate
	end           func() // its end, when that is waited for
}

// A reentry sends what Changes decide. It exists only for holds that were ever entered twice.
type reentry struct {
	lockstate.Changes
	hold      *hold
	op        resp.Op
	item      wheel.Item[timed]
	keeps     keeps // what an OpLeave on its way lowers the key's expiry to
	inFlight  bool  // op is on its way
	leaving   bool  // the last handle is being given back: nobody enters by the hold any more
	awaited   bool  // of a fair lock: a Try rests until it is
	unlowered bool  // the last handle that was taken off has left the key's expiry as it was
}

// A countedRelease is one caller's giving back. It is detached from its caller: a number that was given is given.
type countedRelease struct {
	Future[struct{}]
	eng  *Engine
	name string
	part int64 // what is left of it, for some were handed to who waits here: a refusal is of the rest; 0: it is whole
}

// pendingUnits are what is to be given back, and who waits for the answer.
type pendingUnits struct {
	units int64
	owed  int64 // of them, those that nobody waits for: they are given back whatever the server says
	ops   []*countedRelease
}

// A releaser gives back what is counted under one name. One command is on its way; what comes meanwhile is the next.
// No lease ends what is not given back, so it goes on until the server has taken it, or the engine is closed; callers
// are told earlier that the outcome is unknown.
type releaser struct {
	ent     *entry
	op      resp.Op
	item    wheel.Item[timed]
	sent    pendingUnits // by the command on its way, or to be sent again
	next    pendingUnits
	refused []refusedUnits // of those by that command, what nobody waits for
	busy    bool
	unknown bool // an earlier sending got no answer
	rests   bool // it has failed for a while: nobody waits until it is sent again
	tries   int
	began   clock.Instant // of the first sending
	since   clock.Instant // of the first failure of this number
}

// refusedUnits are units that the server has refused since then.
type refusedUnits struct {
	units int64
	since clock.Instant
}

// A latchState is what is known of a latch that is waited for.
type latchState struct {
	known int64         // the mark at which those who wait have seen it closed
	heard int           // messages since then that it is open
	hears bool          // it was still closed when more of them would have been heard
	gone  clock.Instant // since when it is gone, though nobody was heard to say that it is open; 0: it is there
}

// A loss is a hold that was lost just now, and whose holder is still to be told.
type loss struct {
	hold     *hold
	cause    renew.Cause
	contexts []*leaseContext // what the holder is told by
}

// A cleanup releases what nobody here believes to hold: a grant that came too late or that nobody
// wanted, a lost hold, an owner id whose acquire was never answered. It is repeated until the answer is
// definite and no copy of the acquire can run any more, or until one lease has passed: then the
// server has let go by itself.
type cleanup struct {
	eng           *Engine
	op            resp.Op
	item          wheel.Item[timed]
	indeterminate lockstate.Indeterminate // copies that may still run: no answer to what was sent before is the last
	giveUp        clock.Instant
	tries         int
	lease         time.Duration
	root          *entry        // stays until this has had an answer, and has some wait for it; nil: there was none
	undoes        bool          // it stands in children.undoing, once for itself
	began         clock.Instant // of its first sending
	rests         bool          // it has failed for a while: nobody waits until it is sent again
	unheard       *unheardParty // of a barrier; nil: it is none
}

// An unheardParty has left, and may never have been heard of.
type unheardParty struct {
	field, parties string
	named          bool // by a request
}

// A lockRef is an owner id and its family: a key is held, or waited for, under it.
type lockRef struct {
	field  string
	family resp.Family
}

// A family is what the engine knows of one kind of lock: a row of the table in family.go. What its commands are is
// resp's to know.
type family struct {
	lockstate.Traits // what decides

	kind    slot.Kind   // what its names must be like
	fenced  bool        // a grant carries a token
	unheard bool        // a release tells nobody
	lingers bool        // what was given back may stay for the next who asks here
	meets   bool        // who waits is a party: the server knows of it, and is told when it leaves
	fixed   bool        // without an option for it a lease is not renewed
	parts   bool        // a name is parts of an object: others may have some of them, and hear of its releases
	alone   bool        // it is one key: a value of another type there says that nothing of it is left
	spinsAs resp.Family // the family that it is with the option Spin; 0: it cannot spin

	channel          func(key string) string        // where its releases are published
	channelInCluster func(key string) string        // the same in a cluster; nil: channel
	ownChannel       func(key, field string) string // where a waiter hears that it is next; nil: all listen to channel
}

// goneBy reports whether an answer says that nothing of this family is left under the name.
func (f *family) goneBy(r *resp.Result) bool {
	return f.alone && r.Err != nil && r.Err.Class == resp.ClassWrongType
}

// What two families are to each other.

// entersAs reports whether one family's holder may enter as the other.
func entersAs(held, wanted resp.Family) bool { return traits(held).EntersAs(&traits(wanted).Traits) }

// otherKind reports whether two families exclude each other's values: where one stands, the other is refused.
func otherKind(a, b resp.Family) bool { return traits(a).OtherKind(&traits(b).Traits) }

// together reports whether holds of both may stand under one name, whoever has them.
func together(a, b resp.Family) bool { return traits(a).Shared && traits(b).Shared }

// beside reports whether who holds one may ask for a hold of the other beside it.
func beside(held, wanted resp.Family) bool {
	h := traits(held)
	return (h.Shared || h.ReadsToo) && traits(wanted).Shared
}

// upgrades reports whether the wanted one waits for the end of the one that is held: who asked would wait for itself.
func upgrades(held, wanted resp.Family) bool { return traits(held).Shared && traits(wanted).ReadsToo }

// forces reports whether a ForceRelease of one family takes away what another has there.
func forces(by, there resp.Family) bool {
	return traits(by).Mode == traits(there).Mode && (traits(by).Many || !traits(there).Many)
}

// traits returns the row of a family. Allocates: never.
func traits(f resp.Family) *family { return &families[f] }

// apart reports whether each hold, or each waiter, has an owner id of its own: a child.
func (f *family) apart() bool {
	return f.Shared || f.Mark == lockstate.MarkPlace || f.counted() || f.Many
}

// counted reports whether a grant leaves no hold: what is granted is a number.
func (f *family) counted() bool { return f.Serves != lockstate.ServesOne }

// called reports whether there are commands for it that change it and of which no entry knows: those that set its
// number. They take one lane, and so does all else of it, to stay in their order.
func (f *family) called() bool { return f.counted() || f.Many }

// A section is the time in which one goroutine holds a shard's mutex, for one logical event: a call, an answer, a
// timer. What changes names is a method of it, so that nobody can call that without the mutex. Results and calls to
// others are collected meanwhile, and carried out when the mutex is free: they may run user code.
//
//	sc := e.enter(hash)
//	sc.advance(ent)
//	sc.leave()
//
// It stays on the stack: no closure may hold it. One that was left has no shard any more.
type section struct {
	effects
	eng *Engine
	sh  *shard // nil: the mutex was let go
	at  *shard // the same, for lock

	leads bool      // whoever is in it waits for the answer: the lane is led by it, if nobody has it
	lead  resp.Lead // then it has to run this
}

// submit hands an op to its lane. Errors: *resp.ServerError; then nothing was sent.
func (sc *section) submit(op *resp.Op) error {
	lead, err := sc.eng.nodes.SubmitLed(op, sc.leads && !sc.lead.Is())
	if lead.Is() {
		sc.lead = lead
	}
	return err
}

// enter takes the mutex of the shard that has the names of this hash. Blocks: for it.
//
// It is inlined, so that a section is made where it stays: it is too large to be copied on every operation.
func (e *Engine) enter(hash uint64) section {
	sh := lockShard(e, hash)
	return section{eng: e, sh: sh, at: sh}
}

// lockShard is for enter alone, which would not be inlined if this were.
//
//go:noinline
func lockShard(e *Engine, hash uint64) *shard {
	sh := e.shard(hash)
	sh.mu.Lock()
	return sh
}

func (e *Engine) enterShard(sh *shard) section {
	sh.mu.Lock()
	return section{eng: e, sh: sh, at: sh}
}

// leave lets the mutex go and carries out what was collected. Blocks: never.
func (sc *section) leave() {
	sc.unlock()
	sc.effect()
}

// leaveAt is leave with a name for the time between the two, in which the simulation lets others come.
func (sc *section) leaveAt(between string) {
	sc.unlock()
	sc.eng.world.Yield(between)
	sc.effect()
}

// effect carries out what was collected, the loss first. Called without the mutex. Blocks: never.
func (sc *section) effect() {
	if sc.lost != nil {
		sc.tellLoss()
	}
	sc.publish()
}

// unlock lets the mutex go, for who has something to do before the effects.
func (sc *section) unlock() {
	sc.sh = nil
	sc.at.mu.Unlock()
}

// lock takes it again: what was collected before stays.
func (sc *section) lock() {
	sc.at.mu.Lock()
	sc.sh = sc.at
}

// effects collects what must happen after the shard's mutex is released: publishing results (user
// code may be waiting for them), watching contexts (user code too) and talking to the multiplexer.
type effects struct {
	results   lockstate.Chain // claimed ops with their result set
	releases  []answered      // of handles that shared a hold
	subscribe *wakeups
	drop      pubsub.Subscription
	watch     *acquireOp // its ctx is to be watched
	before    func()     // mostly nil: what comes before all results
	lost      *loss      // its holder is told before all results
	owed      *shard     // whose telling publish ends, if owe was called
	more      []func()   // further ones of subscribe, drop and watch: where children or many ops are involved
}

// answered is a release with its result.
type answered struct {
	op  *releaseOp
	err error
}

func (fx *effects) released(op *releaseOp, err error) {
	fx.releases = append(fx.releases, answered{op, err})
}

// grant gives a claimed op its lease: what was sent at one time was granted at another.
func (sc *section) grant(op *acquireOp, ls *Lease, sent, at clock.Instant) {
	op.value = ls
	ls.since = stampOf(at)
	sc.waited(op, sent, at)
	sc.eng.tell(EventHeld, ls.hold, "")
	sc.results.Add(&op.Waiter)
}

// fail completes a claimed op with an error.
func (fx *effects) fail(op *acquireOp, err error) {
	op.err = err
	fx.results.Add(&op.Waiter)
}

// look has the ctx of an op watched.
func (fx *effects) look(op *acquireOp) {
	if fx.watch == nil {
		fx.watch = op
	} else {
		fx.more = append(fx.more, func() { op.lock.eng.callbacks.Ask(op.ctx, op.watchContext) })
	}
}

// listen subscribes.
func (fx *effects) listen(p *wakeups) {
	if fx.subscribe == nil {
		fx.subscribe = p
	} else if fx.subscribe != p {
		fx.more = append(fx.more, p.open)
	}
}

// forget ends a subscription.
func (fx *effects) forget(sub pubsub.Subscription) {
	if fx.drop == nil {
		fx.drop = sub
	} else {
		fx.more = append(fx.more, sub.Drop)
	}
}

// refuse answers an op that was not queued.
func (sc *section) refuse(op *acquireOp, err error) {
	if op.claim() {
		sc.fail(op, &nameError{op.lock.Name(), err})
	}
}

// owe keeps Close from returning before publish has told what was collected. The engine's own goroutines need not:
// Close waits for them. Called last.
func (sc *section) owe() {
	if sc.owed == nil && (!sc.results.Empty() || sc.releases != nil || sc.more != nil) {
		sc.owed = sc.sh
		sc.sh.telling.Add(1)
	}
}

// told ends that of one call.
func (e *Engine) told(sh *shard) {
	if sh.telling.Add(-1) == 0 && e.closing.Load() {
		e.settled.Ring()
	}
}

// publish carries out what was collected. Called without the mutex. Blocks: never.
func (sc *section) publish() {
	if sc.before != nil {
		sc.before()
	}
	// Results first: callers wait for them.
	for w := sc.results.Take(); w != nil; w = sc.results.Take() {
		sc.eng.world.Yield("section.publish: a result | the next")
		opOf(w).finish()
	}
	for _, r := range sc.releases {
		sc.eng.world.Yield("section.publish: results | a release told")
		r.op.resolve(struct{}{}, r.err)
	}
	// Then the multiplexer, which takes its own mutex.
	if sc.drop != nil {
		sc.drop.Drop()
	}
	if sc.subscribe != nil {
		sc.subscribe.open()
	}
	// Then contexts: asking one may run code of others.
	if op := sc.watch; op != nil {
		sc.eng.callbacks.Ask(op.ctx, op.watchContext)
	}
	for _, f := range sc.more {
		f()
	}
	// Close may return now.
	if sc.owed != nil {
		sc.eng.told(sc.owed)
	}
}

// answered records that an op has its answer.
func (sc *section) answered() {
	sc.sh.pending--
	if sc.sh.pending == 0 && sc.eng.closing.Load() {
		sc.eng.settled.Ring()
	}
}

// A table finds entries by the hash that every operation carries anyway: chained buckets, linked
// through the entries themselves. It allocates only to grow, and gives memory back when most of it
// is empty, so that a million names used once leave nothing behind.
type table struct {
	buckets []*entry // a power of two
	n       int
}

// leastBuckets keeps small tables from growing and shrinking all the time.
const leastBuckets = 16

func (t *table) bucket(hash uint64) *(*entry) {
	// The low bits chose the shard, higher ones the lane.
	return &t.buckets[(hash>>8)&uint64(len(t.buckets)-1)]
}

// get returns the entry of a key, nil if there is none.
func (t *table) get(hash uint64, key string) *entry {
	if t.n == 0 {
		return nil
	}
	for ent := *t.bucket(hash); ent != nil; ent = ent.chain {
		if ent.hash == hash && ent.key == key {
			return ent
		}
	}
	return nil
}

// put adds an entry whose key is not in the table.
func (t *table) put(ent *entry) {
	if t.n >= len(t.buckets) {
		t.resize(max(2*len(t.buckets), leastBuckets))
	}
	t.n++
	b := t.bucket(ent.hash)
	ent.chain = *b
	*b = ent
}

// remove takes an entry out; nothing happens if it is not in.
func (t *table) remove(ent *entry) {
	if t.n == 0 {
		return
	}
	for b := t.bucket(ent.hash); *b != nil; b = &(*b).chain {
		if *b == ent {
			*b = ent.chain
			ent.chain = nil
			t.n--
			break
		}
	}
	if len(t.buckets) > leastBuckets && t.n < len(t.buckets)/8 {
		t.resize(len(t.buckets) / 4)
	}
}

func (t *table) resize(size int) {
	old := t.buckets
	t.buckets = make([]*entry, max(size, leastBuckets))
	for _, ent := range old {
		for ent != nil {
			// chain is overwritten below: look ahead.
			next := ent.chain
			b := t.bucket(ent.hash)
			ent.chain = *b
			*b = ent
			ent = next
		}
	}
}

// all yields every entry. The table must not change meanwhile.
func (t *table) all(yield func(*entry) bool) {
	for i := range t.buckets {
		for ent := t.buckets[i]; ent != nil; ent = ent.chain {
			if !yield(ent) {
				return
			}
		}
	}
}

func (e *Engine) shard(hash uint64) *shard { return &e.shards[hash%shardCount] }

// log has the user's logger told. Blocks: never.
func (e *Engine) log(level slog.Level, text string, args ...any) {
	e.callbacks.Say(level, text, args...)
}

// nameOf is a key without the engine's prefix; of values of a group it is the group.
func (e *Engine) nameOf(key string) string {
	name, _ := slot.CutGroup(strings.TrimPrefix(key, e.cfg.Prefix))
	return name
}

// resendAt says when a command that failed is sent again: after a pause of its own, and when the node
// may be asked to repeat anything.
func (e *Engine) resendAt(slot uint16, now clock.Instant, tries int) clock.Instant {
	return e.nodes.Owner(slot).Resend(now.Add(backoff(e.world, tries)))
}

// backoff spreads re-sends: the first comes almost at once, later ones up to a second apart.
func backoff(w *world.World, tries int) time.Duration {
	most := min(10*time.Millisecond<<min(2*(tries-1), 16), time.Second)
	return time.Millisecond + w.N(most)
}

// retryBudget is how long an operation that has never had an answer goes on trying through transient
// trouble, in attempt limits. One that was told "busy" before waits as long as it may.
const retryBudget = 3

const (
	// timerWidth is how late a timer of ours may be, beside the wheel's tick.
	timerWidth = 10 * time.Millisecond
	// shortWidth is the same for short pauses.
	shortWidth = 250 * time.Microsecond
	// tickEvery paces the look at overdue answers and stuck callbacks.
	tickEvery = callback.TickEvery
)

// longestTold is the longest time that is told apart: a server counts up to 292 million years, a
// time.Duration up to 292 years, and an instant on top of one less than that.
const longestTold = 100 * 365 * 24 * time.Hour

// forever is until when a lock without an expiry is held.
const forever = clock.Instant(1 << 62)

// fromServerMs turns a server's milliseconds into a duration. What is longer than a century is a century.
// Negative: there is no end.
func fromServerMs(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(min(ms, longestTold.Milliseconds())) * time.Millisecond
}
