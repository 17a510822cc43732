package resp

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// said is a connection to a server that answers HELLO, and says what a test gives when the client has written the
// last of its commands.
type said struct {
	net.Conn // none
	mu       sync.Mutex
	come     sync.Cond
	wrote    []byte
	text     []byte
	version  string
	hello    int  // times it was answered
	idle     bool // it says nothing, and ends with the client's good-bye
	begun    bool
	closed   bool
}

func newSaid() *said {
	c := &said{}
	c.come.L = &c.mu
	return c
}

// last is in the last of the client's commands.
const last = "that was all"

func (c *said) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.wrote = append(c.wrote, b...)
	c.come.Broadcast()
	return len(b), nil
}

// Read answers each HELLO with a map, in either protocol, then says the text, then ends.
func (c *said) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case bytes.Count(c.wrote, []byte("HELLO")) > c.hello:
			c.hello++
			return copy(b, "%2\r\n+proto\r\n:3\r\n+version\r\n+"+c.version+".2.0\r\n"), nil
		case c.idle && bytes.Contains(c.wrote, []byte("PING")):
			return 0, io.EOF
		case c.begun || bytes.Contains(c.wrote, []byte(last)):
			c.begun = true
			if len(c.text) == 0 {
				return 0, io.EOF
			}
			n := copy(b, c.text)
			c.text = c.text[n:]
			return n, nil
		}
		c.come.Wait()
	}
}

func (c *said) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.come.Broadcast()
	return nil
}

func (c *said) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *said) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *said) SetDeadline(time.Time) error      { return nil }
func (c *said) SetReadDeadline(time.Time) error  { return nil }
func (c *said) SetWriteDeadline(time.Time) error { return nil }

// hear has a real client read a text behind the guard, as the answer to some commands. A text that the client cannot
// bear ends the process.
func hear(t testing.TB, commands, text string) {
	first, conn := newSaid(), newSaid()
	first.idle, conn.text = true, []byte(text)
	first.version, conn.version = "7", "7"
	if six, ok := strings.CutPrefix(commands, "6"); ok { // to the client, another way of reading
		first.version, conn.version, commands = "6", "6", six
	}
	conns := make(chan net.Conn, 3)
	conns <- first // the client's own
	old := strings.HasPrefix(commands, "2")
	if old { // RESP2: pushes are arrays, and come on a connection beside another one
		beside := newSaid()
		beside.idle, beside.version = true, "7"
		conns <- beside
	}
	conns <- conn
	close(conns)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"h:1"}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1, ReadBufferEachConn: 4096,
		DisableCache: true, DisableRetry: true, ConnWriteTimeout: -1, ClientSetInfo: rueidis.DisableClientSetInfo, RingScaleEachConn: 4,
		AlwaysRESP2: old,
		DialCtxFn: new(Guard).Dialer(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			if next := <-conns; next != nil {
				return next, nil
			}
			return nil, io.EOF
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	d, release := client.Dedicate()
	ended := d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}, OnSubscription: func(rueidis.PubSubSubscription) {}})
	b := d.B()
	var cmds rueidis.Commands
	for _, c := range commands[:min(len(commands), 6)] {
		if old && !strings.ContainsRune("stu", c) { // what listens says nothing else
			continue
		}
		switch c {
		case 's':
			cmds = append(cmds, b.Subscribe().Channel("a").Build())
		case 't':
			cmds = append(cmds, b.Ssubscribe().Channel("a", "b", "c").Build())
		case 'u':
			cmds = append(cmds, b.Unsubscribe().Channel("a").Build())
		case 'm':
			unsub := b.Arbitrary("U").Args("a", "b").Build()
			unsub.Commands()[0] = "UNSUBSCRIBE" // see pubsub.Mux.unsubscribeCommands
			cmds = append(cmds, b.Multi().Build(), unsub, b.Exec().Build())
		default:
			cmds = append(cmds, b.Get().Key("k").Build())
		}
	}
	if old {
		d.DoMulti(context.Background(), append(cmds, b.Subscribe().Channel(last).Build())...)
	} else {
		d.DoMulti(context.Background(), append(cmds, b.Echo().Message(last).Build())...)
	}
	<-ended //nolint:errcheck // why it ended does not matter
	release()
	client.Close()
}

// FuzzReplyGuard has a real client read anything behind the guard: what it cannot bear is refused.
func FuzzReplyGuard(f *testing.F) {
	for _, commands := range []string{"", "g", "s", "tg", "usg", "mg", "6mg", "2s", "2tu"} {
		for _, text := range []string{
			"+OK\r\n+OK\r\n+OK\r\n", ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n+OK\r\n", "+QUEUED\r\n", "-NOPERM 'ping'\r\n-BUSY\r\n+OK\r\n",
			"+OK\r\n+QUEUED\r\n*1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n+OK\r\n+OK\r\n",
			">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n+PONG\r\n+PONG\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "*-1\r\n$-1\r\n_\r\n#t\r\n,1.5\r\n(12\r\n",
			"%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n:3\r\n$5\r\nhello\r\n!3\r\nERR\r\n=5\r\ntxt:a\r\n",
			">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n>4\r\n$8\r\npmessage\r\n+a\r\n+b\r\n+c\r\n",
			"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n*3\r\n$9\r\nsubscribe\r\n+x\r\n:2\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n+OK\r\n",
			"*0\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n*1\r\n$9\r\nsubscribe\r\n*2\r\n:1\r\n:2\r\n%1\r\n+subscribe\r\n+a\r\n",
			"$?\r\n;3\r\nabc\r\n;0\r\n", "*?\r\n:1\r\n.\r\n", "$9223372036854775807\r\n", "*1000000\r\n", "|2\r\n+a\r\n*1\r\n>1\r\n",
		} {
			f.Add(commands, text)
		}
	}
	f.Fuzz(func(t *testing.T, commands, text string) { hear(t, commands, text) })
}

// What the fuzzer takes for cheap may take memory: this counts what its corpus takes.
func TestNoReplyTakesMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, text := range []string{
		"*262144\r\n", "$8388608\r\n", strings.Repeat("*1\r\n", mostDepth-1) + "*262000\r\n", "*16\r\n" + strings.Repeat("*16000\r\n", 1), "%131072\r\n", ">262144\r\n",
	} {
		hear(t, "g", text)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 128<<20 {
		t.Fatalf("%d MB", taken>>20)
	}
}
