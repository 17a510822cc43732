package resp

import (
	"bytes"
	"errors"
	"fmt"
)

// The limits of what a server may send; see Guard.
const (
	mostLine     = 64 << 10
	mostString   = 8 << 20
	mostReply    = 16 << 20
	mostElements = 1 << 18
	mostDepth    = 16

	smallReply    = 256 << 10 // of a sentinel, of which 64 may be asked at a time, and what each says of 64 others
	smallElements = 8 << 10
)

// A replyScanner reads what a server sends, cut anywhere, and refuses what its client must not read: RESP2 and RESP3,
// but for what no server of ours sends, as strings and arrays without a length.
type replyScanner struct {
	asked *asked
	small bool // it is a sentinel that sends
	own   bool // see Guard

	line   [32]byte // the beginning of the line that comes, where it began in an earlier scan
	length int      // of that line, as far as it has come
	cr     bool     // its last byte is a CR
	left   int      // bytes of the string that are still to come, with its CRLF; 0: a line comes
	text   bool     // that string is one to be kept

	depth    int
	stack    [mostDepth]frame
	size     int // bytes of the reply
	elements int // of the reply
	room     int // what it may cost
	message  message

	answered uint64 // commands
	spent    int64  // of what the commands allow; see spend
	mark     uint64 // how many commands had been sent at some time: when all of them are answered,
	forfeit  int64  // what was allowed at that time counts as spent
	confirms int    // pushes that belong to the subscription that was answered last
	trailing int    // pushes that belong to the array that ended last
}

// A frame is an array, a map, a set, a push or an attribute whose elements are coming.
type frame struct {
	left, size int
	attribute  bool // it is no element itself: the element that it describes comes next
}

// A message is what has come of a reply or a push.
type message struct {
	kind   byte // its first byte; 0: nothing has come, or attributes alone
	size   int  // elements
	word   [len("punsubscribe")]byte
	length int // of its text, or of its first element's; 0: that has none
	pushes int // elements of it that are pushes
}

// is reports whether that text is the word, which is not too long to be kept.
func (m *message) is(word string) bool {
	return m.length == len(word) && string(m.word[:m.length]) == word
}

// keep adds to that text.
func (m *message) keep(b []byte) {
	if m.length < len(m.word) {
		copy(m.word[m.length:], b)
	}
	m.length += len(b)
}

var (
	errLine    = fmt.Errorf("a line of more than %d bytes", mostLine)
	errString  = fmt.Errorf("a string of more than %d bytes", mostString)
	errSmall   = fmt.Errorf("a sentinel's reply of more than %d bytes or %d elements", smallReply, smallElements)
	errLarge   = fmt.Errorf("a reply of more than %d bytes or %d elements", mostReply, mostElements)
	errRoom    = errors.New("a reply that is too large for what was asked")
	errDeep    = fmt.Errorf("a reply of more than %d levels", mostDepth)
	errNumber  = errors.New("a number that is none")
	errLength  = errors.New("a length that is none")
	errType    = errors.New("a type that is unknown, or not in its place")
	errEnd     = errors.New("a line or a string without its end")
	errUnasked = errors.New("a reply that nobody asked for")
	errConfirm = errors.New("the confirmation of a subscription that nobody asked for")
	errQueued  = errors.New("a subscription that was queued")
	errPong    = errors.New("an unsubscription without its PONG")
	errPushes  = errors.New("a reply between pushes that belong together")
)

// scan reads on, and says how many bytes may be delivered: all of them, or those before what is refused.
func (s *replyScanner) scan(b []byte) (good int, refused error) {
	for good < len(b) {
		rest := b[good:]
		// Within a string: only its end is looked at.
		if s.left > 0 {
			n := min(s.left, len(rest))
			if refused = s.string(rest[:n]); refused != nil {
				return good, refused
			}
			good += n
			continue
		}
		// Within a line. Its type is refused before its end has come: the client does not wait for that, either.
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if refused = s.part(rest); refused != nil {
				return good, refused
			}
			return len(b), nil
		}
		// A whole line, of one piece or of several.
		if s.length > 0 {
			refused = s.rest(rest[:end])
		} else if end < 2 || rest[end-1] != '\r' {
			refused = errEnd
		} else {
			refused = s.whole(rest[:end-1], end-1)
		}
		if refused != nil {
			return good, refused
		}
		good += end + 1
	}
	return good, nil
}

// part keeps the beginning of a line.
func (s *replyScanner) part(b []byte) error {
	if s.length < len(s.line) {
		copy(s.line[s.length:], b)
	}
	s.length += len(b)
	s.cr = b[len(b)-1] == '\r'
	if s.length > mostLine {
		return errLine
	}
	return begins(s.line[:min(s.length, len(s.line))])
}

// begins refuses what cannot be the beginning of a line. To the client, some are complete without their end: it passes
// over two bytes without looking at them.
func begins(line []byte) error {
	switch line[0] {
	case '_', '#':
		switch string(line) {
		case "_", "_\r", "#", "#t", "#f", "#t\r", "#f\r":
		default:
			return errEnd
		}
	case '+', '-', ':', ',', '(', '$', '!', '=', '*', '~', '%', '>', '|':
	case '\r':
		return errEnd
	default:
		return errType
	}
	return nil
}

// rest ends a line that was kept.
func (s *replyScanner) rest(b []byte) error {
	if len(b) > 0 {
		if err := s.part(b); err != nil {
			return err
		}
	}
	length := s.length - 1
	s.length = 0
	if !s.cr || length == 0 {
		return errEnd
	}
	return s.whole(s.line[:min(length, len(s.line))], length)
}

// whole reads a line, without its CRLF, or the beginning of one that is longer.
func (s *replyScanner) whole(line []byte, length int) error {
	if length > mostLine {
		return errLine
	}
	// Its share of what a reply may take. That is refused before anything is made of it.
	if s.size == 0 {
		s.makeRoom(line[0])
	}
	s.size += length + 2
	if err := s.fits(); err != nil {
		return err
	}
	// Its kind. Of a line longer than s.line only the beginning is here: enough for a text, not for a number.
	switch kind := line[0]; kind {
	case ':':
		if _, ok := integer(line[1:]); !ok || length > len(line) {
			return errNumber
		}
		return s.element(kind)
	case '+', '-', ',', '(':
		if s.names() {
			s.message.keep(line[1:])
			s.message.length = length - 1
		}
		return s.element(kind)
	case '_':
		if length != 1 {
			return errEnd
		}
		return s.element(kind)
	case '#':
		if length != 2 || line[1] != 't' && line[1] != 'f' {
			return errEnd
		}
		return s.element(kind)
	case '$', '=', '!', '*', '~', '%', '>', '|':
		n, ok := integer(line[1:])
		if !ok || length > len(line) || n < -1 {
			return errLength
		}
		return s.sized(kind, n)
	default:
		return errType
	}
}

// integer reads one as the client does, but none that is too large for it.
func integer(b []byte) (n int64, ok bool) {
	digits := b
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if n < 0 { // 19 digits may be too much, by less than as much again
		return n, len(digits) < len(b) && n == -1<<63
	}
	if len(digits) < len(b) {
		n = -n
	}
	return n, true
}

// sized begins what comes with a length.
func (s *replyScanner) sized(kind byte, n int64) error {
	switch kind {
	case '$', '*':
		if n == -1 { // RESP2's null
			return s.element('_')
		}
	case '%', '|':
		n *= 2
	}
	switch {
	case n < 0:
		return errLength
	case kind == '$' || kind == '=' || kind == '!':
		if n > mostString {
			return errString
		}
		s.size += int(n) + 2
		if err := s.fits(); err != nil {
			return err
		}
		s.left, s.text = int(n)+2, s.names()
		if s.depth == 0 {
			s.message.kind = kind
		}
		return nil
	}
	return s.aggregate(kind, int(min(n, mostElements+1)))
}

// makeRoom is called where a message begins. What pushes have is not taken from replies. What somebody else's
// commands are answered with is theirs to know.
func (s *replyScanner) makeRoom(kind byte) {
	switch {
	case !s.own:
		s.room = allowAnything
	case kind == '>' || s.asked.listens.Load() && !s.asked.resp3.Load():
		s.room = allowPush
	default:
		s.room = int(s.asked.allowed.Load() - s.spent)
		if s.room <= 0 && s.answered >= s.asked.sent.Load() {
			s.room = allowPush // nobody asked for it: its end will say so
		}
	}
}

// fits refuses a message that has become too large.
func (s *replyScanner) fits() error {
	switch {
	case s.size > mostReply || s.elements > mostElements:
		return errLarge
	case s.small && (s.size > smallReply || s.elements > smallElements):
		return errSmall
	case s.size+elementCost*s.elements > s.room:
		return errRoom
	}
	return nil
}

// aggregate begins an array, a map, a set, a push or an attribute.
func (s *replyScanner) aggregate(kind byte, n int) error {
	s.elements += n
	if err := s.fits(); err != nil {
		return err
	}
	if s.depth == mostDepth {
		return errDeep
	}
	switch {
	case s.depth == 0 && kind != '|':
		s.message.kind, s.message.size = kind, n
	case kind == '>' && s.depth == 1 && s.message.kind != '>' && !s.stack[0].attribute:
		s.message.pushes++ // UNSUBSCRIBE between MULTI and EXEC
	case kind == '>':
		return errType
	}
	s.stack[s.depth] = frame{left: n, size: n, attribute: kind == '|'}
	s.depth++
	return s.pop()
}

// names reports whether the string that comes next is the message's text.
func (s *replyScanner) names() bool {
	if s.depth == 0 {
		return true
	}
	f := &s.stack[0]
	return s.depth == 1 && !f.attribute && f.left == f.size
}

// string reads on in a string.
func (s *replyScanner) string(b []byte) error {
	before := s.left
	s.left -= len(b)
	if s.text && before > 2 {
		s.message.keep(b[:min(len(b), before-2)])
	}
	if s.left >= 2 {
		return nil
	}
	if before >= 2 && b[before-2] != '\r' || s.left == 0 && b[len(b)-1] != '\n' {
		return errEnd
	}
	if s.left > 0 {
		return nil
	}
	return s.element('$')
}

// element ends one that has none itself.
func (s *replyScanner) element(kind byte) error {
	if s.depth == 0 {
		s.message.kind = kind
		return s.end()
	}
	s.stack[s.depth-1].left--
	return s.pop()
}

// pop ends what is complete.
func (s *replyScanner) pop() error {
	for s.depth > 0 && s.stack[s.depth-1].left == 0 {
		s.depth--
		if s.stack[s.depth].attribute {
			continue
		}
		if s.depth == 0 {
			return s.end()
		}
		s.stack[s.depth-1].left--
	}
	return nil
}

// between reports whether nothing has come of a message that is not whole.
func (s *replyScanner) between() bool { return s.size == 0 && s.length == 0 }

// end takes a whole message, before the client does.
func (s *replyScanner) end() error {
	err := s.account(&s.message)
	s.size, s.elements, s.message = 0, 0, message{}
	return err
}

// The words that pushes begin with; to the client, others mean nothing.
const (
	pushOther  = iota
	pushBegins // of a subscription
	pushEnds
)

// account decides what a message is to the client, as its reader does: rueidis, pipe.go, _backgroundRead. Where that
// gives up the process, this refuses.
func (s *replyScanner) account(m *message) error {
	// What is it? RESP3 marks pushes, RESP2 has arrays instead.
	push, word := m.kind == '>', pushOther
	if push || m.size > 0 && !s.asked.resp3.Load() {
		word = m.push()
	}
	if !push && m.size > 0 && !s.asked.resp3.Load() { // RESP2: pushes are arrays, on connections that listen
		push = s.asked.listens.Load() && !m.is("pong")
		if !push && word != pushOther {
			return errConfirm
		}
	}
	// Whose is it? Pushes that an array still owes come before anything else.
	switch {
	case s.trailing > 0:
		if s.trailing--; !push || word != pushEnds {
			return errPushes
		}
		return nil
	case !push:
		return s.reply(m)
	case m.size < 2 || word == pushOther:
		return nil
	case s.confirms > 0:
		s.confirms--
		return nil
	case word == pushEnds: // also unasked: the slot of the channel has moved
		return nil
	}
	c, ok := s.asked.take(s.answered + 1)
	if !ok || c.channels == 0 {
		return errConfirm
	}
	s.answered++
	s.confirms = c.channels - 1
	return nil
}

// reply counts one. The client's unsubscription is two commands of which the first has no reply.
func (s *replyScanner) reply(m *message) error {
	if s.answered >= s.asked.sent.Load() {
		return errUnasked
	}
	s.answered++
	s.spend()
	if m.pushes > 0 && s.confirms > 0 {
		return errPushes
	}
	s.trailing = m.pushes
	c, ok := s.asked.take(s.answered)
	switch {
	case ok && c.channels > 0 && m.is("QUEUED"):
		return errQueued
	case ok && c.channels == 0 && !m.pong():
		return errPong
	}
	return nil
}

// spend takes what a reply costs from what is allowed. What the commands before a mark allow is of no more use once
// they are answered: a server cannot save it for later.
func (s *replyScanner) spend() {
	s.spent += int64(s.size + elementCost*s.elements)
	if s.answered < s.mark {
		return
	}
	s.spent = max(s.spent, s.forfeit)
	s.forfeit = s.asked.allowed.Load()
	s.mark = s.asked.sent.Load()
}

// pong reports whether a message is to the client the answer to a PING: a string in RESP3, an array in RESP2.
func (m *message) pong() bool {
	if m.size > 0 {
		return m.is("pong")
	}
	return m.is("PONG")
}

// push says what kind of push a message is, or would be.
func (m *message) push() int {
	switch {
	case m.is("subscribe"), m.is("psubscribe"), m.is("ssubscribe"):
		return pushBegins
	case m.is("unsubscribe"), m.is("punsubscribe"), m.is("sunsubscribe"):
		return pushEnds
	default:
		return pushOther
	}
}
