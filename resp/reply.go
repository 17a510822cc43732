package resp

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Replies are read as if the server were not to be trusted: lengths and types are looked at before anything is
// indexed, and numbers are bounded before they become times. What is none of our scripts' replies is a clear error,
// and the outcome of its ops is unknown: it never grants anything.

// longestMs is the latest time, and the longest life of a key, that is told apart: 146 years, so that nanoseconds of
// both together are an int64.
const longestMs = math.MaxInt64 / 2 / int64(time.Millisecond)

// lifeMs bounds what remains of a key. Negative numbers mean something else, and stay.
func lifeMs(ms int64) int64 { return min(ms, longestMs) }

// malformed is the error of a reply that no script of ours gives. What the script did is not known.
func malformed(script string, values []rueidis.RedisMessage) *ServerError {
	return malformedText(script, excerpt(values))
}

func malformedText(script, shown string) *ServerError {
	text := "malformed reply of the script " + script + ": " + shown
	return &ServerError{Class: ClassPartly, Text: text, malformed: true}
}

// unexpected is the error of a reply that a command of the server does not give.
func unexpected(command string, reply rueidis.RedisResult) *ServerError {
	text := ""
	if m, err := reply.ToMessage(); err == nil {
		text = ": " + excerptOf(&m)
	}
	return &ServerError{Class: ClassUnknown, Text: "malformed reply to " + command + text, malformed: true}
}

// excerptMost is how many elements, and bytes of one, an excerpt shows.
const excerptMost, excerptBytes = 6, 24

// excerpt shows the beginning of a reply, quoted and cut: its text may be anything.
func excerpt(values []rueidis.RedisMessage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d elements", len(values))
	for i := range values[:min(len(values), excerptMost)] {
		b.WriteString(", " + excerptOf(&values[i]))
	}
	if len(values) > excerptMost {
		b.WriteString(", …")
	}
	return b.String()
}

func excerptOf(m *rueidis.RedisMessage) string {
	switch {
	case m.IsNil():
		return "nil"
	case m.IsArray() || m.IsMap():
		return "an aggregate"
	case m.IsInt64():
		n, _ := m.AsInt64()
		return fmt.Sprint(n)
	}
	text, err := m.ToString()
	if err != nil {
		text = err.Error()
	}
	if len(text) > excerptBytes {
		return fmt.Sprintf("%q…", text[:excerptBytes])
	}
	return fmt.Sprintf("%q", text)
}

// errAstray is the error of a reply behind a malformed one: it may be another command's.
var errAstray = &ServerError{Class: ClassUnknown, Text: "no answer: a reply before it on its connection was malformed"}

// arrayOf takes a script's reply apart. Errors: what the server refused; no answer; malformed.
func arrayOf(w *wire, s *script, reply rueidis.RedisResult) ([]rueidis.RedisMessage, *ServerError) {
	m, err := reply.ToMessage()
	switch {
	case w.malformed.Load():
		return nil, errAstray
	case reply.NonRedisError() != nil, err != nil && !m.IsNil():
		return nil, classify(err)
	case m.IsArray():
		values, _ := m.ToArray()
		return values, nil
	default:
		return nil, malformedText(s.name, excerptOf(&m))
	}
}

// numberOf takes a reply that is a number.
func numberOf(w *wire, reply rueidis.RedisResult) (int64, bool) {
	m, err := reply.ToMessage()
	if err != nil || !m.IsInt64() || w.malformed.Load() {
		return 0, false
	}
	return number(&m)
}

// number reads an integer.
func number(m *rueidis.RedisMessage) (int64, bool) {
	n, err := m.AsInt64()
	return n, err == nil
}

// serverTime reads the time that most replies begin with.
func serverTime(values []rueidis.RedisMessage) (ms int64, ok bool) {
	if len(values) == 0 {
		return 0, false
	}
	ms, ok = number(&values[0])
	return ms, ok && ms > 0
}

// A sparse reply names the keys of a batch that did not answer as the others: {now, n, …, i, v, i, v, …}. The numbers i
// of the keys rise: a key that was named twice would stand for another one that is named nowhere.
type sparse struct {
	left []rueidis.RedisMessage
	most int64 // keys in the batch
	last int64 // the key named before
	bad  bool  // no script of ours says this

	at      int64        // the key; 0: none
	v       int64        // what it answered, or
	refused *ServerError // why not
}

// sparseOf reads how many keys of a batch answered as most do; the others are named from head on.
func sparseOf(values []rueidis.RedisMessage, head, keys int) (s sparse, n int64, ok bool) {
	if len(values) < head || (len(values)-head)%2 != 0 {
		return s, 0, false
	}
	n, ok = number(&values[1])
	return sparse{left: values[head:], most: int64(keys)}, n, ok && n >= 0 && n <= int64(keys)
}

// next reads the next key that is named. False: there is none, or bad.
func (s *sparse) next() bool {
	if s.bad || len(s.left) == 0 {
		return false
	}
	i, v := &s.left[0], &s.left[1]
	s.left = s.left[2:]
	var ok bool
	if s.at, ok = number(i); !ok {
		s.bad = true
		return false
	}
	s.refused = nil
	if s.v, ok = number(v); ok {
		return true
	}
	if _, is := rueidis.IsRedisErr(v.Error()); !is {
		s.bad = true
		return false
	}
	s.refused = classify(v.Error())
	return true
}

// tellsMore reports whether this is one more number of the key named before, which it calls by its negative number.
func (s *sparse) tellsMore() bool { return s.last != 0 && s.at == -s.last && s.refused == nil }

// rises reports whether the key is one of the batch, and behind the one before it.
func (s *sparse) rises() bool {
	if s.at <= s.last || s.at > s.most {
		return false
	}
	s.last = s.at
	return true
}
