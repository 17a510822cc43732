package twin

// renew is the twin of renew.lua.
type renew struct {
	*Server
	lease   string
	greater bool
	wanted  float64
}

// raise answers 1, or an error. GT says 0 for "no TTL" too: then there is one to set.
func (r *renew) raise(key string) Reply {
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

func (r *renew) run(KEYS, ARGV list) Reply {
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
				v = Reply{}
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
