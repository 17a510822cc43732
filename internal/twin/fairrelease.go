package twin

import (
	"strconv"
	"strings"
)

// fairrelease is the twin of fairrelease.lua.
type fairrelease struct {
	fairqueue
	message string
	heirs   map[string]string // "<number of the key> <field>" -> lease
	alive   map[string]string // number of the key -> one of those
}

// pass gives the lock to the head of the queue; Nil: it cannot be.
func (f *fairrelease) pass(first, lease string) Reply {
	n, is := numberAfter0(first)
	if !is || !f.pcall("HSET", f.lock, first, "1").is(1) {
		return Reply{}
	}
	if !f.pcall("PEXPIRE", f.lock, lease).is(1) {
		f.must("HDEL", f.lock, first)
		return Reply{}
	}
	f.try(func() Reply { return f.drop(first) })
	return integer(-n - 10)
}

// numberAfter0 is tonumber(string.match(field, ':0(%d+)$')).
func numberAfter0(field string) (float64, bool) {
	for at := 0; ; at++ {
		next := strings.Index(field[at:], ":0")
		if next < 0 {
			return 0, false
		}
		at += next
		digits := field[at+2:]
		if digits != "" && strings.Trim(digits, "0123456789") == "" {
			return tonumber(digits)
		}
	}
}

func (f *fairrelease) next(i int) Reply {
	first := f.tidy("", f.alive[strconv.Itoa(i)], true)
	if first.Kind == Nil {
		return number(0)
	}
	if lease, ok := f.heirs[strconv.Itoa(i)+" "+first.Text]; ok && f.lifts > 0 && f.must("EXISTS", f.lock).is(0) {
		if passed := f.pass(first.Text, lease); passed.Kind != Nil {
			return passed
		}
	}
	return f.tell(first.Text, f.message)
}

// left takes a field out that holds nothing.
func (f *fairrelease) left(first Reply, field string) Reply {
	stood := f.drop(field)
	head := f.tidy("", "", false)
	if f.must("EXISTS", f.lock).is(0) {
		if head.Kind != Nil && (first.Kind == Nil || head.Text != first.Text || stood.is(0)) {
			f.tell(head.Text, f.message)
		} else if head.Kind != Nil {
			f.nudge(head.Text)
		}
	}
	return number(-1)
}

func (f *fairrelease) leave(i int, key, field string) Reply {
	v := f.pcall("HDEL", key, field)
	if v.table() {
		return v
	}
	tag := tagged(key)
	first := f.pcall("LINDEX", "redisson_lock_queue:"+tag, "0")
	if v.is(1) && first.Kind != Text {
		return number(0)
	} else if first.table() {
		return first
	}
	f.name(key, tag)
	if v.is(1) {
		told, done := f.try(func() Reply { return f.next(i) })
		if !done {
			return f.tell(first.Text, f.message)
		}
		return told
	}
	left, _ := f.try(func() Reply { return f.left(first, field) })
	return left
}

func (f *fairrelease) run(KEYS, ARGV list) Reply {
	now := f.time()
	f.now = float64(now)
	f.publish, f.message, f.heirs, f.alive = ARGV.at(1), ARGV.at(2), make(map[string]string), make(map[string]string)
	for h := len(ARGV) - 3*wantInt(ARGV.at(4)) + 1; h <= len(ARGV); h += 3 {
		f.heirs[ARGV.at(h)+" "+ARGV.at(h+1)] = ARGV.at(h + 2)
		f.alive[ARGV.at(h)] = ARGV.at(h + 1)
	}
	f.grace, f.place = orNaN(ARGV.at(5)), orNaN(ARGV.at(6))
	f.begin()
	i := 0
	return eachStretch(now, KEYS, ARGV, 6, func(key, field string) Reply {
		i++
		return f.leave(i, key, field)
	})
}
