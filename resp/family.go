package resp

import (
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// Family says which lock an op is about: what its commands do and whom they tell. All else, lanes,
// batches, retries, redirects and renewals, is the same for all of them.
type Family uint8

// The families.
const (
	FamilyLock   Family = iota // Redisson's RLock
	FamilySpin                 // the same, but a release tells nobody
	FamilyFenced               // the same, and a grant carries a token
	FamilyRead                 // shared
	FamilyWrite                // exclusive, on the same key as FamilyRead
	FamilyFair                 // with a queue on the server
	familyEnd
)

// MaxFamilies is the room of tables that have a row for each family.
const MaxFamilies = 16

// The modes of a read-write lock's hash.
const (
	ModeRead  = "read"
	ModeWrite = "write"
)

// writeSuffix marks a write hold's field, after the wire id.
const writeSuffix = ":" + ModeWrite

// ModeOf returns the mode in which a field of a read-write lock's hash holds it.
func ModeOf(field string) string {
	if strings.HasSuffix(field, writeSuffix) {
		return ModeWrite
	}
	return ModeRead
}

// NoteField returns the field under which a writer of an engine leaves word that it waits: the engine's one note a name.
func NoteField(id string) string { return id + ":0" + writeSuffix }

// FieldOf reports whether a field is of a hold or a waiter of the engine with this id.
func FieldOf(id, field string) bool {
	return len(field) > len(id) && field[len(id)] == ':' && field[:len(id)] == id
}

// How fair waiters keep their place: Redisson's fairLockWaitTimeout, and how long one of ours that does
// not ask again is waited for.
const (
	fairPlaceMs = "300000"
	fairGraceMs = "5000"
)

// writerPatienceMs is how long further readers are kept out after a waiting writer has asked last:
// longer than the pause between two of its polls.
const writerPatienceMs = "2500"

// A part is the scripts of one family.
type part struct{ acquire, reacquire, count, release, renew *script }

//nolint:gochecknoglobals // a constant in all but name
var parts = [familyEnd]part{
	FamilyLock:   {scriptAcquire, scriptReacquire, scriptReacquire, scriptRelease, scriptRenew},
	FamilySpin:   {scriptAcquire, scriptReacquire, scriptReacquire, scriptRelease, scriptRenew},
	FamilyFenced: {scriptFenced, scriptFenced, scriptReacquire, scriptRelease, scriptRenew},
	FamilyRead:   {scriptRead, scriptRead, nil, scriptReadRelease, scriptReadRenew},
	FamilyWrite:  {scriptWrite, scriptWrite, scriptReacquire, scriptWriteRelease, scriptRenew},
	FamilyFair:   {scriptFair, scriptFair, scriptReacquire, scriptFairRelease, scriptRenew},
}

func scriptOf(k OpKind, f Family) *script {
	switch k {
	case OpAcquire:
		return parts[f].acquire
	case OpReacquire:
		return parts[f].reacquire
	case OpCount, OpLeave:
		return parts[f].count
	case OpRelease:
		return parts[f].release
	case OpExtend:
		return parts[f].renew
	case OpInspect:
		return scriptInspect
	case OpQueue:
		return scriptQueue
	default:
		return scriptForce
	}
}

// sparse reports whether an acquire's reply names only the keys that were not granted.
func (f Family) sparse() bool { return f != FamilyFenced }

// field makes a field for a batch of acquires: an engine's id and a number as Redisson has one.
func (f Family) field(w *world.World, id string) string {
	switch f {
	case FamilyWrite:
		return newWireID(w, id) + writeSuffix
	case FamilyFair:
		return newFairID(w, id)
	default:
		return newWireID(w, id)
	}
}

// fairMark stands before the number of a fair waiter of ours: no number of Redisson's begins so.
const fairMark = ":0"

// newFairID makes a wire id whose number a script can answer: Lua's are exact up to 53 bits.
func newFairID(w *world.World, id string) string {
	return FairField(id, w.Int64N(1<<52)|1)
}

// FairField is the field of the fair waiter of an engine that has this number.
func FairField(id string, number int64) string { return id + fairMark + strconv.FormatInt(number, 10) }

// message is what a release publishes: Redisson's UNLOCK_MESSAGE, or its READ_UNLOCK_MESSAGE, which
// wakes every reader.
func (f Family) message() string {
	if f == FamilyWrite {
		return "1"
	}
	return unlockMessage
}

// leftMark stands before the message of a release that leaves the lock to others. Redisson reads a number: to it that
// is the same message.
const leftMark = "0"

// releaseMessage is what the op publishes.
func (op *Op) releaseMessage() string {
	if op.Left {
		return leftMark + op.Family.message()
	}
	return op.Family.message()
}

// Left reports whether a message is one of a release that leaves the lock to others.
func Left(message string) bool { return len(message) > 1 && message[:1] == leftMark }

// publish is the command a release tells the waiters with.
func (f Family) publish(command string) string {
	if f == FamilySpin {
		return ""
	}
	return command
}

// forced is what force.lua calls the family.
func (f Family) forced() string {
	switch f {
	case FamilyRead:
		return "read"
	case FamilyWrite:
		return "write"
	case FamilyFair:
		return "fair"
	default:
		return ""
	}
}
