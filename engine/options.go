package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Leases and limits.
const (
	// DefaultLease is the watchdog lease of a lock without options: Redisson's lockWatchdogTimeout.
	DefaultLease = 30 * time.Second
	// MinFixedLease is the shortest lease that is not renewed.
	MinFixedLease = 100 * time.Millisecond
	// MinWatchdogLease is the shortest lease the watchdog renews.
	MinWatchdogLease = time.Second
	// MaxLinger is the longest that a released lock lingers.
	MaxLinger = 100 * time.Millisecond
	// MaxLease is the longest lease, wait or hold.
	MaxLease = 10 * 365 * 24 * time.Hour
)

// settings are a lock handle's options, immutable and shared by all its operations.
type settings struct {
	lockstate.Terms

	maxWait time.Duration // 0: until ctx ends
	owner   *Owner
	err     error // the first bad option
	family  resp.Family
	once    bool // its owner may not enter again
}

// defaults are the settings of a lock without options, for each family: one for all its handles, which are told to be
// compatible by that pointer.
//
//nolint:gochecknoglobals // a constant in all but name
var defaults = func() (all [resp.MaxFamilies]*settings) {
	for f := range all {
		all[f] = &settings{Terms: lockstate.Terms{Lease: DefaultLease, Watchdog: !traits(resp.Family(f)).fixed, Units: 1}}
		all[f].is(resp.Family(f))
	}
	return all
}()

// An Option belongs to a lock handle.
type Option func(*settings)

// WatchdogLease makes the lease d, renewed at most every third of it for as long as the lock is
// held: what a crashed holder leaves is free after d. Default: 30 s. At least 1 s; a part of a millisecond is
// rounded up, in every option. Of WatchdogLease and FixedLease the later one counts. Smaller frees a crashed holder's
// lock sooner; larger survives longer outages.
//
// No held lock is lost to a slow line while a round trip takes less than a third of d, and less than two
// seconds; also if one of the two connections that renew answers nothing at all. Where an owner holds the
// lock several times, it is renewed with the longest lease of those that are to be renewed.
func WatchdogLease(d time.Duration) Option {
	return func(s *settings) {
		s.Lease, s.Watchdog = s.duration("WatchdogLease", d, MinWatchdogLease), true
	}
}

// FixedLease makes the lease d and never renews it: the lock is lost shortly before d is over unless it is
// released or extended. So that its holder knows in time it is lost 1 % of d before that, at least 10 ms, and by 75 ms
// more or a quarter of d, whichever is less: of a second 915 ms are there to be used, of 100 ms 65. At least
// 100 ms. Where its owner holds the lock beside that under another lease, it is lost when none of them keeps it
// any more.
func FixedLease(d time.Duration) Option {
	return func(s *settings) {
		s.Lease, s.Watchdog = s.duration("FixedLease", d, MinFixedLease), false
	}
}

// Linger keeps a released lock with the engine for d, in case somebody asks for it here once more: who does, with the
// same lease, MaxHold and kind of lock, has it without a command. It is for names that one process uses again and
// again. Default: a release is sent at once. At most MaxLinger; a part of a millisecond is rounded up.
//
// A lock lingers only where nobody is known to want it: nobody waits for it here, no release of the engine's was heard
// elsewhere, and the engine did not have to wait for it. Whoever asks elsewhere meanwhile waits until the engine's turn
// ends, as beside a hand-off (20 ms, or ten round trips, at most 200 ms), and then for d and one more holder at most;
// timers may be 6 ms late. From then on it is known that they want it, and nothing lingers. An acquire here with other
// options gives it back first, and waits for the answer to that. Who does not listen is not known: a TryAcquire
// elsewhere is told that the lock is held, and who polls (Spin, Config.NoSubscribe, Redisson's SpinLock) finds it free
// between two turns only: that may take
// long.
//
// Release answers at once, without the server: of a loss that the engine does not know yet it says nothing. A lock that
// lingers is renewed, and on the server it is held: Inspect and Held say so. If it is lost nobody is told, for nobody
// has it; Stats.LingersLost counts it. Close gives it back, with KeepOnClose, too. A process that dies leaves it until
// its lease ends, as a lock that it holds. With Config.NoHandOff nothing lingers.
//
// Only for a Lock without Spin, with a lease that the watchdog renews.
func Linger(d time.Duration) Option {
	return func(s *settings) {
		s.Linger = s.duration("Linger", d, time.Millisecond)
		if s.Linger > MaxLinger {
			s.refuse(fmt.Errorf("%w: Linger(%v) is above %v", ErrLease, d, MaxLinger))
		}
	}
}

// checkLinger refuses what does not linger.
func (s *settings) checkLinger() {
	switch {
	case s.Linger == 0:
	case !traits(s.family).lingers:
		s.refuse(fmt.Errorf("%w: only a Lock without Spin can Linger", ErrLease))
	case !s.Watchdog:
		s.refuse(fmt.Errorf("%w: Linger is for leases that the watchdog renews", ErrLease))
	}
}

// MaxWait bounds how long an Acquire waits for the lock; it then answers *HeldError, or *UnknownError if the
// server has not said by then that somebody holds it: it is silent, or further away than that. If the server has only
// refused all the while (a replica, LOADING), that *ServerError is the answer, or beside it. Default: until its ctx
// ends. Kept to about 15 ms.
//
// A d that is not above 0 is what time.Until says of a deadline that has passed: then every acquire fails at once, with
// an error that is ErrLease and context.DeadlineExceeded. Nothing is sent. Who does not want to wait uses TryAcquire.
func MaxWait(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.refuse(fmt.Errorf("%w: MaxWait(%v): %w", ErrLease, d, errWaitedOut))
		}
		s.maxWait = s.duration("MaxWait", d, time.Millisecond)
	}
}

// MaxHold stops the watchdog d after the lock was acquired: a guard against holders that forget to
// release. The lease then runs out. Default: no limit. At least 1 s. It ends nothing for
// other leases of the same hold: its owner's, or other readers' of this engine.
func MaxHold(d time.Duration) Option {
	return func(s *settings) {
		s.MaxHold = s.duration("MaxHold", d, MinWatchdogLease)
	}
}

// WaitReplicas makes an acquire wait until n replicas have seen the grant, for timeout at most. If fewer
// have by then, the lock is given back and the answer is *NotReplicatedError. Default: nobody waits. The server looks
// ten times a second, so where too few have, the answer may come 0.1 s after timeout.
//
// A failover to a replica that has seen the grant keeps the lock. It is a smaller window, not none: a
// replica that has not may be promoted instead, unless n is all of them, and renewals do not wait. n may
// be larger than the number of replicas there are now; then nothing is granted until there are enough.
// From 1 to 1000; timeout at least 1 ms, at most half the lease, for the lease counts
// from the moment the acquire is sent.
//
// What replicas have seen once is not asked for again: a lock that is handed to the next waiter inside
// this engine, or entered again by its owner, keeps the field that they have.
func WaitReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) {
		if n < 1 || n > maxReplicas {
			s.refuse(fmt.Errorf("%w: WaitReplicas(%d) is not from 1 to %d", ErrLease, n, maxReplicas))
		}
		s.Ack = &lockstate.Ack{Replicas: n, Timeout: s.duration("WaitReplicas", timeout, time.Millisecond)}
	}
}

const maxReplicas = 1000

// errWaitedOut is why a MaxWait that is over before it begins is refused.
var errWaitedOut = fmt.Errorf("no time is left to wait: %w", context.DeadlineExceeded)

// is makes them those of a family.
func (s *settings) is(f resp.Family) { s.family, s.Family = f, &traits(f).Traits }

// NonReentrant makes it an error, ErrReentry, that an owner acquires a lock which it holds already:
// Redisson's NonReentrantLock and NonReentrantFairLock. Without an owner an acquire always waits.
func NonReentrant() Option { return func(s *settings) { s.once = true } }

// As makes every acquire through the handle the owner's. It beats the owner a ctx carries.
func As(o *Owner) Option { return func(s *settings) { s.owner = o } }

// refuse notes what is wrong with an option, if something is; the first is the one that is told.
func (s *settings) refuse(err error) {
	if s.err == nil {
		s.err = err
	}
}

// lately are the settings of the last handle of each family that had options: nothing in them is an engine's.
//
//nolint:gochecknoglobals // as defaults
var lately [resp.MaxFamilies]atomic.Pointer[settings]

// settingsOf returns the settings of a handle. Handles that are made alike, one after the other, share theirs: a lease
// keeps them for as long as the lock is held.
func settingsOf(family resp.Family, opts []Option) *settings {
	set, last := defaults[family].with(opts), &lately[family]
	if len(opts) == 0 || set.err != nil || set.owner != nil { // nothing here keeps an owner
		return set
	}
	if before := last.Load(); before != nil && *before == *set {
		return before
	}
	last.Store(set)
	return set
}

// with returns the settings with options applied.
func (s *settings) with(opts []Option) *settings {
	if len(opts) == 0 {
		return s
	}
	changed := *s
	for _, opt := range opts {
		if opt == nil {
			changed.refuse(fmt.Errorf("%w: a nil option", ErrLease))
			continue
		}
		opt(&changed)
	}
	if changed.Spin != nil {
		changed.is(traits(changed.family).spinsAs)
	}
	changed.checkLinger()
	if ack := changed.Ack; ack != nil && ack.Timeout > changed.Lease/2 {
		changed.refuse(fmt.Errorf("%w: WaitReplicas for %v is above half the lease of %v",
			ErrLease, ack.Timeout, changed.Lease))
	}
	return &changed
}

// duration returns an option's duration in whole milliseconds, and notes if it cannot be one.
func (s *settings) duration(what string, d, least time.Duration) time.Duration {
	rounded, err := checkDuration(what, d, least)
	s.refuse(err)
	return rounded
}

// checkDuration rounds a duration up to whole milliseconds, which is what the server counts in, and refuses one that is
// out of bounds. A part of a millisecond of a negative one is cut off: what is over does not become a millisecond.
func checkDuration(what string, d, least time.Duration) (time.Duration, error) {
	if d > MaxLease {
		return d, fmt.Errorf("%w: %s(%v) is above %v", ErrLease, what, d, MaxLease)
	}
	rounded := d.Truncate(time.Millisecond)
	if rounded < d {
		rounded += time.Millisecond
	}
	if rounded < least {
		return d, fmt.Errorf("%w: %s(%v) is below %v", ErrLease, what, d, least)
	}
	return rounded, nil
}

// Spin makes waiters ask again and again instead of subscribing, first after about the one pause, then
// after ever longer ones up to the other: Redisson's SpinLock with its exponential back-off. For servers
// that refuse publish, and for very many names that are seldom contended for.
//
// Its release tells nobody. Waiters of the same name without Spin, here or in Redisson, exclude each
// other with it as always, but hear nothing and find the lock free by their own polls, up to a second
// later. Both pauses at least 1 ms; Redisson's are 1 ms and 128 ms. Only for Lock.
func Spin(first, most time.Duration) Option {
	return func(s *settings) {
		first := s.duration("Spin", first, time.Millisecond)
		most := s.duration("Spin", most, time.Millisecond)
		if most < first {
			s.refuse(fmt.Errorf("%w: Spin from %v to %v", ErrLease, first, most))
		}
		if traits(s.family).spinsAs == 0 {
			s.refuse(fmt.Errorf("%w: only a Lock can Spin", ErrLease))
			return
		}
		s.Spin = &lockstate.Spin{First: first, Most: most}
	}
}
