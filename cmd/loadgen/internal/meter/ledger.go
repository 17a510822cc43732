package meter

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// Ledger is loadgen's own record of who holds what, kept beside the engine to catch it:
// one word a key, 0 or the holder's id. It is written from when a grant is seen until
// just before the release is sent, so two holders of one key at once always meet here.
//
// Safe for concurrent use; take and give are one compare-and-swap each.
type Ledger struct {
	words      []atomic.Uint64
	Name       func(key int) string
	Violations atomic.Int64
	Together   atomic.Int64 // the most that shared a key at once

	mu    sync.Mutex
	first []string // the first few violations, in words; at most ViolationsTold
}

const ViolationsTold = 5

// shared marks a word that counts readers.
const shared = 1 << 63

// NewLedger makes the record of so many keys; name is for what is told of a violation.
func NewLedger(keys int, name func(key int) string) *Ledger {
	return &Ledger{words: make([]atomic.Uint64, keys), Name: name}
}

// Take records that holder (not 0) was granted key.
//
// Blocks: never. Allocates: never, but for a violation.
func (l *Ledger) Take(key int, holder uint64) {
	if !l.words[key].CompareAndSwap(0, holder) {
		l.report(key, "granted to holder %d while holder %d has it", holder)
	}
}

// Give records that holder is about to release key.
func (l *Ledger) Give(key int, holder uint64) {
	if !l.words[key].CompareAndSwap(holder, 0) {
		l.report(key, "released by holder %d while holder %d has it", holder)
	}
}

// TakeShared records that holder reads key; false: it may not, and gives nothing back.
func (l *Ledger) TakeShared(key int, holder uint64) bool {
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
		for most := l.Together.Load(); n > most && !l.Together.CompareAndSwap(most, n); most = l.Together.Load() {
		}
		return true
	}
}

// GiveShared records that a reader is about to release key.
func (l *Ledger) GiveShared(key int, holder uint64) {
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

func (l *Ledger) report(key int, format string, holder uint64) {
	other := l.words[key].Load()
	if other&shared != 0 {
		format, other = strings.Replace(format, "holder %d has it", "%d readers have it", 1), other&^shared
	}
	l.Violations.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.first) < ViolationsTold {
		l.first = append(l.first, fmt.Sprintf("%q was ", l.Name(key))+fmt.Sprintf(format, holder, other))
	}
}

// Names returns the name of every key.
func (l *Ledger) Names() []string {
	all := make([]string, len(l.words))
	for key := range all {
		all[key] = l.Name(key)
	}
	return all
}

// Told returns the first violations in words.
func (l *Ledger) Told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.first...)
}
