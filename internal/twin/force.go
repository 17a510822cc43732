package twin

// force is the twin of force.lua.
func (s *Server) force(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(5)) {
		return array([]Reply{number(now)})
	}
	answer := func(code int64) Reply { return array([]Reply{number(now), number(code)}) }
	held := s.pcall("HLEN", KEYS.at(1))
	if held.table() {
		return held
	}
	if held.is(0) {
		return answer(0)
	}
	mode, wanted := s.call("HGET", KEYS.at(1), "mode"), ARGV.at(4)
	shared := wanted == "read" || wanted == "write"
	if shared != (mode.Kind != Nil) {
		return answer(-3)
	}
	if shared && mode.Text != wanted {
		return answer(0)
	}
	s.call("DEL", KEYS.at(1))
	tag := tagged(KEYS.at(1))
	channel := ARGV.at(3)
	if shared {
		note := tag + ":rwlock_writer"
		if s.pcall("GET", note).Kind == Text {
			s.pcall("DEL", note)
		}
	} else if wanted == "fair" {
		first := s.pcall("LINDEX", "redisson_lock_queue:"+tag, "0")
		if first.Kind != Text {
			return answer(1)
		}
		channel = channel + ":" + first.Text
	}
	if ARGV.at(1) != "" {
		s.pcall(ARGV.at(1), channel, ARGV.at(2))
	}
	return answer(1)
}
