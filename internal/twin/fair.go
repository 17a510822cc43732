package twin

import "strings"

// fair is the twin of fair.lua.
type fair struct {
	*Server
	lease        string
	waits        bool
	grace, place float64
	now          float64
}

// head is who is next, after those whose time is over have been taken out; Nil: nobody. And how long its place is
// kept.
func (f *fair) head(queue, timeouts string) (Reply, float64) {
	for {
		first := f.pcall("LINDEX", queue, "0")
		if first.Kind != Text {
			return first, 0
		}
		left, refused := f.score(queue, timeouts, first.Text)
		if refused.table() {
			return refused, 0
		}
		left -= f.now
		if left > 0 && strings.Contains(first.Text, ":0") {
			left = mod(left, f.place)
			if left > f.grace {
				left = 0
			}
		}
		if left > 0 {
			return first, left
		}
		f.pcall("ZREM", timeouts, first.Text)
		gone := f.pcall("LPOP", queue)
		if gone.table() { // nothing may be changed: it would stay the head for ever
			return gone, 0
		}
	}
}

// score is until when a place is kept; 0: that is nowhere. Or the error.
func (s *Server) score(queue, timeouts, field string) (float64, Reply) {
	till := s.pcall("ZSCORE", timeouts, field)
	if till.Kind == Nil {
		if till = s.pcall("EXISTS", queue, timeouts); !till.table() {
			return 0, Reply{}
		}
	}
	if till.table() {
		return 0, till
	}
	return orNaN(till.Text), Reply{}
}

func (f *fair) grant(key, field string) Reply {
	set := f.pcall("HSET", key, field, "1")
	if set.table() {
		return set
	}
	ttl := f.pcall("PEXPIRE", key, f.lease)
	if ttl.is(1) {
		return Reply{}
	}
	if !f.pcall("HDEL", key, field).is(1) {
		return failure("HOLDFAST key without expiry could not be undone, delete it by hand: " + key)
	}
	return ttl
}

func (f *fair) again(key string) Reply {
	left := f.pcall("PTTL", key)
	if !left.table() && left.less(orNaN(f.lease)) {
		left = f.pcall("PEXPIRE", key, f.lease)
	}
	if left.table() {
		return left
	}
	return Reply{}
}

// enqueue gives the caller its place, and its deadline in it.
func (f *fair) enqueue(queue, timeouts, field string) Reply {
	at := f.pcall("LPOS", queue, field)
	if at.table() {
		return at
	}
	if at.Kind == Nil {
		at = f.pcall("RPUSH", queue, field)
		if at.table() {
			return at
		}
		at = number(at.Int - 1)
	}
	set := f.pcall("ZADD", timeouts, format0f(f.now+f.grace+float64(at.Int)*f.place), field)
	if set.table() {
		f.pcall("LREM", queue, "1", field)
		return set
	}
	return Reply{}
}

func (f *fair) take(key, field string) Reply {
	there := f.pcall("EXISTS", key)
	if there.table() {
		return there
	}
	if there.is(1) && f.pcall("HEXISTS", key, "mode").is(1) {
		return number(-3)
	}
	tag := tagged(key)
	queue, timeouts := "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag
	first, kept := f.head(queue, timeouts)
	if first.table() {
		return first
	}
	if there.is(1) {
		mine := f.pcall("HEXISTS", key, field)
		if mine.is(1) {
			return f.again(key)
		} else if !mine.is(0) {
			return mine
		}
	} else if first.Kind == Nil || first.Text == field {
		failed := f.grant(key, field)
		if failed.Kind != Nil || first.Kind == Nil {
			return failed
		}
		f.pcall("LPOP", queue)
		f.pcall("ZREM", timeouts, field)
		f.moveUp(timeouts, f.place)
		return Reply{}
	}
	if f.waits {
		failed := f.enqueue(queue, timeouts, field)
		if failed.Kind != Nil {
			return failed
		}
	}
	if there.is(1) {
		return f.pcall("PTTL", key)
	}
	return integer(kept)
}

// moveUp takes a place's worth off those who are not ours.
func (s *Server) moveUp(timeouts string, place float64) {
	for _, other := range s.pcall("ZRANGE", timeouts, "0", "-1").Array {
		if !strings.Contains(other.Text, ":0") {
			s.pcall("ZINCRBY", timeouts, argument(-place), other.Text)
		}
	}
}

func (f *fair) run(KEYS, ARGV list) Reply {
	now := f.time()
	f.now = float64(now)
	if f.now > want(ARGV.at(2)) {
		return array([]Reply{number(now)})
	}
	f.lease, f.waits, f.grace, f.place = ARGV.at(1), ARGV.at(3) == "1", orNaN(ARGV.at(4)), orNaN(ARGV.at(5))
	out, granted := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 6, wantInline(KEYS, ARGV.at(6)))
	at, left, field := 7+wantInt(ARGV.at(6)), 0, ""
	for i := 1; i <= n; i++ {
		if left == 0 {
			field, left, at = ARGV.at(at), wantInt(ARGV.at(at+1)), at+2
		}
		left--
		v := f.take(keys.at(skip+i), field)
		if v.Kind == Nil {
			granted++
		} else {
			out.add(i, v)
		}
	}
	return out.end(granted)
}
