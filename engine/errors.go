package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// What an operation can say. Ask with errors.Is; errors.As gives the data where there is a type.
var (
	// ErrHeld is returned when somebody else holds the lock: at once by a Try, after MaxWait by an
	// Acquire that was told so; with ctx's error beside it where ctx ended the wait. See *HeldError for the remaining
	// time.
	ErrHeld = errors.New("holdfast: lock is held by another")
	// ErrNoPermits is returned when a semaphore has too few permits that are free: at once by a Try, after MaxWait by an
	// Acquire. It is ErrHeld, too.
	ErrNoPermits = fmt.Errorf("%w: too few permits are free", ErrHeld)
	// ErrNotOpen is returned when a latch was not open, or too few had come to a barrier, before MaxWait was over.
	ErrNotOpen = errors.New("holdfast: not open")
	// ErrLatchGone is returned to those who wait for a latch that was deleted; or whose count is gone, because the server
	// has lost it or somebody has deleted it, and nobody was heard to say that it was open.
	ErrLatchGone = errors.New("holdfast: latch is gone, and was not seen to be open")
	// ErrBarrierBroken is returned to everybody who waits at a barrier, or comes to it, when one has left that waited
	// there: its ctx or MaxWait was over, its engine was closed or not heard of; or when it was reset, or lost.
	ErrBarrierBroken = errors.New("holdfast: barrier is broken")
	// ErrParties is returned to who comes to a barrier where others wait for another number of parties.
	ErrParties = errors.New("holdfast: others wait for another number of parties")
	// errLeftBarrier is what who leaves a barrier after MaxWait is told.
	errLeftBarrier = fmt.Errorf("%w: too few had come to the barrier, and who leaves breaks it", ErrNotOpen)
	// ErrLost is returned when a lease ended without its holder's will: it ran out, the server said
	// it is somebody else's, or no renewal was answered in time. Stop touching the resource. It is
	// also the cause of the end of such a lease's context.
	ErrLost = errors.New("holdfast: lease is lost")
	// ErrNotHeld is returned when a lease is released, extended or stopped a second time.
	ErrNotHeld = errors.New("holdfast: lease is not held")
	// ErrReleased is the cause of the end of a lease's context after Release.
	ErrReleased = errors.New("holdfast: lease was released")
	// ErrUnknown is returned when an operation was sent and its answer never came, or not before MaxWait
	// was over. The engine goes on cleaning up; see *UnknownError for when the lock is free at the latest.
	ErrUnknown = errors.New("holdfast: outcome is unknown")
	// ErrOverloaded is returned when a queue of this engine is full; nothing was sent.
	ErrOverloaded = errors.New("holdfast: engine is overloaded")
	// ErrClosed is returned by every operation of an engine that is closed or closing; nothing was
	// sent.
	ErrClosed = errors.New("holdfast: engine is closed")
	// ErrName is returned for a name that cannot name a lock; nothing was sent.
	ErrName = slot.ErrName
	// ErrLease is returned for an option that cannot be meant: a duration that cannot be a lease, wait or hold, a number
	// of replicas that cannot be waited for, a Spin or Linger of what has none; nothing was sent.
	ErrLease = errors.New("holdfast: bad option")
	// ErrConfig is returned by Open for a configuration that cannot work; nothing was connected.
	ErrConfig = errors.New("holdfast: bad configuration")
	// ErrWrongKind is returned when another kind of lock, or a value that is no lock, stands under the name; but a hash
	// of somebody else's is, for who asks for a plain lock, one that another holds for ever. Lock, spin, fenced and
	// fair are one kind, as in Redisson, where nothing on the wire tells them apart: who asks for one of them waits for
	// who holds the name as another. Only an owner's own is told apart: it is not entered as another.
	ErrWrongKind = errors.New("holdfast: the name holds another kind of object")
	// ErrNotReplicated is returned when fewer replicas than WaitReplicas asks for have seen the grant in
	// time; it was given back. See *NotReplicatedError for how many have.
	ErrNotReplicated = errors.New("holdfast: too few replicas have seen the grant")
	// ErrReentry is returned when an owner acquires a NonReentrant lock which it holds already; nothing
	// was sent.
	ErrReentry = errors.New("holdfast: its owner holds the lock already, and it is not re-entrant")
	// ErrUpgrade is returned when an owner that reads asks to write; nothing was sent. Two who did so
	// would wait for each other for ever: release first, or write from the start.
	ErrUpgrade = errors.New("holdfast: a reader cannot become a writer without releasing first")
	// ErrCancelled is returned by a future after its Cancel.
	ErrCancelled = fmt.Errorf("holdfast: future was cancelled: %w", context.Canceled)
)

// A HeldError says that somebody else holds the lock. It is ErrHeld.
type HeldError struct {
	Name string
	// Remaining is the holder's remaining lease as the server last told it; a watched lock is
	// renewed before it runs out. Negative: the key has no expiry.
	Remaining time.Duration
	// Holder is the owner id of the holder, as Lease.OwnerID has it: of one in this engine, and of a plain, spin or fenced
	// lock that is held elsewhere once somebody here has waited for it for a second or so, and the server was asked: at
	// most some 5 s ago. Its first half is Engine.ID: log that at the start, and the process is found by it.
	// Empty: it is not known, or a GroupLock was asked for or is in the way, and Lock.Inspect tells who it is.
	Holder string
	here   bool         // it is in this engine
	last   *ServerError // what the server has answered since it told of the holder, if that was an error
}

// Error says who is asked for, who has it as far as known, and how long the holder's lease lasts.
func (e *HeldError) Error() string {
	left := "no expiry"
	if e.Remaining >= 0 {
		left = e.Remaining.Round(time.Millisecond).String() + " remaining"
	}
	by := "another"
	if e.here {
		by = "another caller of this engine"
	}
	if e.Holder != "" {
		by += ", " + e.Holder
	}
	text := fmt.Sprintf("holdfast: lock %s is held by %s, %s", quote(e.Name), by, left)
	if e.last != nil {
		text += "; since then: " + unprefixed(e.last)
	}
	return text
}

// Unwrap makes it ErrHeld, with the server's last error beside it.
func (e *HeldError) Unwrap() []error {
	if e.last == nil {
		return []error{ErrHeld}
	}
	return []error{ErrHeld, e.last}
}

// A WaitError says that a ctx has ended before what it was given to did, and of which name. It is ctx's own error.
//
// Of an acquire that was given the ctx: where somebody was known to be in the way it is a *HeldError, and so ErrHeld,
// too; otherwise it is the server's last error, if there was one. What the server may still grant is given back.
// Of anything else, Future.Await among that, only the wait is over: what was asked for may be done all the same.
type WaitError struct {
	Name  string
	cause error // ctx's
	state error // what a MaxWait that ended then would have been told, or a *leftError; nil: nothing was asked
}

// A leftError is the state of that whose caller has left: what becomes of it, and the server's last error, if that is
// known.
type leftError struct {
	becomes string
	last    *ServerError
}

// Error is a part of a sentence.
func (e *leftError) Error() string {
	if e.last == nil {
		return e.becomes
	}
	return e.becomes + "; the last answer was: " + unprefixed(e.last)
}

// What becomes of that whose caller has left.
const (
	leftQuestion = "before it was done"
	leftChange   = "before it was done; it may be done all the same"
	leftCounted  = "before it was done; it goes on"
	leftRelease  = "before it was done; the release goes on"
	leftAcquire  = "while waiting; the acquire goes on"
)

// leftSeveral says it of several locks, of which the error has the name of one.
func leftSeveral(n int) string {
	return fmt.Sprintf("before it was done, of %d locks in all; what was asked of them goes on", n)
}

// leftBehind is what one is told whose ctx has ended while what it waited for goes on.
func leftBehind(name string, cause error, becomes string) error {
	return &WaitError{name, cause, &leftError{becomes: becomes}}
}

// Error says what was waited for, and what is known of why that took so long.
func (e *WaitError) Error() string {
	text := fmt.Sprintf("holdfast: %s: %s ", quote(e.Name), unprefixed(e.cause))
	var unknown *UnknownError
	var left *leftError
	switch {
	case e.state == nil:
		return text + "before it was asked for"
	case errors.As(e.state, &left):
		return text + left.Error()
	case isServers(e.state):
		return text + "while waiting, the last answer was: " + unprefixed(errors.Unwrap(e.state))
	case !errors.As(e.state, &unknown):
		return text + "while waiting: " + unprefixed(e.state)
	case errors.Is(e.state, errNoAnswer):
		return text + "before the server answered"
	default:
		return text + "while waiting, the last answer was: " + unprefixed(unknown.cause)
	}
}

// Unwrap makes it ctx's error, with what is known beside it.
func (e *WaitError) Unwrap() []error {
	var unknown *UnknownError
	var left *leftError
	switch {
	case e.state == nil:
		return []error{e.cause}
	case errors.As(e.state, &left) && left.last != nil:
		return []error{e.cause, left.last}
	case left != nil:
		return []error{e.cause}
	case !errors.As(e.state, &unknown): // who is in the way
		return []error{e.cause, e.state}
	case errors.Is(e.state, errNoAnswer):
		return []error{e.cause}
	default:
		return []error{e.cause, unknown.cause}
	}
}

// isServers reports whether an error is what a server says of a name, and nothing else.
func isServers(err error) bool {
	_, said := errors.Unwrap(err).(*ServerError) //nolint:errorlint // a *HeldError may have one beside it
	return said
}

// errNoAnswer is why an outcome is unknown where MaxWait ended before the server had said anything.
var errNoAnswer = fmt.Errorf("no answer before MaxWait was over: %w", context.DeadlineExceeded)

// unprefixed is an error's text as a part of another's.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "holdfast: ") }

// byServer is the same where the sentence itself says which server it is about.
func byServer(err error) string { return strings.TrimPrefix(unprefixed(err), "server: ") }

// A closeError says that an engine has ended, and that the server did not answer all of its releases. It is
// ErrUnknown.
type closeError struct {
	releases int64
	name     string       // of one of them
	last     *ServerError // what the server said to it; nil: nothing
}

// Error names one of them.
func (e *closeError) Error() string {
	text := fmt.Sprintf("holdfast: close: releases without an answer: %d, of %s", e.releases, quote(e.name))
	if e.releases > 1 {
		text += " and others"
	}
	if e.last != nil {
		text += " (" + unprefixed(e.last) + ")"
	}
	return text + "; locks expire by themselves, permits of semaphores do not"
}

// Unwrap makes it ErrUnknown.
func (e *closeError) Unwrap() error { return ErrUnknown }

// A NoPermitsError says that a semaphore had too few permits, or that others waited for them before. It is ErrNoPermits
// and ErrHeld.
type NoPermitsError struct {
	Name   string
	Wanted int // permits
}

// Error says how many were asked for.
func (e *NoPermitsError) Error() string {
	return fmt.Sprintf("holdfast: semaphore %s: %d wanted, and fewer permits are free (none are before TrySetPermits)",
		quote(e.Name), e.Wanted)
}

// Unwrap makes it ErrNoPermits.
func (e *NoPermitsError) Unwrap() error { return ErrNoPermits }

// An UnknownError says that an operation's answer never came. It is ErrUnknown; it is also the last error of
// the server or the network, or context.DeadlineExceeded where MaxWait ended before there was any.
type UnknownError struct {
	Name string
	// FreeBy is the latest time at which this operation can still hold the lock. The engine never renews it
	// and goes on releasing it. Of a release it is up to a lease later than Lease.Deadline, for what was asked for before
	// may be on its way. Zero for what is counted: what was taken is given back when the server answers again.
	FreeBy time.Time
	cause  error

	applies bool // what was asked for may have been done, or may yet be: to ask again could count twice
}

// timeFormat is how an error shows a time.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Error says by when the lock is free.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("holdfast: outcome for %s is unknown, free by %s", quote(e.Name),
		e.FreeBy.Format(timeFormat))
	if e.FreeBy.IsZero() {
		text = fmt.Sprintf("holdfast: outcome for %s is unknown", quote(e.Name))
	}
	if e.cause != nil {
		text += ": " + unprefixed(e.cause)
	}
	return text
}

// Unwrap makes it ErrUnknown, with the transport's error beside it.
func (e *UnknownError) Unwrap() []error { return []error{ErrUnknown, e.cause} }

// A NotReplicatedError says that too few replicas have seen a grant. It is ErrNotReplicated. The engine
// gives the lock back; nobody holds it.
type NotReplicatedError struct {
	Name         string
	Wanted, Seen int
	cause        error // why they could not be asked, if so
}

// Error says how many replicas have seen the grant.
func (e *NotReplicatedError) Error() string {
	text := fmt.Sprintf("holdfast: lock %s: %d of %d replicas have seen the grant, it is given back", quote(e.Name),
		e.Seen, e.Wanted)
	if e.cause != nil {
		text += ": " + unprefixed(e.cause)
	}
	return text
}

// Unwrap makes it ErrNotReplicated, with the server's refusal beside it.
func (e *NotReplicatedError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrNotReplicated}
	}
	return []error{ErrNotReplicated, e.cause}
}

// A ServerError is the server's refusal: Class is what it means, Text the server's own words.
type ServerError = resp.ServerError

// A Class says what kind of refusal a ServerError is.
type Class = resp.Class

// The classes of a ServerError that callers meet.
const (
	ClassUnreachable = resp.ClassUnreachable
	ClassUnknown     = resp.ClassUnknown
	ClassRefused     = resp.ClassRefused
	ClassPartly      = resp.ClassPartly
	ClassNoScript    = resp.ClassNoScript
	ClassWrongType   = resp.ClassWrongType
	ClassOOM         = resp.ClassOOM
	ClassReadOnly    = resp.ClassReadOnly
	ClassMisconf     = resp.ClassMisconf
	ClassNoReplicas  = resp.ClassNoReplicas
	ClassBusy        = resp.ClassBusy
	ClassLoading     = resp.ClassLoading
	ClassMasterDown  = resp.ClassMasterDown
	ClassNoAuth      = resp.ClassNoAuth
	ClassNoPerm      = resp.ClassNoPerm
	ClassMaxClients  = resp.ClassMaxClients
	ClassOther       = resp.ClassOther
)

// A nameError ties an error to the lock it is about.
type nameError struct {
	name string
	err  error
}

func (e *nameError) Error() string {
	return fmt.Sprintf("holdfast: %s: %s", quote(e.name), unprefixed(e.err))
}

func (e *nameError) Unwrap() error { return e.err }

// A pingError says that it was Ping that failed.
type pingError struct{ err error }

func (e *pingError) Error() string { return "holdfast: ping: " + unprefixed(e.err) }
func (e *pingError) Unwrap() error { return e.err }

// A becauseError is an error with its cause in the same sentence.
type becauseError struct{ err, cause error }

func (e *becauseError) Error() string   { return e.err.Error() + ": " + unprefixed(e.cause) }
func (e *becauseError) Unwrap() []error { return []error{e.err, e.cause} }

// A causeError is why a lock was lost.
type causeError renew.Cause

func (c causeError) Error() string { return causeText(renew.Cause(c)) }

// Unwrap makes it ErrWrongKind where another kind of value has replaced the lock.
func (c causeError) Unwrap() error {
	if renew.Cause(c) == renew.CauseWrongType {
		return ErrWrongKind
	}
	return nil
}

func causeText(c renew.Cause) string {
	switch c {
	case renew.CauseNotOurs:
		return "the server says it is not ours"
	case renew.CauseWrongType:
		return "another value stands in its place"
	case renew.CauseForced:
		return "it was force-released"
	case renew.CauseClosed:
		return "the engine closes and lets it expire"
	default:
		return "its lease ran out unrenewed"
	}
}

// causeOfLoss is why a server does not have a lock any more.
func causeOfLoss(gone bool) renew.Cause {
	if gone {
		return renew.CauseWrongType
	}
	return renew.CauseNotOurs
}

// because is an error with its cause, if that is known.
func because(err, cause error) error {
	if cause == nil {
		return err
	}
	return &becauseError{err, cause}
}

// A wrongKindError is ErrWrongKind with what the server says.
type wrongKindError struct{ said *ServerError }

func (e *wrongKindError) Error() string   { return ErrWrongKind.Error() + ": " + byServer(e.said) }
func (e *wrongKindError) Unwrap() []error { return []error{ErrWrongKind, e.said} }

// A notTaken is ErrLost of an acquire that has nothing to lose: what it was granted was given back, for its answer took
// too long. An owner who comes to what it has lost before is told ErrLost until it has released that.
type notTaken struct{ error }

// Unwrap makes it that error.
func (e notTaken) Unwrap() error { return e.error }

// A ranError is the error of a Do whose function ran: the function's own, and that of giving back.
type ranError struct{ error }

// Error says both on one line: a log may make two entries of two.
func (e *ranError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }

// Unwrap makes it those errors.
func (e *ranError) Unwrap() error { return e.error }

// quote shows a name of any length and content on one line.
func quote(name string) string {
	const most = 128
	if len(name) > most {
		return fmt.Sprintf("%q…", name[:most])
	}
	return fmt.Sprintf("%q", name)
}

// SafeToRetry reports whether the operation that returned err may simply be tried again: this engine or the server
// refused it, or the engine cleans up what it did, and the trouble is not in the request. RetryAfter says when.
//
// It is false for every error of a Do whose function has run, whatever the function returned: half of its work may
// be done. It is false for the end of a ctx, which ends the next try, too; and for the loss of a lease, after which
// somebody else may have changed what the lease was for: an owner that acquires again what it has lost is told so until
// it has released the lost lease. What counts is not cleaned up: an unknown outcome of giving
// permits back, of counting a latch down or of changing either is no reason to do so again.
func SafeToRetry(err error) bool {
	var ran *ranError
	var ended *WaitError
	var refused notTaken
	var server *ServerError
	var closed *closeError
	switch {
	case errors.As(err, &ran), errors.As(err, &ended), errors.As(err, &closed), !mayPass(err):
		return false
	case errors.Is(err, ErrLost):
		return errors.As(err, &refused)
	case errors.Is(err, ErrUnknown), errors.As(err, &server): // a ctx among their causes is the engine's own
		return true
	default:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
}

// RetryAfter returns how long to wait before the next try: what a caller leaves to a server or an engine that has too
// much to do, to a failover, or to the holder. It is spread, between half of it and half as much again, so that those
// who were refused together do not come back together. For ErrLost it is how long to wait before the lock is acquired
// anew. 0: there is no reason to wait, or none to try again.
func RetryAfter(err error) time.Duration {
	pause := retryAfter(err)
	if pause <= 0 {
		return 0
	}
	return pause/2 + rand.N(pause)
}

// What RetryAfter leaves, in the middle.
const (
	retrySoon  = 50 * time.Millisecond
	retryLater = time.Second
)

func retryAfter(err error) time.Duration {
	var held *HeldError
	var server *ServerError
	switch {
	case errors.Is(err, ErrLost):
		return retryLater
	case !SafeToRetry(err):
		return 0
	case errors.As(err, &held) && held.Remaining >= 0:
		return min(max(held.Remaining, retrySoon), retryLater)
	case errors.As(err, &server) && (server.Class == resp.ClassMoved || server.Class == resp.ClassAsk ||
		server.Class == resp.ClassTryAgain || server.Class == ClassNoScript):
		return retrySoon
	case errors.Is(err, ErrOverloaded), errors.Is(err, ErrNoPermits):
		return 2 * retrySoon
	default: // the server's trouble, or nobody knows whose
		return retryLater
	}
}

// mayPass reports whether the same may go well later: the trouble is not in the request.
func mayPass(err error) bool {
	var server *ServerError
	var unknown *UnknownError
	switch {
	case errors.As(err, &unknown) && unknown.applies:
		return false
	case errors.Is(err, ErrName), errors.Is(err, ErrLease), errors.Is(err, ErrClosed),
		errors.Is(err, ErrNotHeld), errors.Is(err, ErrWrongKind), errors.Is(err, ErrConfig),
		errors.Is(err, ErrBarrierBroken), errors.Is(err, errLeftBarrier):
		return false
	case errors.Is(err, ErrUnknown):
		return true
	case errors.As(err, &server):
		return server.Class.Transient() || server.Class == ClassOOM || server.Class == ClassMisconf ||
			server.Class == ClassNoReplicas
	case errors.Is(err, ErrHeld), errors.Is(err, ErrNotOpen), errors.Is(err, ErrOverloaded), errors.Is(err, ErrLost),
		errors.Is(err, ErrNotReplicated),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true
	default:
		return false
	}
}

// notReplicated says that too few replicas have seen a grant.
func notReplicated(name string, ack *resp.Ack, r *resp.Result) error {
	err := &NotReplicatedError{Name: name, Wanted: ack.Replicas, Seen: int(r.ReplicaAcks)}
	if r.AckErr != nil {
		err.cause = r.AckErr
	}
	return err
}

// fromServer turns an op's error into what callers see.
func fromServer(name string, err *ServerError) error {
	switch err.Class {
	case resp.ClassClosed:
		return ErrClosed
	case resp.ClassOverloaded:
		return ErrOverloaded
	case resp.ClassWrongType:
		return &nameError{name, &wrongKindError{err}}
	default:
		return &nameError{name, err}
	}
}
