package twin

// readrelease is the twin of readrelease.lua.
type readrelease struct {
	readers
	publish, message string
}

// free deletes the lock and tells the waiters: how many heard it, -2 publish was refused, or the error.
func (r *readrelease) free(key, tag, hold string) Reply {
	gone := r.pcall("DEL", key, hold)
	if gone.table() {
		gone = r.pcall("DEL", key)
		r.pcall("DEL", hold)
	}
	if gone.table() {
		return gone
	}
	heard := r.pcall(r.publish, "redisson_rwlock:"+tag, r.message)
	if heard.table() {
		return number(-2)
	}
	return heard
}

func (r *readrelease) leave(key, field string) Reply {
	size := r.pcall("HLEN", key)
	if size.table() {
		return size
	}
	v := r.pcall("HDEL", key, field)
	if v.is(0) {
		return number(-1)
	} else if !v.is(1) {
		return v
	}
	tag := tagged(key)
	hold := tag + ":" + field + ":rwlock_timeout:1"
	if size.is(2) {
		return r.free(key, tag, hold)
	}
	own := r.pcall("PTTL", hold)
	r.pcall("DEL", hold)
	if mode := r.pcall("HGET", key, "mode"); mode.Kind == Text && mode.Text == "write" {
		return number(0)
	}
	left := r.pcall("PTTL", key)
	if !own.table() && !left.table() && (own.Int < 0 || own.Int+5 >= left.Int) {
		most, known := r.longest(key, tag, 0, number(size.Int-1))
		if !known {
			return number(0)
		} else if most <= 0 {
			return r.free(key, tag, hold)
		} else if most < float64(left.Int) {
			r.pcall("PEXPIRE", key, tostring(most))
		}
	}
	return number(0)
}

func (r *readrelease) run(KEYS, ARGV list) Reply {
	now := r.time()
	r.publish, r.message = ARGV.at(1), ARGV.at(2)
	return eachStretch(now, KEYS, ARGV, 3, r.leave)
}
