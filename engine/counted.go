package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// What is counted has no owner: a grant leaves no hold, no lease and nothing to renew, and may be for many waiters at
// once. So an acquire asks for all who wait, and what comes of it is dealt out here. What is given back is a number,
// too: it goes to who waits here as long as a tenure lasts, or to the server, everything that came meanwhile in one
// command.
//
// Nothing on the server says whether a request was carried out, so each has a number of its own (resp/scripts/
// fragments/requests.lua). One acquire and one release of a name are on their way at a time: a copy that comes late is
// known by its number.

// newTake names a take. The note of one that is being given back must stay until that is done: meanwhile the engine
// takes under another name.
func (ent *entry) newTake() string {
	request, taker := newRequest(ent.eng), ent.eng.id
	for i := 1; slices.Contains(ent.root().ensureChildren().undoing, taker); i++ {
		taker = ent.eng.id + "." + strconv.Itoa(i)
	}
	return taker + request[len(ent.eng.id):]
}

// A demanding is an acquire of what is counted: it says how much everybody who waits wants.
type demanding struct {
	*attempt
	wanted []int32
}

// Wanted runs on the lane.
func (d *demanding) Wanted() []int32 { return d.wanted }

// mostWanted is for how many waiters one command asks.
const mostWanted = 128

// ask makes the attempt ask for those who wait.
func (a *attempt) ask() {
	switch f := traits(a.op.Family); {
	case f.meets:
		a.meet()
	case f.Serves == lockstate.ServesAll:
		a.look()
	default:
		a.demand()
	}
}

// demand makes the attempt ask for those who wait. What was sent without an answer is asked for under the same number.
func (a *attempt) demand() {
	d, sum := &demanding{attempt: a}, int64(0)
	for op := range a.ent.ops {
		sum += int64(op.set.Units)
		if len(d.wanted) == mostWanted || sum > math.MaxInt32 || op.set.family != a.op.Family {
			break
		}
		if op.Pending() {
			d.wanted = append(d.wanted, op.set.Units)
		}
	}
	if a.op.Sink = d; !a.kept() {
		a.op.Field = a.ent.newTake()
	}
	a.op.Kind, a.op.Count = resp.OpReacquire, 1
}

// serve deals out what an acquire took. What nobody wants any more is given back.
func (sc *section) serve(a *attempt, r *resp.Result) {
	if traits(a.op.Family).Serves == lockstate.ServesAll {
		sc.looked(a, r)
		return
	}
	ent := a.ent
	by, few := ent.WokenBy(), r.Value < a.op.Sink.(*demanding).sum()
	ent.Tenure(tenureEnd(r))
	// In their order; who has left meanwhile takes nothing.
	served, left := ent.Serve(&traits(a.op.Family).Traits, int32(r.Value), 0) //nolint:gosec // see demand
	for w := served.Take(); w != nil; w = served.Take() {
		sc.sh.counts.grants++
		sc.sh.counts.origin(by)
		sc.waited(opOf(w), r.SentAt, r.ReceivedAt)
		sc.results.Add(w)
	}
	if left > 0 {
		sc.releaseUnits(ent, a.op.Family, pendingUnits{units: int64(left), owed: int64(left)})
	}
	// Where there were too few for all that were asked for there are none for those who are left. Else those who have
	// come since are asked for.
	if few {
		sc.refuseTries(ent, a.op.Family, false, r.ReceivedAt) // who wants another kind is asked for
		sc.tellRest(ent, a.op.Family, r.SentAt)
	}
	if few && ent.First() != nil && !ent.Asked() { // what is given back may have asked already
		ent.ensureWakeups()
		ent.Busy(forever, false)
		sc.applyStep(ent, ent.AfterBusy(&traits(a.op.Family).Traits))
		return
	}
	sc.advance(ent)
}

// sum is how much all of them want.
func (d *demanding) sum() (all int64) {
	for _, n := range d.wanted {
		all += int64(n)
	}
	return all
}

// tellRest notes that others were served before those who go on waiting. It is no answer to who wants another kind.
func (sc *section) tellRest(ent *entry, f resp.Family, sent clock.Instant) {
	for w := ent.First(); ent.Meant(&traits(f).Traits) && w.TellBusy(); w = w.Next() {
		sc.toldBusy(opOf(w), sent)
		sc.watchWait(opOf(w))
	}
}

// handOut gives what is given back here to those who wait here, as long as the tenure lasts. It returns what is left.
func (sc *section) handOut(ent *entry, f resp.Family, units int32) (left int32) {
	all := traits(f).Serves == lockstate.ServesAll // then what is given is not for those who wait
	if all || ent.First() == nil || sc.eng.cfg.NoHandOff || sc.eng.closing.Load() {
		return units
	}
	now := sc.eng.clock.Now()
	if !ent.TenureOpen(now) {
		return units
	}
	served, left := ent.HandOut(&traits(f).Traits, units)
	for w := served.Take(); w != nil; w = served.Take() {
		ent.Passed()
		sc.sh.counts.grants++
		sc.sh.counts.handOffs++
		sc.waited(opOf(w), now, now)
		sc.results.Add(w)
	}
	sc.tellRest(ent, f, now)
	return left
}

func (g *pendingUnits) add(more pendingUnits) {
	g.units, g.owed, g.ops = g.units+more.units, g.owed+more.owed, append(g.ops, more.ops...)
}

func (op *countedRelease) abandon(error) bool     { return false }
func (op *countedRelease) runner() *callback.Pool { return op.eng.callbacks }
func (op *countedRelease) awaitEnded(cause error) error {
	return leftBehind(op.name, cause, leftCounted)
}

// releaseUnits has so much given back.
func (sc *section) releaseUnits(ent *entry, f resp.Family, what pendingUnits) {
	g := ent.releaserOf(f)
	// What comes while a command is on its way is the next one's.
	g.next.add(what)
	if !g.busy {
		sc.sendPending(g)
	}
}

// releaserOf finds a family's, or makes it: somebody may ask for a latch by a semaphore's name, and each is refused for
// itself.
func (ent *entry) releaserOf(f resp.Family) *releaser {
	all := ent.ensureChildren()
	for _, g := range all.releasers {
		if g.op.Family == f {
			return g
		}
	}
	g := &releaser{ent: ent}
	g.op = resp.Op{Kind: resp.OpRelease, Family: f, Key: ent.key, Hash: ent.hash, Slot: ent.slot, Wide: ent.wide, Sink: g}
	all.releasers = append(all.releasers, g)
	return g
}

// sendPending sends what has come together.
func (sc *section) sendPending(g *releaser) {
	ent := g.ent
	g.sent, g.next, g.refused, g.busy, g.unknown, g.tries = g.next, pendingUnits{}, nil, true, false, 0
	g.began, g.since = sc.eng.clock.Now(), 0
	g.op.Field = newRequest(sc.eng) + ":" + strconv.FormatInt(g.sent.units, 10)
	sc.sh.pending++
	ent.ReleaseSent()
	if err := sc.eng.nodes.Submit(&g.op); err != nil {
		sc.unitsReleased(g, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
		return
	}
	if ent.First() != nil && ent.TenureOpen(sc.eng.clock.Now()) {
		ent.SendBehindRelease()
		sc.advance(ent)
	}
}

// Scheduled is its place among the timers.
func (g *releaser) Scheduled() *wheel.Item[timed] { return &g.item }

// due sends it again.
func (g *releaser) due(clock.Instant) {
	sc := g.ent.eng.enter(g.ent.hash)
	if g.rests {
		g.rests = false
		g.ent.GivenBackAgain()
	}
	err := sc.eng.nodes.Submit(&g.op)
	sc.leave()
	if err != nil {
		g.Answered(&g.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
	}
}

// Answered takes the server's answer. It runs on the lane.
func (g *releaser) Answered(_ *resp.Op, r *resp.Result) {
	e := g.ent.eng
	sc := e.enter(g.ent.hash)
	if r.Err == nil || !sc.releaseAgain(g, r) {
		sc.unitsReleased(g, r)
	}
	sc.leaveAt("releaser.Answered: decided | told")
}

// releaseAgain has it sent again, if that may help, and says whether it does.
func (sc *section) releaseAgain(g *releaser, r *resp.Result) bool {
	e := sc.eng
	now := e.clock.Now()
	g.tries++
	g.unknown = g.unknown || !r.Definite()
	if g.since == 0 {
		g.since = now
	}
	// A number that is not given back stays missing: nothing ends that but the server's word, or Close. What callers give
	// back is theirs again if it is refused; what nobody waits for is nobody's.
	refused := r.Definite() && !r.Err.Class.Transient() && !faultOf(r, g.op.Family).Passes && !g.unknown
	if refused && g.refuse(now) {
		sc.sh.counts.abandoned++
	}
	switch {
	case e.draining.Load(), refused && g.sent.owed == 0, now.Sub(g.since) > requestLasts:
		return false
	case refused:
		sc.tellReleased(&g.sent, fromServer(e.nameOf(g.op.Key), r.Err))
		// What came meanwhile goes with the rest: it would else wait for as long as that is refused.
		g.sent.units = g.sent.owed
		g.sent.add(g.next)
		g.next, g.since = pendingUnits{}, 0
		g.op.Field = newRequest(e) + ":" + strconv.FormatInt(g.sent.units, 10)
	case now.Sub(g.since) > retryBudget*e.nodes.AttemptLimit():
		err := g.unknownError(r)
		sc.tellReleased(&g.sent, err)
		sc.tellReleased(&g.next, err)
		g.sent.owed, g.next.owed = g.sent.units, g.next.units
	}
	again := e.resendAt(g.op.Slot, now, g.tries)
	e.timers.Schedule(g, again)
	if sc.failsLong(g.began, again, r.Err) {
		g.rests = true
		sc.passBy(g.ent)
	}
	return true
}

// refuse follows a refusal of what was sent. Nobody waits for what is owed: it is tried for so long, each part from its
// own first refusal on. It says whether one has had its time.
func (g *releaser) refuse(now clock.Instant) (abandoned bool) {
	for _, op := range g.sent.ops { // who has given a part to others here cannot give all of it back once more
		g.sent.owed += op.part
	}
	fresh := g.sent.owed
	for _, old := range g.refused {
		fresh -= old.units
	}
	if fresh > 0 {
		g.refused = append(g.refused, refusedUnits{fresh, now})
	}
	for len(g.refused) > 0 && now.Sub(g.refused[0].since) > requestLasts {
		g.sent.owed -= g.refused[0].units
		g.refused, abandoned = g.refused[1:], true
	}
	return abandoned
}

// unknownError says that nobody knows whether it was given, and that it may yet be.
func (g *releaser) unknownError(r *resp.Result) error {
	return &UnknownError{Name: g.ent.eng.nameOf(g.op.Key), cause: r.Err, applies: true}
}

// unitsReleased follows the last answer.
func (sc *section) unitsReleased(g *releaser, r *resp.Result) {
	e, ent := sc.eng, g.ent
	var err error
	switch {
	case r.Code == resp.CodeNotOurs:
		err = &nameError{e.nameOf(g.op.Key), ErrWrongKind}
	case r.Err == nil:
		sc.sh.counts.releases += int64(len(g.sent.ops))
		if r.Value > 0 {
			sc.sh.counts.heard++
		}
	case r.Definite() && !g.unknown:
		err = fromServer(e.nameOf(g.op.Key), r.Err)
	default:
		err = g.unknownError(r)
	}
	// Whoever closes is told of what nobody knows of.
	if err != nil && e.closing.Load() {
		sc.sh.counts.abandoned++
		e.givenUp.add(e.nameOf(g.op.Key), r.Err)
	}
	sc.tellReleased(&g.sent, err)
	root, rested := ent.root(), ent.ReleaseAnswered()
	if r.Err == nil {
		sc.yieldName(ent, g.op.Family, r, lockstate.YieldLeast)
	}
	if g.busy = false; g.next.units > 0 {
		sc.sendPending(g)
	}
	sc.advance(ent)
	if rested { // of another kind, on another connection
		sc.advanceChildren(root)
	}
	sc.answered()
}

// tellReleased tells those who wait for the answer.
func (sc *section) tellReleased(g *pendingUnits, err error) {
	ops := g.ops
	if g.ops = nil; len(ops) == 0 {
		return
	}
	sc.more = append(sc.more, func() {
		for _, op := range ops {
			told := err
			if err != nil && op.part > 0 && !errors.Is(err, ErrUnknown) {
				told = &UnknownError{Name: op.name, cause: err, applies: true}
			}
			op.resolve(struct{}{}, told)
		}
	})
}

// name gives an attempt the ids of so many permits, unless those it has must be kept.
func (a *attempt) name(units int32) {
	if !a.kept() {
		a.op.Field = newPermits(a.ent.eng, units)
	}
	a.op.Kind, a.op.Count = resp.OpReacquire, 1
}

// newPermits makes ids: the first half of each says which engine has it, the other one is random.
func newPermits(e *Engine, n int32) string {
	ids := make([]byte, 0, n*resp.PermitID)
	for range n {
		ids = binary.BigEndian.AppendUint64(ids, permitMark(e))
		ids = binary.BigEndian.AppendUint64(ids, uint64(e.world.Int64())) //nolint:gosec // bits
	}
	return string(ids)
}

func permitMark(e *Engine) uint64 { return xxhash.Sum64String(e.id) }

// A latch is open, or not: an acquire of it takes nothing, and lets everybody in who asks.

// A looking is the acquire of a latch: it takes nothing, and asks for all who wait when it is sent.
type looking struct {
	*attempt
	known int64
	heard int  // messages until then that it is open
	hears bool // it would hear more of them
	asks  []*acquireOp
}

// Known runs on the lane.
func (k *looking) Known() int64 { return k.known }

// look makes the attempt ask for those who wait. Those who come when it is on its way ask for themselves: what the
// latch was before they came is nothing to them.
func (a *attempt) look() {
	latch, waits := &a.ent.ensureChildren().latch, false
	k := &looking{attempt: a, known: -1, hears: a.ent.wakeups() != nil && a.ent.wakeups().hears}
	for op := range a.ent.ops {
		if op.set.family != a.op.Family {
			break
		}
		waits = waits || op.SawClosed
		k.asks = append(k.asks, op)
	}
	if waits {
		k.known, k.heard = latch.known, latch.heard
	} else { // what is known was for those who waited before them
		*latch = latchState{}
	}
	a.op.Sink, a.op.Kind, a.op.Count = k, resp.OpReacquire, 1
}

// How long after a latch is gone it is waited for word that it was open, and how often it is looked at meanwhile. Who
// opens it says so at the same moment, but by another connection.
const (
	goneFor  = time.Second
	goneLook = 100 * time.Millisecond
)

// A lookVerdict says what becomes of who asked.
type lookVerdict uint8

const (
	lookWaits lookVerdict = iota // it is closed
	lookAgain                    // the answer says nothing about it
	lookOpen
	lookGone
)

// verdicts says what an answer means to those who have seen the latch closed, and to newcomers, who have not.
// subscribes: who waits is to hear of openings, and has missed none since it asked for that.
func (s *latchState) verdicts(k *looking, r *resp.Result, subscribes bool) (waiters, newcomers lookVerdict) {
	gone := s.gone
	s.gone = 0
	switch r.Code {
	case resp.CodeGranted:
		return lookOpen, lookOpen
	case resp.CodeOpened:
		return lookOpen, lookAgain
	case resp.CodeDeleted:
		return lookGone, lookAgain
	case resp.CodeGone: // to a newcomer that is open
		if gone == 0 {
			gone = r.ReceivedAt
		}
		switch {
		case s.heard > 0, !s.hears && subscribes: // or it was opened before anybody here could hear of it
			return lookOpen, lookOpen
		case r.ReceivedAt.Sub(gone) >= goneFor:
			return lookGone, lookOpen
		}
		s.gone = gone
		return lookWaits, lookOpen
	default:
		if s.heard == k.heard { // what was heard was before this answer
			s.heard = 0
		}
		s.hears = s.hears || k.hears
		return lookWaits, lookWaits
	}
}

// looked deals with the answer.
func (sc *section) looked(a *attempt, r *resp.Result) {
	ent, k := a.ent, a.op.Sink.(*looking)
	latch, by := &ent.children().latch, ent.WokenBy()
	ent.Settled()
	ent.ensureWakeups()
	// Each by what it has seen.
	waiters, newcomers := latch.verdicts(k, r, ent.wakeups().asked && !ent.wakeups().lost)
	for _, op := range k.asks {
		v := newcomers
		if op.SawClosed {
			v = waiters
		}
		switch {
		case !op.Queued():
		case v == lookWaits:
			sc.sawClosed(op, r)
		case v != lookAgain:
			ent.Unlink(&op.Waiter)
			if !op.claim() {
				break
			}
			if v == lookGone {
				sc.sh.counts.errors++
				sc.fail(op, &nameError{op.lock.Name(), ErrLatchGone})
				break
			}
			sc.sh.counts.grants++
			sc.sh.counts.origin(by)
			sc.waited(op, r.SentAt, r.ReceivedAt)
			sc.results.Add(&op.Waiter)
		}
	}
	sc.afterLook(a, r)
}

// sawClosed makes one wait for the next opening.
func (sc *section) sawClosed(op *acquireOp, r *resp.Result) {
	if !op.SawClosed {
		op.SawClosed = true
		sc.entryOf(op).children().latch.known = r.Value
	}
	if op.TellBusy() {
		sc.toldBusy(op, r.SentAt)
		sc.watchWait(op)
	}
}

// afterLook has the queue wait, or look again at once for those who have had no answer.
func (sc *section) afterLook(a *attempt, r *resp.Result) {
	ent, until := a.ent, forever
	if ent.children().latch.gone != 0 {
		until = r.ReceivedAt.Add(goneLook)
	}
	ent.Busy(until, false)
	for op := range ent.ops {
		if op.set.family != a.op.Family { // they wait until the latch is open
			break
		}
		if !op.SawClosed {
			sc.advance(ent)
			return
		}
	}
	sc.applyStep(ent, ent.AfterBusy(&traits(a.op.Family).Traits))
}
