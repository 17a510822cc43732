package twin

import "strings"

// readrelease is the twin of readrelease.lua.
type readrelease struct {
	*Server
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

// longest is the longest remaining time of those who still read; not ok: it is not known.
func (r *readrelease) longest(key, tag string) (most int64, ok bool) {
	fields := r.pcall("HGETALL", key)
	for f := 0; f+1 < len(fields.Array); f += 2 {
		name := fields.Array[f].Text
		count, is := tonumber(fields.Array[f+1].Text)
		if name != "mode" && is && !strings.HasSuffix(name, ":write") {
			for hold := count; hold >= 1; hold-- {
				mark := tag + ":" + name + ":rwlock_timeout:" + tostring(hold)
				left := r.pcall("PTTL", mark)
				if left.table() || left.is(-2) && r.pcall("EXISTS", key, mark).table() {
					return 0, false
				}
				most = max(most, left.Int)
			}
		}
	}
	return most, true
}

func (r *readrelease) leave(key, field string) Reply {
	v := r.pcall("HDEL", key, field)
	if v.is(0) {
		return number(-1)
	} else if !v.is(1) {
		return v
	}
	tag := tagged(key)
	hold := tag + ":" + field + ":rwlock_timeout:1"
	if r.pcall("HLEN", key).is(1) {
		return r.free(key, tag, hold)
	}
	own := r.pcall("PTTL", hold)
	r.pcall("DEL", hold)
	if mode := r.pcall("HGET", key, "mode"); mode.Kind == Text && mode.Text == "write" {
		return number(0)
	}
	left := r.pcall("PTTL", key)
	if !own.table() && !left.table() && (own.Int < 0 || own.Int+5 >= left.Int) {
		most, known := r.longest(key, tag)
		if !known {
			return number(0)
		} else if most <= 0 {
			return r.free(key, tag, hold)
		} else if most < left.Int {
			r.pcall("PEXPIRE", key, tostring(float64(most)))
		}
	}
	return number(0)
}

func (r *readrelease) run(KEYS, ARGV list) Reply {
	now := r.time()
	r.publish, r.message = ARGV.at(1), ARGV.at(2)
	return eachStretch(now, KEYS, ARGV, 3, r.leave)
}
