package contest

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// Several makes each turn of a caller take several keys at once, chosen by chance and named in any order.
type Several struct {
	Names int
	Locks [][]*engine.Lock // by caller, of each key
	Torn  atomic.Int64     // grants that were not of all of them
}

// several is what one turn takes.
type several struct {
	*engine.MultiLock
	torn *atomic.Int64
}

// choose settles on keys for a turn.
func (s *Several) choose(c *Contender) several {
	c.keys = c.rng.Perm(c.contest.keys)[:s.Names]
	locks := make([]*engine.Lock, len(c.keys))
	for i, key := range c.keys {
		locks[i] = s.Locks[c.n][key]
	}
	return several{engine.Multi(locks...), &s.Torn}
}

// Acquire waits for all of them.
func (s several) Acquire(ctx context.Context) (Held, error) {
	lease, err := s.MultiLock.Acquire(ctx)
	if lease == nil {
		return nil, err
	}
	s.check(lease)
	return lease, err
}

// AcquireLater takes them, and calls then.
func (s several) AcquireLater(ctx context.Context, fn func(Held, error)) {
	s.MultiLock.AcquireAsync(ctx).OnComplete(func(lease *engine.MultiLease, err error) {
		if err != nil {
			fn(nil, err)
			return
		}
		s.check(lease)
		fn(lease, nil)
	})
}

// check counts a grant that is not of all of them: one that is lost is no grant of any.
func (s several) check(lease *engine.MultiLease) {
	views, names := lease.Leases(), s.Names()
	whole := len(views) == len(names) && !slices.ContainsFunc(views, engine.LeaseView.Lost)
	for i := range names {
		whole = whole && views[i].Name() == names[i]
	}
	if !whole && !lease.Lost() {
		s.torn.Add(1)
	}
}
