package resp

// A commandScanner counts the commands in what the client writes: arrays of strings, cut anywhere. The client is ours:
// nothing is refused here.
type commandScanner struct {
	asked *asked
	left  int // arguments of the command that are still to come; 0: its header is
	size  int // how many it has, its name included
	skip  int // bytes of the argument that are still to come, with its CRLF; 0: its header is
	count int // the number in the header, as far as it has come

	word   [len("PUNSUBSCRIBE")]byte // the argument, if it is one to be read
	length int                       // of the argument, as far as it has come
	reads  bool                      // it is one: the name, or what follows the name of some
	first  firstArgument
	said   func(word string) // is told what a PING says; may be nil
	multi  bool              // behind MULTI: every command has one plain answer
	// unasked: the command before was UNSUBSCRIBE. The client sends a PING behind it, and counts the two as one.
	unasked bool
	allowed int64
}

// A firstArgument says what the argument behind a command's name is read for.
type firstArgument uint8

const (
	argumentUnread  firstArgument = iota
	argumentVersion               // HELLO's
	argumentWord                  // PING's
)

// What the replies on their way may take of the client's memory. It keeps those of a pipeline until the last one is
// there, and the pipeline is as long as its callers are many: a limit for one reply is none.
const (
	elementCost = 40 // of an array, to the client

	allowCommand  = 1 << 10   // for an error, or a few numbers
	allowArgument = 512       // a key's share: its number, and the server's longest refusal
	allowHello    = 32 << 10  // modules, with their arguments
	allowInfo     = 32 << 10  // of one section: 3 KB
	allowRole     = 512 << 10 // of a master with 1,000 replicas: 250 KB
	allowTable    = 4 << 20   // CLUSTER SLOTS of 1,000 nodes: 1 MB, and 50,000 elements
	allowPush     = 64 << 10  // a message that a lock is free: 300 bytes
	allowLook     = 5 << 19   // Inspect and Queue: 20,001 elements, a megabyte of text, what stands around it
	allowAnything = mostReply + elementCost*mostElements
)

// allowance is for the reply to a command. The commands that are few may be answered with much.
func allowance(name string, size int) int64 {
	switch name {
	case "CLUSTER", "SENTINEL":
		return allowTable
	case "ROLE":
		return allowRole
	case "INFO":
		return allowInfo
	case "HELLO":
		return allowHello
	default:
		return allowCommand + allowArgument*int64(size)
	}
}

// scan reads on. It is done before the bytes are sent: no answer comes before its command is counted.
func (s *commandScanner) scan(b []byte) {
	sent := s.asked.sent.Load()
	before := sent
	s.allowed += int64(len(b)) // a refusal may name what was sent
	// Pieces end anywhere: all state between two of them is in s.
	for i := 0; i < len(b); {
		if s.skip == 0 {
			if s.left > 0 && s.left < s.size && s.first == argumentUnread {
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
	// Sent is stored first: who reads allowed and then sent never takes what is allowed for one command for another's.
	if sent != before {
		s.asked.sent.Store(sent)
	}
	s.asked.allowed.Store(s.allowed)
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
		s.reads = s.left == s.size || s.first != argumentUnread && s.left == s.size-1
	}
}

// argument ends one. The command counts from its name on.
func (s *commandScanner) argument(sent uint64) uint64 {
	if s.reads {
		text := s.word[:min(s.length-2, len(s.word))]
		switch {
		case s.left == s.size:
			sent = s.name(sent, text, s.length-2)
		case s.first == argumentWord:
			s.said(string(text))
		case string(text) == "3":
			s.asked.resp3.Store(true)
		}
	}
	s.left--
	return sent
}

// lookArguments is how many Inspect and Queue have: EVALSHA, the script, one key. No other script is called without
// arguments of its own.
const lookArguments = 4

// name notes how a command is answered.
func (s *commandScanner) name(sent uint64, name []byte, length int) uint64 {
	// EVALSHA is nearly all there is. Its length tells it, without a look at every letter.
	unasked := s.unasked
	s.first, s.unasked = argumentUnread, false
	if length < len("EXEC") || length > len(s.word) || name[0] == 'E' && length > len("EXEC") { // EVALSHA, mostly
		if s.size == lookArguments && length == len("EVALSHA") {
			s.allowed += allowLook
		} else {
			s.allowed += allowCommand + allowArgument*int64(s.size)
		}
		return sent + 1
	}
	// The others go by their names, in which servers do not mind the case.
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			name[i] = c - 'a' + 'A'
		}
	}
	if unasked && string(name) == "PING" {
		return sent
	}
	s.allowed += allowance(string(name), s.size)
	// What changes how replies are counted from here on.
	switch string(name) {
	case "HELLO":
		s.first = argumentVersion
	case "PING":
		if s.said != nil && s.size == 2 {
			s.first = argumentWord
		}
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
