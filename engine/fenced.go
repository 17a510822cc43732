package engine

import (
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A FencedLock is a Lock whose grants carry a fencing token, Lease.Token: a number greater than that of
// every grant of the name before. A store that remembers the greatest token it has seen and refuses
// smaller ones is safe from a holder that goes on after it lost the lock, which no lease can promise;
// package fence has the few lines that takes.
//
// On the wire it is Redisson's RFencedLock, and tokens rise across both. They are the server's time in
// microseconds, or one more than the last: they rise even when the server loses its data. One token
// belongs to one hold: an owner that enters again has the same. A fenced lock is never handed over inside
// the process; each grant is the server's.
type FencedLock struct{ *Lock }

// FencedLock returns a handle on a fenced lock. Errors: as Lock.
func (e *Engine) FencedLock(name string, opts ...Option) *FencedLock {
	l := e.handle(name, slot.KindFenced, resp.FamilyFenced, opts)
	return &FencedLock{&l}
}

// With returns a handle on the same name with further options.
func (l *FencedLock) With(opts ...Option) *FencedLock { return &FencedLock{l.Lock.With(opts...)} }

// Token returns the fencing token of a lease of a FencedLock; 0 for other locks. Blocks: never.
func (ls *Lease) Token() int64 {
	if ls.hold.Family != resp.FamilyFenced { // what is special of other holds changes
		return 0
	}
	return ls.hold.special.token
}
