package engine

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// clean starts a cleanup now.
//
// Of what is counted the server notes the last take of each taker alone: until this one is given back, others are made
// under another taker's name (entry.newTake).
func (sc *section) clean(ent *entry, w lockRef, d lockstate.Indeterminate, lease time.Duration) {
	c := sc.newCleanup(ent, w, d, lease)
	if traits(w.family).counted() {
		all := ent.root().ensureChildren()
		all.undoing, c.undoes = append(all.undoing, takerOf(w.field)), true
	}
	sc.sh.pending++
	sc.sendCleanup(c)
}

// takerOf is under whose name a request is noted.
func takerOf(request string) string {
	taker, _, _ := strings.Cut(request, ":")
	return taker
}

// cleaned lets those who waited for its answer go on.
func (sc *section) cleaned(c *cleanup) {
	root := c.root
	if c.root = nil; root == nil {
		return
	}
	if all := root.children(); all != nil && c.undoes {
		c.undoes = false
		if i := slices.Index(all.undoing, takerOf(c.op.Field)); i >= 0 {
			all.undoing = slices.Delete(all.undoing, i, i+1)
		}
	}
	rested := root.ReleaseAnswered()
	sc.advanceAll(root)
	if rested {
		sc.advanceChildren(root)
	}
}

// cleanLater starts one when no copy can run any more: what could be released was.
func (sc *section) cleanLater(ent *entry, w lockRef, d lockstate.Indeterminate, lease time.Duration) *cleanup {
	c := sc.newCleanup(ent, w, d, lease)
	sc.sh.pending++
	sc.eng.timers.Schedule(c, d.Until.Add(lockstate.ClockSlack))
	return c
}

// cleanUnbelieved gives back what was granted during force-releases, for they are over: before anything is asked for,
// which would be told of a grant of its own engine. What travels on another connection waits for the answer.
func (sc *section) cleanUnbelieved(root *entry) {
	if root.children() == nil || root.Forcing() {
		return
	}
	all := root.children().unbelieved
	root.children().unbelieved = nil
	for _, c := range all {
		if !sc.eng.timers.Cancel(&c.item) {
			continue
		}
		sc.sendCleanup(c)
	}
}

func (sc *section) newCleanup(ent *entry, w lockRef, d lockstate.Indeterminate, lease time.Duration) *cleanup {
	c := &cleanup{eng: sc.eng, indeterminate: d, lease: max(lease, d.Lease)}
	c.giveUp = max(sc.eng.clock.Now(), d.Until).Add(max(lease, d.Lease) + sc.eng.nodes.AttemptLimit())
	c.op = resp.Op{
		Kind: resp.OpRelease, Family: w.family, Key: ent.key, Hash: ent.hash, Slot: ent.slot, Field: w.field, Sink: c,
	}
	return c
}

// sendCleanup sends one, and what comes next to its name comes behind it, until it has an answer: it would else be told
// of a grant of its own engine.
func (sc *section) sendCleanup(c *cleanup) {
	if root := sc.sh.names.get(c.op.Hash, c.op.Key); root != nil && c.root == nil {
		c.root, c.op.Wide = root, root.wide
		root.GivenBack()
	} else if c.rests {
		c.rests = false
		c.root.GivenBackAgain()
	}
	now := c.eng.clock.Now()
	if c.began == 0 {
		c.began = now
	}
	if c.unheard != nil {
		c.op.Field = c.unheard.leftAgo(now.Sub(c.began))
	}
	if c.eng.nodes.Submit(&c.op) != nil { // closed: it expires by itself
		if c.root != nil {
			c.root.ReleaseAnswered()
			c.root = nil
		}
		sc.answered()
	}
}

// failsLong reports whether what gives back, begun then and failing, is to be sent again so late that others do not
// wait for it. A passing refusal is over by then, and who went on earlier would be told of a grant of its own engine.
// Where the slot moves it takes longer.
func (sc *section) failsLong(began, again clock.Instant, err *resp.ServerError) bool {
	longest := 200 * time.Millisecond
	switch err.Class {
	case resp.ClassMoved, resp.ClassAsk, resp.ClassTryAgain:
		longest = sc.eng.nodes.AttemptLimit()
	default:
	}
	return again.Sub(began) >= longest
}

// rest lets those go on who wait for it, until it is sent again: that can take an hour, and nothing is on its way.
func (sc *section) rest(c *cleanup, again clock.Instant, err *resp.ServerError) {
	if c.root == nil || !sc.failsLong(c.began, again, err) {
		return
	}
	c.rests = true
	sc.passBy(c.root)
}

// passBy lets those go on who wait for a give-back of the name that is not on its way.
func (sc *section) passBy(ent *entry) {
	root, rested := ent.root(), ent.GivenBackLater()
	sc.advanceAll(ent)
	if rested {
		sc.advanceChildren(root)
	}
}

// Scheduled is its place among the timers.
func (c *cleanup) Scheduled() *wheel.Item[timed] { return &c.item }

// due sends it again.
func (c *cleanup) due(clock.Instant) {
	sc := c.eng.enter(c.op.Hash)
	defer sc.leave()
	sc.sendCleanup(c)
}

// Answered takes the server's answer. It runs on the lane.
func (c *cleanup) Answered(_ *resp.Op, r *resp.Result) {
	e := c.eng
	now := e.clock.Now()
	sc := e.enter(c.op.Hash)
	if r.Code == resp.CodeReleased && !traits(c.op.Family).meets {
		sc.sh.counts.ghosts++
	}
	if traits(c.op.Family).goneBy(r) { // nothing is there that could be given back
		r = &resp.Result{Code: resp.CodeNotOurs, SentAt: r.SentAt, ReceivedAt: r.ReceivedAt}
	}
	if r.Err == nil { // else it is sent again
		sc.cleaned(c)
	}
	if root := sc.sh.names.get(c.op.Hash, c.op.Key); root != nil && traits(c.op.Family).Shared {
		sc.readEnded(root, c.lease)
	}
	sc.settleCleanup(c, r, now)
	sc.leave()
}

// placeLasts is how long it is tried to take a place out of a fair lock's queue. No lease ends a place; others pass it
// over after 5 s, but only once it is the first.
const placeLasts = 5 * time.Minute

// requestLasts is how long it is tried to give back what a request took of what is counted: for as long as its number
// is noted.
const requestLasts = time.Hour

// keptBeyond reports whether the key may outlive what is to be released, and for how long it has to be gone on
// with: who reads here renews a read-write lock's key, and a write hold in it would stay as long. The owner id of a
// fair lock may have a place in its queue.
func (sc *section) keptBeyond(c *cleanup, now clock.Instant) bool {
	if f := traits(c.op.Family); f.counted() {
		return !f.meets && now.Before(c.giveUp.Add(requestLasts))
	}
	if traits(c.op.Family).Mark == lockstate.MarkPlace {
		return now.Before(c.giveUp.Add(placeLasts))
	}
	if !traits(c.op.Family).Halved() {
		return false
	}
	root := sc.sh.names.get(c.op.Hash, c.op.Key)
	for ent := range root.withChildren {
		if h := ent.hold; h != nil && traits(h.Family).Halved() {
			c.giveUp = max(c.giveUp, now.Add(h.maxRemoteLife(now)))
		}
	}
	if root != nil && root.children() != nil { // the server need not have heard yet that those were given back
		c.giveUp = max(c.giveUp, root.children().lasts)
	}
	return now.Before(c.giveUp)
}

// settleCleanup decides whether the answer is the last.
func (sc *section) settleCleanup(c *cleanup, r *resp.Result, now clock.Instant) {
	e := c.eng
	switch {
	case e.draining.Load():
		if r.Err != nil {
			sc.sh.counts.abandoned++
			e.givenUp.add(e.nameOf(c.op.Key), r.Err)
		}
		sc.cleaned(c)
		sc.answered()
	case r.Err != nil && (now.Before(c.giveUp) || sc.keptBeyond(c, now)):
		c.tries++
		again := e.resendAt(c.op.Slot, now, c.tries)
		e.timers.Schedule(c, again)
		sc.rest(c, again, r.Err)
	case r.Err == nil && c.indeterminate.MayRunAfter(r.SentAt):
		e.timers.Schedule(c, c.indeterminate.Until.Add(lockstate.ClockSlack))
	default:
		if r.Err != nil {
			sc.sh.counts.abandoned++
		}
		sc.cleaned(c)
		sc.answered()
	}
}

// partyLeaves tells the server that one has left: which it may know, or, where it gave up before it was named, that the
// others of its generation will not meet it. It goes on until that is answered, or its engine would be overdue. Not for
// others than parties.
func (sc *section) partyLeaves(ent *entry, op *acquireOp, gaveUp bool) {
	if !traits(op.set.family).meets {
		return
	}
	all := ent.ensureChildren()
	id, named := all.parties[op]
	switch {
	case named:
		delete(all.parties, op)
	case gaveUp:
		id = sc.eng.requests.Add(1)
	default:
		return
	}
	field := newRequest(sc.eng) + ":" + strconv.FormatInt(id, 10)
	c := sc.newCleanup(ent, lockRef{field, op.set.family}, lockstate.Indeterminate{}, op.set.Lease)
	if gaveUp && !op.SawClosed {
		c.unheard = &unheardParty{field, "/" + strconv.Itoa(int(op.set.Units)) + "/", named}
		if slices.Contains(all.fresh, op) {
			all.left = append(all.left, c.unheard)
		}
	}
	sc.sh.pending++
	sc.sendCleanup(c)
}

// leftAgo says how long ago it left: it was of no generation that began later.
func (p *unheardParty) leftAgo(d time.Duration) string {
	field := p.field + p.parties + strconv.FormatInt(d.Milliseconds(), 10)
	if p.named {
		field += "+"
	}
	return field
}
