package twin

// inspect is the twin of inspect.lua.
func (s *Server) inspect(KEYS list) Reply {
	fields := s.pcall("HGETALL", KEYS.at(1))
	if fields.err() {
		return fields
	}
	return array(append([]Reply{s.call("PTTL", KEYS.at(1))}, fields.Array...))
}
