package main

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// ledger is loadgen's own record of who holds what, kept beside the engine to catch it:
// one word a key, 0 or the holder's id. It is written from when a grant is seen until
// just before the release is sent, so two holders of one key at once always meet here.
//
// Safe for concurrent use; take and give are one compare-and-swap each.
type ledger struct {
	words      []atomic.Uint64
	name       func(key int) string
	violations atomic.Int64

	mu    sync.Mutex
	first []string // the first few violations, in words; at most violationsTold
}

const violationsTold = 5

func newLedger(keys int, name func(key int) string) *ledger {
	return &ledger{words: make([]atomic.Uint64, keys), name: name}
}

// take records that holder (not 0) was granted key.
//
// Blocks: never. Allocates: never, but for a violation.
func (l *ledger) take(key int, holder uint64) {
	if !l.words[key].CompareAndSwap(0, holder) {
		l.report(key, "granted to holder %d while holder %d has it", holder)
	}
}

// give records that holder is about to release key.
func (l *ledger) give(key int, holder uint64) {
	if !l.words[key].CompareAndSwap(holder, 0) {
		l.report(key, "released by holder %d while holder %d has it", holder)
	}
}

func (l *ledger) report(key int, format string, holder uint64) {
	other := l.words[key].Load()
	l.violations.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.first) < violationsTold {
		l.first = append(l.first, fmt.Sprintf("%q was ", l.name(key))+fmt.Sprintf(format, holder, other))
	}
}

// told returns the first violations in words.
func (l *ledger) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.first...)
}
