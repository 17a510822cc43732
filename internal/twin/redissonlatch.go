package twin

// LatchSet is RCountDownLatch's trySetCount. 1: it was set, 0: there was a count.
func (r Redisson) LatchSet() []string {
	return r.call(idRedissonLatchSet, []string{r.Name, latchChannel(r.Name)}, "1", ms(r.Permits), r.Publish)
}

// LatchDown is countDown. Nil.
func (r Redisson) LatchDown() []string {
	return r.call(idRedissonLatchDown, []string{r.Name, latchChannel(r.Name)}, "0", r.Publish)
}

// LatchDelete is delete. 1: there was a count.
func (r Redisson) LatchDelete() []string {
	return r.call(idRedissonLatchDelete, []string{r.Name, latchChannel(r.Name)}, "1", r.Publish)
}

// Each function below is the twin of the script of its name in the folder redisson.

func (s *Server) redissonLatchSet(KEYS, ARGV list) Reply {
	if s.call("EXISTS", KEYS.at(1)).is(1) {
		return number(0)
	}
	s.call("SET", KEYS.at(1), ARGV.at(2))
	s.call(ARGV.at(3), KEYS.at(2), ARGV.at(1))
	return number(1)
}

func (s *Server) redissonLatchDown(KEYS, ARGV list) Reply {
	left := s.call("DECR", KEYS.at(1)).Int
	if left <= 0 {
		s.call("DEL", KEYS.at(1))
	}
	if left == 0 {
		s.call(ARGV.at(2), KEYS.at(2), ARGV.at(1))
	}
	return Reply{}
}

func (s *Server) redissonLatchDelete(KEYS, ARGV list) Reply {
	if s.call("DEL", KEYS.at(1)).is(0) {
		return number(0)
	}
	s.call(ARGV.at(2), KEYS.at(2), ARGV.at(1))
	return number(1)
}
