package twin

// inspectMost is how many fields inspect.lua reads.
const inspectMost = 10000

// inspect is the twin of inspect.lua.
func (s *Server) inspect(KEYS list) Reply {
	size := s.pcall("HLEN", KEYS.at(1))
	if size.table() {
		return size
	}
	left := s.call("PTTL", KEYS.at(1))
	if size.Int > inspectMost {
		mode := s.call("HGET", KEYS.at(1), "mode")
		return array([]Reply{left, size, text(mode.Text)})
	}
	fields := s.pcall("HGETALL", KEYS.at(1))
	if fields.err() {
		return fields
	}
	return array(append([]Reply{left}, fields.Array...))
}
