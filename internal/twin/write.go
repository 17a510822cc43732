package twin

// write is the twin of write.lua.
type write struct {
	*Server
	lease, field, patience string
	wanted                 float64
	copying                bool
	out                    outs
	granted                int64
	template               string
	templated              bool // template is not nil
}

// await leaves a note for readers that come later. It expires; whoever waits renews it with every try. What
// stands there and is no note is left alone.
func (w *write) await(key string) {
	note := tagged(key) + ":rwlock_writer"
	if w.pcall("GET", note).table() {
		return
	}
	w.pcall("SET", note, engineOf(w.field), "PX", w.patience)
}

// enter's second result says whether the key was made: further keys may be copied from it. One that was held before may
// live longer than this lease.
func (w *write) enter(key string) (Reply, bool) {
	mode := w.pcall("HGET", key, "mode")
	if mode.table() {
		return mode, false
	}
	if mode.Kind != Nil {
		mine := w.pcall("HEXISTS", key, w.field)
		if mine.table() {
			return mine, false
		}
		left := w.pcall("PTTL", key)
		if left.table() {
			return left, false
		}
		if mine.is(0) {
			if mode.Text == "read" && w.patience != "0" {
				w.await(key)
			}
			return left, false
		}
		if left.less(w.wanted) {
			left = w.pcall("PEXPIRE", key, w.lease)
			if left.table() {
				return left, false
			}
		}
		return Reply{}, false
	}
	there := w.pcall("EXISTS", key)
	if there.is(1) {
		return number(-3), false
	} else if !there.is(0) {
		return there, false
	}
	set := w.pcall("HSET", key, "mode", "write", w.field, "1")
	if set.table() {
		return set, false
	}
	ttl := w.pcall("PEXPIRE", key, w.lease)
	if ttl.is(1) {
		return Reply{}, true
	}
	if !w.pcall("HDEL", key, "mode", w.field).is(2) {
		return failure("HOLDFAST key without expiry could not be undone, delete it by hand: " + key), false
	}
	return ttl, false
}

func (w *write) run(KEYS, ARGV list) Reply {
	now := w.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	w.lease, w.field, w.copying, w.patience = ARGV.at(1), ARGV.at(2), ARGV.at(4) == "1", ARGV.at(5)
	w.wanted = orNaN(w.lease)
	w.out = begin(now)

	keys, skip, n := keysAndSkip(KEYS, ARGV, 5, len(ARGV)-5)
	for i := 1; i <= n; i++ {
		var v Reply
		key := keys.at(skip + i)
		if w.templated {
			v = w.pcall("COPY", w.template, key)
			if v.is(1) {
				v = Reply{}
			} else {
				if v.table() {
					w.copying, w.templated = false, false
					w.out.add(0, number(0))
				}
				v, _ = w.enter(key)
			}
		} else {
			var made bool
			if v, made = w.enter(key); w.copying && made {
				w.template, w.templated = key, true
			}
		}
		if v.Kind == Nil {
			w.granted++
		} else {
			w.out.add(i, v)
		}
	}
	return w.out.end(w.granted)
}
