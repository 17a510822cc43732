package main

import (
	"fmt"
	"strings"
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
	together   atomic.Int64 // the most that shared a key at once

	mu    sync.Mutex
	first []string // the first few violations, in words; at most violationsTold
}

const violationsTold = 5

// shared marks a word that counts readers.
const shared = 1 << 63

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

// takeShared records that holder reads key; false: it may not, and gives nothing back.
func (l *ledger) takeShared(key int, holder uint64) bool {
	at := &l.words[key]
	for {
		v := at.Load()
		if v != 0 && v&shared == 0 {
			l.report(key, "granted to reader %d while holder %d has it", holder)
			return false
		}
		if !at.CompareAndSwap(v, (v|shared)+1) {
			continue
		}
		n := int64(v&^shared) + 1
		for most := l.together.Load(); n > most && !l.together.CompareAndSwap(most, n); most = l.together.Load() {
		}
		return true
	}
}

// giveShared records that a reader is about to release key.
func (l *ledger) giveShared(key int, holder uint64) {
	at := &l.words[key]
	for {
		v := at.Load()
		if v&shared == 0 {
			l.report(key, "released by reader %d while holder %d has it", holder)
			return
		}
		next := v - 1
		if next == shared {
			next = 0
		}
		if at.CompareAndSwap(v, next) {
			return
		}
	}
}

func (l *ledger) report(key int, format string, holder uint64) {
	other := l.words[key].Load()
	if other&shared != 0 {
		format, other = strings.Replace(format, "holder %d has it", "%d readers have it", 1), other&^shared
	}
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
