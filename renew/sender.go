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
	retry bool

	mu     sync.Mutex
	queue  []Subject
	closed bool
	wake   chan struct{} // capacity 1
}

func newSender(k *Cohorts, retry bool) *sender {
	return &sender{k: k, retry: retry, wake: make(chan struct{}, 1)}
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

func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ring()
}

// take swaps the queue out; nil when the sender is closed.
func (s *sender) take() []Subject {
	for {
		s.mu.Lock()
		queue, closed := s.queue, s.closed
		s.queue = nil
		s.mu.Unlock()
		if closed {
			return nil
		}
		if len(queue) > 0 {
			return queue
		}
		<-s.wake
	}
}

// work is the sender's goroutine: started by New, ended by Close.
func (s *sender) work() {
	defer s.k.wg.Done()
	answers := make([]resp.Renewal, 0, chunk)
	for queue := s.take(); queue != nil; queue = s.take() {
		for lease, group := range byLease(queue) {
			for len(group) > 0 {
				part := group[:min(chunk, len(group))]
				group = group[len(part):]
				answers = s.send(lease, part, answers[:0])
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
		answers = append(answers, resp.Renewal{Key: h.Key, Field: h.Field})
	}
	s.k.node.Renew(s.retry, attemptLimit(lease), lease.Milliseconds(), answers)
	s.k.answered(part, answers)
	clear(answers)
	return answers
}

// byLease groups subjects: one lease is the common case.
func byLease(queue []Subject) map[time.Duration][]Subject {
	lease := queue[0].Watched().Lease
	same := true
	for _, s := range queue {
		same = same && s.Watched().Lease == lease
	}
	if same {
		return map[time.Duration][]Subject{lease: queue}
	}
	groups := make(map[time.Duration][]Subject)
	for _, s := range queue {
		groups[s.Watched().Lease] = append(groups[s.Watched().Lease], s)
	}
	return groups
}
