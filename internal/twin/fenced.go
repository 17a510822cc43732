package twin

// fenced is the twin of fenced.lua.
type fenced struct {
	*Server
	micros         float64
	next           string
	lease, field   string
	copying, swaps bool
	template       string
	templated      bool // template is not nil
}

func counter(key string) string { return "redisson_lock_token:" + tagged(key) }

// number reads a token; the second result is not Nil if it is none.
func (f *fenced) number(key string, last Reply) (float64, Reply) {
	switch last.Kind {
	case Nil:
		return 0, Reply{}
	case Text:
		if n, is := tonumber(last.Text); is && n < 1<<53 { // no number is not less
			return n, Reply{}
		}
		return 0, failure("HOLDFAST the fencing token is not a number that can be counted up: " + counter(key))
	default:
		return 0, last
	}
}

// undo: a key that cannot get its token, or its TTL, must not stay.
func (f *fenced) undo(key string, failed Reply) Reply {
	if !f.pcall("HDEL", key, f.field).is(1) {
		return failure("HOLDFAST key without expiry or token could not be undone, delete it by hand: " + key)
	}
	return failed
}

// token answers the number, or the error. What was ours before stays then.
func (f *fenced) token(key string, ours bool) (float64, Reply) {
	undo := f.undo
	if ours {
		undo = func(_ string, failed Reply) Reply { return failed }
	}
	var last float64
	var failed Reply
	if f.swaps {
		was := f.pcall("SET", counter(key), f.next, "GET")
		last, failed = f.number(key, was)
		if failed.Kind != Nil {
			if was.Kind == Text {
				f.pcall("SET", counter(key), was.Text)
			}
			return 0, undo(key, failed)
		}
		if last < f.micros {
			return f.micros, Reply{}
		}
	} else {
		last, failed = f.number(key, f.pcall("GET", counter(key)))
		if failed.Kind != Nil {
			return 0, undo(key, failed)
		}
	}
	last = max(last+1, f.micros)
	set := f.pcall("SET", counter(key), format0f(last))
	if set.err() {
		return 0, undo(key, set)
	}
	return last, Reply{}
}

func (f *fenced) busy(key string) Reply {
	mode := f.pcall("HEXISTS", key, "mode")
	if mode.is(1) {
		return number(-3)
	} else if !mode.is(0) {
		return mode
	}
	left := f.pcall("PTTL", key)
	if left.table() || left.Int < 0 {
		return left
	}
	return number(-left.Int - 10)
}

// take answers a token and Nil, or what stands in the way; and whether the key was made, not held before with a TTL that
// may be longer.
func (f *fenced) take(key string) (v float64, no Reply, made bool) {
	there := f.pcall("EXISTS", key)
	if there.is(1) {
		mine := f.pcall("HEXISTS", key, f.field)
		if mine.is(0) {
			return 0, f.busy(key), false
		} else if !mine.is(1) {
			return 0, mine, false
		}
		left := f.pcall("PTTL", key)
		if !left.table() && left.less(orNaN(f.lease)) {
			left = f.pcall("PEXPIRE", key, f.lease)
		}
		if left.table() {
			return 0, left, false
		}
		if v, no = f.number(key, f.pcall("GET", counter(key))); no.Kind != Nil || v >= 1 {
			return v, no, false
		}
		v, no = f.token(key, true)
		return v, no, false
	} else if !there.is(0) {
		return 0, there, false
	}
	set := f.pcall("HSET", key, f.field, "1")
	if set.table() {
		return 0, set, false
	}
	ttl := f.pcall("PEXPIRE", key, f.lease)
	if !ttl.is(1) {
		return 0, f.undo(key, ttl), false
	}
	v, no = f.token(key, false)
	return v, no, true
}

func (f *fenced) run(KEYS, ARGV list) Reply {
	now := f.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	f.micros = float64(f.Server.micros)
	f.next = format0f(f.micros)
	f.lease, f.field, f.copying, f.swaps = ARGV.at(1), ARGV.at(2), ARGV.at(4) == "1", ARGV.at(5) == "1"
	out, granted := append(begin(now), integer(f.micros)), int64(0)

	keys, skip, n := keysAndSkip(KEYS, ARGV, 5, len(ARGV)-5)
	for i := 1; i <= n; i++ {
		var v float64
		var no Reply
		key := keys.at(skip + i)
		if f.templated {
			copied := f.pcall("COPY", f.template, key)
			if copied.is(1) {
				v, no = f.token(key, false)
			} else if copied.is(0) {
				no = f.busy(key)
			} else {
				f.copying, f.templated = false, false
				v, no, _ = f.take(key)
			}
		} else {
			var made bool
			v, no, made = f.take(key)
			if f.copying && made && (no.Kind == Nil && v > 0 || no.Kind == Int && no.Int > 0) {
				f.template, f.templated = key, true
			}
		}
		switch {
		case no.Kind != Nil:
			out.add(i, no)
		case v == f.micros:
			granted++
		default:
			out.add(i, integer(v))
		}
	}
	return out.end(granted)
}
