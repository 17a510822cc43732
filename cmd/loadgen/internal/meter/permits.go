package meter

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Permits is loadgen's own count of the permits that its callers hold, kept beside the engine to catch it: one word,
// added to when a grant is seen and subtracted from just before the release is sent.
//
// Safe for concurrent use; Take and Give are one atomic addition each.
type Permits struct {
	there      int64
	held       atomic.Int64
	Most       atomic.Int64 // held at once
	Violations atomic.Int64

	mu    sync.Mutex
	first []string // the first few violations, in words; at most ViolationsTold
}

// NewPermits counts the holders of so many permits.
func NewPermits(there int) *Permits { return &Permits{there: int64(there)} }

// Take records that caller was granted n permits. More than there are is a violation.
func (p *Permits) Take(n, caller int) {
	held := p.held.Add(int64(n))
	for most := p.Most.Load(); held > most && !p.Most.CompareAndSwap(most, held); most = p.Most.Load() {
	}
	if held <= p.there {
		return
	}
	p.Violations.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.first) < ViolationsTold {
		p.first = append(p.first, fmt.Sprintf("caller %d was granted %d permits: %d of %d are held", caller, n, held, p.there))
	}
}

// Give records that n permits are about to be released.
func (p *Permits) Give(n int) { p.held.Add(-int64(n)) }

// Told returns the first violations in words.
func (p *Permits) Told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.first...)
}
