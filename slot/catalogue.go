package slot

import (
	"strconv"
	"strings"
)

// The catalogue: every name Redisson derives from a raw name. The rule is its
// own and tests nothing but "contains '{'": a raw name without that character is
// put in braces, one with it is taken as it stands.
//
//	function           kind of thing  raw name "n"                           raw name "a{t}"
//	(the name itself)  hash, string   n                                      a{t}
//	LockChannel        channel        redisson_lock__channel:{n}             redisson_lock__channel:a{t}
//	FairWaiterChannel  channel        redisson_lock__channel:{n}:F           redisson_lock__channel:a{t}:F
//	FairQueue          list           redisson_lock_queue:{n}                redisson_lock_queue:a{t}
//	FairTimeouts       zset           redisson_lock_timeout:{n}              redisson_lock_timeout:a{t}
//	FairHeard          zset           {n}:fair_heard                         a{t}:fair_heard
//	FairAsked          zset           {n}:fair_asked                         a{t}:fair_asked
//	FairNotes          hash           {n}:fair_notes                         a{t}:fair_notes
//	FenceToken         string         redisson_lock_token:{n}                redisson_lock_token:a{t}
//	UnlockLatch        string         redisson_unlock_latch:{n}:R            redisson_unlock_latch:a{t}:R
//	RWChannel          channel        redisson_rwlock:{n}                    redisson_rwlock:a{t}
//	ReadHold           string         {n}:F:rwlock_timeout:1                 a{t}:F:rwlock_timeout:1
//	WriterNote         string         {n}:rwlock_writer                      a{t}:rwlock_writer
//	SemaphoreChannel   channel        redisson_sc:{n}                        redisson_sc:a{t}
//	PermitTimeouts     zset           {n}:timeout                            a{t}:timeout
//	CountedRequests    hash           {n}:counted_requests                   a{t}:counted_requests
//	LatchChannel       channel        redisson_countdownlatch__channel__{n}  redisson_countdownlatch__channel__{a{t}}
//	BarrierChannel     channel        holdfast_barrier:{n}                   holdfast_barrier:a{t}
//	MapKeyLock         a raw name     {n}:H:lock                             a{t}:H:lock
//
// F is a field `<uuid>:<thread>`, R a request id of 32 hex digits, H the hash of
// a map key. FairHeard, FairAsked, FairNotes, WriterNote, CountedRequests and BarrierChannel are not Redisson's.
// LatchChannel always adds braces: the channel of a latch whose name has a hash tag is in another slot than the latch.

// LockChannel returns the channel on which releases of a lock are published.
func LockChannel(name string) string {
	return prefixed("redisson_lock__channel", name)
}

// FairWaiterChannel returns the channel that wakes the fair waiter called field.
func FairWaiterChannel(name, field string) string {
	return LockChannel(name) + ":" + field
}

// FairQueue returns the list of a fair lock's waiting fields, the next one first.
func FairQueue(name string) string {
	return prefixed("redisson_lock_queue", name)
}

// FairTimeouts returns the sorted set of a fair lock's waiters and their deadlines.
func FairTimeouts(name string) string {
	return prefixed("redisson_lock_timeout", name)
}

// FairHeard returns the sorted set of a fair lock's waiters that are engines', by when each has asked last.
func FairHeard(name string) string { return suffixed(name, fairHeard[1:]) }

// FairAsked returns the sorted set of the same waiters by when each has come.
func FairAsked(name string) string { return suffixed(name, fairAsked[1:]) }

// FairNotes returns what the scripts note of a fair lock's queue.
func FairNotes(name string) string { return suffixed(name, fairNotes[1:]) }

// FenceToken returns the counter of a fenced lock's tokens.
func FenceToken(name string) string {
	return prefixed("redisson_lock_token", name)
}

// UnlockLatch returns the key by which Redisson makes one unlock call idempotent.
func UnlockLatch(name, requestID string) string {
	return prefixed("redisson_unlock_latch", name) + ":" + requestID
}

// RWChannel returns the channel on which releases of a read/write lock are published.
func RWChannel(name string) string {
	return prefixed("redisson_rwlock", name)
}

// ReadHold returns the key whose expiry bounds the n-th read hold of field, from 1.
func ReadHold(name, field string, n int) string {
	return suffixed(name, field) + readHold + strconv.Itoa(n)
}

// WriterNote returns the key that says that a writer waits for a read/write lock.
func WriterNote(name string) string { return suffixed(name, writerNote[1:]) }

// CountedRequests returns the hash that notes each engine's last requests of what is counted: permits, a latch.
func CountedRequests(name string) string { return suffixed(name, countedRequests[1:]) }

// What no name of an object may hold beside a brace: a key that another object derives.
const (
	readHold   = ":rwlock_timeout:"
	writerNote = ":rwlock_writer"
	fairHeard  = ":fair_heard"
	fairAsked  = ":fair_asked"
	fairNotes  = ":fair_notes"

	countedRequests = ":counted_requests"
)

// SemaphoreChannel returns the channel of both kinds of semaphore.
func SemaphoreChannel(name string) string {
	return prefixed("redisson_sc", name)
}

// PermitTimeouts returns the sorted set of a permit semaphore's leased permits.
func PermitTimeouts(name string) string {
	return suffixed(name, "timeout")
}

// LatchChannel returns the channel of a count-down latch.
func LatchChannel(name string) string {
	return "redisson_countdownlatch__channel__{" + name + "}"
}

// LatchChannelInCluster returns the channel of a latch where channels have slots: Redisson's, unless the name has a
// hash tag. Then Redisson's channel is in another slot than the count, and a cluster refuses its scripts: such a latch
// is ours alone.
func LatchChannelInCluster(name string) string {
	if strings.IndexByte(name, '{') < 0 {
		return LatchChannel(name)
	}
	return prefixed("redisson_countdownlatch__channel__", name)
}

// BarrierChannel returns the channel of a barrier.
func BarrierChannel(name string) string {
	return prefixed("holdfast_barrier", name)
}

// MapKeyLock returns the raw name of the lock object that belongs to one key of
// the map called mapName: hash is the key's 128-bit hash in Base64, kind one of
// lock, fairlock, rw_lock, semaphore, permitexpirablesemaphore, countdownlatch.
func MapKeyLock(mapName, hash, kind string) string {
	return suffixed(mapName, hash+":"+kind)
}

// prefixed is Redisson's prefixName.
func prefixed(prefix, name string) string {
	if strings.IndexByte(name, '{') >= 0 {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed is Redisson's suffixName.
func suffixed(name, suffix string) string {
	if strings.IndexByte(name, '{') >= 0 {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// derived is one name that a kind derives from a raw name.
type derived struct {
	what string // for error texts
	key  string
}

// Stand-ins for the parts that differ from use to use. Real ones hold no braces
// either, so they never take part in the choice of the hash tag.
const (
	sampleField   = "00000000-0000-0000-0000-000000000000:1"
	sampleRequest = "00000000000000000000000000000000"
)

// derivedOf returns every name that kind derives from name.
func derivedOf(name string, kind Kind) []derived {
	switch kind {
	case KindLock, KindSpin:
		return lockNames(name)
	case KindFair:
		// Redisson's three, then those of our own scripts.
		return append(lockNames(name),
			derived{what: "waiter channel", key: FairWaiterChannel(name, sampleField)},
			derived{what: "queue", key: FairQueue(name)},
			derived{what: "timeout set", key: FairTimeouts(name)},
			derived{what: "times of waiters", key: FairHeard(name)},
			derived{what: "order of waiters", key: FairAsked(name)},
			derived{what: "notes of the queue", key: FairNotes(name)},
		)
	case KindFenced:
		return append(lockNames(name), derived{what: "token counter", key: FenceToken(name)})
	case KindRW:
		// No lockNames: a read/write lock has a channel of its own.
		return []derived{
			{what: "channel", key: RWChannel(name)},
			{what: "read hold", key: ReadHold(name, sampleField, 1)},
			{what: "writer's note", key: WriterNote(name)},
			{what: "unlock latch", key: UnlockLatch(name, sampleRequest)},
		}
	case KindSemaphore:
		return []derived{
			{what: "channel", key: SemaphoreChannel(name)},
			{what: "notes of requests", key: CountedRequests(name)},
		}
	case KindPermitSemaphore:
		return []derived{
			{what: "channel", key: SemaphoreChannel(name)},
			{what: "timeout set", key: PermitTimeouts(name)},
		}
	case KindLatch:
		return []derived{
			{what: "channel", key: LatchChannelInCluster(name)},
			{what: "notes of requests", key: CountedRequests(name)},
		}
	case KindBarrier:
		return []derived{{what: "channel", key: BarrierChannel(name)}}
	default:
		return nil
	}
}

// lockNames returns the names common to all locks that are a hash with one field.
func lockNames(name string) []derived {
	return []derived{
		{what: "channel", key: LockChannel(name)},
		{what: "unlock latch", key: UnlockLatch(name, sampleRequest)},
	}
}
