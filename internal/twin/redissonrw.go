package twin

// Each function is the twin of the script of its name in the folder redisson.

func (s *Server) redissonReadLock(KEYS, ARGV list) Reply {
	mode := s.call("HGET", KEYS.at(1), "mode")
	if mode.Kind == Nil {
		s.call("HSET", KEYS.at(1), "mode", "read")
		s.call("HSET", KEYS.at(1), ARGV.at(2), "1")
		s.call("SET", KEYS.at(2)+":1", "1")
		s.call("PEXPIRE", KEYS.at(2)+":1", ARGV.at(1))
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(1))
		return Reply{}
	}
	if mode.Text == "read" || mode.Text == "write" && s.call("HEXISTS", KEYS.at(1), ARGV.at(3)).is(1) {
		hold := KEYS.at(2) + ":" + tostring(float64(s.call("HINCRBY", KEYS.at(1), ARGV.at(2), "1").Int))
		s.call("SET", hold, "1")
		s.call("PEXPIRE", hold, ARGV.at(1))
		left := s.call("PTTL", KEYS.at(1))
		s.call("PEXPIRE", KEYS.at(1), argument(max(float64(left.Int), want(ARGV.at(1)))))
		return Reply{}
	}
	return s.call("PTTL", KEYS.at(1))
}

func (s *Server) redissonReadUnlock(KEYS, ARGV list) Reply {
	if done, is := s.done(KEYS.at(5)); is {
		return done
	}
	mode := s.call("HGET", KEYS.at(1), "mode")
	if mode.Kind == Nil {
		s.call(ARGV.at(3), KEYS.at(2), ARGV.at(1))
		s.call("SET", KEYS.at(5), "1", "PX", ARGV.at(4))
		return Reply{}
	}
	if s.call("HEXISTS", KEYS.at(1), ARGV.at(2)).is(0) {
		return Reply{}
	}
	count := s.call("HINCRBY", KEYS.at(1), ARGV.at(2), "-1")
	if count.is(0) {
		s.call("HDEL", KEYS.at(1), ARGV.at(2))
	}
	s.call("DEL", KEYS.at(3)+":"+tostring(float64(count.Int+1)))
	if s.call("HLEN", KEYS.at(1)).Int > 1 {
		most := s.longestOfRedisson(KEYS.at(1), KEYS.at(4))
		if most > 0 {
			s.call("PEXPIRE", KEYS.at(1), argument(float64(most)))
			s.call("SET", KEYS.at(5), "0", "PX", ARGV.at(4))
			return number(0)
		}
		if mode.Text == "write" {
			s.call("SET", KEYS.at(5), "0", "PX", ARGV.at(4))
			return number(0)
		}
	}
	s.call("DEL", KEYS.at(1))
	s.call(ARGV.at(3), KEYS.at(2), ARGV.at(1))
	s.call("SET", KEYS.at(5), "1", "PX", ARGV.at(4))
	return number(1)
}

// longestOfRedisson is the longest remaining time of a read hold.
func (s *Server) longestOfRedisson(key, tag string) int64 {
	most, fields := int64(-3), s.call("HGETALL", key).Array
	for f := 0; f < len(fields); f += 2 {
		if holds, is := tonumber(fields[f+1].Text); is {
			for i := holds; i >= 1; i-- {
				most = max(most, s.call("PTTL", tag+":"+fields[f].Text+":rwlock_timeout:"+tostring(i)).Int)
			}
		}
	}
	return most
}

func (s *Server) redissonReadRenew(KEYS, ARGV list) Reply {
	var out []Reply
	at := 2
	for i := 1; i <= len(KEYS); i += 2 {
		n, alive := wantInt(ARGV.at(at)), int64(0)
		for f := at + 1; f <= at+n; f++ {
			if holds := s.call("HGET", KEYS.at(i), ARGV.at(f)); holds.Kind != Nil {
				alive = 1
				for hold := want(holds.Text); hold >= 1; hold-- {
					s.call("PEXPIRE", KEYS.at(i+1)+":"+ARGV.at(f)+":rwlock_timeout:"+tostring(hold), ARGV.at(1))
				}
			}
		}
		if alive == 1 {
			s.call("PEXPIRE", KEYS.at(i), ARGV.at(1))
		}
		out = append(out, number(alive))
		at += n + 1
	}
	return array(out)
}

func (s *Server) redissonWriteLock(KEYS, ARGV list) Reply {
	mode := s.call("HGET", KEYS.at(1), "mode")
	if mode.Kind == Nil {
		s.call("HSET", KEYS.at(1), "mode", "write")
		s.call("HSET", KEYS.at(1), ARGV.at(2), "1")
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(1))
		return Reply{}
	}
	if mode.Text == "write" && s.call("HEXISTS", KEYS.at(1), ARGV.at(2)).is(1) {
		s.call("HINCRBY", KEYS.at(1), ARGV.at(2), "1")
		left := s.call("PTTL", KEYS.at(1))
		s.call("PEXPIRE", KEYS.at(1), argument(float64(left.Int)+want(ARGV.at(1))))
		return Reply{}
	}
	return s.call("PTTL", KEYS.at(1))
}

func (s *Server) redissonWriteUnlock(KEYS, ARGV list) Reply {
	if done, is := s.done(KEYS.at(3)); is {
		return done
	}
	mode := s.call("HGET", KEYS.at(1), "mode")
	if mode.Kind == Nil {
		s.call(ARGV.at(4), KEYS.at(2), ARGV.at(1))
		s.call("SET", KEYS.at(3), "1", "PX", ARGV.at(5))
		return Reply{}
	}
	if mode.Text != "write" || s.call("HEXISTS", KEYS.at(1), ARGV.at(3)).is(0) {
		return Reply{}
	}
	if s.call("HINCRBY", KEYS.at(1), ARGV.at(3), "-1").Int > 0 {
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(2))
		s.call("SET", KEYS.at(3), "0", "PX", ARGV.at(5))
		return number(0)
	}
	s.call("HDEL", KEYS.at(1), ARGV.at(3))
	if s.call("HLEN", KEYS.at(1)).is(1) {
		s.call("DEL", KEYS.at(1))
		s.call(ARGV.at(4), KEYS.at(2), ARGV.at(1))
	} else {
		s.call("HSET", KEYS.at(1), "mode", "read")
	}
	s.call("SET", KEYS.at(3), "1", "PX", ARGV.at(5))
	return number(1)
}
