package twin

// Look says what a key holds, 0 for nothing, and when it expires: in ms since 1970, 0 for never.
func (s *Server) Look(key string) (t Type, expires int64) {
	s.tick()
	v := s.find(key)
	if v == nil {
		return 0, 0
	}
	return v.kind, v.expires
}

// Hash returns the fields of a hash. They are the server's: they may only be read, and only until the next command.
func (s *Server) Hash(key string) []Field {
	s.tick()
	if v := s.find(key); v != nil {
		return v.hash
	}
	return nil
}

// List is Hash for a list.
func (s *Server) List(key string) []string {
	s.tick()
	if v := s.find(key); v != nil {
		return v.list
	}
	return nil
}

// Millis is the server's time in ms.
func (s *Server) Millis() int64 {
	s.tick()
	return s.now
}

// IsInt reports whether r is the number n.
func (r Reply) IsInt(n int64) bool { return r.is(n) }

// ZSet is Hash for a sorted set.
func (s *Server) ZSet(key string) []Member {
	s.tick()
	if v := s.find(key); v != nil {
		return v.zset
	}
	return nil
}
