package twin

// readrenew is the twin of readrenew.lua.
type readrenew struct {
	*Server
	lease   string
	greater bool
	wanted  float64
}

// raise answers 1, or an error. GT says 0 for "no TTL" too: then there is one to set.
func (r *readrenew) raise(key string) Reply {
	if r.greater {
		set := r.pcall("PEXPIRE", key, r.lease, "GT")
		if !set.is(0) {
			return set
		}
	}
	left := r.pcall("PTTL", key)
	if left.table() || !left.less(r.wanted) {
		return left
	}
	return r.pcall("PEXPIRE", key, r.lease)
}

// mark raises the read hold's own expiry, made again where it has run out. Answers Nil, or the error.
func (r *readrenew) mark(key, field string) Reply {
	hold := tagged(key) + ":" + field + ":rwlock_timeout:1"
	left := r.pcall("PTTL", hold)
	if left.table() || !left.less(r.wanted) {
		if left.table() {
			return left
		}
		return Reply{}
	}
	set := text("")
	switch left.Int {
	case -2:
		set = r.pcall("SET", hold, "1", "PX", r.lease)
	case -1: // then it may be anything
		set = r.pcall("GET", hold)
	}
	if set.Kind == Text {
		set = r.pcall("PEXPIRE", hold, r.lease)
	}
	if set.err() {
		return set
	}
	return Reply{}
}

func (r *readrenew) run(KEYS, ARGV list) Reply {
	now := r.time()
	r.lease, r.greater = ARGV.at(1), ARGV.at(2) == "1"
	r.wanted = orNaN(r.lease)
	out, renewed := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 3, wantInline(KEYS, ARGV.at(3)))
	fields := stretches(ARGV, n)
	for i := 1; i <= n; i++ {
		key, field := keys.at(skip+i), fields.next()
		v := r.pcall("HEXISTS", key, field)
		if v.is(1) {
			v = r.raise(key)
			if !v.table() {
				v = r.mark(key, field)
			}
		} else if v.is(0) {
			v = number(-1)
		}
		if v.Kind == Nil {
			renewed++
		} else {
			out.add(i, v)
		}
	}
	return out.end(renewed)
}
