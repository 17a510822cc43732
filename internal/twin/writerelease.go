package twin

// writerelease is the twin of writerelease.lua.
type writerelease struct {
	readers
	publish, message string
}

func (w *writerelease) leave(key, field string) Reply {
	size := w.pcall("HLEN", key)
	if size.table() {
		return size
	}
	v := w.pcall("HDEL", key, field)
	if v.table() {
		return v
	}
	tag := tagged(key)
	note, channel := tag+":rwlock_writer", "redisson_rwlock:"+tag
	noted := w.pcall("GET", note)
	if v.is(0) {
		if noted.Kind == Text && noted.Text == engineOf(field) {
			w.pcall("DEL", note)
			w.pcall(w.publish, channel, w.message)
		}
		return number(-1)
	}
	if noted.Kind == Text { // anything else is no note
		w.pcall("DEL", note)
	}
	var done Reply
	if size.is(2) {
		done = w.pcall("DEL", key)
	} else {
		done = w.downgrade(key, tag, number(size.Int-1))
	}
	if done.table() {
		return done
	}
	heard := w.pcall(w.publish, channel, w.message)
	if heard.table() {
		return number(-2)
	}
	return heard
}

// downgrade gives the lock to those who read beside the writer that has left.
func (w *writerelease) downgrade(key, tag string, size Reply) Reply {
	most, known := w.longest(key, tag, 0, size)
	if known && most <= 0 {
		return w.pcall("DEL", key)
	}
	done := w.pcall("HSET", key, "mode", "read")
	if done.table() || !known {
		return done
	}
	if left := w.pcall("PTTL", key); !left.table() && most < float64(left.Int) {
		w.pcall("PEXPIRE", key, tostring(most))
	}
	return done
}

func (w *writerelease) run(KEYS, ARGV list) Reply {
	now := w.time()
	w.publish, w.message = ARGV.at(1), ARGV.at(2)
	return eachStretch(now, KEYS, ARGV, 3, w.leave)
}
