package twin

// acquireone is the twin of acquireone.lua.
func (s *Server) acquireone(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	key, field := KEYS.at(1), ARGV.at(2)
	v := s.pcall("EXISTS", key)
	if v.is(0) {
		v = s.pcall("HSET", key, field, "1")
		if v.table() {
			return array([]Reply{number(now), v})
		}
		v = s.pcall("PEXPIRE", key, ARGV.at(1))
		if v.is(1) {
			return number(now)
		} else if !s.pcall("HDEL", key, field).is(1) {
			no := failure("HOLDFAST key without expiry could not be undone, delete it by hand: " + key)
			return array([]Reply{number(now), no})
		}
	} else if v.is(1) {
		v = s.pcall("HEXISTS", key, "mode")
		if v.is(0) {
			v = s.pcall("PTTL", key)
		} else if v.is(1) {
			v = number(-3)
		}
	}
	return array([]Reply{number(now), v})
}

// releaseone is the twin of releaseone.lua.
func (s *Server) releaseone(KEYS, ARGV list) Reply {
	v := s.pcall("HDEL", KEYS.at(1), ARGV.at(4))
	if v.is(0) {
		return number(-1)
	} else if !v.is(1) {
		return v
	} else if ARGV.at(1) == "" {
		return number(0)
	}
	v = s.pcall(ARGV.at(1), ARGV.at(2), ARGV.at(3))
	if v.table() {
		return number(-2)
	}
	return v
}
