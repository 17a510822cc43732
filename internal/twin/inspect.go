package twin

// inspectMost is how many fields inspect.lua reads, and inspectBytes how many bytes of them.
const inspectMost, inspectBytes = 10000, 1 << 20

// inspect is the twin of inspect.lua.
func (s *Server) inspect(KEYS list) Reply {
	size := s.pcall("HLEN", KEYS.at(1))
	if size.table() {
		return size
	}
	left := s.call("PTTL", KEYS.at(1))
	notRead := func() Reply {
		mode := s.call("HGET", KEYS.at(1), "mode").Text
		if mode != "read" && mode != "write" {
			mode = ""
		}
		return array([]Reply{left, size, text(mode)})
	}
	if size.Int > inspectMost {
		return notRead()
	}
	fields := s.pcall("HGETALL", KEYS.at(1))
	if fields.err() {
		return fields
	}
	bytes := 0
	for _, field := range fields.Array {
		bytes += len(field.Text)
	}
	if bytes > inspectBytes {
		return notRead()
	}
	return array(append([]Reply{left}, fields.Array...))
}
