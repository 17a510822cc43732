package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A MultiLock is a handle on several locks that are acquired together: all or none. Like a Lock it is immutable, and
// usable by any number of goroutines. On the wire it is its locks: who takes one of them alone excludes it, and so
// does Redisson's MultiLock of the same names.
//
// The order in which callers name the locks does not matter: two that name the same ones in other orders never wait
// for each other. Who waits holds only locks that come before the one it waits for, in an order that all callers
// share, and stands in that one's queue as any caller does. The order is that of the names; of one name on several
// servers it is that of their addresses and databases, which all processes are to configure alike. Of two engines that
// were given a Client each, or have the same addresses and the same database, the same name is refused: a Client does
// not say which server it is, and on one server the second acquire would wait for the first. And it is no promise for
// what a caller takes one after the other: who holds one lock and waits for several others can wait for somebody who
// does the reverse.
type MultiLock struct {
	given  []*Lock // as the caller named them
	sorted []*Lock // in canonical order, without MaxWait
	at     []int   // where each of given stands in sorted
	most   time.Duration
	err    error
}

// MultiLock returns a handle on locks of this engine. No name, a name that is given twice and a bad name are the error
// of Err and of every operation; nothing is sent then. Blocks: never.
func (e *Engine) MultiLock(names ...string) *MultiLock {
	all, locks := make([]Lock, len(names)), make([]*Lock, len(names))
	for i, name := range names {
		all[i] = e.handle(name, resp.FamilyLock, nil)
		locks[i] = &all[i]
	}
	return Multi(locks...)
}

// Multi returns a handle on locks of any kind, of one or of several engines, with the options that each of them has. Of
// several MaxWaits the least bounds the whole. Errors: as Engine.MultiLock; both halves of one read-write lock, or two
// kinds of lock of one name, are the same name; one name of two engines is ErrName unless their Config tells their
// servers apart.
func Multi(locks ...*Lock) *MultiLock {
	m := ordered(locks)
	if m.err == nil {
		m.err = checkPlaces(m.sorted)
	}
	return m
}

// ordered is Multi without a promise about the order of locks of the same name.
func ordered(locks []*Lock) *MultiLock {
	m := &MultiLock{given: slices.Clone(locks)}
	if m.err = checkLocks(m.given); m.err != nil {
		return m
	}
	m.sort()
	return m
}

// checkPlaces refuses locks of one name on servers of which nothing says which comes first: two processes could take
// them in other orders, and wait for each other for ever.
func checkPlaces(sorted []*Lock) error {
	for i, l := range sorted[1:] {
		before := sorted[i]
		if before.key != l.key || before.eng.place != l.eng.place {
			continue
		}
		why := "two engines with the same addresses and database are asked for it, and the second would wait for the " +
			"first: name it once"
		if l.eng.cfg.Client != nil {
			why = "two engines with a given Client are asked for it, and nothing says which server all processes ask first: " +
				"open them with Addrs, or with a Prefix each"
		}
		return &nameError{l.Name(), fmt.Errorf("%w: %s", ErrName, why)}
	}
	return nil
}

// errNoLocks is what is wrong with several locks of which there are none.
var errNoLocks = fmt.Errorf("%w: several locks were asked for, and none was named", ErrName)

// checkLocks finds what is wrong with locks that are to be acquired together, each by itself.
func checkLocks(locks []*Lock) error {
	if len(locks) == 0 {
		return errNoLocks
	}
	for i, l := range locks {
		if l == nil {
			return fmt.Errorf("%w: lock %d of %d is nil", ErrName, i+1, len(locks))
		}
		if err := l.Err(); err != nil {
			return named(l, err)
		}
	}
	return nil
}

// sort puts the locks in order, and notes what is wrong with them all.
func (m *MultiLock) sort() {
	order := make([]int, len(m.given))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return m.given[a].compare(m.given[b]) })
	m.sorted, m.at = make([]*Lock, len(order)), make([]int, len(order))
	// The handles of one call mostly share their settings: so do their copies.
	unlimited := make(map[*settings]*settings)
	copies := make([]Lock, len(order))
	for to, from := range order {
		l := m.given[from]
		if to > 0 && l.compare(m.sorted[to-1]) == 0 {
			m.err = &slot.NameError{Name: l.Name(), Kind: traits(l.set.family).kind, Reason: "it is named twice"}
			return
		}
		if most := l.set.maxWait; most > 0 && (m.most == 0 || most < m.most) {
			m.most = most
		}
		copies[to] = *l
		copies[to].set = withoutMaxWait(unlimited, l.set)
		m.sorted[to], m.at[from] = &copies[to], to
	}
}

// withoutMaxWait returns settings whose MaxWait bounds something else. Handles that shared them go on sharing: they are
// told to be compatible by that.
func withoutMaxWait(known map[*settings]*settings, set *settings) *settings {
	if set.maxWait == 0 {
		return set
	}
	if known[set] == nil {
		unlimited := *set
		unlimited.maxWait = 0
		known[set] = &unlimited
	}
	return known[set]
}

// With returns a handle on the same locks, each with further options.
func (m *MultiLock) With(opts ...Option) *MultiLock {
	if len(m.given) == 0 || slices.Contains(m.given, nil) {
		return m
	}
	return Multi(withAll(m.given, opts)...)
}

// withAll applies options to several handles. Those that share their settings go on sharing.
func withAll(locks []*Lock, opts []Option) []*Lock {
	known := make(map[*settings]*settings)
	all, changed := make([]Lock, len(locks)), make([]*Lock, len(locks))
	for i, l := range locks {
		set := known[l.set]
		if set == nil {
			set = l.set.with(opts)
			known[l.set] = set
		}
		all[i] = *l
		all[i].set = set
		changed[i] = &all[i]
	}
	return changed
}

// Names returns the names of the locks, as they were given.
func (m *MultiLock) Names() []string {
	names := make([]string, len(m.given))
	for i, l := range m.given {
		if l != nil {
			names[i] = l.Name()
		}
	}
	return names
}

// Err returns what is wrong with the names or the options: ErrName, ErrLease, or nil.
func (m *MultiLock) Err() error { return m.err }

// Acquire takes all locks, waiting for them as long as ctx and MaxWait allow: both bound the whole, not each lock.
// Until it has them all, others may have some of them for a moment, or find them held.
//
// Of locks with a FixedLease each has at least three quarters of it left when Acquire returns, unless the last answer
// itself took longer: what was acquired first is extended. A MaxHold counts for each lock from its own grant.
//
// Errors: as Lock.Acquire, of the first lock that is in the way. Whatever the error, nothing is left held: what the
// server may still grant, or has not given back when the call returns, is on its way.
func (m *MultiLock) Acquire(ctx context.Context) (*MultiLease, error) {
	return m.begin(ctx, asking{}).wait(ctx)
}

// TryAcquire takes all locks if all are free: one attempt, else *HeldError of the first that somebody has or waits for,
// when what was taken of the others has been given back. It asks for the first lock, in canonical order, before the
// others: of those who try the same locks at once, all but one find it held, and that one gets them all. Where they
// try different ones that overlap, each may find a lock that another has taken and is about to give back.
//
// Errors: as Acquire.
func (m *MultiLock) TryAcquire(ctx context.Context) (*MultiLease, error) {
	return m.begin(ctx, asking{try: true}).wait(ctx)
}

// AcquireAsync is Acquire as a future. ctx bounds the operation. Cancelling it gives everything back. Blocks: never.
func (m *MultiLock) AcquireAsync(ctx context.Context) *Future[*MultiLease] {
	return &m.begin(ctx, asking{async: true}).Future
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (m *MultiLock) TryAcquireAsync(ctx context.Context) *Future[*MultiLease] {
	return &m.begin(ctx, asking{async: true, try: true}).Future
}

// Do runs fn while holding all locks: as Lock.Do, which says what fn's ctx is. Taking any of these locks with it, or
// several of them, enters again.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error) error {
	d := newDoing(ctx)
	ls, err := m.begin(ctx, asking{by: &d.made}).wait(ctx)
	if err != nil {
		return err
	}
	d.several = func() []*Lease { return ls.leases }
	return d.run(ctx, ls, ls.lead.world, fn)
}

// wait is the blocking form: as Lock.wait, it watches ctx itself.
func (op *multiOp) wait(ctx context.Context) (*MultiLease, error) {
	if ls, err, ok := op.Result(); ok {
		return ls, err
	}
	if !op.waitIn(ctx) {
		op.abandon(&WaitError{Name: op.lock.sorted[0].Name(), cause: ctx.Err()})
		op.waitIn(context.Background())
	}
	return op.value, op.err
}

// asking is how several locks are asked for.
type asking struct {
	try, async bool
	by         *Owner // of those for which ctx and handle name nobody
}

// begin starts the operation: its first step is the caller's.
func (m *MultiLock) begin(ctx context.Context, how asking) *multiOp {
	op := &multiOp{lock: m, asking: how}
	op.Future.op = op
	if m.err != nil {
		op.resolve(nil, m.err)
		return op
	}
	op.lead = m.sorted[0].eng
	if err := ctx.Err(); err != nil {
		op.resolve(nil, &WaitError{Name: m.sorted[0].Name(), cause: err})
		return op
	}
	op.prepare(ctx)
	if err := op.joint.begin(op, m.sorted); err != nil {
		op.resolve(nil, err)
		return op
	}
	if most := m.most; most > 0 && !how.try {
		op.lead.timers.Schedule(op, op.lead.clock.Now().Add(most))
	}
	if how.async {
		op.watchContext(ctx, m.sorted[0].Name(), func() bool { return op.state.Load() == futurePending })
	}
	op.run()
	return op
}

// named ties an error to the lock it is about, unless it says so itself.
func named(l interface{ Name() string }, err error) error {
	switch err.(type) { //nolint:errorlint // what wraps such an error need not say its name
	case *nameError, *HeldError, *WaitError, *UnknownError, *NotReplicatedError, *slot.NameError:
		return err
	default:
		return &nameError{l.Name(), err}
	}
}
