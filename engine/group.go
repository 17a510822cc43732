package engine

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A GroupLock is a lock on several values of one group: all of them or none, taken by one command. Who asks for other
// values of the group goes on beside it; who asks for one of the same is kept out. On the wire it is Redisson's
// getMultiLock(group, values): the group is one hash, so in a cluster it has one slot.
//
// What one Acquire takes is one Lease: it is renewed, lost, extended and given back as a whole. If somebody takes one
// of the values away, the next renewal finds the lease lost, and the rest is given back.
//
// Those who wait for the same values are served in the order in which they asked, and the lock is handed from one to
// the next as a Lock is. Those who wait for other values of the group hear of every release in it, and each set that
// waits asks again then: groups are for what belongs together, not for everything. Between sets, engines and Redisson
// there is no order, and a set of many values waits for as long as single ones of them are always held by somebody.
//
// An owner enters the same values again. Other values that share one with those it holds are kept out as anybody's are:
// an owner that asks for them waits for itself. Redisson lets it in.
//
// Until when a value is held is a time in the hash: with our scripts the server's. After a failover that is the time of
// another server, and a lease ends sooner or later by what their clocks differ. Redisson's clients write and compare
// times of their own: one that is ahead by d finds our leases over d too early. So where Redisson shares a group, keep
// all clocks together.
type GroupLock struct {
	one    Lock
	values GroupValues
}

// GroupLock returns a handle on values of a group, in whatever order. Options: those of Lock but Spin.
//
// A bad name, value or option is the error of Err and of every operation; nothing is sent for it. Blocks: never.
func (e *Engine) GroupLock(group string, values GroupValues, opts ...Option) *GroupLock {
	l := e.handle(group, resp.FamilyGroup, opts)
	if values.err == nil && values.names == nil {
		values = EncodedValues()
	}
	if l.set.err == nil && values.err != nil {
		bad := *l.set
		bad.err = values.err
		l.set = &bad
	}
	if l.set.err == nil {
		l.key = slot.GroupOf(l.key, values.sorted())
		l.hash = xxhash.Sum64String(l.key)
	}
	return &GroupLock{l, values}
}

// With returns a handle on the same values with further options.
func (g *GroupLock) With(opts ...Option) *GroupLock {
	return &GroupLock{*g.one.With(opts...), g.values}
}

// Name returns the group's name without the engine's prefix.
func (g *GroupLock) Name() string { return g.one.Name() }

// Err returns what is wrong with the name, the values or the options: ErrName, ErrLease, or nil.
func (g *GroupLock) Err() error { return g.one.Err() }

// Acquire takes all values, waiting for them as long as ctx and MaxWait allow. Errors: as Lock.Acquire.
func (g *GroupLock) Acquire(ctx context.Context) (*Lease, error) { return g.one.Acquire(ctx) }

// TryAcquire takes all values if they are free: one attempt, *HeldError if somebody has one of them, or others wait for
// the same here. Errors: as Lock.Acquire.
func (g *GroupLock) TryAcquire(ctx context.Context) (*Lease, error) { return g.one.TryAcquire(ctx) }

// AcquireAsync is Acquire as a future. ctx bounds the operation. Blocks: never.
func (g *GroupLock) AcquireAsync(ctx context.Context) *Future[*Lease] { return g.one.AcquireAsync(ctx) }

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (g *GroupLock) TryAcquireAsync(ctx context.Context) *Future[*Lease] {
	return g.one.TryAcquireAsync(ctx)
}

// Do runs fn while holding all values, as Lock.Do. Taking the same values again with fn's ctx enters again.
func (g *GroupLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return g.one.Do(ctx, fn)
}

// ForceRelease takes the values away from whoever has them, and wakes who waits; it says whether one was held at least.
// Who holds just these values in this engine is told before the command is sent; who holds one of them beside others,
// here or elsewhere, learns it by its next renewal, or, if it is not renewed, at its deadline. Blocks and errors: as
// Lock.ForceRelease.
func (g *GroupLock) ForceRelease(ctx context.Context) (bool, error) { return g.one.ForceRelease(ctx) }

// ForceReleaseAsync is ForceRelease as a future.
func (g *GroupLock) ForceReleaseAsync(ctx context.Context) *Future[bool] {
	return g.one.ForceReleaseAsync(ctx)
}

// HeldBy returns how often an owner holds just these values through this engine: a local question, as Owner.Holds.
func (g *GroupLock) HeldBy(o *Owner) int { return o.Holds(&g.one) }

// A ValueHolder is who has one value of a group.
type ValueHolder struct {
	// Value is the place of the value among those that the handle was made with.
	Value int
	// OwnerID names the holder, as Info's. Mine: it is of this engine.
	OwnerID string
	Mine    bool
	// Holds is how often the owner has taken it.
	Holds int
	// Remaining is the time until it expires by itself, a century at most.
	Remaining time.Duration
}

// Holders asks the server who has which of the values; those that nobody has are left out. Blocks: for one round trip,
// or until ctx ends. Errors: as Lock.Inspect.
func (g *GroupLock) Holders(ctx context.Context) ([]ValueHolder, error) {
	return g.HoldersAsync(ctx).Await(ctx)
}

// HoldersAsync is Holders as a future.
func (g *GroupLock) HoldersAsync(ctx context.Context) *Future[[]ValueHolder] {
	l := &g.one
	op := &singleOp[[]ValueHolder]{eng: l.eng, name: l.Name(), repeat: true, read: g.readHolders}
	op.op = resp.Op{Kind: resp.OpQueue, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot}
	return single(ctx, l, op)
}

// readHolders reads value, owner id, until when, how often, and so on.
func (g *GroupLock) readHolders(r *resp.Result) ([]ValueHolder, error) {
	var holders []ValueHolder
	for at := r.Fields; len(at) >= 4; at = at[4:] {
		value := slices.Index(g.values.names, at[0])
		// What a foreign client has written may be anything; what is no number is none of Redisson's.
		till, err := strconv.ParseInt(at[2], 10, 64)
		if value < 0 || err != nil {
			continue
		}
		holds, err := strconv.Atoi(at[3])
		if err != nil {
			continue
		}
		holders = append(holders, ValueHolder{
			Value: value, OwnerID: at[1], Mine: resp.FieldOf(g.one.eng.id, at[1]), Holds: holds,
			Remaining: fromServerMs(max(till-r.Value, 0)),
		})
	}
	slices.SortFunc(holders, func(a, b ValueHolder) int { return a.Value - b.Value })
	return holders, nil
}
