package twin

// reacquire is the twin of reacquire.lua.
func (s *Server) reacquire(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	key, lease, field := KEYS.at(1), ARGV.at(1), ARGV.at(2)
	must := ARGV.at(5) != "0"
	answer := func(code, v int64) Reply { return array([]Reply{number(now), number(code), number(v)}) }

	mine := s.pcall("HEXISTS", key, field)
	if mine.table() {
		return mine
	}
	if mine.is(1) {
		gone, failed := s.recount(key, lease, field, ARGV.at(4), ARGV.at(5))
		switch {
		case failed.table():
			return failed
		case gone:
			return answer(-1, 0)
		default:
			return answer(2, 0)
		}
	}
	there := s.pcall("EXISTS", key)
	if there.table() {
		return there
	}
	if there.is(1) {
		if s.pcall("HEXISTS", key, "mode").is(1) {
			return answer(-3, 0)
		}
		if must {
			return answer(-1, 0)
		}
		left := s.pcall("PTTL", key)
		if left.table() {
			return left
		}
		return answer(0, left.Int)
	}
	if must {
		return answer(-1, 0)
	}
	set := s.pcall("HSET", key, field, "1")
	if set.table() {
		return set
	}
	ttl := s.pcall("PEXPIRE", key, lease)
	if ttl.is(1) {
		return answer(1, 0)
	}
	if !s.pcall("HDEL", key, field).is(1) {
		return failure("HOLDFAST key without expiry could not be undone, delete it by hand: " + key)
	}
	return ttl
}

// expiry is the part of reacquire.lua that says what the TTL is to be.
func (s *Server) expiry(key string, left, lease float64, lower bool) float64 {
	if left < 0 || !lower {
		return max(left, lease)
	} else if left <= lease {
		return left
	}
	fields, mode := s.pcall("HLEN", key), s.pcall("HEXISTS", key, "mode")
	if fields.table() || mode.table() {
		return left
	} else if fields.Int-mode.Int > 1 {
		most, known := 0.0, false
		if mode.is(1) {
			most, known = newReaders(s).longest(key, tagged(key), lease, fields)
		}
		if !known {
			return left
		}
		lease = most
	}
	return min(left, lease)
}

// recount is the part of reacquire.lua for a key that is ours, unless that is gone by now. failed is Nil, or the error.
func (s *Server) recount(key, lease, field, wanted, mode string) (gone bool, failed Reply) {
	left := s.pcall("PTTL", key)
	if left.table() {
		return false, left
	}
	count := s.pcall("HGET", key, field)
	if count.table() {
		return false, count
	}
	have, is := tonumber(count.Text)
	target, is2 := tonumber(wanted)
	changes := mode != "0" && (is != is2 || have != target)
	ttl := s.expiry(key, float64(left.Int), want(lease), mode == "2")
	if changes || float64(left.Int) != ttl {
		set := s.pcall("PEXPIRE", key, format0f(ttl))
		if set.table() {
			return false, set
		}
	}
	if changes {
		if !is2 {
			raise("Lua redis lib command arguments must be strings or integers")
		}
		set := s.pcall("HSET", key, field, argument(target))
		if set.table() {
			return false, set
		}
		if set.is(1) {
			return true, s.pcall("HDEL", key, field)
		}
	}
	return false, Reply{}
}
