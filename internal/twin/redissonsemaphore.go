package twin

// SemaphoreTry is RSemaphore's tryAcquire. 1: the permits were taken.
func (r Redisson) SemaphoreTry() []string {
	return r.call(idRedissonSemTry, []string{r.Name}, ms(r.Permits))
}

// SemaphoreRelease gives permits back. Nil.
func (r Redisson) SemaphoreRelease() []string {
	return r.call(idRedissonSemRelease, []string{r.Name, permitsChannel(r.Name)}, ms(r.Permits), r.Publish)
}

// SemaphoreSet is trySetPermits. 1: they were set, 0: there were some.
func (r Redisson) SemaphoreSet() []string {
	return r.call(idRedissonSemSet, []string{r.Name, permitsChannel(r.Name)}, ms(r.Permits), r.Publish)
}

// SemaphoreAdd is addPermits, of more or of fewer than none. Nil.
func (r Redisson) SemaphoreAdd() []string {
	return r.call(idRedissonSemAdd, []string{r.Name, permitsChannel(r.Name)}, ms(r.Permits), r.Publish)
}

// SemaphoreDrain is drainPermits: how many there were, as a text where there were any.
func (r Redisson) SemaphoreDrain() []string {
	return r.call(idRedissonSemDrain, []string{r.Name})
}

// Each function below is the twin of the script of its name in the folder redisson.

func (s *Server) redissonSemTry(KEYS, ARGV list) Reply {
	free := s.call("GET", KEYS.at(1))
	if free.Kind != Nil && want(free.Text) >= want(ARGV.at(1)) {
		s.call("DECRBY", KEYS.at(1), ARGV.at(1))
		return number(1)
	}
	return number(0)
}

func (s *Server) redissonSemRelease(KEYS, ARGV list) Reply {
	free := s.call("INCRBY", KEYS.at(1), ARGV.at(1))
	s.call(ARGV.at(2), KEYS.at(2), argument(float64(free.Int)))
	return Reply{}
}

func (s *Server) redissonSemSet(KEYS, ARGV list) Reply {
	if s.call("GET", KEYS.at(1)).Kind != Nil {
		return number(0)
	}
	s.call("SET", KEYS.at(1), ARGV.at(1))
	s.call(ARGV.at(2), KEYS.at(2), ARGV.at(1))
	return number(1)
}

func (s *Server) redissonSemAdd(KEYS, ARGV list) Reply {
	free := 0.0
	if is := s.call("GET", KEYS.at(1)); is.Kind != Nil {
		free = want(is.Text)
	}
	text := argument(free + want(ARGV.at(1)))
	s.call("SET", KEYS.at(1), text)
	s.call(ARGV.at(2), KEYS.at(2), text)
	return Reply{}
}

func (s *Server) redissonSemDrain(KEYS list) Reply {
	free := s.call("GET", KEYS.at(1))
	if free.Kind == Nil {
		return number(0)
	}
	s.call("SET", KEYS.at(1), "0")
	return free
}
