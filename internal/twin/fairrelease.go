package twin

import (
	"strconv"
	"strings"
)

// fairrelease is the twin of fairrelease.lua.
type fairrelease struct {
	*Server
	publish, message string
	heirs            map[string]string // "<number of the key> <field>" -> lease
	grace, place     float64
	now              float64
}

// head is who is next, as in fair; Nil: nobody, or the queue may not be read.
func (f *fairrelease) head(queue, timeouts string) Reply {
	for {
		first := f.pcall("LINDEX", queue, "0")
		if first.Kind != Text {
			return Reply{}
		}
		left, refused := f.score(queue, timeouts, first.Text)
		if refused.table() {
			return Reply{}
		}
		left -= f.now
		if left > 0 && strings.Contains(first.Text, ":0") && mod(left, f.place) > f.grace {
			left = 0
		}
		if left > 0 {
			return first
		}
		f.pcall("ZREM", timeouts, first.Text)
		if f.pcall("LPOP", queue).table() { // nothing may be changed: it would stay the head for ever
			return Reply{}
		}
	}
}

// tell tells who is next: how many heard it, -2 publish was refused.
func (f *fairrelease) tell(tag, first string) Reply {
	heard := f.pcall(f.publish, "redisson_lock__channel:"+tag+":"+first, f.message)
	if heard.table() {
		return number(-2)
	}
	return heard
}

// pass gives the lock to the head of the queue; Nil: it cannot be.
func (f *fairrelease) pass(key, first, queue, timeouts, lease string) Reply {
	set := f.pcall("HSET", key, first, "1")
	if set.table() {
		return Reply{}
	}
	if !f.pcall("PEXPIRE", key, lease).is(1) {
		f.pcall("HDEL", key, first)
		return Reply{}
	}
	f.pcall("LPOP", queue)
	f.pcall("ZREM", timeouts, first)
	f.moveUp(timeouts, f.place)
	return integer(-numberAfter0(first) - 10)
}

// numberAfter0 is tonumber(string.match(field, ':0(%d+)$')), for who calculates with it.
func numberAfter0(field string) float64 {
	for at := 0; ; at++ {
		next := strings.Index(field[at:], ":0")
		if next < 0 {
			raise("attempt to perform arithmetic on a nil value")
		}
		at += next
		digits := field[at+2:]
		if digits != "" && strings.Trim(digits, "0123456789") == "" {
			return want(digits)
		}
	}
}

func (f *fairrelease) leave(i int, key, field string) Reply {
	v := f.pcall("HDEL", key, field)
	if v.table() {
		return v
	}
	tag := tagged(key)
	queue, timeouts := "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag
	if v.is(1) {
		first := f.head(queue, timeouts)
		if first.Kind == Nil {
			return number(0)
		}
		if lease, ok := f.heirs[strconv.Itoa(i)+" "+first.Text]; ok && f.pcall("EXISTS", key).is(0) {
			passed := f.pass(key, first.Text, queue, timeouts, lease)
			if passed.Kind != Nil {
				return passed
			}
		}
		return f.tell(tag, first.Text)
	}
	first := f.pcall("LINDEX", queue, "0")
	gone := f.pcall("LREM", queue, "0", field)
	if gone.table() {
		return gone
	}
	f.pcall("ZREM", timeouts, field)
	if gone.Int > 0 && first.Kind == Text && first.Text == field && f.pcall("EXISTS", key).is(0) {
		next := f.head(queue, timeouts)
		if next.Kind != Nil {
			f.tell(tag, next.Text)
		}
	}
	return number(-1)
}

func (f *fairrelease) run(KEYS, ARGV list) Reply {
	now := f.time()
	f.now = float64(now)
	f.publish, f.message, f.heirs = ARGV.at(1), ARGV.at(2), make(map[string]string)
	for h := len(ARGV) - 3*wantInt(ARGV.at(4)) + 1; h <= len(ARGV); h += 3 {
		f.heirs[ARGV.at(h)+" "+ARGV.at(h+1)] = ARGV.at(h + 2)
	}
	f.grace, f.place = orNaN(ARGV.at(5)), orNaN(ARGV.at(6))
	i := 0
	return eachStretch(now, KEYS, ARGV, 6, func(key, field string) Reply {
		i++
		return f.leave(i, key, field)
	})
}
