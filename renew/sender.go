package renew

import (
	"slices"
	"sync"
	"time"

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
	wake    chan struct{} // capacity 1
}

func newSender(k *Cohorts, node Renewer, retry bool) *sender {
	return &sender{k: k, node: node, retry: retry, wake: make(chan struct{}, 1)}
}

// A post is the senders of one node: what one node suffers delays no other's renewals.
type post struct{ first, again *sender }

// open starts the senders of a node.
func (k *Cohorts) open(node Renewer) *post {
	p := &post{first: newSender(k, node, false), again: newSender(k, node, true)}
	k.wg.Add(2)
	go p.first.work()
	go p.again.work()
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

func (s *sender) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

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
		<-s.wake
	}
}

// work is the sender's goroutine: started by open, ended by Close or Retire.
func (s *sender) work() {
	defer s.k.wg.Done()
	answers := make([]resp.Renewal, 0, chunk)
	for queue := s.take(); queue != nil; queue = s.take() {
		for k, group := range byKind(queue) {
			for len(group) > 0 {
				part := group[:min(chunk, len(group))]
				group = group[len(part):]
				answers = s.send(k.lease, part, answers[:0])
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
	s.node.Renew(s.retry, attemptLimit(lease), lease.Milliseconds(), answers)
	s.k.answered(part, answers)
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
	return kind{h.Lease, h.Family}
}

// byKind groups subjects: one kind is the common case.
func byKind(queue []Subject) map[kind][]Subject {
	first := kindOf(queue[0])
	same := true
	for _, s := range queue {
		same = same && kindOf(s) == first
	}
	if same {
		return map[kind][]Subject{first: queue}
	}
	groups := make(map[kind][]Subject)
	for _, s := range queue {
		groups[kindOf(s)] = append(groups[kindOf(s)], s)
	}
	return groups
}
