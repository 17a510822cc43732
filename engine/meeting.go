package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// At a barrier nobody is granted anything: each who waits is a party, which the server knows by a number. A request
// names all parties of this engine that wait, so who is not named any more has left; it is repeated with every poll,
// which is the engine's sign of life. Requests have numbers that rise, and the server knows the last: a copy that comes
// late, or one that was overtaken, changes nothing, and the engine asks again.

// MaxParties is how many a barrier may wait for: a command works for each of those who wait.
const MaxParties = 1000

// A meeting is a request for the parties of a barrier.
type meeting struct {
	*attempt
	asks []*acquireOp
}

// namedNobody follows a request that has not run: whom it would have been the first to name the server has never
// heard of.
func (a *attempt) namedNobody() {
	if _, meets := a.op.Sink.(*meeting); !meets {
		return
	}
	all := a.ent.ensureChildren()
	for _, op := range all.fresh {
		delete(all.parties, op)
	}
	for _, p := range all.left {
		p.named = false
	}
}

// meet makes the attempt ask for everybody who waits.
func (a *attempt) meet() {
	e, all := a.ent.eng, a.ent.ensureChildren()
	if all.parties == nil {
		all.parties = make(map[*acquireOp]int64)
	}
	all.fresh, all.left = nil, nil
	m, list := &meeting{attempt: a}, make([]string, 0, 4)
	for op := range a.ent.ops {
		id, known := all.parties[op]
		if op.set.family != a.op.Family { // those behind it are parties, too: they are waited for here
			continue
		}
		if !op.Pending() || !known && len(m.asks) >= MaxParties { // who is known is named, or it would have left
			continue
		}
		if !known {
			id = e.requests.Add(1)
			all.parties[op] = id
			all.fresh = append(all.fresh, op)
		}
		party := strconv.FormatInt(id, 10) + "/" + strconv.Itoa(int(op.set.Units))
		if op.SawClosed {
			party += "+"
		}
		m.asks, list = append(m.asks, op), append(list, party)
		a.op.LeaseMs = max(a.op.LeaseMs, op.set.Lease.Milliseconds())
	}
	a.op.Field = newRequest(e) + ":" + strings.Join(list, ",")
	a.op.Sink, a.op.Kind, a.op.Count = m, resp.OpReacquire, 1
}

// met deals with what has become of each.
func (sc *section) met(a *attempt, r *resp.Result) {
	ent, m, by := a.ent, a.op.Sink.(*meeting), a.ent.WokenBy()
	ent.Settled()
	ent.ensureWakeups()
	ent.children().fresh, ent.children().left = nil, nil // the server has heard of them
	for i, op := range m.asks[:len(r.Verdicts)] {
		v := r.Verdicts[i]
		switch {
		case !op.Queued():
		case v == resp.PartyWaits:
			op.SawClosed = true
			if op.TellBusy() {
				sc.toldBusy(op, r.SentAt)
				sc.watchWait(op)
			}
		default:
			ent.Unlink(&op.Waiter)
			delete(ent.children().parties, op)
			if !op.claim() {
				break
			}
			if err := partyError(op, v); err != nil {
				sc.sh.counts.errors++
				sc.fail(op, err)
				break
			}
			sc.sh.counts.grants++
			sc.sh.counts.origin(by)
			sc.waited(op, r.SentAt, r.ReceivedAt)
			sc.results.Add(&op.Waiter)
		}
	}
	until := forever
	if r.Value >= 0 {
		until = r.ReceivedAt.Add(fromServerMs(r.Value))
	}
	ent.Busy(until, false)
	for op := range ent.ops { // again at once, for those who have had no answer
		if op.set.family == a.op.Family && (!op.SawClosed || r.Verdicts == "") {
			sc.advance(ent)
			return
		}
	}
	sc.applyStep(ent, ent.AfterBusy(&traits(a.op.Family).Traits))
}

// partyError is what one is told who does not wait any more; nil: all have come.
func partyError(op *acquireOp, verdict byte) error {
	switch name := op.lock.Name(); verdict {
	case resp.PartyPasses:
		return nil
	case resp.PartyBroken:
		return &nameError{name, ErrBarrierBroken}
	case resp.PartyDiffers:
		return &nameError{name, fmt.Errorf("%w, and %d are asked for here", ErrParties, op.set.Units)}
	default:
		return &UnknownError{Name: name, cause: ErrBarrierBroken, applies: true}
	}
}
