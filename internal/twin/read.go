package twin

// read is the twin of read.lua.
type read struct {
	*Server
	lease, field string
	beside       string // a field of the caller's own that stands in the hash; "": none
	wanted       float64
	suffix       string
	copying      bool
	out          outs
	granted      int64
	template     string
	templated    bool // template is not nil
}

func (r *read) undo(key string, fresh bool, failed Reply) Reply {
	var undone Reply
	if fresh {
		undone = r.pcall("HDEL", key, "mode", r.field)
	} else {
		undone = r.pcall("HDEL", key, r.field)
	}
	if undone.table() {
		return failure("HOLDFAST read hold could not be undone, delete it by hand: " + key)
	}
	return failed
}

// mark makes or raises the read hold's own expiry. Answers Nil, or the error; then a hold that was there
// before stays.
func (r *read) mark(key, tag string, fresh, mine bool) Reply {
	set := r.pcall("SET", tag+r.suffix, "1", "PX", r.lease, "NX")
	if set.Kind == Nil { // it is there: of an earlier sending
		set = r.pcall("GET", tag+r.suffix)
		if set.Kind == Text {
			set = r.pcall("PTTL", tag+r.suffix)
		}
		if set.Kind == Int && set.less(r.wanted) {
			set = r.pcall("PEXPIRE", tag+r.suffix, r.lease)
		}
	}
	if set.err() && mine {
		return set
	} else if set.err() {
		return r.undo(key, fresh, set)
	}
	return Reply{}
}

// awaited is how long a waiting writer keeps further readers out; 0: there is none.
func (r *read) awaited(tag string) int64 {
	note := tag + ":rwlock_writer"
	left := r.pcall("PTTL", note)
	if left.table() || left.Int < 0 || r.pcall("GET", note).Kind != Text {
		return 0
	}
	return left.Int + 1
}

func (r *read) join(key, tag, mode string) Reply {
	mine := r.pcall("HEXISTS", key, r.field)
	if mine.table() {
		return mine
	}
	left := r.pcall("PTTL", key)
	if left.table() {
		return left
	}
	if mine.is(0) && (r.beside == "" || !r.pcall("HEXISTS", key, r.beside).is(1)) {
		if mode == "write" {
			return left
		}
		wait := r.awaited(tag)
		if wait > 0 {
			if left.Int >= 0 && left.Int < wait {
				return left
			}
			return number(wait)
		}
	}
	set := r.pcall("HSET", key, r.field, "1")
	if set.table() {
		return set
	}
	if left.less(r.wanted) {
		ttl := r.pcall("PEXPIRE", key, r.lease)
		if ttl.table() && mine.is(1) {
			return ttl
		} else if ttl.table() {
			return r.undo(key, false, ttl)
		}
	}
	return r.mark(key, tag, false, mine.is(1))
}

// enter's second result says whether the key was made: further keys may be copied from it. One that was held before may
// live longer than this lease.
func (r *read) enter(key, tag string) (Reply, bool) {
	mode := r.pcall("HGET", key, "mode")
	if mode.table() {
		return mode, false
	} else if mode.Kind != Nil {
		return r.join(key, tag, mode.Text), false
	}
	there := r.pcall("EXISTS", key)
	if there.is(1) {
		return number(-3), false
	} else if !there.is(0) {
		return there, false
	}
	wait := r.awaited(tag)
	if wait > 0 {
		return number(wait), false
	}
	set := r.pcall("HSET", key, "mode", "read", r.field, "1")
	if set.table() {
		return set, false
	}
	ttl := r.pcall("PEXPIRE", key, r.lease)
	if !ttl.is(1) {
		return r.undo(key, true, ttl), false
	}
	failed := r.mark(key, tag, true, false)
	return failed, failed.Kind == Nil
}

func (r *read) run(KEYS, ARGV list) Reply {
	now := r.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	r.lease, r.field, r.copying, r.beside = ARGV.at(1), ARGV.at(2), ARGV.at(4) == "1", ARGV.at(5)
	r.wanted = orNaN(r.lease)
	r.out = begin(now)
	r.suffix = ":" + r.field + ":rwlock_timeout:1"

	keys, skip, n := keysAndSkip(KEYS, ARGV, 5, len(ARGV)-5)
	for i := 1; i <= n; i++ {
		var v Reply
		key := keys.at(skip + i)
		tag := tagged(key)
		if r.templated && r.awaited(tag) == 0 {
			v = r.pcall("COPY", r.template, key)
			if v.is(1) {
				v = r.mark(key, tag, true, false)
			} else {
				if v.table() {
					r.copying, r.templated = false, false
					r.out.add(0, number(0))
				}
				v, _ = r.enter(key, tag)
			}
		} else {
			var made bool
			if v, made = r.enter(key, tag); r.copying && made {
				r.template, r.templated = key, true
			}
		}
		if v.Kind == Nil {
			r.granted++
		} else {
			r.out.add(i, v)
		}
	}
	return r.out.end(r.granted)
}
