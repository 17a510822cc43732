package engine

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// ForceRelease takes the lock away from whoever holds it and wakes the waiters; it says whether
// there was a lock. A holder in this engine is told that it lost the lock before the command is
// sent; one elsewhere learns it by its next renewal, or, if it is not renewed, at its deadline. Of a read-write lock
// each half is released by itself, and takes nothing where the other half is held.
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
			l.eng.alsoTaken(l, false)
			return true, nil
		case resp.CodeNone:
			return op.doubt.until != 0, nil // or an earlier sending has released it
		default:
			return false, &nameError{l.Name(), ErrWrongKind}
		}
	}
	op.begin = func() {
		holds := l.eng.forcing(l)
		op.done = func() {
			switch {
			case freed:
				holds = nil
			case op.doubt.until != 0:
				holds = append(holds, l.eng.alsoTaken(l, true)...)
			}
			l.eng.forced(l, holds)
		}
	}
	op.op = resp.Op{Kind: resp.OpForce, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot, Field: channelOf(l.set.family, l.key)}
	return single(ctx, l, op)
}

// forcing makes the local holds of a name lost, which it returns, and keeps grants that are answered until
// forced from being believed.
func (e *Engine) forcing(l *Lock) []*hold {
	sc := e.enter(l.hash)
	ent := sc.makeEntry(l)
	ent.forces++
	var holds []*hold
	for at := range ent.withSeats {
		at.overtake()
		if h := at.hold; h != nil && ent.takenBy(l.set.family, h) {
			h.forced = true
			holds = append(holds, h)
		}
	}
	sc.leave()
	e.loseForced(holds)
	return holds
}

// loseForced makes holds lost, and returns when they are: what comes next may take them off the server. Another
// ForceRelease may have ended the watch of one already and be about to say so; then whoever is first does it.
func (e *Engine) loseForced(holds []*hold) {
	for _, h := range holds {
		e.world.Yield("Engine.loseForced: marked | a loss told")
		e.dog.Lose(h, renew.CauseForced)
		listener{e}.Lost(h, renew.CauseForced)
	}
}

// alsoTaken makes those lost, and returns them, whom the command took besides: a read-write lock's mode when it runs is
// not always what it was here when it was sent, for its writer's release may run in between. What was released was
// everything there was. Where nobody knows (doubt), a copy may have run at any time: but in no other mode than
// that of a write hold which is still believed. Nothing was granted since the command was sent.
func (e *Engine) alsoTaken(l *Lock, doubt bool) (holds []*hold) {
	f := l.set.family
	if !shares(f) {
		return nil
	}
	sc := e.enter(l.hash)
	ent := sc.sh.names.get(l.hash, l.key)
	writes := ent != nil && ent.hold != nil && ent.hold.Family == resp.FamilyWrite
	for at := range ent.withSeats {
		h := at.hold
		if h == nil || !shares(h.Family) || h.status.Load() != holdHeld || doubt && writes && f == resp.FamilyRead {
			continue
		}
		h.forced = true
		holds = append(holds, h)
	}
	sc.leave()
	e.loseForced(holds)
	return holds
}

// takenBy reports whether a ForceRelease of a family takes a hold of this name away: any kind that one
// holds is taken by any of them; of a read-write lock what is there is taken only in its own mode, and with
// the write lock all that its owner reads beside it.
func (ent *entry) takenBy(f resp.Family, h *hold) bool {
	writes := ent.hold != nil && ent.hold.Family == resp.FamilyWrite
	switch {
	case !shares(f):
		return !shares(h.Family)
	case !shares(h.Family):
		return false
	default:
		return writes == (f == resp.FamilyWrite)
	}
}

// forced ends that, when no copy of the command can run any more. What holds have lost to it, and the
// server was not seen to release, is given back.
func (e *Engine) forced(l *Lock, holds []*hold) {
	sc := e.enter(l.hash)
	for _, h := range holds {
		sc.clean(h.ent, h.wire(), h.open(), h.tail(e.clock.Now()))
	}
	if ent := sc.sh.names.get(l.hash, l.key); ent != nil {
		ent.forces--
		sc.cleanUnbelieved(ent)
		for at := range ent.withSeats {
			sc.advance(at)
		}
	}
	sc.owe()
	sc.leave()
}
