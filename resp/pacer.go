package resp

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

const (
	resendEvery = 50 * time.Microsecond // 20,000 a second
	resendBurst = 256
)

// A pacer is a token bucket for commands that are sent again. When a connection breaks, thousands of
// ops want to be repeated at the same moment, each alone: a server that has just come back, or is just
// failing, is not to meet them all at once.
type pacer struct {
	next atomic.Int64 // when the bucket is full again, a clock.Instant
}

// reserve takes the next token from at on, and says when it may be used.
func (p *pacer) reserve(at clock.Instant) clock.Instant {
	for {
		// The bucket is one instant, when it is full again. So taking a token is one compare-and-swap.
		next := p.next.Load()
		full := max(clock.Instant(next), at)
		if p.next.CompareAndSwap(next, int64(full.Add(resendEvery))) {
			return max(at, full.Add(-resendBurst*resendEvery))
		}
	}
}

// Resend says when a command that failed may be sent to this node again, at the earliest at: all
// repetitions share one token bucket. Blocks: never.
func (n *Node) Resend(at clock.Instant) clock.Instant { return n.resends.reserve(at) }
