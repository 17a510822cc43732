package resp

// A commandScanner counts the commands in what the client writes: arrays of strings, cut anywhere. The client is ours:
// nothing is refused here.
type commandScanner struct {
	asked *asked
	left  int // arguments of the command that are still to come; 0: its header is
	size  int // how many it has, its name included
	skip  int // bytes of the argument that are still to come, with its CRLF; 0: its header is
	count int // the number in the header, as far as it has come

	word    [len("PUNSUBSCRIBE")]byte // the argument, if it is one to be read
	length  int                       // of the argument, as far as it has come
	reads   bool                      // it is one: the name, or what follows HELLO
	hello   bool
	multi   bool // behind MULTI: every command has one plain answer
	unasked bool // the command before was UNSUBSCRIBE: the client sends a PING behind it, and counts the two as one
}

// scan reads on. It is done before the bytes are sent: no answer comes before its command is counted.
func (s *commandScanner) scan(b []byte) {
	sent := s.asked.sent.Load()
	before := sent
	for i := 0; i < len(b); {
		if s.skip == 0 {
			if s.left > 0 && s.left < s.size && !s.hello {
				i = s.short(b, i)
			}
			if i < len(b) {
				s.header(b[i])
				i++
			}
			continue
		}
		n := min(s.skip, len(b)-i)
		if s.reads && s.length < len(s.word) {
			copy(s.word[s.length:], b[i:i+n])
		}
		s.length += n
		s.skip -= n
		i += n
		if s.skip == 0 {
			sent = s.argument(sent)
		}
	}
	if sent != before {
		s.asked.sent.Store(sent)
	}
}

// short passes over whole arguments of less than a hundred bytes that need not be read: most are keys.
func (s *commandScanner) short(b []byte, i int) int {
	for s.left > 0 && i+5 <= len(b) && b[i] == '$' {
		n, at := int(b[i+1]-'0'), i+2
		if b[at] != '\r' {
			n, at = 10*n+int(b[at]-'0'), at+1
		}
		end := at + n + len("\r\n\r\n")
		if b[at] != '\r' || end > len(b) {
			break
		}
		i = end
		s.left--
	}
	return i
}

// header reads a byte of "*3\r\n" or "$5\r\n".
func (s *commandScanner) header(c byte) {
	switch {
	case c >= '0' && c <= '9':
		s.count = 10*s.count + int(c-'0')
	case c != '\n':
	case s.left == 0:
		s.left, s.size, s.count = s.count, s.count, 0
	default:
		s.skip, s.count, s.length = s.count+2, 0, 0
		s.reads = s.left == s.size || s.hello && s.left == s.size-1
	}
}

// argument ends one. The command counts from its name on.
func (s *commandScanner) argument(sent uint64) uint64 {
	if s.reads {
		text := s.word[:min(s.length-2, len(s.word))]
		if s.left == s.size {
			sent = s.name(sent, text, s.length-2)
		} else if string(text) == "3" {
			s.asked.resp3.Store(true)
		}
	}
	s.left--
	return sent
}

// name notes how a command is answered.
func (s *commandScanner) name(sent uint64, name []byte, length int) uint64 {
	unasked := s.unasked
	s.hello, s.unasked = false, false
	if length < len("EXEC") || length > len(s.word) || name[0] == 'E' && length > len("EXEC") { // EVALSHA, mostly
		return sent + 1
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			name[i] = c - 'a' + 'A'
		}
	}
	switch string(name) {
	case "PING":
		if unasked {
			return sent
		}
	case "HELLO":
		s.hello = true
	case "MULTI":
		s.multi = true
	case "EXEC", "DISCARD":
		s.multi = false
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		s.asked.listens.Store(true)
		s.asked.expect(special{number: sent + 1, channels: s.size - 1})
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		s.asked.listens.Store(true)
		if !s.multi {
			s.unasked = true
			s.asked.expect(special{number: sent + 1})
		}
	}
	return sent + 1
}
