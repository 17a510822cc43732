package twin

// latchset is the twin of latchset.lua.
type latchset struct {
	*Server
	publish, key, tag string
	now               int64
}

func (l *latchset) answer(code int64, v float64) Reply {
	return array([]Reply{number(l.now), number(code), integer(v)})
}

func (l *latchset) changed() Reply {
	l.pcall(l.publish, latchChannelOf(l.key, l.tag), "1")
	return l.answer(1, 0)
}

func (l *latchset) run(KEYS, ARGV list) Reply {
	l.now = l.time()
	if float64(l.now) > want(ARGV.at(5)) {
		return array([]Reply{number(l.now)})
	}
	l.publish, l.key, l.tag = ARGV.at(1), KEYS.at(1), ARGV.at(6)
	what, notes := ARGV.at(2), notesOf(l.key)
	count, ended := l.pcall("GET", l.key), l.pcall("HGET", notes, "ended")
	if count.table() {
		return count
	} else if ended.table() {
		return ended
	}
	n, is := stands(count)
	if !is {
		return l.answer(-3, 0)
	}
	there := count.Kind == Text
	switch {
	case what == "get" && there:
		return l.answer(1, n)
	case what == "set" && !there:
		if done := l.pcall("SET", l.key, ARGV.at(3)); done.err() {
			return done
		}
		return l.changed()
	case what == "delete" && there:
		opened, deleted := marksOf(ended.Text)
		done := l.keep(notes, "ended", marked(opened, markAfter(opened, deleted, l.micros)), ended)
		if done.Kind != Nil {
			return done
		}
		if done = l.pcall("DEL", l.key); !done.table() {
			return l.changed()
		}
		l.forget(notes, "ended", ended)
		return done
	}
	return l.answer(0, 0)
}
