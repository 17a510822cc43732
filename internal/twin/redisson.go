package twin

import (
	"embed"
	"strconv"
)

//go:embed redisson/*.lua
var redissonFiles embed.FS

// RedissonTexts returns what stands for Redisson's scripts here, by name: the same keys, steps and answers as those of
// Redisson 4.7, in our words.
func RedissonTexts() map[string]string {
	texts := make(map[string]string, idLast-idRedissonLock)
	for id := idRedissonLock; id < idLast; id++ {
		texts[scriptNames[id]] = redissonText(id)
	}
	return texts
}

func redissonText(id scriptID) string {
	text, err := redissonFiles.ReadFile("redisson/" + scriptNames[id][len("redisson "):] + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A Redisson is a client with Redisson that uses one lock: each method returns the command that the client sends, for
// [Server.Do] or a connection that leads there. The server knows these scripts without a SCRIPT LOAD.
type Redisson struct {
	Name    string
	Field   string // "uuid:thread", also of a writer
	LeaseMs int64  // of the lease, or of the watchdog
	WaitMs  int64  // a fair lock's: waitTime, or fairLockWaitTimeout
	NowMs   int64  // a fair lock's: the client's clock
	Publish string // PUBLISH or SPUBLISH
	Request string // of one unlock, the same for all its copies
	LatchMs int64  // how long the server remembers it
	Permits int64  // a semaphore's, or a latch's: how many
}

// Lock is RLock's, of a lock or a fenced lock's hash. Nil: it is ours; a number: the remaining ms.
func (r Redisson) Lock() []string {
	return r.call(idRedissonLock, []string{r.Name}, ms(r.LeaseMs), r.Field)
}

// Unlock is RLock's. Nil: not ours; 0: holds remain; 1: free.
func (r Redisson) Unlock() []string {
	return r.call(idRedissonUnlock, []string{r.Name, lockChannel(r.Name), r.latch()}, "0", ms(r.LeaseMs), r.Field, r.Publish, ms(r.LatchMs))
}

// ForceUnlock is RLock's. 1: it was there.
func (r Redisson) ForceUnlock() []string {
	return r.call(idRedissonForce, []string{r.Name, lockChannel(r.Name)}, "0", r.Publish)
}

// Renew is the watchdog's, of every lock but a read lock; field:write for a writer. [1] or [0].
func (r Redisson) Renew() []string {
	return r.call(idRedissonRenew, []string{r.Name}, ms(r.LeaseMs), r.Field)
}

// RenewWrite is the watchdog's of a write lock.
func (r Redisson) RenewWrite() []string {
	return r.call(idRedissonRenew, []string{r.Name}, ms(r.LeaseMs), r.Field+":write")
}

// FairLock asks and stands in line. Nil: it is ours; a number: how many ms to wait.
func (r Redisson) FairLock() []string {
	return r.call(idRedissonFairLock, []string{r.Name, fairQueue(r.Name), fairTimeouts(r.Name)},
		ms(r.LeaseMs), r.Field, ms(r.WaitMs), ms(r.NowMs))
}

// FairTryLock asks once. Nil: it is ours; 1: it is not.
func (r Redisson) FairTryLock() []string {
	return r.call(idRedissonFairTry, []string{r.Name, fairQueue(r.Name), fairTimeouts(r.Name)},
		ms(r.LeaseMs), r.Field, ms(r.NowMs), ms(r.WaitMs))
}

// FairGiveUp leaves the line: acquireFailed.
func (r Redisson) FairGiveUp() []string {
	return r.call(idRedissonFairGiveUp, []string{fairQueue(r.Name), fairTimeouts(r.Name)}, r.Field, ms(r.WaitMs))
}

// FairUnlock answers as Unlock.
func (r Redisson) FairUnlock() []string {
	return r.call(idRedissonFairUnlock,
		[]string{r.Name, fairQueue(r.Name), fairTimeouts(r.Name), lockChannel(r.Name), r.latch()},
		"0", ms(r.LeaseMs), r.Field, ms(r.NowMs), r.Publish, ms(r.LatchMs))
}

// ReadLock answers as Lock.
func (r Redisson) ReadLock() []string {
	return r.call(idRedissonReadLock, []string{r.Name, r.readHold()}, ms(r.LeaseMs), r.Field, r.Field+":write")
}

// ReadUnlock answers as Unlock.
func (r Redisson) ReadUnlock() []string {
	return r.call(idRedissonReadUnlock, []string{r.Name, rwChannel(r.Name), r.readHold(), tagged(r.Name), r.latch()},
		"0", r.Field, r.Publish, ms(r.LatchMs))
}

// ReadRenew is the watchdog's of a read lock. [1] or [0].
func (r Redisson) ReadRenew() []string {
	return r.call(idRedissonReadRenew, []string{r.Name, tagged(r.Name)}, ms(r.LeaseMs), "1", r.Field)
}

// WriteLock answers as Lock.
func (r Redisson) WriteLock() []string {
	return r.call(idRedissonWriteLock, []string{r.Name}, ms(r.LeaseMs), r.Field+":write")
}

// WriteUnlock answers as Unlock.
func (r Redisson) WriteUnlock() []string {
	return r.call(idRedissonWriteUnlock, []string{r.Name, rwChannel(r.Name), r.latch()},
		"1", ms(r.LeaseMs), r.Field+":write", r.Publish, ms(r.LatchMs))
}

func (r Redisson) call(id scriptID, keys []string, argv ...string) []string {
	args := append([]string{"EVALSHA", scriptShas[id], strconv.Itoa(len(keys))}, keys...)
	return append(args, argv...)
}

func (r Redisson) latch() string {
	return "redisson_unlock_latch:" + tagged(r.Name) + ":" + r.Request
}

func (r Redisson) readHold() string { return tagged(r.Name) + ":" + r.Field + ":rwlock_timeout" }

func ms(n int64) string               { return strconv.FormatInt(n, 10) }
func lockChannel(name string) string  { return "redisson_lock__channel:" + tagged(name) }
func rwChannel(name string) string    { return "redisson_rwlock:" + tagged(name) }
func fairQueue(name string) string    { return "redisson_lock_queue:" + tagged(name) }
func fairTimeouts(name string) string { return "redisson_lock_timeout:" + tagged(name) }

// Each function below is the twin of the script of its name in the folder redisson.

func (s *Server) redissonLock(KEYS, ARGV list) Reply {
	if s.call("EXISTS", KEYS.at(1)).is(0) || s.call("HEXISTS", KEYS.at(1), ARGV.at(2)).is(1) {
		s.call("HINCRBY", KEYS.at(1), ARGV.at(2), "1")
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(1))
		return Reply{}
	}
	return s.call("PTTL", KEYS.at(1))
}

// done answers what an earlier copy of an unlock has answered; false: there was none.
func (s *Server) done(latch string) (Reply, bool) {
	done := s.call("GET", latch)
	if done.Kind == Nil {
		return Reply{}, false
	}
	n, is := tonumber(done.Text)
	if !is {
		return Reply{}, true
	}
	return integer(n), true
}

func (s *Server) redissonUnlock(KEYS, ARGV list) Reply {
	if done, is := s.done(KEYS.at(3)); is {
		return done
	}
	if s.call("HEXISTS", KEYS.at(1), ARGV.at(3)).is(0) {
		return Reply{}
	}
	if s.call("HINCRBY", KEYS.at(1), ARGV.at(3), "-1").Int > 0 {
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(2))
		s.call("SET", KEYS.at(3), "0", "PX", ARGV.at(5))
		return number(0)
	}
	s.call("DEL", KEYS.at(1))
	s.call(ARGV.at(4), KEYS.at(2), ARGV.at(1))
	s.call("SET", KEYS.at(3), "1", "PX", ARGV.at(5))
	return number(1)
}

func (s *Server) redissonForce(KEYS, ARGV list) Reply {
	if s.call("DEL", KEYS.at(1)).is(1) {
		s.call(ARGV.at(2), KEYS.at(2), ARGV.at(1))
		return number(1)
	}
	return number(0)
}

func (s *Server) redissonRenew(KEYS, ARGV list) Reply {
	out := make([]Reply, len(KEYS))
	for i, key := range KEYS {
		out[i] = number(0)
		if s.call("HEXISTS", key, ARGV.at(i+2)).is(1) {
			s.call("PEXPIRE", key, ARGV.at(1))
			out[i] = number(1)
		}
	}
	return array(out)
}
