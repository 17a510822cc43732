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
// Carry one in a context (WithOwner), or name it on the handle (As). Do gives its function's context
// one. Goroutines that share an owner do not exclude each other: that is what sharing it means.
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

type ownerKey struct{}

// WithOwner returns a context whose acquires are the owner's. A nil owner takes it away again.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerFrom returns the owner that ctx carries.
func OwnerFrom(ctx context.Context) (*Owner, bool) {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o, o != nil
}

// Holds returns how often the owner holds a lock through this engine: a local question, no command.
// 0 after the lock was lost.
func (o *Owner) Holds(l *Lock) int {
	sh := l.eng.shard(l.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	read, other := sh.names.get(l.hash, l.key).heldBy(o)
	switch {
	case l.set.family == resp.FamilyRead && read != nil:
		return int(read.readsFor(o))
	case other != nil && sameKind(l.set.family, other.Family):
		return int(other.count)
	default:
		return 0
	}
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
