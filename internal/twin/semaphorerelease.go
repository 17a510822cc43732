package twin

import "strings"

// semaphorerelease is the twin of semaphorerelease.lua.
type semaphorerelease struct {
	*Server
	publish string
}

func permitsChannel(name string) string { return "redisson_sc:" + tagged(name) }

func (s *semaphorerelease) give(key, what string) Reply {
	notes := notesOf(key)
	who, request, _ := strings.Cut(what, ":")
	request, permits, _ := strings.Cut(request, ":")
	said := request + " 0"
	if permits != "" {
		who, said = who+":given", request
	}
	note := s.pcall("HGET", notes, who)
	if note.table() {
		return note
	}
	last, took, _, is := noteOf(note.Text)
	over := is && notLess(last, request)
	n, _ := tonumber(took)
	if permits == "" && is && last == request && n > 0 {
		permits = took
	} else if permits == "" {
		if over {
			return number(-1)
		}
		if failed := s.keep(notes, who, said, note); failed.Kind != Nil {
			return failed
		}
		return number(-1)
	} else if over {
		return number(0)
	}
	failed := s.keep(notes, who, said, note)
	if failed.Kind != Nil {
		return failed
	}
	free := s.pcall("INCRBY", key, permits)
	if free.table() {
		s.forget(notes, who, note)
		return free
	} else if free.Int < 1 {
		return number(0)
	}
	heard := s.pcall(s.publish, permitsChannel(key), format0f(float64(free.Int)))
	if heard.table() {
		return number(-2)
	}
	return heard
}

func (s *semaphorerelease) run(KEYS, ARGV list) Reply {
	now := s.time()
	s.publish = ARGV.at(1)
	return eachStretch(now, KEYS, ARGV, 3, s.give)
}
