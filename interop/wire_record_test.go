package interop

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A recorder writes down what clients do to a server, with everything that differs from run to
// run replaced by a name: owners, times, random ids.
type recorder struct {
	server *redistest.Server
	own    *redistest.Conn // for looking at keys; not recorded
	marks  chan string     // of our own, as they come by
	owners *strings.Replacer
	read   sync.WaitGroup

	mu    sync.Mutex
	lines []string // since the last take
}

// record starts recording; owners are pairs of an owner id and its name in the record.
func record(t *testing.T, s *redistest.Server, owners ...string) *recorder {
	t.Helper()
	ctx := t.Context()
	own, err := s.Dial(ctx)
	require.NoError(t, err)
	monitor, err := s.Dial(ctx)
	require.NoError(t, err)
	_, err = monitor.Do(ctx, "MONITOR")
	require.NoError(t, err)
	r := &recorder{server: s, own: own, owners: strings.NewReplacer(owners...), marks: make(chan string, 1)}
	r.read.Go(func() {
		var shas []string // of r.lines' scripts, "" where a line is none
		for {
			v, err := monitor.Receive(context.Background())
			if err != nil {
				return
			}
			if line, ok := v.(string); ok {
				shas = r.note(line, shas)
			}
		}
	})
	t.Cleanup(func() {
		_ = monitor.Close()
		_ = own.Close()
		r.read.Wait()
	})
	return r
}

var monitored = regexp.MustCompile(`^[0-9.]+ \[\d+ ([^\]]+)\] (.*)$`)

// recorded are the commands that belong to a lock. Others greet, ping or name a connection.
var recorded = []string{
	"EVAL", "EVALSHA", "SCRIPT", "SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE", "PUBLISH", "SPUBLISH",
	"DEL", "GET", "HGET", "HEXISTS", "EXISTS", "PTTL", "WAIT",
}

// note writes a line of MONITOR down. A script that the server did not know is sent twice with its text
// in between: only the second time counts.
func (r *recorder) note(line string, shas []string) []string {
	m := monitored.FindStringSubmatch(line)
	if len(m) != 3 {
		return shas
	}
	words := unquote(m[2])
	verb := strings.ToUpper(words[0])
	if m[1] == r.own.LocalAddr().String() {
		if verb == "ECHO" {
			r.marks <- words[1]
		}
		return shas
	}
	if !slices.Contains(recorded, verb) {
		return shas
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	shas = shas[:min(len(shas), len(r.lines))]
	if m[1] == "lua" {
		if verb == "PUBLISH" || verb == "SPUBLISH" {
			r.lines, shas = append(r.lines, "    "+r.plain(strings.Join(words, " "))), append(shas, "")
		}
		return shas
	}
	if verb == "SCRIPT" {
		sum := sha1.Sum([]byte(words[2]))
		if i := slices.Index(shas, hex.EncodeToString(sum[:])); i >= 0 {
			r.lines, shas = slices.Delete(r.lines, i, i+1), slices.Delete(shas, i, i+1)
		}
		return shas
	}
	sha := ""
	if verb == "EVALSHA" {
		sha = words[1]
	}
	r.lines, shas = append(r.lines, "  "+r.command(verb, words)), append(shas, sha)
	return shas
}

// command renders a command; of a script the keys and the arguments, not what it is.
func (r *recorder) command(verb string, words []string) string {
	if verb != "EVAL" && verb != "EVALSHA" {
		return verb + " " + r.plain(strings.Join(words[1:], " "))
	}
	n, _ := strconv.Atoi(words[2])
	keys, args := words[3:3+n], slices.Clone(words[3+n:])
	for i := range args {
		args[i] = r.argument(args[i])
	}
	return fmt.Sprintf("script KEYS %s ARGV %s", r.plain(strings.Join(keys, " ")), r.plain(strings.Join(args, " ")))
}

var epochMs = regexp.MustCompile(`^\d{13}(\.\d+)?$`)

// argument names times of day, and the life of an unlock latch, which Redisson draws at random.
func (r *recorder) argument(s string) string {
	if epochMs.MatchString(s) {
		return relative(s)
	}
	if ms, err := strconv.Atoi(s); err == nil && ms >= 16000 && ms <= 20000 {
		return "<16000..20000>"
	}
	return s
}

// relative renders a time of day in milliseconds as a distance from now, rounded as tens does.
func relative(s string) string {
	ms, _ := strconv.ParseFloat(s, 64)
	if d := tens(time.Until(time.UnixMilli(int64(ms)))); d != 0 {
		return fmt.Sprintf("now%+ds", d)
	}
	return "now"
}

var requestID = regexp.MustCompile(`[0-9a-f]{32}`)

func (r *recorder) plain(s string) string {
	return requestID.ReplaceAllString(r.owners.Replace(s), "<request>")
}

// unquote splits what MONITOR shows of a command.
func unquote(s string) []string {
	var words []string
	for s != "" {
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return append(words, s)
		}
		w, _ := strconv.Unquote(q)
		words, s = append(words, w), strings.TrimPrefix(s[len(q):], " ")
	}
	return words
}

// seen returns what was recorded since the last take, of all that the server has run by now: MONITOR may tell of it later
// than whoever asked for it has the answer.
func (r *recorder) seen(t *testing.T) []string {
	t.Helper()
	_, err := r.own.Do(t.Context(), "ECHO", "mark")
	require.NoError(t, err)
	select {
	case <-r.marks:
	case <-time.After(patience):
		require.FailNow(t, "MONITOR has said nothing")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// take forgets what was recorded.
func (r *recorder) take() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = nil
}

// keys renders every key: its type, its time to live to ten seconds, its value. Latches are left out: they
// are deleted by a command that nobody waits for.
func (r *recorder) keys(t *testing.T) []string {
	t.Helper()
	var lines []string
	names := strings.Fields(r.ask(t, "KEYS", "*"))
	slices.Sort(names)
	for _, k := range names {
		if strings.HasPrefix(k, "redisson_unlock_latch:") {
			continue
		}
		kind := r.ask(t, "TYPE", k)
		if kind == "none" {
			continue
		}
		lines = append(lines, fmt.Sprintf("  %-6s %s  %s  %s", kind, r.plain(k), r.ttl(t, k), r.value(t, kind, k)))
	}
	lines = append(lines, r.listeners(t)...)
	slices.Sort(lines)
	return lines
}

func (r *recorder) ttl(t *testing.T, key string) string {
	t.Helper()
	pttl := r.ask(t, "PTTL", key)
	if pttl == "-1" {
		return "ttl none"
	}
	return "ttl " + tensOf(pttl)
}

// tensOf is tens for milliseconds in decimal.
func tensOf(ms string) string {
	n, _ := strconv.Atoi(ms)
	return fmt.Sprintf("%ds", tens(time.Duration(n)*time.Millisecond))
}

// tens rounds up to ten seconds, and returns seconds: what was 60 s a moment ago stays 60 s for long
// enough.
func tens(d time.Duration) int {
	return 10 * int(math.Ceil((d-50*time.Millisecond).Seconds()/10))
}

// listeners renders the channels somebody is subscribed to.
func (r *recorder) listeners(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, what := range []string{"CHANNELS", "SHARDCHANNELS"} {
		for _, ch := range strings.Fields(r.ask(t, "PUBSUB", what)) {
			lines = append(lines, "  "+strings.ToLower(strings.TrimSuffix(what, "S"))+" "+r.plain(ch))
		}
	}
	return lines
}

func (r *recorder) value(t *testing.T, kind, key string) string {
	t.Helper()
	switch kind {
	case "string":
		return r.ask(t, "GET", key)
	case "list":
		return "[" + r.plain(strings.Join(strings.Fields(r.ask(t, "LRANGE", key, "0", "-1")), " ")) + "]"
	case "zset":
		f := strings.Fields(r.ask(t, "ZRANGE", key, "0", "-1", "WITHSCORES"))
		for i := 0; i+1 < len(f); i += 2 {
			f[i] += " " + relative(f[i+1])
		}
		return "[" + r.plain(strings.Join(pairs(f), ", ")) + "]"
	case "hash":
		f := strings.Fields(r.ask(t, "HGETALL", key))
		for i := 0; i+1 < len(f); i += 2 {
			f[i] = r.plain(f[i]) + " " + f[i+1]
		}
		out := pairs(f)
		slices.Sort(out)
		return "{" + strings.Join(out, ", ") + "}"
	}
	return "?"
}

// pairs keeps every second item.
func pairs(f []string) []string {
	var out []string
	for i := 0; i < len(f); i += 2 {
		out = append(out, f[i])
	}
	return out
}

func (r *recorder) ask(t *testing.T, args ...string) string {
	t.Helper()
	v, err := r.own.Do(t.Context(), args...)
	require.NoError(t, err)
	return redistest.Text(v)
}
