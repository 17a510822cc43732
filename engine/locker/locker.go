package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

const (
	// firstPause and longestPause bound the pauses between Lock's tries, a random part of which is
	// slept. A lock that is merely held is waited for by the engine, without pauses.
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
	// unlockWait is how long Unlock waits for the answer to its release. The release goes on after it.
	unlockWait = time.Second
)

// ErrUnlocked is what Unlock and Context of a Locker that is not locked panic with.
var ErrUnlocked = errors.New("holdfast: locker is not locked")

// A Locker is a sync.Locker on a lock. It must not be copied after first use.
type Locker struct {
	lock   *engine.Lock
	inside chan struct{} // capacity 1: full from the end of a Lock to its Unlock, lease lost or not

	mu    sync.Mutex
	lease *engine.Lease // of whoever is inside
}

// New returns a Locker on lock, unlocked. MaxWait of the lock ends a LockContext with ErrHeld or ErrUnknown;
// a Lock waits on.
//
// Lockers on one name exclude each other as any two holders do; goroutines that are to exclude each
// other even through a loss must share one. An owner among the lock's options changes nothing for
// those that share it.
func New(lock *engine.Lock) *Locker {
	return &Locker{lock: lock, inside: make(chan struct{}, 1)}
}

// Lock takes the lock. It panics with an error, for errors.Is, if it can never have it: see the
// package page. Blocks: until it has it.
func (l *Locker) Lock() {
	pause := firstPause
	for {
		err := l.LockContext(context.Background())
		switch {
		case err == nil:
			return
		case !mayPass(err):
			panic(fmt.Errorf("holdfast: locker: %w", err))
		case errors.Is(err, engine.ErrHeld): // after MaxWait
		default:
			time.Sleep(rand.N(pause) + time.Millisecond)
			pause = min(2*pause, longestPause)
		}
	}
}

// LockContext takes the lock, waiting for it as long as ctx and the lock's MaxWait allow. It tries
// once: SafeToRetry says whether trying again can help. ctx bounds the waiting only, not the holding.
//
// Errors: as engine.Lock.Acquire.
func (l *Locker) LockContext(ctx context.Context) error {
	for {
		// First the lease, then the token: waiting goroutines are in the engine's queue, in order, and
		// the token is taken at once unless its holder has lost the lease and not yet noticed.
		lease, err := l.lock.Acquire(ctx)
		if err != nil {
			return err
		}
		select {
		case l.inside <- struct{}{}:
		case <-ctx.Done():
			lease.ReleaseAsync()
			return ctx.Err()
		}
		if !lease.Lost() {
			l.enter(lease)
			return nil
		}
		<-l.inside
		lease.ReleaseAsync() // a lost lease has nothing to release: this marks it as done with
	}
}

// mayPass reports whether the same may go well later. ErrLost is that of an owner that somebody in here has not unlocked
// yet: it passes when that is done.
func mayPass(err error) bool { return engine.SafeToRetry(err) || errors.Is(err, engine.ErrLost) }

// TryLock takes the lock if it is free, and says whether it has it. It is false, too, if the server
// cannot be asked or refuses for the time being; it panics where Lock does.
//
// Blocks: for one round trip; some seconds if the server is silent.
func (l *Locker) TryLock() bool {
	lease, err := l.lock.TryAcquire(context.Background())
	switch {
	case err == nil:
	case mayPass(err):
		return false
	default:
		panic(fmt.Errorf("holdfast: locker: %w", err))
	}
	select {
	case l.inside <- struct{}{}:
		l.enter(lease)
		return true
	default: // somebody is inside whose lease is lost
		lease.ReleaseAsync()
		return false
	}
}

func (l *Locker) enter(lease *engine.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// Unlock gives the lock back. It panics with ErrUnlocked if the Locker is not locked. A lease that
// was lost is no error here.
//
// Blocks: for one round trip, a second at most; the release is then still on its way.
func (l *Locker) Unlock() {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		panic(ErrUnlocked)
	}
	<-l.inside
	ctx, cancel := context.WithTimeout(context.Background(), unlockWait)
	defer cancel()
	_ = lease.Release(ctx) // whatever it says, the engine cleans up
}

// Lost reports whether the Locker is locked and its lease is lost: whoever is inside must stop
// touching what the lock protects, and Unlock. Blocks: never on the server.
func (l *Locker) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease != nil && l.lease.Lost()
}

// Context returns the context of the present lease: it ends with Unlock, or with cause
// engine.ErrLost. It panics with ErrUnlocked if the Locker is not locked.
func (l *Locker) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil {
		panic(ErrUnlocked)
	}
	return l.lease.Context()
}
