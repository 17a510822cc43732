package twin

import (
	"slices"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// A scriptID is a script that has a twin: first those of package resp, then Redisson's.
type scriptID uint8

var scriptNames = [...]string{
	"", "acquire", "reacquire", "release", "renew", "inspect", "force", "fenced",
	"read", "readrenew", "readrelease", "write", "writerelease", "fair", "fairrelease", "queue",
	"semaphore", "semaphorerelease", "semaphoreset", "latch", "latchdown", "latchset",
	"permits", "permitsrelease", "permitsrenew", "permitsset", "permitsleased",
	"group", "groupcount", "grouprelease", "grouprenew", "groupforce", "groupheld",
	"barrier", "barrierleave", "barrierset", "acquireone", "releaseone",
	"redisson lock", "redisson unlock", "redisson force", "redisson renew",
	"redisson fairlock", "redisson fairtry", "redisson fairgiveup", "redisson fairunlock",
	"redisson readlock", "redisson readunlock", "redisson readrenew", "redisson writelock", "redisson writeunlock",
	"redisson semtry", "redisson semrelease", "redisson semset", "redisson semadd", "redisson semdrain",
	"redisson latchset", "redisson latchdown", "redisson latchdelete",
}

const (
	idAcquire scriptID = iota + 1
	idReacquire
	idRelease
	idRenew
	idInspect
	idForce
	idFenced
	idRead
	idReadRenew
	idReadRelease
	idWrite
	idWriteRelease
	idFair
	idFairRelease
	idQueue
	idSemaphore
	idSemaphoreRelease
	idSemaphoreSet
	idLatch
	idLatchDown
	idLatchSet
	idPermits
	idPermitsRelease
	idPermitsRenew
	idPermitsSet
	idPermitsLeased
	idGroup
	idGroupCount
	idGroupRelease
	idGroupRenew
	idGroupForce
	idGroupHeld
	idBarrier
	idBarrierLeave
	idBarrierSet
	idAcquireOne
	idReleaseOne
	idRedissonLock
	idRedissonUnlock
	idRedissonForce
	idRedissonRenew
	idRedissonFairLock
	idRedissonFairTry
	idRedissonFairGiveUp
	idRedissonFairUnlock
	idRedissonReadLock
	idRedissonReadUnlock
	idRedissonReadRenew
	idRedissonWriteLock
	idRedissonWriteUnlock
	idRedissonSemTry
	idRedissonSemRelease
	idRedissonSemSet
	idRedissonSemAdd
	idRedissonSemDrain
	idRedissonLatchSet
	idRedissonLatchDown
	idRedissonLatchDelete
	idLast
)

// scriptShas are the names under which EVALSHA knows the scripts, by scriptID.
var scriptShas = func() []string {
	texts := resp.ScriptTexts()
	shas := make([]string, idLast)
	for id := idAcquire; id < idLast; id++ {
		if id < idRedissonLock {
			shas[id] = shaOf(texts[scriptNames[id]])
		} else {
			shas[id] = shaOf(redissonText(id))
		}
	}
	return shas
}()

// scriptIDs finds a script by what EVALSHA calls it.
var scriptIDs = func() map[string]scriptID {
	ids := make(map[string]scriptID, idLast)
	for id := idAcquire; id < idLast; id++ {
		ids[scriptShas[id]] = id
	}
	return ids
}()

// scriptTexts are their texts, by scriptID.
var scriptTexts = func() []string {
	texts := make([]string, idLast)
	for name, text := range resp.ScriptTexts() {
		if at := slices.Index(scriptNames[:], name); at > 0 {
			texts[at] = text
		}
	}
	for id := idRedissonLock; id < idLast; id++ {
		texts[id] = redissonText(id)
	}
	return texts
}()

// scriptOf finds a script by its text; 0: it has no twin. Every connection loads some: a map would read each text
// to its end, and those that are compared here are mostly the same memory, or differ in length.
func scriptOf(text string) scriptID {
	for id := idAcquire; id < idLast; id++ {
		if scriptTexts[id] == text {
			return id
		}
	}
	return 0
}

// start runs a script's twin.
func (s *Server) start(id scriptID, KEYS, ARGV list) Reply {
	switch id {
	case idAcquire:
		return (&acquire{Server: s}).run(KEYS, ARGV)
	case idAcquireOne:
		return s.acquireone(KEYS, ARGV)
	case idReleaseOne:
		return s.releaseone(KEYS, ARGV)
	case idReacquire:
		return s.reacquire(KEYS, ARGV)
	case idRelease:
		return s.release(KEYS, ARGV)
	case idRenew:
		return (&renew{Server: s}).run(KEYS, ARGV)
	case idForce:
		return s.force(KEYS, ARGV)
	case idRead:
		return (&read{Server: s}).run(KEYS, ARGV)
	case idReadRenew:
		return (&readrenew{Server: s}).run(KEYS, ARGV)
	case idReadRelease:
		return (&readrelease{readers: *newReaders(s)}).run(KEYS, ARGV)
	case idWrite:
		return (&write{Server: s}).run(KEYS, ARGV)
	case idWriteRelease:
		return (&writerelease{readers: *newReaders(s)}).run(KEYS, ARGV)
	case idFenced:
		return (&fenced{Server: s}).run(KEYS, ARGV)
	case idFair:
		return (&fair{fairqueue: fairqueue{Server: s}}).run(KEYS, ARGV)
	case idFairRelease:
		return (&fairrelease{fairqueue: fairqueue{Server: s}}).run(KEYS, ARGV)
	case idInspect:
		return s.inspect(KEYS)
	case idQueue:
		return s.queue(KEYS)
	case idSemaphore:
		return (&semaphore{Server: s}).run(KEYS, ARGV)
	case idSemaphoreRelease:
		return (&semaphorerelease{Server: s}).run(KEYS, ARGV)
	case idSemaphoreSet:
		return (&semaphoreset{Server: s}).run(KEYS, ARGV)
	case idLatch:
		return s.latch(KEYS, ARGV)
	case idLatchDown:
		return (&latchdown{Server: s}).run(KEYS, ARGV)
	case idLatchSet:
		return (&latchset{Server: s}).run(KEYS, ARGV)
	case idPermits:
		return (&permits{Server: s}).run(KEYS, ARGV)
	case idPermitsRelease:
		return (&permitsrelease{Server: s}).run(KEYS, ARGV)
	case idPermitsRenew:
		return (&permitsrenew{Server: s}).run(KEYS, ARGV)
	case idPermitsSet:
		return (&permitsset{Server: s}).run(KEYS, ARGV)
	case idPermitsLeased:
		return s.permitsLeased(KEYS)
	case idBarrier:
		return (&meeting{Server: s}).run(KEYS, ARGV)
	case idBarrierLeave:
		return (&leaving{Server: s}).run(KEYS, ARGV)
	case idBarrierSet:
		return s.barrierset(KEYS, ARGV)
	default:
		return s.startGroup(id, KEYS, ARGV)
	}
}

func (s *Server) startGroup(id scriptID, KEYS, ARGV list) Reply {
	switch id {
	case idGroup:
		return s.group(KEYS, ARGV)
	case idGroupCount:
		return s.groupCount(KEYS, ARGV)
	case idGroupRelease:
		return s.groupRelease(KEYS, ARGV)
	case idGroupRenew:
		return s.groupRenew(KEYS, ARGV)
	case idGroupForce:
		return s.groupForce(KEYS, ARGV)
	case idGroupHeld:
		return s.groupHeld(KEYS, ARGV)
	default:
		return s.startRedisson(id, KEYS, ARGV)
	}
}

func (s *Server) startRedisson(id scriptID, KEYS, ARGV list) Reply {
	switch id {
	case idRedissonLock:
		return s.redissonLock(KEYS, ARGV)
	case idRedissonUnlock:
		return s.redissonUnlock(KEYS, ARGV)
	case idRedissonForce:
		return s.redissonForce(KEYS, ARGV)
	case idRedissonRenew:
		return s.redissonRenew(KEYS, ARGV)
	case idRedissonFairLock:
		return s.redissonFairLock(KEYS, ARGV)
	case idRedissonFairTry:
		return s.redissonFairTry(KEYS, ARGV)
	case idRedissonFairGiveUp:
		return s.redissonFairGiveUp(KEYS, ARGV)
	case idRedissonFairUnlock:
		return s.redissonFairUnlock(KEYS, ARGV)
	case idRedissonReadLock:
		return s.redissonReadLock(KEYS, ARGV)
	case idRedissonReadUnlock:
		return s.redissonReadUnlock(KEYS, ARGV)
	case idRedissonReadRenew:
		return s.redissonReadRenew(KEYS, ARGV)
	case idRedissonWriteLock:
		return s.redissonWriteLock(KEYS, ARGV)
	case idRedissonWriteUnlock:
		return s.redissonWriteUnlock(KEYS, ARGV)
	case idRedissonSemTry:
		return s.redissonSemTry(KEYS, ARGV)
	case idRedissonSemRelease:
		return s.redissonSemRelease(KEYS, ARGV)
	case idRedissonSemSet:
		return s.redissonSemSet(KEYS, ARGV)
	case idRedissonSemAdd:
		return s.redissonSemAdd(KEYS, ARGV)
	case idRedissonSemDrain:
		return s.redissonSemDrain(KEYS)
	case idRedissonLatchSet:
		return s.redissonLatchSet(KEYS, ARGV)
	case idRedissonLatchDown:
		return s.redissonLatchDown(KEYS, ARGV)
	default:
		return s.redissonLatchDelete(KEYS, ARGV)
	}
}
