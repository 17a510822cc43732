package engine

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// MaxPermits is how many permits one Acquire of a PermitSemaphore may ask for: a command works for each of them.
const MaxPermits = 1000

// A PermitSemaphore is a semaphore whose permits are leased: what a process had that has died is free when its lease
// is over. On the wire it is Redisson's RPermitExpirableSemaphore: each permit has an id, and stands beside the
// semaphore with the time until which it is leased.
//
// What one Acquire takes is a Permit, of one or many: it is held, lost, renewed and given back as a lock is. Without
// an option the lease is 30 s and not renewed; with WatchdogLease the engine renews it for as long as it is held,
// which Redisson has no word for. Nobody enters a permit again, so owners are refused.
//
// Waiters of one engine are served in the order in which they asked, each by a command of its own; between engines,
// and Redisson, there is no order. A permit that is renewed goes to the next waiter of this engine that wants as many
// under the same lease without a command, under the conditions of a lock's hand-off, unless its ids were asked for.
//
// Times are the server's. Redisson's clients write their own: where they share a semaphore, keep their clocks
// together.
type PermitSemaphore struct{ one Lock }

// PermitSemaphore returns a handle on a semaphore with leased permits. Options: FixedLease, WatchdogLease, MaxWait,
// MaxHold, WaitReplicas. Errors: as Lock.
func (e *Engine) PermitSemaphore(name string, opts ...Option) *PermitSemaphore {
	return &PermitSemaphore{ownerless(e.handle(name, resp.FamilyPermits, opts))}
}

// ownerless refuses the options that name an owner.
func ownerless(l Lock) Lock {
	if l.set.owner != nil || l.set.once {
		bad := *l.set
		bad.refuse(fmt.Errorf("%w: nobody enters a permit again, so it has no owner", ErrLease))
		l.set = &bad
	}
	return l
}

// With returns a handle on the same name with further options.
func (s *PermitSemaphore) With(opts ...Option) *PermitSemaphore {
	return &PermitSemaphore{ownerless(*s.one.With(opts...))}
}

// Name returns the name without the engine's prefix.
func (s *PermitSemaphore) Name() string { return s.one.Name() }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (s *PermitSemaphore) Err() error { return s.one.Err() }

// Acquire takes n permits, all or none, waiting for them as long as ctx and MaxWait allow.
//
// Errors: ctx's own; *NoPermitsError after MaxWait; ErrLease for an n that is not from 1 to MaxPermits; the others as
// Lock.Acquire. What the server grants after an error is given back.
func (s *PermitSemaphore) Acquire(ctx context.Context, n int) (*Permit, error) {
	return s.wait(ctx, n, false)
}

// TryAcquire takes n permits if they are free: one attempt, *NoPermitsError if they are not, or if others wait for
// permits here, or asked at the same time and were refused. Errors: as Acquire.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, n int) (*Permit, error) {
	return s.wait(ctx, n, true)
}

// AcquireAsync is Acquire as a future. ctx bounds the operation. Blocks: never.
func (s *PermitSemaphore) AcquireAsync(ctx context.Context, n int) *Future[*Permit] {
	return s.begin(ctx, n, false)
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (s *PermitSemaphore) TryAcquireAsync(ctx context.Context, n int) *Future[*Permit] {
	return s.begin(ctx, n, true)
}

func (s *PermitSemaphore) wait(ctx context.Context, n int, try bool) (*Permit, error) {
	l, err := s.wanting(n)
	if err != nil {
		return nil, err
	}
	ls, err := l.wait(ctx, nil, try)
	return permitOf(ls), err
}

// wanting is the handle with which n permits are asked for.
func (s *PermitSemaphore) wanting(n int) (*Lock, error) {
	switch {
	case s.Err() != nil:
		return nil, s.Err()
	case n < 1 || n > MaxPermits:
		return nil, fmt.Errorf("%w: Acquire of %d permits is not from 1 to %d", ErrLease, n, MaxPermits)
	case n == int(s.one.set.Units):
		return &s.one, nil
	}
	l, set := s.one, *s.one.set
	set.Units = int32(n) //nolint:gosec // checked
	l.set = &set
	return &l, nil
}

// A leasing is an acquire of permits as a future.
type leasing struct {
	Future[*Permit]
	op *acquireOp
}

func (t *leasing) abandon(err error) bool       { return t.op.abandon(err) }
func (t *leasing) runner() *callback.Pool       { return t.op.runner() }
func (t *leasing) awaitEnded(cause error) error { return t.op.awaitEnded(cause) }

func (s *PermitSemaphore) begin(ctx context.Context, n int, try bool) *Future[*Permit] {
	t := &leasing{op: &acquireOp{lock: &s.one}}
	t.Future.op = t
	l, err := s.wanting(n)
	if err != nil {
		t.resolve(nil, err)
		return &t.Future
	}
	t.op = l.begin(ctx, nil, try, true)
	t.op.then(func() { t.resolve(permitOf(t.op.value), t.op.err) })
	return &t.Future
}

// A Permit is what one Acquire of a PermitSemaphore took: one permit or several, leased together. It is yours until
// Release, or until it is lost; keep it, as a Lease.
//
// All methods may be called by any goroutine.
type Permit struct{ lease *Lease }

// permitOf is the permit of a lease; nil: there is none.
func permitOf(ls *Lease) *Permit {
	if ls == nil {
		return nil
	}
	return &Permit{ls}
}

// Name returns the semaphore's name.
func (p *Permit) Name() string { return p.lease.Name() }

// IDs returns the ids of the permits, each of 32 hex digits, as Redisson has them. Whoever is told them may release
// them, so permits whose ids were asked for are not handed to the next waiter: it gets others.
func (p *Permit) IDs() []string {
	h := p.lease.hold
	// Else they are somebody else's by now, or nobody's.
	sc := h.ent.eng.enter(h.ent.hash)
	if p.lease.state.Load() == leaseActive && h.Held() {
		h.ensureExtra().shown = true
	}
	sc.leave()
	return idsOf(h.Field)
}

// idsOf lists ids as Redisson shows them.
func idsOf(field string) []string {
	ids := make([]string, 0, len(field)/resp.PermitID)
	for ; len(field) >= resp.PermitID; field = field[resp.PermitID:] {
		ids = append(ids, hex.EncodeToString([]byte(field[:resp.PermitID])))
	}
	return ids
}

// Context ends when the lease does; see Lease.Context.
func (p *Permit) Context() context.Context { return p.lease.Context() }

// Deadline returns until when the lease is trusted if nothing renews it; see Lease.Deadline.
func (p *Permit) Deadline() time.Time { return p.lease.Deadline() }

// Lost reports whether the lease ended without its holder's will: of one permit or of several; see Lease.Lost.
func (p *Permit) Lost() bool { return p.lease.Lost() }

// StopRenewing ends the watchdog's care: the lease runs out at its present deadline.
func (p *Permit) StopRenewing() { p.lease.StopRenewing() }

// Extend raises the remaining time of a fixed lease to d, of all its permits; it never shortens it. Blocks and errors:
// as Lease.Extend.
func (p *Permit) Extend(ctx context.Context, d time.Duration) error { return p.lease.Extend(ctx, d) }

// Release gives the permits back. It is detached: the end of ctx ends only the wait for the answer.
//
// Errors: ErrLost if the lease was over before, or somebody has released one of the ids: what was left is given back;
// ErrNotHeld the second time; ErrUnknown, *ServerError as Lease.Release.
func (p *Permit) Release(ctx context.Context) error { return p.lease.Release(ctx) }

// ReleaseAsync is Release as a future. Cancelling it changes nothing: the release is on its way.
func (p *Permit) ReleaseAsync() *Future[struct{}] { return p.lease.ReleaseAsync() }

// TrySetPermits gives the semaphore n permits if there is none of that name, and says whether it did. Blocks: for one
// round trip, or until ctx ends.
//
// Errors: ErrUnknown if no answer came: it may have been done, and is not sent again; *ServerError, ErrWrongKind,
// ErrName, ErrClosed; ErrLease for an n below 0 or above 2^31-1.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.TrySetPermitsAsync(ctx, n).Await(ctx)
}

// TrySetPermitsAsync is TrySetPermits as a future.
func (s *PermitSemaphore) TrySetPermitsAsync(ctx context.Context, n int) *Future[bool] {
	return askPermits(ctx, s, s.number("set", n, 0), answeredDone)
}

// SetPermits makes it n permits in all, and says whether there is such a semaphore. If more are leased, fewer than
// none are free: then as many have to be released before one is. Blocks and errors: as TrySetPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) (bool, error) {
	return s.SetPermitsAsync(ctx, n).Await(ctx)
}

// SetPermitsAsync is SetPermits as a future.
func (s *PermitSemaphore) SetPermitsAsync(ctx context.Context, n int) *Future[bool] {
	return askPermits(ctx, s, s.number("resize", n, 0), answeredDone)
}

// AddPermits adds n permits, or takes away as many as -n, and returns how many are free then: perhaps fewer than none.
// It makes a semaphore where there is none. Blocks and errors: as TrySetPermits.
func (s *PermitSemaphore) AddPermits(ctx context.Context, n int) (int, error) {
	return s.AddPermitsAsync(ctx, n).Await(ctx)
}

// AddPermitsAsync is AddPermits as a future.
func (s *PermitSemaphore) AddPermitsAsync(ctx context.Context, n int) *Future[int] {
	return askPermits(ctx, s, s.number("add", n, math.MinInt32), answeredMany)
}

// AvailablePermits returns how many permits are free: those whose leases are over are. 0 where there is no semaphore.
// Blocks and errors: as TrySetPermits, but it is asked again.
func (s *PermitSemaphore) AvailablePermits(ctx context.Context) (int, error) {
	return s.AvailablePermitsAsync(ctx).Await(ctx)
}

// AvailablePermitsAsync is AvailablePermits as a future.
func (s *PermitSemaphore) AvailablePermitsAsync(ctx context.Context) *Future[int] {
	return askPermits(ctx, s, request{what: "free", repeat: true}, answeredMany)
}

// AcquiredPermits returns how many permits are leased. Blocks and errors: as AvailablePermits.
func (s *PermitSemaphore) AcquiredPermits(ctx context.Context) (int, error) {
	return s.AcquiredPermitsAsync(ctx).Await(ctx)
}

// AcquiredPermitsAsync is AcquiredPermits as a future.
func (s *PermitSemaphore) AcquiredPermitsAsync(ctx context.Context) *Future[int] {
	return askPermits(ctx, s, request{what: "leased", repeat: true}, answeredMany)
}

// Permits returns how many permits there are in all. Blocks and errors: as AvailablePermits.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	return s.PermitsAsync(ctx).Await(ctx)
}

// PermitsAsync is Permits as a future.
func (s *PermitSemaphore) PermitsAsync(ctx context.Context) *Future[int] {
	return askPermits(ctx, s, request{what: "total", repeat: true}, answeredMany)
}

// Waiters returns how many callers of this engine wait for permits. Blocks: never.
func (s *PermitSemaphore) Waiters() int { return s.one.waiters() }

// Delete takes the semaphore away, with all its permits, and says whether there was one. Who has some learns by the
// next renewal, or the release, that they are lost. Blocks and errors: as TrySetPermits.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	return s.DeleteAsync(ctx).Await(ctx)
}

// DeleteAsync is Delete as a future.
func (s *PermitSemaphore) DeleteAsync(ctx context.Context) *Future[bool] {
	return askPermits(ctx, s, request{what: "delete"}, answeredDone)
}

// Release gives permits back by their ids, whoever took them: for what Redisson, another engine, or a process that is
// no more has left. All or none. A Permit of this engine is given back by Permit.Release: here it learns of it by its
// next renewal only; ForceRelease tells it at once. Blocks: for one round trip, or until ctx ends.
//
// Errors: ErrNotHeld if one of them is no permit of this semaphore, or its lease is over: none was given back; the
// others as TrySetPermits.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	_, err := s.ReleaseAsync(ctx, ids...).Await(ctx)
	return err
}

// ReleaseAsync is Release as a future.
func (s *PermitSemaphore) ReleaseAsync(ctx context.Context, ids ...string) *Future[struct{}] {
	return askFor(ctx, s, s.ids("give", ids), func(*resp.Result) struct{} { return struct{}{} })
}

// ForceRelease takes permits away from whoever has them: those with these ids; without one, all that are leased, the
// first 10,000. It says how many it took: what was free by then it passes over, but for what an earlier command may
// have taken that had no answer. A Permit of this engine that has one of them is lost before it is taken, and the rest
// of it is given back; elsewhere its holder learns of it by the next renewal, or by its release. Waiters go on waiting,
// and have what is free now.
//
// Blocks: for a round trip for each thousand ids, more where some are free by then, or until ctx ends; then some may be
// taken. Errors: as AvailablePermits; ErrNotHeld for what is no id. It may be called again.
func (s *PermitSemaphore) ForceRelease(ctx context.Context, ids ...string) (taken int, err error) {
	if ids = slices.Clone(ids); len(ids) == 0 {
		holders, err := s.Holders(ctx)
		if err != nil {
			return 0, err
		}
		for _, h := range holders {
			ids = append(ids, h.ID)
		}
	}
	// One that is named twice counts once.
	for i, id := range ids {
		ids[i] = strings.ToLower(id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for part := range slices.Chunk(ids, MaxPermits) {
		if bad := s.ids("give", part).bad; bad != nil {
			return 0, bad
		}
	}
	if s.one.eng.closing.Load() {
		return 0, ErrClosed
	}
	holds := s.forced(ids)
	defer s.endForced(holds)
	for part := range slices.Chunk(ids, MaxPermits) {
		n, err := s.giveAll(ctx, part, false)
		if taken += n; err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// giveAll gives back what is leased of some ids, and says how many those were, or may have been: unsure says that an
// earlier command about them had no answer. It is sent again then: an id comes only once.
func (s *PermitSemaphore) giveAll(ctx context.Context, ids []string, unsure bool) (int, error) {
	q := s.ids("give", ids)
	q.repeat, q.unsure = true, &unsure
	given, err := askPermits(ctx, s, q, answeredDone).Await(ctx)
	switch {
	case err != nil:
		return 0, err
	case given:
		return len(ids), nil
	case len(ids) == 1 && unsure: // or that command has taken it
		return 1, nil
	case len(ids) == 1:
		return 0, nil
	}
	// All or none, and some are free: in halves.
	first, err := s.giveAll(ctx, ids[:len(ids)/2], unsure)
	if err != nil {
		return first, err
	}
	second, err := s.giveAll(ctx, ids[len(ids)/2:], unsure)
	return first + second, err
}

// forced makes the holds of this engine lost that have one of these ids, and returns them.
func (s *PermitSemaphore) forced(ids []string) (holds []*hold) {
	l, wanted := &s.one, make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[strings.ToLower(id)] = true
	}
	sc := l.eng.enter(l.hash)
	for ent := range sc.sh.names.get(l.hash, l.key).withChildren {
		ent.Overtake() // what waits for replicas may be taken, too
		h := ent.hold
		if h == nil || !h.Held() || !traits(h.Family).Many {
			continue
		}
		if slices.ContainsFunc(idsOf(h.Field), func(id string) bool { return wanted[id] }) {
			h.ForceBegun()
			holds = append(holds, h)
		}
	}
	sc.leave()
	l.loseForced(holds)
	return holds
}

// endForced gives back what those had beside.
func (s *PermitSemaphore) endForced(holds []*hold) {
	sc := s.one.eng.enter(s.one.hash)
	for _, h := range holds {
		sc.clean(h.ent, h.lockRef(), h.Indeterminate(), h.maxRemoteLife(sc.eng.clock.Now()))
	}
	sc.owe()
	sc.leave()
}

// UpdateLease makes the remaining time of a permit d, longer or shorter, whoever has it, and says whether there is
// such a permit. What this engine trusts of its own Permits it does not change: see Permit.Extend. d as FixedLease has
// it. Blocks and errors: as TrySetPermits; ErrNotHeld for what is no id.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	return s.UpdateLeaseAsync(ctx, id, d).Await(ctx)
}

// UpdateLeaseAsync is UpdateLease as a future.
func (s *PermitSemaphore) UpdateLeaseAsync(ctx context.Context, id string, d time.Duration) *Future[bool] {
	q := s.ids("lease", []string{id})
	var err error
	if q.lease, err = checkDuration("UpdateLease", d, MinFixedLease); q.bad == nil {
		q.bad = err
	}
	return askPermits(ctx, s, q, answeredDone)
}

// LeaseTime returns the remaining time of a permit, whoever has it; negative: it has no end. Blocks: for one round
// trip, or until ctx ends. Errors: ErrNotHeld if there is no such permit, or its lease is over; the others as
// AvailablePermits.
func (s *PermitSemaphore) LeaseTime(ctx context.Context, id string) (time.Duration, error) {
	return s.LeaseTimeAsync(ctx, id).Await(ctx)
}

// LeaseTimeAsync is LeaseTime as a future.
func (s *PermitSemaphore) LeaseTimeAsync(ctx context.Context, id string) *Future[time.Duration] {
	q := s.ids("left", []string{id})
	q.repeat = true
	return askFor(ctx, s, q, func(r *resp.Result) time.Duration { return fromServerMs(r.Value) })
}

// A Holder is one permit that is leased.
type Holder struct {
	// ID is the permit's, of 32 hex digits.
	ID string
	// Mine: it was taken by this engine.
	Mine bool
	// Remaining is the time until its lease is over; negative: it has no end.
	Remaining time.Duration
}

// Holders asks the server which permits are leased, in the order in which they expire: the first 10,000. Blocks and
// errors: as AvailablePermits.
func (s *PermitSemaphore) Holders(ctx context.Context) ([]Holder, error) {
	return s.HoldersAsync(ctx).Await(ctx)
}

// HoldersAsync is Holders as a future.
func (s *PermitSemaphore) HoldersAsync(ctx context.Context) *Future[[]Holder] {
	l := &s.one
	op := &singleOp[[]Holder]{eng: l.eng, name: l.Name(), repeat: true, read: s.readHolders}
	op.op = resp.Op{Kind: resp.OpQueue, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot}
	return single(ctx, l, op)
}

// noEnd is the score of a permit that Redisson has leased for ever.
const noEnd = 922337203685477

func (s *PermitSemaphore) readHolders(r *resp.Result) ([]Holder, error) {
	holders := make([]Holder, 0, len(r.Fields)/2)
	mark := string(binary.BigEndian.AppendUint64(nil, permitMark(s.one.eng)))
	for i := 0; i+1 < len(r.Fields); i += 2 {
		id := r.Fields[i]
		until, err := strconv.ParseFloat(r.Fields[i+1], 64)
		if err != nil {
			return nil, &nameError{s.Name(), ErrWrongKind}
		}
		// One that has expired stands there until somebody gives it back.
		left := time.Duration(-1)
		if until < noEnd {
			left = fromServerMs(int64(min(max(until-float64(r.Value), 0), 1<<53)))
		}
		if left != 0 {
			mine := len(id) == resp.PermitID && id[:len(mark)] == mark
			holders = append(holders, Holder{hex.EncodeToString([]byte(id)), mine, left})
		}
	}
	return holders, nil
}

// A request is what is asked beside acquires, see resp/scripts/permitsset.lua.
type request struct {
	what   string
	n      int
	lease  time.Duration
	repeat bool  // it is asked again without an answer
	unsure *bool // set where it was
	bad    error // why it is not asked
}

// number is a request with a number of permits.
func (s *PermitSemaphore) number(what string, n, least int) request {
	q := request{what: what, n: n}
	if n < least || n > math.MaxInt32 {
		q.bad = fmt.Errorf("%w: %d permits are not from %d to %d", ErrLease, n, least, math.MaxInt32)
	}
	return q
}

// ids is a request about some.
func (s *PermitSemaphore) ids(what string, ids []string) request {
	if len(ids) < 1 || len(ids) > MaxPermits {
		return request{bad: fmt.Errorf("%w: %d permits are not from 1 to %d", ErrLease, len(ids), MaxPermits)}
	}
	field := []byte(what + ":")
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != resp.PermitID {
			return request{bad: fmt.Errorf("%w: semaphore %s: %s is no id of a permit", ErrNotHeld, quote(s.Name()), quote(id))}
		}
		field = append(field, raw...)
	}
	return request{what: string(field)}
}

// askPermits asks it. What changes something is not sent again without an answer.
func askPermits[T any](ctx context.Context, s *PermitSemaphore, q request, read func(*resp.Result) T) *Future[T] {
	return ask(ctx, s, q, func(r *resp.Result) (T, error) { return read(r), nil })
}

// askFor is askPermits where it has to be there.
func askFor[T any](ctx context.Context, s *PermitSemaphore, q request, read func(*resp.Result) T) *Future[T] {
	return ask(ctx, s, q, func(r *resp.Result) (v T, err error) {
		if r.Code == resp.CodeNone {
			return v, fmt.Errorf("%w: semaphore %s: no such permit, or its lease is over", ErrNotHeld, quote(s.Name()))
		}
		return read(r), nil
	})
}

func ask[T any](ctx context.Context, s *PermitSemaphore, q request, read func(*resp.Result) (T, error)) *Future[T] {
	l := &s.one
	op := &singleOp[T]{eng: l.eng, name: l.Name(), repeat: q.repeat, copies: q.unsure != nil}
	op.read = func(r *resp.Result) (v T, err error) {
		if op.indeterminate.Until != 0 && q.unsure != nil {
			*q.unsure = true
		}
		if r.Code == resp.CodeWrongKind {
			return v, &nameError{l.Name(), ErrWrongKind}
		}
		return read(r)
	}
	op.op = resp.Op{
		Kind: resp.OpCall, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot, Field: q.what,
		Count: int32(q.n), LeaseMs: q.lease.Milliseconds(), //nolint:gosec // checked
	}
	if q.bad != nil {
		op.Future.op = op
		op.abandon(q.bad)
		return &op.Future
	}
	return single(ctx, l, op)
}
