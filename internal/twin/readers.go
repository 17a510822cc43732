package twin

import (
	"math"
	"strings"
)

// How many read holds a call looks at: of one field, and of all its keys.
const readersHolds, readersLooks = 1000, 10000

// readersName is how many bytes a field may have: each look spells it out.
const readersName = 256

// readers is the twin of fragments/longest.lua, which three scripts have.
type readers struct {
	contents
	looks float64
}

func newReaders(s *Server) *readers {
	return &readers{newContents(s), readersLooks}
}

// longest is the longest remaining time of those who read under a key of so many fields, most at least; not ok: it is
// not known.
func (s *readers) longest(key, tag string, most float64, size Reply) (float64, bool) {
	if size.table() || float64(size.Int) > s.looks {
		return 0, false
	}
	fields, read := s.of(key, size.Int)
	if !read {
		return 0, false
	}
	s.looks -= float64(size.Int)
	for f := 0; f+1 < len(fields.Array); f += 2 {
		name := fields.Array[f].Text
		count, is := tonumber(fields.Array[f+1].Text)
		if name != "mode" && is && !strings.HasSuffix(name, ":write") {
			if math.IsNaN(count) || count > readersHolds || count > s.looks || len(name) > readersName {
				return 0, false
			}
			s.looks -= max(0, count)
			for hold := count; hold >= 1; hold-- {
				mark := tag + ":" + name + ":rwlock_timeout:" + tostring(hold)
				left := s.pcall("PTTL", mark)
				if left.table() || left.is(-2) && s.pcall("EXISTS", key, mark).table() {
					return 0, false
				}
				most = max(most, float64(left.Int))
			}
		}
	}
	return most, true
}
