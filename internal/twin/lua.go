package twin

import (
	"math"
	"strconv"
	"strings"
)

// A list is KEYS or ARGV.
type list []string

// at counts from 1, as Lua does. What is not there is "".
func (l list) at(i int) string {
	if i < 1 || i > len(l) {
		return ""
	}
	return l[i-1]
}

// A luaError is what ends a script: the text of its error reply, without the place.
type luaError string

// raise ends the script that runs, as an error in its Lua would.
func raise(what string) { panic(luaError("ERR user_script:1: " + what)) }

// call is redis.call: an error ends the script.
func (s *Server) call(args ...string) Reply {
	r := s.pcall(args...)
	if r.Kind == Error {
		panic(luaError(r.Text))
	}
	return r
}

// tonumber is Lua's; false: nil.
func tonumber(text string) (float64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return float64(n), true
	}
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil || math.IsInf(n, 0) {
		return n, true
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && !strings.ContainsAny(text, "_obOB") { // 0x10
		return float64(n), true
	}
	return 0, false
}

// want is tonumber where the script goes on to calculate with it.
func want(text string) float64 {
	n, is := tonumber(text)
	if !is {
		raise("attempt to compare nil with number")
	}
	return n
}

// wantInt is want where a whole number is meant.
func wantInt(text string) int { return int(want(text)) }

// tostring is what Lua makes of a number that it joins to a string.
func tostring(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e14 {
		return strconv.FormatInt(int64(n), 10)
	}
	return formatG(n, 14)
}

// argument is what redis.call makes of a number.
func argument(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e17 {
		return strconv.FormatInt(int64(n), 10)
	}
	return formatG(n, 17)
}

// formatG is C's %.<digits>g.
func formatG(n float64, digits int) string {
	switch {
	case math.IsInf(n, 1):
		return "inf"
	case math.IsInf(n, -1):
		return "-inf"
	case math.IsNaN(n):
		return "nan"
	}
	exp := 0
	if n != 0 {
		text := strconv.FormatFloat(n, 'e', digits-1, 64)
		exp, _ = strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	}
	if exp >= -4 && exp < digits {
		text := strconv.FormatFloat(n, 'f', digits-1-exp, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	mantissa, e, _ := strings.Cut(strconv.FormatFloat(n, 'e', digits-1, 64), "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + "e" + e
}

// format0f is string.format('%.0f', n).
func format0f(n float64) string {
	if math.Abs(n) < 1e15 {
		return strconv.FormatInt(int64(math.RoundToEven(n)), 10)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// integer is what a reply makes of a number of Lua's: it is cut off.
func integer(n float64) Reply { return number(int64(n)) }

// tagged is a key with its hash tag, as Redisson's names have it.
func tagged(key string) string {
	if strings.Contains(key, "{") {
		return key
	}
	return "{" + key + "}"
}

// engineOf is string.match(field, '^[^:]*').
func engineOf(field string) string {
	engine, _, _ := strings.Cut(field, ":")
	return engine
}

// time is redis.call('TIME') and what the scripts make of it: ms.
func (s *Server) time() int64 {
	if no := s.denied("TIME", ""); no.err() {
		panic(luaError(no.Text))
	}
	return s.now
}

// keysAndSkip is how the scripts find their keys: in KEYS, or from ARGV[skip+1] on.
func keysAndSkip(KEYS, ARGV list, skip, inline int) (keys list, from, n int) {
	if len(KEYS) == 0 {
		return ARGV, skip, inline
	}
	return KEYS, 0, len(KEYS)
}

// A stretch is how the scripts find the fields of n keys, which follow in ARGV from at on: field, n, field, n, ...: the field
// of the next n keys; or one each, which only renewals know.
type stretch struct {
	ARGV     list
	at, left int
	each     bool
	field    string
}

// stretches are the fields of a renewal of n keys.
func stretches(ARGV list, n int) stretch {
	at := 4 + wantInt(ARGV.at(3))
	return stretch{ARGV: ARGV, at: at, each: len(ARGV)-at+1 == n}
}

// next is the field of the next key.
func (s *stretch) next() string {
	if s.each {
		s.field, s.at = s.ARGV.at(s.at), s.at+1
	} else if s.left == 0 {
		s.field, s.left, s.at = s.ARGV.at(s.at), wantInt(s.ARGV.at(s.at+1)), s.at+2
	}
	s.left--
	return s.field
}

// A reply collects what a script returns: out.
type outs []Reply

// begin makes out with the time and a place for the count.
func begin(now int64) outs { return append(make(outs, 0, 4), number(now), number(0)) }

// add names a key that did not answer as most do.
func (o *outs) add(i int, v Reply) { *o = append(*o, number(int64(i)), v) }

// end writes the count.
func (o outs) end(count int64) Reply {
	o[1] = number(count)
	return array(o)
}

// wantInline is how many keys follow in ARGV, where KEYS has none.
func wantInline(KEYS list, n string) int {
	if len(KEYS) > 0 {
		return 0
	}
	return wantInt(n)
}

// orNaN is tonumber, with NaN for nil: only who compares with it fails.
func orNaN(text string) float64 {
	if n, is := tonumber(text); is {
		return n
	}
	return math.NaN()
}

// less reports whether a number that a command answered is smaller than one of the script's.
func (r Reply) less(than float64) bool {
	if math.IsNaN(than) {
		raise("attempt to compare number with nil")
	}
	return float64(r.Int) < than
}

// eachStretch is the end of the scripts that give keys back: ARGV has how many keys follow at 3, those keys after skip
// arguments, and then field, n, field, n, ...: the field of the next n keys.
func eachStretch(now int64, KEYS, ARGV list, skip int, leave func(key, field string) Reply) Reply {
	out, released := begin(now), int64(0)
	keys, from, n := keysAndSkip(KEYS, ARGV, skip, wantInline(KEYS, ARGV.at(3)))
	fields := stretch{ARGV: ARGV, at: skip + 1 + wantInt(ARGV.at(3))}
	for i := 1; i <= n; i++ {
		v := leave(keys.at(from+i), fields.next())
		if v.Kind == Int && v.Int != -1 {
			released++
		}
		if !v.is(0) {
			out.add(i, v)
		}
	}
	return out.end(released)
}
