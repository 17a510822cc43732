package twin

import "strings"

// semaphore is the twin of semaphore.lua.
type semaphore struct {
	*Server
	ARGV       list
	key, notes string
}

// take answers what was taken and Nil, or why nothing was.
func (s *semaphore) take() (float64, Reply) {
	who, request, _ := strings.Cut(s.ARGV.at(2), ":")
	note := s.pcall("HGET", s.notes, who)
	if note.table() {
		return 0, note
	}
	last, text, spaced, is := noteOf(note.Text)
	is = is && spaced && text != ""
	took, _ := countOf(text)
	if is && last == request && took > 0 {
		return took, Reply{}
	} else if is && notLess(last, request) {
		return 0, number(-1)
	}
	stands := s.pcall("GET", s.key)
	if stands.Kind == Nil {
		return 0, number(-1)
	} else if stands.table() {
		return 0, stands
	}
	free, is := countOf(stands.Text)
	if !is {
		return 0, number(-3)
	}
	sum := 0.0
	for i := 5; i <= len(s.ARGV); i++ {
		if sum+want(s.ARGV.at(i)) > free {
			break
		}
		sum += want(s.ARGV.at(i))
	}
	if sum == 0 {
		return 0, number(-1)
	}
	taking := format0f(sum)
	failed := s.keep(s.notes, who, request+" "+taking, note)
	if failed.Kind != Nil {
		return 0, failed
	}
	left := s.pcall("DECRBY", s.key, taking)
	if left.table() {
		s.forget(s.notes, who, note)
		return 0, left
	}
	return sum, Reply{}
}

func (s *semaphore) run(KEYS, ARGV list) Reply {
	now := s.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	s.ARGV, s.key, s.notes = ARGV, KEYS.at(1), notesOf(KEYS.at(1))
	taken, why := s.take()
	if why.Kind == Nil {
		return array([]Reply{number(now), number(1), integer(taken)})
	}
	return array([]Reply{number(now), number(0), number(0), number(1), why})
}
