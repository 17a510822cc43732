package engine

import (
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// An RWLock is a pair of locks on one name: any number of readers, or one writer. On the wire it is
// Redisson's RReadWriteLock.
//
// Both halves are Locks, with everything a Lock has. An owner that writes may read as well, and goes on
// reading when it gives the write lock back: other readers are then let in. The reverse cannot work when
// two try, so an owner that reads and asks to write gets ErrUpgrade at once. Taking either half again
// enters again.
//
// Writers are not starved: once one waits, no further reader of any engine is let in beside those who
// read already, and when they are gone it is its turn; after it come the readers who waited. A note on the
// server, that expires, says so; Redisson's readers do not look at it. A Try leaves none.
//
// Readers of one engine share a hold in Redis where they can, and the server is asked again after a turn
// of at least 20 ms. Those with fixed leases share none: each has its own end.
type RWLock struct{ read, write Lock }

// RWLock returns a handle on a read-write lock; the options are both halves'. Errors: as Lock.
func (e *Engine) RWLock(name string, opts ...Option) *RWLock {
	return &RWLock{
		read:  e.handle(name, slot.KindRW, resp.FamilyRead, opts),
		write: e.handle(name, slot.KindRW, resp.FamilyWrite, opts),
	}
}

// ReadLock returns the shared half.
func (l *RWLock) ReadLock() *Lock { return &l.read }

// WriteLock returns the exclusive half.
func (l *RWLock) WriteLock() *Lock { return &l.write }

// Name returns the name without the engine's prefix.
func (l *RWLock) Name() string { return l.read.Name() }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (l *RWLock) Err() error { return l.read.Err() }

// With returns a handle on the same name with further options.
func (l *RWLock) With(opts ...Option) *RWLock {
	return &RWLock{read: *l.read.With(opts...), write: *l.write.With(opts...)}
}
