package twin

// release is the twin of release.lua.
func (s *Server) release(KEYS, ARGV list) Reply {
	now := s.time()
	publish, message := ARGV.at(1), ARGV.at(2)
	out, released := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 3, wantInline(KEYS, ARGV.at(3)))
	at, left, field := 4+wantInt(ARGV.at(3)), 0, ""
	for i := 1; i <= n; i++ {
		if left == 0 {
			field, left, at = ARGV.at(at), wantInt(ARGV.at(at+1)), at+2
		}
		left--
		key := keys.at(skip + i)
		v := s.pcall("HDEL", key, field)
		if v.is(1) && publish == "" {
			released++
			v = number(0)
		} else if v.is(1) {
			released++
			channel := "redisson_lock__channel:" + tagged(key)
			v = s.pcall(publish, channel, message)
			if v.table() {
				v = number(-2)
			}
		} else if v.is(0) {
			v = number(-1)
		}
		if !v.is(0) {
			out.add(i, v)
		}
	}
	return out.end(released)
}
