package twin

// semaphoreset is the twin of semaphoreset.lua.
type semaphoreset struct {
	*Server
	publish, key string
	now          int64
}

func (s *semaphoreset) answer(code int64, v float64) Reply {
	return array([]Reply{number(s.now), number(code), integer(v)})
}

func (s *semaphoreset) told(v float64) Reply {
	if v > 0 {
		s.pcall(s.publish, permitsChannel(s.key), format0f(v))
	}
	return s.answer(1, v)
}

func (s *semaphoreset) run(KEYS, ARGV list) Reply {
	s.now = s.time()
	if float64(s.now) > want(ARGV.at(5)) {
		return array([]Reply{number(s.now)})
	}
	s.publish, s.key = ARGV.at(1), KEYS.at(1)
	what, many := ARGV.at(2), ARGV.at(3)
	free := s.pcall("GET", s.key)
	if free.table() {
		return free
	}
	there, n := free.Kind == Text, 0.0
	if there {
		count, is := countOf(free.Text)
		if !is {
			return s.answer(-3, 0)
		}
		n = count
	}
	var done Reply
	switch {
	case what == "set" && !there:
		if ARGV.at(4) == "0" {
			done = s.pcall("SET", s.key, many)
		} else {
			done = s.pcall("SET", s.key, many, "PX", ARGV.at(4))
		}
		if done.err() {
			return done
		}
		return s.told(want(many))
	case what == "get" && there:
		return s.answer(1, n)
	case what == "add", what == "some" && there:
		if done = s.pcall("INCRBY", s.key, many); done.table() {
			return done
		}
		return s.told(float64(done.Int))
	case what == "drain" && n > 0:
		if done = s.pcall("DECRBY", s.key, free.Text); done.table() {
			return done
		}
		return s.answer(1, n)
	case what == "delete" && there:
		if done = s.pcall("DEL", s.key); done.table() {
			return done
		}
		return s.answer(1, 0)
	}
	return s.answer(0, 0)
}
