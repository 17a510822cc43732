package resp

import (
	"iter"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Family says which lock an op is about: what its commands do and whom they tell. All else, lanes,
// batches, retries, redirects and renewals, is the same for all of them.
type Family uint8

// The families.
const (
	FamilyLock      Family = iota // Redisson's RLock
	FamilySpin                    // the same, but a release tells nobody
	FamilyFenced                  // the same, and a grant carries a token
	FamilyRead                    // shared
	FamilyWrite                   // exclusive, on the same key as FamilyRead
	FamilyFair                    // with a queue on the server
	FamilySemaphore               // Redisson's RSemaphore: permits that nobody owns
	FamilyLatch                   // Redisson's RCountDownLatch: a count that opens for everybody when it is zero
	FamilyPermits                 // Redisson's RPermitExpirableSemaphore: permits that are leased, each under an id
	FamilyGroup                   // Redisson's RedissonFasterMultiLock: several values of one group, all in its hash
	FamilyBarrier                 // a cyclic barrier, not Redisson's: who comes waits until all have come
	familyEnd
)

// MaxFamilies is the room of tables that have a row for each family.
const MaxFamilies = 16

// The modes of a read-write lock's hash.
const (
	ModeRead  = "read"
	ModeWrite = "write"
)

// writeSuffix marks a write hold's field, after the owner id.
const writeSuffix = ":" + ModeWrite

// ModeOf returns the mode in which a field of a read-write lock's hash holds it.
func ModeOf(field string) string {
	if strings.HasSuffix(field, writeSuffix) {
		return ModeWrite
	}
	return ModeRead
}

// NoteField returns the field under which a writer of an engine leaves word that it waits: the engine's one note a
// name.
func NoteField(id string) string { return id + noteMark }

// noteMark ends it. It is used again and again.
const noteMark = ":0" + writeSuffix

// FieldOf reports whether a field is of a hold or a waiter of the engine with this id.
func FieldOf(id, field string) bool {
	return len(field) > len(id) && field[len(id)] == ':' && field[:len(id)] == id
}

// MutexFieldOf reports whether a field is of a hold of the engine with this id, and of a plain, spin or fenced lock.
func MutexFieldOf(id, field string) bool {
	return FieldOf(id, field) && field[len(id)+1] != '0' && ModeOf(field) != ModeWrite
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

// A row is what travels for one family: its scripts, and what their arguments and replies are like beside what all
// have.
type row struct {
	acquire, reacquire, count, release, renew, call, list *script

	force *script // nil: that of a lock

	field     func(w *world.World, id string) string        // for a batch of acquires; nil: newWireID
	more      func(args []string, w *wire, op *Op) []string // appends what an acquire has behind the common arguments
	otherKeys func(op *Op) []string                         // see Op.otherKeys
	renewKey  func(key string) string                       // what renewals and lists are about, if not the object

	message string // what a release publishes
	tagged  string // the same in a cluster, where the channel is to be in the slot of the key; "": message
	silent  bool   // it publishes nothing
	forced  string // what force.lua calls the family

	tokens bool // an acquire is answered with a token for all keys that are not named; a named one has its own, or why not
	places bool // waiters have places in a queue on the server: acquires and reacquires have arguments of their own
	dumps  bool // what an acquire made of one key may be copied to a key of any slot
	opens  bool // an acquire takes nothing: it is answered whether something is open
	tells  bool // an acquire may publish, too
	ids    bool // a field is so many ids, and a command for it as much work
	values bool // an op's key is a group and values of it, and its field has them, too: a command for it is as much work
	meets  bool // an acquire is for parties that wait for each other: it is answered what has become of each
	replay bool // a release may be sent again: its field is used for one hold, and never afterwards
	marks  bool // each hold has a key of its own, which says until when it lives
}

// families is the table: one row a family. No other place in this package asks which family it is.
//
//nolint:gochecknoglobals // a constant in all but name
var families = [MaxFamilies]row{
	FamilyLock: {
		acquire: scriptAcquire, reacquire: scriptReacquire, count: scriptReacquire,
		release: scriptRelease, renew: scriptRenew,
		message: unlockMessage, dumps: true, replay: true,
	},
	FamilySpin: {
		acquire: scriptAcquire, reacquire: scriptReacquire, count: scriptReacquire,
		release: scriptRelease, renew: scriptRenew,
		message: unlockMessage, dumps: true, silent: true, replay: true,
	},
	FamilyFenced: {
		acquire: scriptFenced, reacquire: scriptFenced, count: scriptReacquire,
		release: scriptRelease, renew: scriptRenew,
		message: unlockMessage, replay: true, tokens: true, more: fencedArgs, otherKeys: otherKeysFenced,
	},
	FamilyRead: {
		acquire: scriptRead, reacquire: scriptRead, release: scriptReadRelease, renew: scriptReadRenew,
		message: unlockMessage, forced: ModeRead, replay: true, marks: true, more: readerArgs, otherKeys: otherKeysRead,
	},
	FamilyWrite: {
		acquire: scriptWrite, reacquire: scriptWrite, count: scriptReacquire,
		release: scriptWriteRelease, renew: scriptRenew,
		message: readUnlockMessage, forced: ModeWrite, replay: true, field: newWriteID, more: writerArgs,
	},
	FamilyFair: {
		acquire: scriptFair, reacquire: scriptFair, count: scriptReacquire,
		release: scriptFairRelease, renew: scriptRenew,
		list: scriptQueue, message: unlockMessage, forced: "fair", replay: true, places: true, field: newFairID,
		otherKeys: otherKeysFair,
	},
	FamilySemaphore: {
		acquire: scriptSemaphore, reacquire: scriptSemaphore, release: scriptSemaphoreRelease, call: scriptSemaphoreSet,
		message: unlockMessage, tokens: true, more: wantedArgs, otherKeys: otherKeysCounted,
	},
	FamilyLatch: {
		acquire: scriptLatch, reacquire: scriptLatch, release: scriptLatchDown, call: scriptLatchSet,
		message: unlockMessage, tagged: "tagged", opens: true, more: knownArgs, otherKeys: otherKeysLatch,
	},
	FamilyPermits: {
		acquire: scriptPermits, reacquire: scriptPermits, release: scriptPermitsRelease, renew: scriptPermitsRenew,
		call: scriptPermitsSet, list: scriptPermitsLeased,
		message: unlockMessage, tells: true, ids: true, otherKeys: otherKeysPermits, renewKey: slot.PermitTimeouts,
	},
	FamilyGroup: {
		acquire: scriptGroup, reacquire: scriptGroup, count: scriptGroupCount, release: scriptGroupRelease,
		renew: scriptGroupRenew, force: scriptGroupForce, list: scriptGroupHeld,
		message: unlockMessage, replay: true, values: true,
	},
	FamilyBarrier: {
		acquire: scriptBarrier, reacquire: scriptBarrier, release: scriptBarrierLeave, call: scriptBarrierSet,
		message: unlockMessage, tells: true, meets: true,
	},
}

// row returns a family's. Allocates: never.
func (f Family) row() *row { return &families[f] }

func scriptOf(k OpKind, f Family) *script {
	switch row := f.row(); k {
	case OpAcquire:
		return row.acquire
	case OpReacquire:
		return row.reacquire
	case OpCount, OpLeave:
		return row.count
	case OpRelease:
		return row.release
	case OpExtend:
		return row.renew
	case OpInspect:
		return scriptInspect
	case OpQueue:
		return row.list
	case OpCall:
		return row.call
	default:
		if row.force != nil {
			return row.force
		}
		return scriptForce
	}
}

// newField makes a field for a batch of acquires: an engine's id and a number as Redisson has one.
func (f Family) newField(w *world.World, id string) string {
	if own := f.row().field; own != nil {
		return own(w, id)
	}
	return newWireID(w, id)
}

func newWriteID(w *world.World, id string) string { return newWireID(w, id) + writeSuffix }

// fairMark stands before the number of a fair waiter of ours: no number of Redisson's begins so.
const fairMark = ":0"

// newFairID makes an owner id whose number a script can answer: Lua's are exact up to 53 bits.
func newFairID(w *world.World, id string) string {
	return FairField(id, w.Int64N(1<<52)|1)
}

// FairField is the field of the fair waiter of an engine that has this number.
func FairField(id string, number int64) string { return id + fairMark + strconv.FormatInt(number, 10) }

// leftMark stands before the message of a release that leaves the lock to others. Redisson reads a number: to it that
// is the same message.
const leftMark = "0"

// releaseMessage is what the op publishes.
func (op *Op) releaseMessage(cluster bool) string {
	if cluster && op.Family.row().tagged != "" {
		return op.Family.row().tagged
	}
	if op.Left {
		return leftMark + op.Family.row().message
	}
	return op.Family.row().message
}

// Left reports whether a message is one of a release that leaves the lock to others.
func Left(message string) bool { return len(message) > 1 && message[:1] == leftMark }

// PermitID is how many bytes the id of a permit has.
const PermitID = 16

// Work is how many keys' work a command for a field is.
func (f Family) Work(field string) int {
	switch row := f.row(); {
	case row.ids:
		return len(field) / PermitID
	case row.values:
		_, values := slot.CutGroup(field)
		return len(values) / slot.GroupValue
	default:
		return 1
	}
}

// object is what commands for a key are about, and valuesOf which part of it.
func (f Family) object(key string) string {
	if !f.row().values {
		return key
	}
	group, _ := slot.CutGroup(key)
	return group
}

func valuesOf(key string) string {
	_, values := slot.CutGroup(key)
	return values
}

// eachValue goes through them.
func eachValue(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for values := valuesOf(key); len(values) > 0 && yield(values[:slot.GroupValue]); values = values[slot.GroupValue:] {
		}
	}
}

// renewKey is the key that a renewal of one is about.
func (f Family) renewKey(key string) string {
	if own := f.row().renewKey; own != nil {
		return own(key)
	}
	return f.object(key)
}

// publish is the command a release tells the waiters with.
func (f Family) publish(command string) string {
	if f.row().silent {
		return ""
	}
	return command
}

// fencedArgs: SET learnt GET with the same version as there is COPY.
func fencedArgs(args []string, w *wire, _ *Op) []string { return append(args, flag(w.caps.Copy)) }

// readerArgs: the field that the reader is let in beside.
func readerArgs(args []string, _ *wire, op *Op) []string { return append(args, op.insideField()) }

// wantedArgs: how much each waiter wants.
func wantedArgs(args []string, _ *wire, op *Op) []string {
	for _, n := range op.Sink.(Demand).Wanted() {
		args = append(args, strconv.FormatInt(int64(n), 10))
	}
	return args
}

// knownArgs: the mark that who asks knows.
func knownArgs(args []string, _ *wire, op *Op) []string {
	return append(args, strconv.FormatInt(op.Sink.(Looker).Known(), 10))
}

// writerArgs: for how long readers are kept out. A note is at the source of a move, perhaps.
func writerArgs(args []string, _ *wire, op *Op) []string {
	if op.Waits && !op.asking {
		return append(args, writerPatienceMs)
	}
	return append(args, "0")
}
