package renew

import (
	"slices"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// chunk bounds what one call of Renew carries, so that its answers are not held back by the rest.
const chunk = 2048

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
	queue   []Subject
	retired bool // ends when its queue is empty
	closed  bool
	wake    *world.Bell
}

func newSender(k *Cohorts, node Renewer, retry bool) *sender {
	return &sender{k: k, node: node, retry: retry, wake: k.world.NewBell()}
}

// nodeSenders are the senders of one node: what one node suffers delays no other's renewals.
type nodeSenders struct{ first, again *sender }

// open starts the senders of a node.
func (k *Cohorts) open(node Renewer) *nodeSenders {
	p := &nodeSenders{first: newSender(k, node, false), again: newSender(k, node, true)}
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

func (s *sender) add(subjects []Subject) {
	if len(subjects) == 0 {
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, subjects...)
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

// take swaps the queue out; nil when the sender has ended.
func (s *sender) take() []Subject {
	for {
		s.mu.Lock()
		queue, closed, retired := s.queue, s.closed, s.retired
		s.queue = nil
		s.mu.Unlock()
		switch {
		case closed:
			s.ring() // for the next of its goroutines
			return nil
		case len(queue) > 0:
			return queue
		case retired:
			s.ring()
			return nil
		}
		s.wake.Wait()
	}
}

// work is one of the sender's goroutines: started by open, ended by Close or Retire.
func (s *sender) work() {
	var answers []resp.Renewal // grows to what this sender sends at once, chunk at most
	if !s.retry {
		s.node.Connect()
	}
	for queue := s.take(); queue != nil; queue = s.take() {
		for groups := byKind(queue); len(groups) > 0; {
			var now []group
			now, groups = upTo(chunk, groups)
			answers = s.send(now, answers[:0])
		}
	}
}

// send renews groups in one round trip: on a slow line the kinds of holds must not wait for each other. The attempt
// ends at the limit of the longest lease; a shorter one that has no answer until then is sent over the second
// connection before.
func (s *sender) send(groups []group, answers []resp.Renewal) []resp.Renewal {
	limit := time.Duration(0)
	for i := range groups {
		// Some were released since they came due: the server would answer that they are not ours.
		g := &groups[i]
		g.subjects = slices.DeleteFunc(g.subjects, func(s Subject) bool {
			return s.Watched().state.Load() == stateGone
		})
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
		return answers
	}
	s.k.world.Yield("sender.send: the gone ones dropped | sent")
	s.node.Renew(s.retry, limit, answers)
	s.k.world.Yield("sender.send: answered | taken")
	// The answers stand in the order of the groups.
	rest := answers
	for _, g := range groups {
		s.k.answered(g.lease, g.subjects, rest[:len(g.subjects)])
		rest = rest[len(g.subjects):]
	}
	clear(answers)
	return answers
}

// upTo cuts the first n subjects off groups.
func upTo(n int, groups []group) (first, rest []group) {
	for i := range groups {
		g := &groups[i]
		if n >= len(g.subjects) {
			n -= len(g.subjects)
			continue
		}
		rest = append([]group{{g.kind, g.subjects[n:]}}, groups[i+1:]...)
		g.subjects = g.subjects[:n:n]
		return groups[:i+1], rest
	}
	return groups, nil
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
