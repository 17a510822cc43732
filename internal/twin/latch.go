package twin

// latch is the twin of latch.lua.
func (s *Server) latch(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	answer := func(code int64, mark float64) Reply {
		return array([]Reply{number(now), number(code), integer(mark)})
	}
	notes := notesOf(KEYS.at(1))
	known, _ := tonumber(ARGV.at(5))
	count := s.pcall("GET", KEYS.at(1))
	if count.table() {
		return count
	}
	note := s.pcall("HGET", notes, "ended")
	if note.table() {
		return note
	}
	left, is := stands(count)
	if !is {
		return answer(-3, 0)
	}
	if note.Kind == Text {
		s.pcall("PEXPIRE", notes, kept)
	}
	opened, deleted := marksOf(note.Text)
	open := left <= 0
	switch {
	case known >= 0 && opened > known && open:
		return answer(1, opened)
	case known >= 0 && opened > known:
		return answer(2, opened)
	case known >= 0 && deleted > known:
		return answer(4, opened)
	case !open:
		return answer(0, max(opened, deleted))
	case known < 0 || count.Kind == Text:
		return answer(1, opened)
	}
	return answer(3, opened)
}

// stands is count_of(count or '0'); false: nil.
func stands(count Reply) (float64, bool) {
	if count.Kind == Nil {
		return 0, true
	}
	return countOf(count.Text)
}
