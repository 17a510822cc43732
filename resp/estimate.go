package resp

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// An estimate is what one connection knows of its server's clock: the server's time in a reply
// minus the moment we received it. That is a lower bound of the true difference (the reply
// travelled in between), so a not-after made from it is never late.
//
// It belongs to one connection and dies with it: the next connection may lead to another server. The replies of most
// scripts renew it; that of a release of one key says no time.
type estimate struct {
	offset atomic.Int64 // ns to add to our clock; 0 = nothing known yet
}

// learn takes the server's time of a reply (ms) and the moment it was received. A server's clock counts further than
// nanoseconds do: what is beyond longestMs counts as that.
func (e *estimate) learn(serverMs int64, received clock.Instant) {
	serverMs = min(max(serverMs, 0), longestMs)
	e.offset.Store(serverMs*int64(time.Millisecond) - int64(received))
}

// notAfter returns the server's time in ms at which an attempt sent now with this limit must have
// begun.
func (e *estimate) notAfter(now clock.Instant, limit time.Duration) int64 {
	return (int64(now) + e.offset.Load() + int64(limit)) / int64(time.Millisecond)
}
