package fault_test

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A rewriter stands between engines and a server and lets the server run other scripts than the engines
// send: with another clock, or of another version of the engine.
type rewriter struct {
	listener net.Listener
	backend  string
	script   func(text string) string
	time     []string          // sent instead of TIME; nil: TIME
	shas     map[string]string // of a script as the engine has it: as the server has it
	running  sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func runRewriter(tb testing.TB, backend string, script func(text string) string, timeInstead ...string) *rewriter {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &rewriter{listener: l, backend: backend, script: script, time: timeInstead, shas: make(map[string]string)}
	for _, text := range resp.ScriptTexts() {
		p.shas[shaOf(text)] = shaOf(script(text))
	}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func shaOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func (p *rewriter) addr() string { return p.listener.Addr().String() }

func (p *rewriter) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.backend)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		end := func() {
			_ = client.Close()
			_ = server.Close()
		}
		p.running.Go(func() {
			defer end()
			_, _ = io.Copy(client, server)
		})
		p.running.Go(func() {
			defer end()
			p.forward(bufio.NewReader(client), server)
		})
	}
}

// forward sends every command on, until one side is closed.
func (p *rewriter) forward(from *bufio.Reader, to io.Writer) {
	for {
		cmd, err := testkit.ReadCommand(from)
		if err != nil {
			return
		}
		switch {
		case strings.EqualFold(cmd[0], "EVALSHA") && p.shas[cmd[1]] != "":
			cmd[1] = p.shas[cmd[1]]
		case strings.EqualFold(cmd[0], "SCRIPT") && strings.EqualFold(cmd[1], "LOAD"):
			cmd[2] = p.script(cmd[2])
		case strings.EqualFold(cmd[0], "TIME") && p.time != nil:
			cmd = p.time
		}
		if _, err := to.Write(redistest.AppendCommand(nil, cmd...)); err != nil {
			return
		}
	}
}

// A steppedServer has a clock that a test can step. Whoever comes through its rewriter sees that clock: in
// TIME, in every script; and the keys expire by it.
type steppedServer struct {
	*redistest.Server
	by *rewriter
}

// stepKey has the steps made so far, in seconds.
const stepKey = "clock:step"

func runStepped(tb testing.TB) *steppedServer {
	tb.Helper()
	const now = `(function() local t = redis.call('TIME'); return {string.format('%.0f', t[1] + (redis.call('GET', '` + stepKey + `') or 0)), t[2]} end)()`
	s := redistest.Run(tb, redistest.Options{})
	s.Do(tb, "SET", stepKey, "0", "EX", "86400")
	by := runRewriter(tb, s.Addr(), func(text string) string {
		return strings.ReplaceAll(text, "redis.call('TIME')", now)
	}, "EVAL", "return "+now, "0")
	return &steppedServer{Server: s, by: by}
}

// step moves the clock, forward or back, as an operator or a time service does: at once, and every key's
// end comes nearer or moves away.
func (s *steppedServer) step(tb testing.TB, d time.Duration) {
	tb.Helper()
	s.Do(tb, "EVAL", `
local by, clock = tonumber(ARGV[1]), KEYS[1]
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if key ~= clock and left >= 0 then
    redis.call('PEXPIRE', key, left - by * 1000)
  end
end
redis.call('INCRBY', clock, by)`, "1", stepKey, strconv.Itoa(int(d/time.Second)))
}

// end takes the clock away, so that nothing is left on the server.
func (s *steppedServer) end(tb testing.TB) {
	tb.Helper()
	s.Do(tb, "DEL", stepKey)
}
