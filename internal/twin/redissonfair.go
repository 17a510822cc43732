package twin

// Each function is the twin of the script of its name in the folder redisson.

// purge takes out those at the head of a queue whose time is over.
func (s *Server) purge(queue, timeouts string, now float64) {
	for {
		first := s.call("LINDEX", queue, "0")
		if first.Kind == Nil {
			return
		}
		score := s.call("ZSCORE", timeouts, first.Text)
		if score.Kind == Nil || want(score.Text) > now {
			return
		}
		s.call("ZREM", timeouts, first.Text)
		s.call("LPOP", queue)
	}
}

// takeFair is what the two ways to ask have in common; false: it is not ours.
func (s *Server) takeFair(KEYS list, lease, field string, wait float64) bool {
	if s.call("EXISTS", KEYS.at(1)).is(0) {
		mine := s.call("EXISTS", KEYS.at(2)).is(0)
		if !mine {
			first := s.call("LINDEX", KEYS.at(2), "0")
			mine = first.Kind == Text && first.Text == field
		}
		if mine {
			s.call("LPOP", KEYS.at(2))
			s.call("ZREM", KEYS.at(3), field)
			for _, other := range s.call("ZRANGE", KEYS.at(3), "0", "-1").Array {
				s.call("ZINCRBY", KEYS.at(3), argument(-wait), other.Text)
			}
			s.call("HSET", KEYS.at(1), field, "1")
			s.call("PEXPIRE", KEYS.at(1), lease)
			return true
		}
	}
	if s.call("HEXISTS", KEYS.at(1), field).is(1) {
		s.call("HINCRBY", KEYS.at(1), field, "1")
		s.call("PEXPIRE", KEYS.at(1), lease)
		return true
	}
	return false
}

func (s *Server) redissonFairLock(KEYS, ARGV list) Reply {
	now, wait, field := want(ARGV.at(4)), want(ARGV.at(3)), ARGV.at(2)
	s.purge(KEYS.at(2), KEYS.at(3), now)
	if s.takeFair(KEYS, ARGV.at(1), field, wait) {
		return Reply{}
	}
	if s.call("ZSCORE", KEYS.at(3), field).Kind != Nil {
		return number(max(0, s.call("PTTL", KEYS.at(1)).Int))
	}
	last := s.call("LINDEX", KEYS.at(2), "-1")
	score := Reply{}
	if last.Kind == Text && last.Text != field {
		score = s.call("ZSCORE", KEYS.at(3), last.Text)
	}
	var left float64
	if score.Kind != Nil {
		left = want(score.Text) - now
	} else {
		left = float64(s.call("PTTL", KEYS.at(1)).Int)
	}
	if s.call("ZADD", KEYS.at(3), argument(left+wait+now), field).is(1) {
		s.call("RPUSH", KEYS.at(2), field)
	}
	return integer(left)
}

func (s *Server) redissonFairTry(KEYS, ARGV list) Reply {
	s.purge(KEYS.at(2), KEYS.at(3), want(ARGV.at(3)))
	if s.takeFair(KEYS, ARGV.at(1), ARGV.at(2), want(ARGV.at(4))) {
		return Reply{}
	}
	return number(1)
}

func (s *Server) redissonFairGiveUp(KEYS, ARGV list) Reply {
	seen := false
	for _, other := range s.call("LRANGE", KEYS.at(1), "0", "-1").Array {
		if seen {
			s.call("ZINCRBY", KEYS.at(2), argument(-want(ARGV.at(2))), other.Text)
		} else if other.Text == ARGV.at(1) {
			seen = true
		}
	}
	s.call("ZREM", KEYS.at(2), ARGV.at(1))
	s.call("LREM", KEYS.at(1), "0", ARGV.at(1))
	return Reply{}
}

func (s *Server) redissonFairUnlock(KEYS, ARGV list) Reply {
	if done, is := s.done(KEYS.at(5)); is {
		return done
	}
	s.purge(KEYS.at(2), KEYS.at(3), want(ARGV.at(4)))
	tell := func() {
		first := s.call("LINDEX", KEYS.at(2), "0")
		if first.Kind != Nil {
			s.call(ARGV.at(5), KEYS.at(4)+":"+first.Text, ARGV.at(1))
		}
	}
	if s.call("EXISTS", KEYS.at(1)).is(0) {
		tell()
		s.call("SET", KEYS.at(5), "1", "PX", ARGV.at(6))
		return number(1)
	}
	if s.call("HEXISTS", KEYS.at(1), ARGV.at(3)).is(0) {
		return Reply{}
	}
	if s.call("HINCRBY", KEYS.at(1), ARGV.at(3), "-1").Int > 0 {
		s.call("PEXPIRE", KEYS.at(1), ARGV.at(2))
		s.call("SET", KEYS.at(5), "0", "PX", ARGV.at(6))
		return number(0)
	}
	s.call("DEL", KEYS.at(1))
	s.call("SET", KEYS.at(5), "1", "PX", ARGV.at(6))
	tell()
	return number(1)
}
