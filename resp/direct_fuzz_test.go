package resp

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// pieces is a connection on which what a server says comes in pieces. Then it ends.
type pieces struct {
	net.Conn // none
	left     [][]byte
}

func (c *pieces) Read(b []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.left[0])
	if c.left[0] = c.left[0][n:]; len(c.left[0]) == 0 {
		c.left = c.left[1:]
	}
	return n, nil
}

func (c *pieces) Write(b []byte) (int, error)     { return len(b), nil }
func (c *pieces) Close() error                    { return nil }
func (c *pieces) RemoteAddr() net.Addr            { return nil }
func (c *pieces) SetDeadline(time.Time) error     { return nil }
func (c *pieces) SetReadDeadline(time.Time) error { return nil }

// hearDirect has a direct make rounds of so many commands, as a lane does, while what is said comes in these pieces. It
// returns the replies.
func hearDirect(rounds, commands int, said ...[]byte) (all []string) {
	said = slices.DeleteFunc(said, func(piece []byte) bool { return len(piece) == 0 })
	conn := (&Guard{Own: true}).Watch(&pieces{left: said}).(*watched)
	p := &directPair{direct: &direct{conn: conn, poll: busyPoll{pollers: new(atomic.Int32)}}}
	for range rounds {
		p.asks(commands)
		err := p.talk(p.over, false)
		replies := p.finish(err)
		if len(replies) != commands {
			panic(fmt.Sprintf("%d commands, %d replies", commands, len(replies)))
		}
		for _, text := range texts(replies) {
			if len(text) > 0 && text[0] == '!' { // where it is refused depends on the pieces
				return append(all, "!")
			}
			all = append(all, text)
		}
		if err != nil || p.stale() {
			return all
		}
	}
	return all
}

// FuzzDirect has a lane's own connection read anything, in pieces of any size: nothing ends the process, and how the
// replies of a round were cut says nothing.
func FuzzDirect(f *testing.F) {
	for _, text := range []string{
		":1\r\n:2\r\n", "-OOM no\r\n$-1\r\n", "*2\r\n:1\r\n$3\r\nabc\r\n_\r\n", "|1\r\n+a\r\n:1\r\n:2\r\n#t\r\n", "%1\r\n+a\r\n~1\r\n,1.5\r\n(12\r\n",
		">2\r\n+invalidate\r\n*0\r\n:1\r\n:2\r\n", ":1\r\n:2\r\n:3\r\n", "=5\r\ntxt:a\r\n!3\r\nERR\r\n",
		// What is cut by the end of a round.
		":1\r\n>2\r\n$1\r\na\r\n$20\r\n$99999\r\n0123456789\r\n$99999\r\n0123\r\n:2\r\n", ":1\r\n|1\r\n+a\r\n:2\r\n:3\r\n", ":1\r\n:2", ":1\r\n|1\r\n",
		// Pushes where EXEC has them.
		"*3\r\n>1\r\n+subscribe\r\n:-1\r\n:-1\r\n", "*4\r\n>2\r\n+unsubscribe\r\n+a\r\n:-72057594037927936\r\n:-1\r\n:-1\r\n",
		"*1\r\n>2\r\n+unsubscribe\r\n+a\r\n>2\r\n+unsubscribe\r\n+a\r\n:1\r\n",
	} {
		for _, size := range []uint8{1, 4, 11} {
			f.Add([]byte(text), size, uint8(2))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, size, commands uint8) {
		n := 1 + int(commands%4)
		cut := slices.Collect(slices.Chunk(text, 1+int(size)))
		whole, parts := hearDirect(1, n, text), hearDirect(1, n, cut...)
		// What comes behind the last reply is refused with it, or is nobody's yet.
		if !slices.Equal(whole, parts) && (len(whole) == n && whole[n-1] != "!") {
			t.Fatalf("%q\nwhole:     %q\nin pieces: %q", text, whole, parts)
		}
		hearDirect(4, n, cut...)
	})
}
