package security_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A fakeServer speaks just enough of the protocol to be asked, and notes every byte that arrives. What it answers is the
// test's; the rest is civil.
type fakeServer struct {
	listener net.Listener
	tls      *tls.Config // nil: plain text
	answer   func(args []string) (reply string, ok bool)

	mu    sync.Mutex
	heard bytes.Buffer // of all connections, as it came over the wire
	first []byte       // the first byte of each
	asked []string     // commands, without their arguments
	wg    sync.WaitGroup
	over  bool // stop was called: whoever has come since is not let in
	open  map[net.Conn]bool
	ears  map[net.Conn]bool // of open, those that have subscribed
}

func startFake(t *testing.T, secured *tls.Config, answer func(args []string) (string, bool)) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fakeServer{listener: l, tls: secured, answer: answer, open: map[net.Conn]bool{}, ears: map[net.Conn]bool{}}
	f.wg.Go(f.serve)
	t.Cleanup(f.stop)
	return f
}

func (f *fakeServer) addr() string { return f.listener.Addr().String() }

// stop ends the server and every connection to it.
func (f *fakeServer) stop() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.over = true
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *fakeServer) serve() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.open[c] = true
		if f.over {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.wg.Go(func() {
			defer c.Close()
			f.talk(&wiretap{Conn: c, f: f})
		})
	}
}

// A wiretap notes what arrives before anybody decrypts it.
type wiretap struct {
	net.Conn
	f   *fakeServer
	any bool
}

func (w *wiretap) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if n > 0 && !w.any {
		w.any = true
		w.f.first = append(w.f.first, p[0])
	}
	w.f.heard.Write(p[:n])
	return n, err
}

func (f *fakeServer) talk(c net.Conn) {
	if f.tls != nil {
		c = tls.Server(c, f.tls)
	}
	r := bufio.NewReader(c)
	for {
		args, err := testkit.ReadCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		if strings.EqualFold(args[0], "SUBSCRIBE") {
			f.ears[c] = true
		}
		f.asked = append(f.asked, strings.ToUpper(strings.Join(args[:min(2, len(args))], " ")))
		f.mu.Unlock()
		reply, ok := "", false
		if f.answer != nil {
			reply, ok = f.answer(args)
		}
		if !ok {
			reply = civil(args)
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// publish tells everybody who has subscribed.
func (f *fakeServer) publish(channel, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.ears {
		_, _ = io.WriteString(c, ">3\r\n"+bulk("message")+bulk(channel)+bulk(text))
	}
}

// civil is what any server answers.
func civil(args []string) string {
	switch word := strings.ToLower(args[0]); word {
	case "hello":
		return "%3\r\n" + bulk("server") + bulk("redis") + bulk("version") + bulk("7.0.0") + bulk("proto") + ":3\r\n"
	case "subscribe", "unsubscribe":
		reply := ""
		for i, channel := range args[1:] {
			reply += fmt.Sprintf(">3\r\n%s%s:%d\r\n", bulk(word), bulk(channel), i+1)
		}
		return reply
	case "ping":
		return "+PONG\r\n"
	default:
		return "+OK\r\n"
	}
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// A testimony is what a fake sentinel says. It may change while it is asked.
type testimony struct {
	mu     sync.Mutex
	master string   // host:port
	epoch  string   // of its configuration
	others []string // sentinels, host:port
}

func (s *testimony) say(master, epoch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.master, s.epoch = master, epoch
}

func (s *testimony) answer(args []string) (string, bool) {
	if !strings.EqualFold(args[0], "SENTINEL") {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch strings.ToUpper(args[1]) {
	case "GET-MASTER-ADDR-BY-NAME":
		at := strings.LastIndexByte(s.master, ':')
		return "*2\r\n" + bulk(s.master[:at]) + bulk(s.master[at+1:]), true
	case "MASTER":
		return "%1\r\n" + bulk("config-epoch") + bulk(s.epoch), true
	default:
		reply := fmt.Sprintf("*%d\r\n", len(s.others))
		for _, addr := range s.others {
			host, port, _ := net.SplitHostPort(addr)
			reply += "%2\r\n" + bulk("ip") + bulk(host) + bulk("port") + bulk(port)
		}
		return reply, true
	}
}

// only reports whether every connection began with this byte, and whether there was any.
func (f *fakeServer) only(first byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.first) > 0 && strings.Trim(string(f.first), string(first)) == ""
}

// said is every byte that has arrived.
func (f *fakeServer) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard.String()
}
