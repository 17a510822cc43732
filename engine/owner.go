package engine

import (
	"context"
	"sync"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// An Owner is who holds a lock, where goroutines cannot say: Go has no thread identity. An acquire of
// a lock that its owner holds already enters again at once, instead of waiting for itself; each
// acquire has its own Lease, and the lock is free when all are released.
//
// Carry one in a context (WithOwner), or name it on the handle (As). What runs inside Do is an owner of
// the lock that Do holds. Goroutines that share an owner do not exclude each other: that is what sharing it
// means.
type Owner struct {
	mu   sync.Mutex
	lost map[ownedName]int32 // handles not given back of holds that were lost
}

type ownedName struct {
	eng *Engine
	key string
}

// NewOwner makes an owner that holds nothing.
func NewOwner() *Owner { return &Owner{} }

// ownerKey is under what a context has an *Owner, by WithOwner, or a *doing, by Do.
type ownerKey struct{}

// A doing is a Do that runs. It is an owner of its own lock only: who takes another one inside must exclude
// whoever else does so inside.
type doing struct {
	lease   *Lease
	outer   *doing // the Do around it
	general *Owner // of every other lock: WithOwner's; nil: none
	made    Owner  // of the lock, if nobody had named one
}

// WithOwner returns a context whose acquires are the owner's, whatever the lock. A nil owner takes it away
// again, and with it what a Do had given.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerFrom returns the owner that WithOwner gave to ctx, or to one it was made from. That of a Do is not
// told: it counts for that Do's lock alone.
func OwnerFrom(ctx context.Context) (*Owner, bool) {
	switch v := ctx.Value(ownerKey{}).(type) {
	case *Owner:
		return v, v != nil
	case *doing:
		return v.general, v.general != nil
	default:
		return nil, false
	}
}

// ownerIn returns whose an acquire of the lock with ctx is; nil: nobody's.
func (l *Lock) ownerIn(ctx context.Context) *Owner {
	if l.set.owner != nil {
		return l.set.owner
	}
	switch v := ctx.Value(ownerKey{}).(type) {
	case *Owner:
		return v
	case *doing:
		return v.ownerOf(l)
	default:
		return nil
	}
}

// ownerOf looks for the Do that holds a lock: the innermost. One that has given its lock back holds nothing,
// though a context of it may live on.
func (d *doing) ownerOf(l *Lock) *Owner {
	for at := d; at != nil; at = at.outer {
		if ls := at.lease; ls.lock.key == l.key && ls.lock.eng == l.eng && ls.state.Load() == leaseActive {
			return ls.owner
		}
	}
	return d.general
}

// newDoing prepares a Do of the lock with ctx, and says whose its acquire is.
func (l *Lock) newDoing(ctx context.Context) (*doing, *Owner) {
	d := &doing{}
	switch v := ctx.Value(ownerKey{}).(type) {
	case *Owner:
		d.general = v
	case *doing:
		d.general, d.outer = v.general, v
	}
	if o := l.ownerIn(ctx); o != nil {
		return d, o
	}
	return d, &d.made
}

// Holds returns how often the owner holds a lock through this engine: a local question, no command.
// 0 after the lock was lost.
func (o *Owner) Holds(l *Lock) int {
	sc := l.eng.enter(l.hash)
	defer sc.leave()
	ent := sc.sh.names.get(l.hash, l.key)
	if l.set.family == resp.FamilyRead {
		return int(ent.readsFor(o))
	}
	handles, now := int32(0), l.eng.clock.Now()
	for at := range ent.withSeats { // of several kinds, if one was taken away elsewhere and that is not known here yet
		h := at.hold
		if h != nil && h.owner == o && sameKind(l.set.family, h.Family) && h.status.Load() == holdHeld && now.Before(h.Deadline()) {
			handles += h.count
		}
	}
	return int(handles)
}

// remember notes that handles of a lost hold are still out: entering again would quietly start anew.
func (o *Owner) remember(e *Engine, key string, handles int32) {
	if o == nil || handles == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = make(map[ownedName]int32)
	}
	o.lost[ownedName{e, key}] += handles
}

// forget notes that one of them was given back.
func (o *Owner) forget(e *Engine, key string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := ownedName{e, key}
	if o.lost[n] > 1 {
		o.lost[n]--
	} else {
		delete(o.lost, n)
	}
}

// hasLost reports whether the owner still has a handle of a lost hold of this name.
func (o *Owner) hasLost(e *Engine, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[ownedName{e, key}] > 0
}
