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

// A post is the senders of one node: what one node suffers delays no other's renewals.
type post struct{ first, again *sender }

// open starts the senders of a node.
func (k *Cohorts) open(node Renewer) *post {
	p := &post{first: newSender(k, node, false), again: newSender(k, node, true)}
	k.wg.Go("sender", p.first.work)
	k.wg.Go("sender", p.again.work)
	return p
}

func (p *post) close() {
	p.first.end(false)
	p.again.end(false)
}

// retire lets the senders finish what they have.
func (p *post) retire() {
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
		if closed {
			return nil
		}
		if len(queue) > 0 {
			return queue
		}
		if retired {
			return nil
		}
		s.wake.Wait()
	}
}

// work is the sender's goroutine: started by open, ended by Close or Retire.
func (s *sender) work() {
	var answers []resp.Renewal // grows to what this sender sends at once, chunk at most
	if !s.retry {
		s.node.Connect()
	}
	for queue := s.take(); queue != nil; queue = s.take() {
		for _, group := range byKind(queue) {
			for all := group.subjects; len(all) > 0; {
				part := all[:min(chunk, len(all))]
				all = all[len(part):]
				answers = s.send(group.lease, part, answers[:0])
			}
		}
	}
}

func (s *sender) send(lease time.Duration, part []Subject, answers []resp.Renewal) []resp.Renewal {
	part = slices.DeleteFunc(part, func(s Subject) bool { return s.Watched().state.Load() == stateGone })
	if len(part) == 0 {
		return answers
	}
	for _, subject := range part {
		h := subject.Watched()
		answers = append(answers, resp.Renewal{Key: subject.Key(), Field: h.Field, Family: h.Family})
	}
	s.k.world.Yield("sender.send: the gone ones dropped | sent")
	s.node.Renew(s.retry, attemptLimit(lease), lease.Milliseconds(), answers)
	s.k.world.Yield("sender.send: answered | taken")
	s.k.answered(lease, part, answers)
	clear(answers)
	return answers
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
