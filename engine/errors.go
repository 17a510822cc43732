package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// What an operation can say. Ask with errors.Is; errors.As gives the data where there is a type.
var (
	// ErrHeld is returned when somebody else holds the lock: at once by a Try, after MaxWait by an
	// Acquire that was told so. See *HeldError for the remaining time.
	ErrHeld = errors.New("holdfast: lock is held by another")
	// ErrNoPermits is returned when a semaphore has too few permits that are free: at once by a Try, after MaxWait by an
	// Acquire. It is ErrHeld, too.
	ErrNoPermits = fmt.Errorf("%w: too few permits are free", ErrHeld)
	// ErrNotOpen is returned when a latch was not open before MaxWait was over.
	ErrNotOpen = errors.New("holdfast: latch is not open")
	// ErrLatchGone is returned to those who wait for a latch that was deleted; or whose count is gone, because the server
	// has lost it or somebody has deleted it, and nobody was heard to say that it was open.
	ErrLatchGone = errors.New("holdfast: latch is gone, and was not seen to be open")
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
	// ErrLease is returned for a duration that cannot be a lease, wait or hold, or a number of replicas that
	// cannot be waited for; nothing was sent.
	ErrLease = errors.New("holdfast: bad option")
	// ErrConfig is returned by Open for a configuration that cannot work; nothing was connected.
	ErrConfig = errors.New("holdfast: bad configuration")
	// ErrWrongKind is returned when another kind of lock, or a value that is no lock, stands under
	// the name.
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
}

// Error says who is asked for and how long the holder's lease lasts.
func (e *HeldError) Error() string {
	if e.Remaining < 0 {
		return fmt.Sprintf("holdfast: lock %s is held by another, no expiry", quote(e.Name))
	}
	return fmt.Sprintf("holdfast: lock %s is held by another, %v remaining", quote(e.Name), e.Remaining)
}

// Unwrap makes it ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// A NoPermitsError says that a semaphore had too few permits, or that others waited for them before. It is ErrNoPermits
// and ErrHeld.
type NoPermitsError struct {
	Name   string
	Wanted int // permits
}

// Error says how many were asked for.
func (e *NoPermitsError) Error() string {
	return fmt.Sprintf("holdfast: semaphore %s: %d permits are not free", quote(e.Name), e.Wanted)
}

// Unwrap makes it ErrNoPermits.
func (e *NoPermitsError) Unwrap() error { return ErrNoPermits }

// An UnknownError says that an operation's answer never came. It is ErrUnknown; it is also the last error of
// the server or the network, or context.DeadlineExceeded where MaxWait ended before there was any.
type UnknownError struct {
	Name string
	// FreeBy is the latest time at which this operation can still hold the lock. The engine never renews it
	// and goes on releasing it. Zero for permits: what was taken is given back when the server answers again.
	FreeBy time.Time
	cause  error

	applies bool // what was asked for may have been done, or may yet be: to ask again could count twice
}

// Error says by when the lock is free.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("holdfast: outcome for lock %s is unknown, free by %s", quote(e.Name),
		e.FreeBy.Format(time.RFC3339Nano))
	if e.FreeBy.IsZero() {
		text = fmt.Sprintf("holdfast: outcome for %s is unknown", quote(e.Name))
	}
	if e.cause != nil {
		text += ": " + strings.TrimPrefix(e.cause.Error(), "holdfast: ")
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
		text += ": " + strings.TrimPrefix(e.cause.Error(), "holdfast: ")
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

// A ServerError is the server's refusal, with its class.
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
	return fmt.Sprintf("holdfast: lock %s: %s", quote(e.name), strings.TrimPrefix(e.err.Error(), "holdfast: "))
}

func (e *nameError) Unwrap() error { return e.err }

// quote shows a name of any length and content on one line.
func quote(name string) string {
	const most = 128
	if len(name) > most {
		return fmt.Sprintf("%q…", name[:most])
	}
	return fmt.Sprintf("%q", name)
}

// SafeToRetry reports whether the operation that returned err may simply be tried again: nothing
// was changed by it, or the engine cleans up what was, and the trouble is not in the request. What counts is not
// cleaned up: an unknown outcome of giving permits back, of counting a latch down or of changing either is no reason to
// do so again.
func SafeToRetry(err error) bool {
	if err == nil {
		return false
	}
	var server *ServerError
	var unknown *UnknownError
	switch {
	case errors.As(err, &unknown) && unknown.applies:
		return false
	case errors.Is(err, ErrName), errors.Is(err, ErrLease), errors.Is(err, ErrClosed),
		errors.Is(err, ErrNotHeld), errors.Is(err, ErrWrongKind), errors.Is(err, ErrConfig):
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
		return &nameError{name, fmt.Errorf("%w: %w", ErrWrongKind, err)}
	default:
		return &nameError{name, err}
	}
}
