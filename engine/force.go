package engine

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// ForceRelease takes the lock away from whoever holds it and wakes the waiters; it says whether
// there was a lock. A holder in this engine is told that it lost the lock before the command is
// sent; one elsewhere learns it by its next renewal, or, if it is not renewed, at its deadline, and so does who waits
// for the lock in the same engine as that one (of a fair lock: 1.2 s later at most). All others who wait are woken at
// once. Of a read-write lock each half is released by itself, and takes nothing where the other half is held. A waiter
// of this engine that the server has just granted the lock, and that does not know yet, is a holder, too: it asks
// again, for a fair lock from the end of the queue.
//
// Where an answer is lost the command is sent again, and it has an end all the same: when ForceRelease has
// returned anything but ctx's error, no copy of the command can take a lock away any more. Then it says
// whether there may have been a lock. What a holder in this engine was told to have lost is given back,
// whatever the server answers.
//
// Blocks: for one round trip, or until ctx ends; longer in trouble. Errors: as Inspect, and ErrUnknown.
func (l *Lock) ForceRelease(ctx context.Context) (bool, error) {
	return l.ForceReleaseAsync(ctx).Await(ctx)
}

// ForceReleaseAsync is ForceRelease as a future.
func (l *Lock) ForceReleaseAsync(ctx context.Context) *Future[bool] {
	op := &singleOp[bool]{eng: l.eng, name: l.Name(), repeat: true, bounded: true}
	freed := false
	op.read = func(r *resp.Result) (bool, error) {
		switch r.Code {
		case resp.CodeReleased:
			freed = true
			l.alsoTaken(false)
			return true, nil
		case resp.CodeNone:
			return op.indeterminate.Until != 0, nil // or an earlier sending has released it
		default:
			return false, &nameError{l.Name(), ErrWrongKind}
		}
	}
	op.begin = func() {
		holds := l.beginForceRelease()
		op.done = func() {
			switch {
			case freed:
				holds = nil
			case op.indeterminate.Until != 0:
				holds = append(holds, l.alsoTaken(true)...)
			}
			l.endForceRelease(holds)
		}
	}
	op.op = resp.Op{
		Kind: resp.OpForce, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot,
		Field: traits(l.set.family).channel(l.key),
	}
	return single(ctx, l, op)
}

// beginForceRelease makes the local holds of a name lost, which it returns, and keeps grants that are answered
// until endForceRelease from being believed.
func (l *Lock) beginForceRelease() []*hold {
	sc := l.eng.enter(l.hash)
	ent := sc.makeEntry(l)
	ent.ForceBegun()
	var holds []*hold
	for at := range ent.withChildren {
		at.Overtake()
		if h := at.hold; h != nil && ent.takenBy(l.set.family, h) {
			h.ForceBegun()
			holds = append(holds, h)
		}
	}
	sc.leave()
	l.loseForced(holds)
	return holds
}

// loseForced makes holds lost, and returns when they are: what comes next may take them off the server. Another
// ForceRelease may have ended the watch of one already and be about to say so; then whoever is first does it.
func (l *Lock) loseForced(holds []*hold) {
	e := l.eng
	for _, h := range holds {
		e.world.Yield("Lock.loseForced: marked | a loss told")
		e.watchdog.Lose(h, renew.CauseForced)
		listener{e}.Lost(h, renew.CauseForced)
	}
}

// alsoTaken makes those lost, and returns them, whom the command took besides: a read-write lock's mode when it runs is
// not always what it was here when it was sent, for its writer's release may run in between. What was released was
// everything there was. Where nobody knows (unknown), a copy may have run at any time: but in no other mode than
// that of a write hold which is still believed. Nothing was granted since the command was sent.
func (l *Lock) alsoTaken(unknown bool) (holds []*hold) {
	f := l.set.family
	if !traits(f).Halved() {
		return nil
	}
	sc := l.eng.enter(l.hash)
	ent := sc.sh.names.get(l.hash, l.key)
	spared := unknown && ent != nil && ent.hold != nil && traits(ent.hold.Family).ReadsToo && !forces(f, ent.hold.Family)
	for at := range ent.withChildren {
		h := at.hold
		if h == nil || spared || !traits(h.Family).Halved() || !h.Held() {
			continue
		}
		h.ForceBegun()
		holds = append(holds, h)
	}
	sc.leave()
	l.loseForced(holds)
	return holds
}

// takenBy reports whether a ForceRelease of a family takes a hold of this name away: any kind that one
// holds is taken by any of them; of a read-write lock what is there is taken only in its own mode, and with
// the write lock all that its owner reads beside it.
func (ent *entry) takenBy(f resp.Family, h *hold) bool {
	there := h.Family
	if w := ent.hold; w != nil && traits(w.Family).ReadsToo && !otherKind(w.Family, there) {
		there = w.Family
	}
	return forces(f, there)
}

// endForceRelease ends that, when no copy of the command can run any more. What holds have lost to it, and the
// server was not seen to release, is given back.
func (l *Lock) endForceRelease(holds []*hold) {
	sc := l.eng.enter(l.hash)
	for _, h := range holds {
		sc.clean(h.ent, h.lockRef(), h.Indeterminate(), h.maxRemoteLife(l.eng.clock.Now()))
	}
	if ent := sc.sh.names.get(l.hash, l.key); ent != nil {
		ent.ForceAnswered()
		sc.cleanUnbelieved(ent)
		for at := range ent.withChildren {
			sc.advance(at)
		}
	}
	sc.owe()
	sc.leave()
}
