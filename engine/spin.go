package engine

import (
	"fmt"
	"time"
)

// spinning is how a spin lock waits.
type spinning struct{ first, most time.Duration }

// Spin makes waiters ask again and again instead of subscribing, first after about the one pause, then
// after ever longer ones up to the other: Redisson's SpinLock with its exponential back-off. For servers
// that refuse publish, and for very many names that are seldom contended for.
//
// Its release tells nobody. Waiters of the same name without Spin, here or in Redisson, exclude each
// other with it as always, but hear nothing and find the lock free by their own polls, up to a second
// later. Both pauses at least 1 ms, whole milliseconds; Redisson's are 1 ms and 128 ms. Only for Lock.
func Spin(first, most time.Duration) Option {
	return func(s *settings) {
		s.refuse(checkDuration("Spin", first, time.Millisecond))
		s.refuse(checkDuration("Spin", most, time.Millisecond))
		if most < first {
			s.refuse(fmt.Errorf("%w: Spin from %v to %v", ErrLease, first, most))
		}
		if !sameKind(s.family, 0) {
			s.refuse(fmt.Errorf("%w: only a Lock can Spin", ErrWrongKind))
			return
		}
		s.spin = &spinning{first, most}
	}
}

// spinsMost is where counting a spin lock's pauses ends: the longest is reached long before.
const spinsMost = 64

// waitsAs reports whether a parked waiter that comes after another may take over how that waits: what it
// listens to, and its polls. Each spin lock begins with its own first pause.
func (s *settings) waitsAs(before *settings) bool {
	return s.spin == nil && before.spin == nil && shares(s.family) == shares(before.family)
}

// pause is the time before the n-th further try, and how far it is spread.
func (s *spinning) pause(n int) (least, spread time.Duration) {
	d := s.first
	for range n {
		if d >= s.most {
			break
		}
		d = min(2*d, s.most)
	}
	return d - d/4, d/2 + 1
}
