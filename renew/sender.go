package renew

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// rounds is how many calls of Renew a sender may have under way: on a slow line what comes due does not wait for the
// answers of what came due before.
const rounds = 3

// A sender sends due renewals over one of the node's renewal connections. Its queue is bounded by
// the holds under watch: each is in it at most once.
type sender struct {
	k     *Cohorts
	node  Renewer
	retry bool

	mu      sync.Mutex
	queue   urgency
	retired bool // ends when its queue is empty
	closed  bool
	wake    *world.Bell

	renewedAt atomic.Int64 // a clock.Instant: when its connection last renewed anything
	other     *sender      // over the node's other connection
}

func newSender(k *Cohorts, node Renewer, retry bool) *sender {
	return &sender{k: k, node: node, retry: retry, wake: k.world.NewBell()}
}

// nodeSenders are the senders of one node: what one node suffers delays no other's renewals.
type nodeSenders struct{ first, again *sender }

// open starts the senders of a node.
func (k *Cohorts) open(node Renewer) *nodeSenders {
	p := &nodeSenders{first: newSender(k, node, false), again: newSender(k, node, true)}
	p.first.other, p.again.other = p.again, p.first
	for range rounds {
		k.wg.Go("sender", p.first.work)
		k.wg.Go("sender", p.again.work)
	}
	return p
}

func (p *nodeSenders) close() {
	p.first.end(false)
	p.again.end(false)
}

// retire lets the senders finish what they have.
func (p *nodeSenders) retire() {
	p.first.end(true)
	p.again.end(true)
}

func (s *sender) add(due []waiting) {
	if len(due) == 0 {
		return
	}
	now := s.k.clock.Now()
	s.mu.Lock()
	for _, w := range due {
		w.since = now
		s.queue.push(w)
	}
	s.mu.Unlock()
	s.ring()
}

func (s *sender) ring() { s.wake.Ring() }

// end closes the sender, at once or when its queue is empty.
func (s *sender) end(emptyFirst bool) {
	s.mu.Lock()
	s.retired = true
	s.closed = s.closed || !emptyFirst
	s.mu.Unlock()
	s.ring()
}

// take returns those whose deadlines are next, as many as are one round trip, and whether one of them has waited for
// too long; none when the sender has ended. They stand in space. It takes no part of a bunch: what is sent at two times
// is never due together again.
func (s *sender) take(space []Subject) (subjects []Subject, late bool) {
	for subjects = space[:0]; ; {
		s.mu.Lock()
		now := s.k.clock.Now()
		due := clock.Instant(0)
		for work := 0; s.queue.len() > 0 && work < resp.MaxRenewWork && !s.closed; {
			if next := s.queue.peek(); next.due != due && work > resp.MaxRenewWork-bunchMost {
				break
			}
			next := s.queue.pop()
			work, due = work+next.work, next.due
			late = late || now.Sub(next.since) > next.patience
			subjects = append(subjects, next.subject)
		}
		more := s.queue.len() > 0
		ended := s.closed || s.retired && !more
		s.mu.Unlock()
		if more || ended { // for the next of its goroutines
			s.ring()
		}
		if ended || len(subjects) > 0 {
			return subjects, late
		}
		s.wake.Wait()
	}
}

// work is one of the sender's goroutines: started by open, ended by Close or Retire.
func (s *sender) work() {
	world.NewPart("renew").Label()
	var answers []resp.Renewal // grows to what this sender sends at once
	if !s.retry {
		s.node.Connect()
	}
	for subjects, late := s.take(nil); len(subjects) > 0; subjects, late = s.take(subjects) {
		began := s.k.clock.Now()
		var renewed, timedOut bool
		answers, renewed, timedOut = s.send(byKind(subjects), answers[:0])
		clear(subjects)
		now := s.k.clock.Now()
		if renewed {
			s.renewedAt.Store(int64(now))
		}
		// Where the other connection has renewed meanwhile it is this one that hangs, and not the server.
		hangs := timedOut && !clock.Instant(s.other.renewedAt.Load()).Before(began)
		if late && renewed && !s.retry || timedOut && !hangs {
			s.node.HoldBack(now.Add(holdBack(now.Sub(began))))
		}
	}
}

// send renews groups in one round trip: on a slow line the kinds of holds must not wait for each other. The attempt
// ends at the limit of the longest lease; a shorter one that has no answer until then is sent over the second
// connection before. It reports whether the server has renewed any, and whether there was no answer in all that time.
func (s *sender) send(groups []group, answers []resp.Renewal) (_ []resp.Renewal, renewed, timedOut bool) {
	limit := time.Duration(0)
	for i := range groups {
		g := &groups[i]
		g.subjects = s.k.unanswered(g.subjects)
		if len(g.subjects) > 0 {
			limit = max(limit, attemptLimit(g.lease))
		}
		for _, subject := range g.subjects {
			h := subject.Watched()
			answers = append(answers, resp.Renewal{
				Key: subject.Key(), Field: h.Field, Family: h.Family, LeaseMs: g.lease.Milliseconds(),
			})
		}
	}
	if len(answers) == 0 {
		return answers, false, false
	}
	s.k.world.Yield("sender.send: the gone ones dropped | sent")
	began := s.k.clock.Now()
	s.k.prefetched.Store(prefetchKeys(answers))
	s.node.Renew(s.retry, limit, answers)
	timedOut = s.k.clock.Now().Sub(began) >= limit &&
		slices.ContainsFunc(answers, func(r resp.Renewal) bool { return r.Err != nil && r.Err.Class == resp.ClassUnknown })
	s.k.world.Yield("sender.send: answered | taken")
	renewed = slices.ContainsFunc(answers, func(r resp.Renewal) bool { return r.Code == resp.CodeRenewed })
	// The answers stand in the order of the groups.
	rest := answers
	for _, g := range groups {
		s.k.answered(s.retry, g.lease, g.subjects, rest[:len(g.subjects)])
		rest = rest[len(g.subjects):]
	}
	clear(answers)
	return answers, renewed, timedOut
}

// prefetchKeys brings the keys into the processor's caches, for those of a million holds are not there: here it waits
// for several of them at the same time, and what writes them would wait for each. The sum is there so that they are
// read.
func prefetchKeys(batch []resp.Renewal) (sum uint32) {
	for i := range batch {
		if key := batch[i].Key; key != "" {
			sum += uint32(key[0])
		}
	}
	return sum
}

// prefetchHolds does the same with holds: with both halves of them, for they are longer than a line of the cache.
func prefetchHolds(subjects []Subject) (sum uint32) {
	for _, s := range subjects {
		h := s.Watched()
		sum += h.state.Load() + uint32(h.lease.Load()) //nolint:gosec // only read
	}
	return sum
}

// A kind is what renewals that travel together have in common.
type kind struct {
	lease  time.Duration
	family resp.Family
}

func kindOf(s Subject) kind {
	h := s.Watched()
	return kind{h.Lease(), h.Family}
}

// A group is subjects of one kind: what they were when it was made, for a lease may change meanwhile.
type group struct {
	kind
	subjects []Subject
}

// byKind groups subjects, in the order of their kinds' first: one kind is the common case.
func byKind(queue []Subject) []group {
	first := kindOf(queue[0])
	for i, s := range queue {
		if kindOf(s) == first {
			continue
		}
		// The capacity is cut: what joins this group must not overwrite the queue, which is still read.
		groups := []group{{first, queue[:i:i]}}
		places := map[kind]int{first: 0}
		for _, s := range queue[i:] {
			k := kindOf(s)
			at, ok := places[k]
			if !ok {
				at = len(groups)
				places[k], groups = at, append(groups, group{kind: k})
			}
			groups[at].subjects = append(groups[at].subjects, s)
		}
		return groups
	}
	return []group{{first, queue}}
}
