package slot

// Kind says which object a name belongs to, and so which names it derives.
type Kind uint8

// The kinds of lock objects. The zero Kind is none of them.
const (
	_                   Kind = iota
	KindLock                 // re-entrant lock
	KindSpin                 // lock that polls instead of subscribing
	KindFair                 // lock with a queue on the server
	KindRW                   // read/write lock
	KindFenced               // lock with a fencing token
	KindSemaphore            // counting semaphore
	KindPermitSemaphore      // semaphore of leased permits
	KindLatch                // count-down latch
	KindBarrier              // cyclic barrier
	kindEnd
)

// String returns the kind's name as error texts print it.
func (k Kind) String() string {
	switch k {
	case KindLock:
		return "lock"
	case KindSpin:
		return "spin lock"
	case KindFair:
		return "fair lock"
	case KindRW:
		return "read/write lock"
	case KindFenced:
		return "fenced lock"
	case KindSemaphore:
		return "semaphore"
	case KindPermitSemaphore:
		return "permit semaphore"
	case KindLatch:
		return "count-down latch"
	case KindBarrier:
		return "barrier"
	default:
		return "object of unknown kind"
	}
}
