package twin

import (
	"math"
	"strings"
)

// The functions of fragments/requests.lua and fragments/count.lua.

const kept = "3600000"

func notesOf(key string) string { return tagged(key) + ":counted_requests" }

// forget makes the note what it was before. A note that is not there is Nil.
func (s *Server) forget(notes, who string, before Reply) bool {
	if before.Kind == Nil && !s.pcall("HDEL", notes, who).table() {
		return true
	}
	said := "0 0"
	if before.Kind == Text {
		said = before.Text
	}
	s.pcall("HSET", notes, who, said)
	return before.Kind == Text
}

// keep answers Nil, or the refusal.
func (s *Server) keep(notes, who, said string, before Reply) Reply {
	noted := s.pcall("HSET", notes, who, said)
	if noted.table() {
		return noted
	}
	ttl := s.pcall("PEXPIRE", notes, kept)
	if ttl.table() && !s.forget(notes, who, before) {
		return failure("HOLDFAST notes without expiry could not be undone, delete them by hand: " + notes)
	}
	if ttl.table() {
		return ttl
	}
	return Reply{}
}

// noteOf reads a note as '^(%d+) ?(%d*)$' does; false: it is none. spaced: the space was there.
func noteOf(note string) (last, took string, spaced, is bool) {
	last, took, spaced = strings.Cut(note, " ")
	return last, took, spaced, last != "" && digits(last) && digits(took)
}

// digits is '^%d*$'.
func digits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// notLess is tonumber(a) >= tonumber(b).
func notLess(a, b string) bool { return want(a) >= want(b) }

// countOf is count_of; false: nil.
func countOf(text string) (float64, bool) {
	if text == "0" {
		return 0, true
	}
	whole := strings.TrimPrefix(text, "-")
	if whole == "" || whole[0] == '0' || !digits(whole) {
		return 0, false
	}
	if n, _ := tonumber(text); math.Abs(n) < 1<<53 {
		return n, true
	}
	return 0, false
}
