package enginetest

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// before runs before every command, those inside scripts too, and says whether it has answered it.
func (s *Server) before(peer *server.Peer, cmd string, args ...string) bool {
	if !strings.HasPrefix(cmd, "EVAL") {
		// Inside a script this very goroutine has locked the server. (There are no scripts in scripts.)
		if !s.mini.TryLock() {
			return false
		}
		s.mini.Unlock()
	}
	s.clock.move()
	script, key := call(cmd, args)
	s.mu.Lock()
	act, scripted := s.scripted[key]
	refusal := s.refusal
	s.mu.Unlock()
	switch {
	case scripted && script == "force":
		act()
		peer.WriteLen(2)
		peer.WriteInt(int(time.Now().UnixMilli())) // miniredis' TIME
		peer.WriteInt(1)
		return true
	case script == "inspect" && s.asking.Load() > 0:
		return false
	case refusal != "" && refuses(refusal, cmd, script):
		peer.WriteError(refusal)
		return true
	default:
		return false
	}
}

// call names the script that a command runs, if it is one of ours, and its first key.
func call(cmd string, args []string) (script, key string) {
	if cmd != "EVALSHA" || len(args) < 3 {
		return "", ""
	}
	return scripts()[args[0]], args[2]
}

// scripts maps the SHA-1 of each script to its name.
var scripts = sync.OnceValue(func() map[string]string { //nolint:gochecknoglobals // a constant in all but name
	names := map[string]string{}
	for name, text := range resp.ScriptTexts() {
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		names[hex.EncodeToString(sum[:])] = name
	}
	return names
})

// acquires are the scripts by which something is taken, or waited for.
var acquires = map[string]bool{ //nolint:gochecknoglobals // a constant in all but name
	"acquire": true, "acquireone": true, "reacquire": true, "fenced": true, "read": true, "write": true, "fair": true,
	"semaphore": true, "permits": true, "barrier": true,
}

// refuses reports whether a server in the state that the error text speaks of refuses a command. The
// probes of a new connection are let through, as most such servers do.
func refuses(text, cmd, script string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "OOM": // what frees memory, or needs none, goes on
		return acquires[script]
	case "READONLY", "MISCONF", "NOREPLICAS":
		return script != "" && script != "inspect"
	default:
		return cmd == "PING" || strings.HasPrefix(cmd, "EVAL")
	}
}

// clockStep is how far the server's clock may lag: a key may expire early by as much, which must be
// less than the 10 ms for which no holder trusts the end of its lease.
const clockStep = 2 * time.Millisecond

// A serverClock moves miniredis' time, which stands still by itself, along with ours. It has no
// ticker: time that nobody looks at need not pass.
type serverClock struct {
	mini *miniredis.Miniredis
	mu   sync.Mutex // held while time moves; miniredis' own mutex is taken under it
	last time.Time
}

func (c *serverClock) start(mini *miniredis.Miniredis) { c.mini, c.last = mini, time.Now() }

// move brings the server's time up to now.
func (c *serverClock) move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if d := now.Sub(c.last); d >= clockStep {
		c.last = now
		c.mini.FastForward(d)
	}
}
