package twin

import (
	"math"
	"slices"
)

// fair is the twin of fair.lua.
type fair struct {
	fairqueue
	lease string
	waits bool

	since Reply // when the caller came to where it stands, in µs; Nil: it does not, or nobody knows
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

func (f *fair) again() Reply {
	left := f.must("PTTL", f.lock)
	if left.less(orNaN(f.lease)) {
		f.must("PEXPIRE", f.lock, f.lease)
	}
	return Reply{}
}

// stand puts the caller into the queue: behind whoever is there, or where it stood before Redisson took it out.
func (f *fair) stand(field string, since float64, had bool) {
	at := since / 1000
	if had {
		if v := f.must("ZSCORE", f.heard, field); v.Kind != Nil {
			at, _ = tonumber(v.Text)
		}
	}
	f.must("ZADD", f.heard, format0f(f.now), field)
	f.keep(f.heard, fairKept)
	till, before := f.now+f.grace, ""
	if had {
		prev := ""
		all, _ := f.page()
		f.lifts -= len(all)
		for _, m := range all {
			t, is := 0.0, false
			if ours(m.Text) {
				t, is = f.came(m.Text)
			}
			if !is || t > since {
				before = m.Text
				break
			}
			prev = m.Text
		}
		if prev != "" {
			till = f.scoreOr(prev, till)
		} else {
			if base, is := f.note("base"); is {
				till = base
			}
			till = f.least(till, at)
		}
	} else {
		tail := f.must("LINDEX", f.queue, "-1")
		if tail.Kind == Nil {
			f.must("PEXPIRE", f.notes, "0")
		} else {
			if !ours(tail.Text) {
				f.behindRedisson(tail.Text)
			}
			till = f.scoreOr(tail.Text, till)
		}
		f.comes(field)
	}
	if before != "" {
		f.must("LINSERT", f.queue, "BEFORE", before, field)
	} else {
		f.must("RPUSH", f.queue, field)
	}
	f.must("ZADD", f.timeouts, format0f(till), field)
	if b, is := f.note("base"); had || !is || f.low(b) {
		f.lift()
	}
}

// least is the base of those behind one that comes back, or less.
func (f *fair) least(base, at float64) float64 {
	stood, _ := f.note("stood")
	if more := base - at - f.grace; more < 0 || more == 0 && at != stood {
		return base
	}
	if front, is := f.note("front"); is {
		return min(front, at)
	}
	return at
}

// behindRedisson finds out what is known of those in front of the first of ours.
func (f *fair) behindRedisson(tail string) {
	front, is := f.note("front")
	edge := f.must("HGET", f.notes, "edge")
	all, _ := f.page()
	if slices.ContainsFunc(all, func(m Reply) bool { return ours(m.Text) }) {
		return
	}
	for _, m := range all {
		if edge.Kind != Nil && m.Text == edge.Text && is {
			now, there := f.score(m.Text)
			if was, noted := f.note("score"); now != was || there != noted {
				front = math.Min(front, f.leftAt())
				if older, is := f.note("older"); is {
					front = math.Min(front, older)
				}
			}
			f.must("HMSET", f.notes, "base", format0f(front), "front", format0f(front), "edge", tail)
			f.keep(f.notes, fairKept)
			return
		}
	}
	f.must("HMSET", f.notes, "base", "", "front", "", "edge", "")
	f.keep(f.notes, fairKept)
}

// leftAt is when one of ours was here last.
func (f *fair) leftAt() float64 {
	if left, is := f.note("left"); is {
		return left
	}
	base, is := f.note("base")
	if !is {
		base = f.now
	}
	return base - f.grace
}

// enqueue is stand; who cannot have a whole place has none.
func (f *fair) enqueue(field string, since float64, had bool) {
	if had && f.lifts <= 0 || f.short {
		f.later = true
		return
	}
	refused, done := f.try(func() Reply {
		f.stand(field, since, had)
		return Reply{}
	})
	if !done {
		if more, undone := f.try(func() Reply { return f.drop(field) }); !undone {
			refused = more
		}
		panic(refusal(refused))
	}
}

// hear keeps the caller's place, or gives it one.
func (f *fair) hear(field string) {
	at := f.whereabouts(field)
	if at.Kind == Nil {
		if f.must("ZSCORE", f.timeouts, field).Kind != Nil {
			f.must("ZREM", f.timeouts, field)
		}
		since, had := f.came(field)
		f.enqueue(field, since, had)
		f.standsSince(field)
		return
	}
	f.standsSince(field)
	if f.since.Kind == Nil && at.Int < fairPage {
		f.adopt(false)
		f.standsSince(field)
	}
	if _, is := f.score(field); !is {
		till := f.now + f.grace
		if at.Int > 0 {
			if prev := f.must("LINDEX", f.queue, ms(at.Int-1)); prev.Kind != Nil {
				till = f.scoreOr(prev.Text, till)
			}
		}
		f.must("ZADD", f.timeouts, format0f(till), field)
	}
	if f.must("ZADD", f.heard, format0f(f.now), field).is(1) {
		f.keep(f.heard, fairKept)
	}
	if b, is := f.note("base"); !is || f.low(b) {
		f.lift()
	}
}

// standsSince notes when the caller has come.
func (f *fair) standsSince(field string) {
	f.since = Reply{}
	if at, is := f.came(field); is {
		f.since = integer(at)
	}
}

// left is how long the place of the head of a free lock is kept.
func (f *fair) left(first string) Reply {
	if ours(first) {
		if asked := f.must("ZSCORE", f.heard, first); asked.Kind != Nil {
			return integer(max(1, want(asked.Text)+f.grace-f.now))
		}
	}
	return integer(max(1, f.scoreOr(first, f.now)-f.now))
}

func (f *fair) ask(there, head Reply, field string) Reply {
	f.since = Reply{}
	first := f.tidy(field, field, false)
	if there.is(1) && f.must("HEXISTS", f.lock, field).is(1) {
		return f.again()
	}
	if f.untouched {
		return number(1)
	}
	if f.waits && there.is(0) && f.whereabouts(field).Kind == Nil {
		if since, had := f.came(field); had {
			f.enqueue(field, since, true)
			first = f.must("LINDEX", f.queue, "0")
		}
	}
	if there.is(0) && first.Kind != Nil && first.Text == field && f.lifts <= 0 {
		return number(1)
	}
	if there.is(0) && (first.Kind == Nil || first.Text == field) {
		failed := f.grant(f.lock, field)
		if failed.Kind == Nil && first.Kind != Nil {
			f.try(func() Reply { return f.drop(field) })
		}
		return failed
	}
	if f.waits {
		f.hear(field)
	}
	if f.later {
		return number(1)
	}
	if there.is(1) {
		return f.must("PTTL", f.lock)
	}
	if head.Kind != Nil && first.Text == head.Text {
		f.nudge(first.Text)
	} else {
		f.tell(first.Text, "0")
	}
	return f.left(first.Text)
}

func (f *fair) take(key, field string) Reply {
	there := f.pcall("EXISTS", key)
	if there.table() {
		return there
	}
	if there.is(1) {
		mode := f.pcall("HEXISTS", key, "mode")
		if mode.is(1) {
			return number(-3)
		} else if !mode.is(0) {
			return mode
		}
	}
	tag := tagged(key)
	first := f.pcall("LINDEX", "redisson_lock_queue:"+tag, "0")
	if first.table() {
		return first
	}
	if first.Kind != Nil || there.is(1) {
		f.name(key, tag)
		v, done := f.try(func() Reply { return f.ask(there, first, field) })
		if !done {
			f.since = Reply{}
		}
		return v
	}
	return f.grant(key, field)
}

func (f *fair) run(KEYS, ARGV list) Reply {
	now := f.time()
	f.now = float64(now)
	if f.now > want(ARGV.at(2)) {
		return array([]Reply{number(now)})
	}
	f.lease, f.waits, f.grace, f.place = ARGV.at(1), ARGV.at(3) == "1", orNaN(ARGV.at(4)), orNaN(ARGV.at(5))
	f.publish = ARGV.at(6)
	f.begin()
	out, granted := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 7, wantInline(KEYS, ARGV.at(7)))
	at, left, field := 8+wantInt(ARGV.at(7)), 0, ""
	for i := 1; i <= n; i++ {
		if left == 0 {
			field, left, at = ARGV.at(at), wantInt(ARGV.at(at+1)), at+2
		}
		left--
		f.since = Reply{}
		v := f.take(keys.at(skip+i), field)
		if v.Kind == Nil {
			granted++
		} else {
			out.add(i, v)
			if f.since.Kind != Nil {
				out.add(-i, f.since)
			}
		}
	}
	return out.end(granted)
}
