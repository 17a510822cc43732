package twin

import (
	"math"
	"strings"
)

// longest is the longest remaining time of those who read under a key, most at least; not ok: it is not known.
// Three scripts have it.
func (s *Server) longest(key, tag string, most float64) (float64, bool) {
	fields := s.pcall("HGETALL", key)
	if fields.err() {
		return 0, false
	}
	for f := 0; f+1 < len(fields.Array); f += 2 {
		name := fields.Array[f].Text
		count, is := tonumber(fields.Array[f+1].Text)
		if name != "mode" && is && !strings.HasSuffix(name, ":write") {
			if math.IsNaN(count) || count > 1000 {
				return 0, false
			}
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
