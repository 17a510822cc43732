package resp

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// Publish says which releases are published, where several locks are given back by one command. A lock that is given
// back alone always is.
type Publish uint8

// The ways.
const (
	// PublishAuto: those that somebody listens to, on a server that is no cluster's and has no replicas; elsewhere all.
	PublishAuto Publish = iota
	// PublishAlways: all.
	PublishAlways
	// PublishMasters: those that somebody listens to, also in a cluster with sharded channels: nobody subscribes at
	// replicas.
	PublishMasters
)

// askFrom is from how many keys on a release asks who listens. That costs the server as much as some 16 messages that
// nobody hears.
const askFrom = 32

// askAgain is how long nobody asks after it was no use.
const askAgain = time.Second

// What release.lua is told of who listens. "": each key is published.
const (
	askAlone   = "alone"
	askMasters = "masters"
)

// asks is what releases of several keys are told on a node that publishes in this mode. Plain channels of a cluster may
// have subscribers at any of its nodes. Sharded ones are told by its bus to replicas of which INFO knows nothing.
func (m pubSubMode) asks(want Publish, cluster bool) string {
	switch {
	case want == PublishAlways, cluster && (want != PublishMasters || !m.sharded):
		return ""
	case want == PublishMasters:
		return askMasters
	default:
		return askAlone
	}
}

// A hearing is what a connection has learnt of asking who listens. Lanes share it: one may ask while another is told
// that it is no use, and that is no harm.
type hearing struct {
	refused atomic.Bool  // by the ACL; forgotten with the connection
	until   atomic.Int64 // a clock.Instant: before it no release of fewer keys than least asks
	least   atomic.Int64
}

// worth reports whether a release of so many keys may ask.
func (h *hearing) worth(keys int, now clock.Instant) bool {
	return !h.refused.Load() && (int64(keys) >= h.least.Load() || !now.Before(clock.Instant(h.until.Load())))
}

// inVain notes why a release of so many keys was published after all, as release.lua says it. False: it does not.
func (h *hearing) inVain(why int64, keys int, now clock.Instant) bool {
	switch {
	case why == -2:
		h.refused.Store(true)
		return true
	case why == -1:
		h.least.Store(math.MaxInt64)
	case why > int64(keys):
		h.least.Store(why)
	default:
		return false
	}
	h.until.Store(int64(now.Add(askAgain)))
	return true
}
