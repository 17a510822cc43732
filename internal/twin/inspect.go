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
	var fields Reply
	read := false
	if size.Int <= inspectMost {
		c := newContents(s)
		fields, read = c.of(KEYS.at(1), size.Int)
	}
	if fields.err() {
		return fields
	}
	if !read {
		mode := s.call("HGET", KEYS.at(1), "mode").Text
		if mode != "read" && mode != "write" {
			mode = ""
		}
		return array([]Reply{left, size, text(mode)})
	}
	return array(append([]Reply{left}, fields.Array...))
}
