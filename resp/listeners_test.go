package resp

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// An earRig is a server, somebody who releases, and somebody who listens.
type earRig struct {
	*testing.T
	server        *redistest.Server
	run, listener *redistest.Conn
	prelude       string // stands before the script
}

// newEarRig listens to one channel from the beginning: that of the end of what is heard.
func newEarRig(t *testing.T, s *redistest.Server) *earRig {
	t.Helper()
	r := &earRig{T: t, server: s}
	for _, c := range []**redistest.Conn{&r.run, &r.listener} {
		conn, err := s.Dial(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		*c = conn
	}
	r.listens("SUBSCRIBE", "end")
	return r
}

func (r *earRig) listens(command string, channels ...string) {
	r.Helper()
	for _, channel := range channels {
		_, err := r.listener.Do(r.Context(), command, channel)
		require.NoError(r, err)
	}
}

func (r *earRig) do(args ...string) any {
	r.Helper()
	v, err := r.run.Do(r.Context(), args...)
	require.NoError(r, err, "%q", args)
	return v
}

// sent counts the messages that scripts have published.
func (r *earRig) sent() (n int64) {
	r.Helper()
	for _, m := range regexp.MustCompile(`cmdstat_s?publish:calls=(\d+)`).FindAllStringSubmatch(r.server.Do(r.T, "INFO", "commandstats"), -1) {
		calls, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(r, err)
		n += calls
	}
	return n
}

// release takes keys and gives them back by one command: what it answers, how often it has published, and what was heard.
func (r *earRig) release(publish, asks string, keys ...string) (answer []any, sent int64, heard []string) {
	r.Helper()
	for _, key := range keys {
		r.do("HSET", key, "field", "1")
	}
	before := r.sent()
	args := append([]string{"EVAL", r.prelude + ScriptTexts()["release"], strconv.Itoa(len(keys))}, keys...)
	answer = r.do(append(args, publish, "0", "0", asks, "field", strconv.Itoa(len(keys)))...).([]any)[1:]
	sent = r.sent() - before
	for _, key := range keys {
		require.Equal(r, int64(0), r.do("EXISTS", key), "%s is free", key)
	}
	r.server.Do(r.T, "PUBLISH", "end", "")
	for {
		v, err := r.listener.Receive(r.Context())
		require.NoError(r, err)
		message := v.([]any)
		channel := redistest.Text(message[len(message)-2])
		switch kind := redistest.Text(message[0]); {
		case channel == "end" && kind == "pmessage": // it comes in both ways
		case channel == "end":
			return answer, sent, heard
		default:
			heard = append(heard, channel)
		}
	}
}

// manyKeys are names of so many locks.
func manyKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("many:", i))
	}
	return keys
}

// Names with and without braces, and their channels.
var earNames = map[string]string{
	"plain": "redisson_lock__channel:{plain}", "{b}first": "redisson_lock__channel:{b}first", "last{d}": "redisson_lock__channel:last{d}",
	"{whole}": "redisson_lock__channel:{whole}", "closed}": "redisson_lock__channel:{closed}}", "open{": "redisson_lock__channel:open{",
}

// Whoever listens hears what it would if all were published, and the answer is the same; nothing else is published.
func TestAReleaseOfSeveralIsPublishedWhereSomebodyListens(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	keys := manyKeys(12)
	for name := range earNames {
		keys = append(keys, name)
	}
	for name, channel := range earNames {
		t.Run(name, func(t *testing.T) {
			r := newEarRig(t, s)
			answer, sent, heard := r.release("PUBLISH", "alone", keys...)
			require.Equal(t, []any{int64(len(keys))}, answer, "nobody listens")
			require.Zero(t, sent)
			require.Empty(t, heard)
			r.listens("SUBSCRIBE", channel, "something:else", "redisson_lock__channel:{another}", "redisson_lock__channel:", "redisson_lock__channel:{")
			all, _, everything := r.release("PUBLISH", "", keys...)
			answer, sent, heard = r.release("PUBLISH", "alone", keys...)
			require.Equal(t, all, answer)
			require.Equal(t, everything, heard)
			require.Equal(t, []string{channel}, heard)
			require.Equal(t, int64(1), sent)
			answer, sent, _ = r.release("PUBLISH", "masters", keys...)
			require.Equal(t, all, answer)
			require.Equal(t, int64(1), sent)
		})
	}
	r := newEarRig(t, s)
	for _, channel := range earNames {
		r.listens("SUBSCRIBE", channel)
	}
	_, sent, heard := r.release("PUBLISH", "alone", keys...)
	require.Len(t, heard, len(earNames))
	require.Equal(t, int64(len(earNames)), sent)
	// What is not ours is not published, and neither is what is of another type.
	r = newEarRig(t, redistest.Run(t, redistest.Options{}))
	r.do("HSET", "plain", "another", "1")
	r.do("SET", "{whole}", "text")
	got := r.do("EVAL", ScriptTexts()["release"], "3", "plain", "{whole}", "free", "PUBLISH", "0", "0", "alone", "field", "3").([]any)
	require.Equal(t, []any{int64(0), int64(1), int64(-1), int64(2)}, got[1:5])
	require.Contains(t, fmt.Sprint(got[5]), "WRONGTYPE")
	require.Equal(t, []any{int64(3), int64(-1)}, got[6:])
}

// Where it is not known who would hear a message each is published, and the answer says why.
func TestAReleaseIsPublishedWhereItIsNotKnownWhoListens(t *testing.T) {
	t.Parallel()
	const all = 8
	keys := manyKeys(all)
	everything := func(t *testing.T, r *earRig, publish, asks string, why int64) {
		t.Helper()
		answer, sent, _ := r.release(publish, asks, keys...)
		require.Equal(t, int64(all), sent, "each is published")
		require.Equal(t, []any{int64(all), int64(0), why}, answer[:3])
	}
	t.Run("a pattern", func(t *testing.T) {
		r := newEarRig(t, redistest.Run(t, redistest.Options{}))
		r.listens("PSUBSCRIBE", "*_lock__channel:{many:3}")
		everything(t, r, "PUBLISH", "alone", -1)
		_, sent, heard := r.release("PUBLISH", "masters", keys...)
		require.Equal(t, int64(all), sent)
		require.Equal(t, []string{"redisson_lock__channel:{many:3}"}, heard)
	})
	t.Run("more channels than keys", func(t *testing.T) {
		r := newEarRig(t, redistest.Run(t, redistest.Options{}))
		for i := range all - 1 {
			r.listens("SUBSCRIBE", fmt.Sprint("other:", i))
		}
		_, sent, _ := r.release("PUBLISH", "alone", keys...)
		require.Zero(t, sent, "as many as keys")
		r.listens("SUBSCRIBE", "one:more")
		everything(t, r, "PUBLISH", "alone", all+1)
		everything(t, r, "PUBLISH", "masters", all+1)
	})
	t.Run("without the right to INFO", func(t *testing.T) {
		r := newEarRig(t, redistest.Run(t, redistest.Options{}))
		r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-info")
		r.do("AUTH", "caller", "secret")
		everything(t, r, "PUBLISH", "alone", -2)
	})
	t.Run("without the right to PUBSUB", func(t *testing.T) {
		r := newEarRig(t, redistest.Run(t, redistest.Options{}))
		r.do("ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-pubsub")
		r.do("AUTH", "caller", "secret")
		everything(t, r, "PUBLISH", "alone", -2)
		everything(t, r, "PUBLISH", "masters", -2)
	})
	t.Run("sharded channels", func(t *testing.T) {
		r := newEarRig(t, redistest.Run(t, redistest.Options{}))
		r.listens("SUBSCRIBE", "redisson_lock__channel:{many:1}") // is told of nothing that is sharded
		r.listens("SSUBSCRIBE", "redisson_lock__channel:{many:2}", "other")
		_, sent, heard := r.release("SPUBLISH", "masters", keys...)
		require.Equal(t, []string{"redisson_lock__channel:{many:2}"}, heard)
		require.Equal(t, int64(1), sent)
		_, _, heard = r.release("PUBLISH", "masters", keys...)
		require.Equal(t, []string{"redisson_lock__channel:{many:1}"}, heard)
		for i := range all {
			r.listens("SSUBSCRIBE", fmt.Sprint("other:", i))
		}
		everything(t, r, "SPUBLISH", "masters", all+2)
	})
}

// A subscriber at a replica is told of each release, also by a replica that is away for a moment.
func TestAReleaseIsPublishedWhereReplicasMayHaveSubscribers(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	master.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	r, keys := newEarRig(t, master), manyKeys(4)
	_, sent, _ := r.release("PUBLISH", "alone", keys...)
	require.Zero(t, sent)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Do(t, "REPLICAOF", host, port)
	there, err := replica.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = there.Close() })
	_, err = there.Do(t.Context(), "SUBSCRIBE", "redisson_lock__channel:{many:2}")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`connected_slaves:1\r?\n.*state=online`).MatchString(master.Do(t, "INFO", "replication"))
	}, nodeLong, time.Millisecond)
	told := func(away bool) {
		answer, sent, _ := r.release("PUBLISH", "alone", keys...)
		require.Equal(t, []any{int64(4), int64(0), int64(-1)}, answer[:3])
		require.Equal(t, int64(4), sent)
		if away {
			replica.Do(t, "REPLICAOF", host, port)
		}
		message, err := there.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, "redisson_lock__channel:{many:2}", redistest.Text(message.([]any)[1]))
	}
	told(false)
	_, sent, _ = r.release("PUBLISH", "masters", keys...)
	require.Zero(t, sent, "nobody subscribes at replicas")
	// It is away, and comes back: what it has missed is in the master's backlog.
	replica.Do(t, "REPLICAOF", "127.0.0.1", "1")
	require.Eventually(t, func() bool {
		return strings.Contains(master.Do(t, "INFO", "replication"), "connected_slaves:0")
	}, nodeLong, time.Millisecond)
	told(true)
}

// A server that is like Redis, and says something else of its replicas, or nothing, may have some.
func TestAReleaseIsPublishedWhereAServerDoesNotSayThatItIsAlone(t *testing.T) {
	t.Parallel()
	r, keys := newEarRig(t, redistest.Run(t, redistest.Options{})), manyKeys(4)
	says := func(section, text string) string {
		return `local real = redis
local redis = {call = real.call, pcall = function(command, section, ...)
  if command == 'INFO' and section == '` + section + `' then return '` + text + `' end
  return real.pcall(command, section, ...)
end}
`
	}
	for info, want := range map[[2]string]int64{
		{"replication", ""}: -1,
		{"replication", `role:master\r\nconnected_slaves:0\r\n`}:                           -1,
		{"replication", `role:master\r\nrepl_backlog_active:0\r\n`}:                        -1,
		{"replication", `role:master\r\nconnected_slaves:1\r\nrepl_backlog_active:0\r\n`}:  -1,
		{"replication", `role:master\r\nconnected_slaves:0\r\nrepl_backlog_active:1\r\n`}:  -1,
		{"replication", `role:master\r\nconnected_slaves:\r\nrepl_backlog_active:\r\n`}:    -1,
		{"replication", `role:master\r\nconnected_slaves:10\r\nrepl_backlog_active:0\r\n`}: -1,
		{"replication", `role:master\r\nconnected_slaves:0\r\nrepl_backlog_active:0\r\n`}:  0,
		{"stats", ""}: -1,
		{"stats", `# Stats\r\npubsub_channels:1\r\n`}:                      -1,
		{"stats", `# Stats\r\npubsub_patterns:0\r\n`}:                      -1,
		{"stats", `# Stats\r\npubsub_channels:1\r\npubsub_patterns:1\r\n`}: -1,
		{"stats", `# Stats\r\npubsub_channels:5\r\npubsub_patterns:0\r\n`}: 5,
		{"stats", `# Stats\r\npubsub_channels:4\r\npubsub_patterns:0\r\n`}: 0,
	} {
		r.prelude = says(info[0], info[1])
		answer, sent, _ := r.release("PUBLISH", "alone", keys...)
		if want == 0 {
			require.Equal(t, []any{int64(4)}, answer, info)
			require.Zero(t, sent, info)
			continue
		}
		require.Equal(t, []any{int64(4), int64(0), want}, answer, info)
		require.EqualValues(t, 4, sent, info)
	}
}

// What a node has learnt of asking: for whom it is worth it, and until when.
func TestWhoListensIsAskedWhereItIsWorthIt(t *testing.T) {
	now := clock.Instant(time.Hour)
	var h hearing
	require.True(t, h.worth(2, now))
	require.True(t, h.inVain(100, 64, now), "there were more channels than keys")
	require.False(t, h.worth(99, now.Add(askAgain-1)))
	require.True(t, h.worth(100, now))
	require.True(t, h.worth(2, now.Add(askAgain)), "there may be fewer by now")
	require.True(t, h.inVain(-1, 64, now), "a replica, a pattern")
	require.False(t, h.worth(maxKeys, now.Add(askAgain-1)))
	require.True(t, h.worth(2, now.Add(askAgain)))
	for _, why := range []int64{0, 1, 64, -3, math.MinInt64} {
		require.False(t, new(hearing).inVain(why, 64, now), "no script of ours says %d", why)
	}
	require.True(t, h.inVain(-2, 64, now))
	require.False(t, h.worth(maxKeys, now.Add(time.Hour)), "it is refused for as long as the connection lasts")
}

// Which releases ask, by what is known of their node.
func TestReleasesAskWhoListensWhereNobodyCanBeMissed(t *testing.T) {
	single, sharded, plain := pubSubMode{publish: "PUBLISH"}, pubSubMode{publish: "SPUBLISH", sharded: true}, pubSubMode{publish: "PUBLISH"}
	for _, c := range []struct {
		mode    pubSubMode
		cluster bool
		publish Publish
		want    string
	}{
		{single, false, PublishAuto, askAlone},
		{single, false, PublishAlways, ""},
		{single, false, PublishMasters, askMasters},
		{sharded, true, PublishAuto, ""},
		{sharded, true, PublishAlways, ""},
		{sharded, true, PublishMasters, askMasters},
		{plain, true, PublishAuto, ""},
		{plain, true, PublishAlways, ""},
		{plain, true, PublishMasters, ""},
	} {
		require.Equal(t, c.want, c.mode.asks(c.publish, c.cluster), "%+v", c)
	}
	releases := func(n int, f Family) *command {
		c := &command{script: scriptRelease, results: make([]Result, n)}
		for range n {
			c.ops = append(c.ops, &Op{Kind: OpRelease, Family: f})
		}
		return c
	}
	e := envelope{wire: bareWire(capabilities{}), asks: askAlone, askFrom: askFrom, publish: "PUBLISH"}
	for n, want := range map[int]string{1: "", 2: "", askFrom - 1: "", askFrom: askAlone, maxKeys: askAlone} {
		require.Equal(t, want, releases(n, FamilyLock).ask(&e), "%d keys", n)
		require.Equal(t, want, releases(n, FamilyFenced).ask(&e), "%d keys", n)
		require.Empty(t, releases(n, FamilySpin).ask(&e), "nobody is told")
	}
	e.askFrom = 1
	require.Empty(t, releases(1, FamilyLock).ask(&e), "one lock alone is published, whatever is configured")
	require.Equal(t, askAlone, releases(2, FamilyLock).ask(&e))
	e.wire.heard.inVain(3, 2, 7)
	require.Empty(t, releases(2, FamilyLock).ask(&e))
	require.Equal(t, askAlone, releases(3, FamilyLock).ask(&e))
	e.asks = ""
	require.Empty(t, releases(maxKeys, FamilyLock).ask(&e))
}

// That a release asked in vain is believed of one that has asked, and of a reply that is whole.
func TestOnlyWhoAskedIsToldThatItWasInVain(t *testing.T) {
	for _, c := range []struct {
		text  string
		asks  bool
		want  Code
		worth bool
	}{
		{"*4 :5000 :2 :0 :-1", true, CodeReleased, false},
		{"*4 :5000 :2 :0 :-2", true, CodeReleased, false},
		{"*4 :5000 :2 :0 :3", true, CodeReleased, false},
		{"*6 :5000 :2 :0 :3 :2 :7", true, CodeReleased, false},
		{"*2 :5000 :2", true, CodeReleased, true},
		{"*4 :5000 :2 :0 :-1", false, CodeError, true}, // it did not ask
		{"*4 :5000 :2 :0 :2", true, CodeError, true},   // so few are no reason
		{"*4 :5000 :2 :0 :0", true, CodeError, true},
		{"*4 :5000 :2 :0 :-3", true, CodeError, true},
		{"*6 :5000 :2 :0 :-1 :0 :-1", true, CodeError, true}, // twice
		{"*6 :5000 :2 :1 :7 :0 :-1", true, CodeError, true},  // behind a key
		{"*4 :5000 :1 :0 :-1", true, CodeError, true},        // a key is missing
	} {
		w := &wire{}
		cmd := &command{script: scriptRelease, asks: c.asks, results: make([]Result, 2)}
		cmd.ops = []*Op{{Kind: OpRelease, Key: "a"}, {Kind: OpRelease, Key: "b"}}
		require.Equal(t, settled, cmd.readReply(w, replyOf(t, c.text), 3, 4), c.text)
		for _, r := range cmd.results {
			require.Equal(t, c.want, r.Code, c.text)
		}
		require.Equal(t, c.worth, w.heard.worth(2, 4), c.text)
	}
}

// submitAll queues releases that leave together.
func (l *lane) submitAll(ops []*Op) {
	l.mu.Lock()
	for _, op := range ops {
		l.queue.releases.push(op)
	}
	ring := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if ring {
		l.wake.Ring()
	}
}

// A node leaves out what nobody hears, publishes all as soon as that is better, and tells what was heard.
func TestANodePublishesWhatIsHeard(t *testing.T) {
	t.Parallel()
	r := newEarRig(t, redistest.Run(t, redistest.Options{}))
	a, keys := newNodeAnswers(), manyKeys(64)
	pairs := func(n *Node) (sent int64, heard int64) {
		t.Helper()
		var ops []*Op
		for _, key := range keys {
			ops = append(ops, nodeSubmit(t, n, nodeOp(OpAcquire, key, a)))
		}
		for _, op := range ops {
			require.Equal(t, CodeGranted, a.await(t, op).Code)
		}
		for i, op := range ops {
			ops[i] = nodeOp(OpRelease, op.Key, a)
			ops[i].Field = op.Field
		}
		before := r.sent()
		n.lanes[0].submitAll(ops)
		for _, op := range ops {
			got := a.await(t, op)
			require.Equal(t, CodeReleased, got.Code)
			heard += got.Value
		}
		return r.sent() - before, heard
	}
	spares := nodeOpen(t, r.server.Addr(), Options{})
	sent, heard := pairs(spares)
	require.Zero(t, sent+heard)
	r.listens("SUBSCRIBE", "redisson_lock__channel:{many:60}", "redisson_lock__channel:{many:61}")
	sent, heard = pairs(spares)
	require.Equal(t, int64(2), sent)
	require.Equal(t, int64(2), heard)
	always := nodeOpen(t, r.server.Addr(), Options{Publish: PublishAlways})
	sent, heard = pairs(always)
	require.Equal(t, int64(len(keys)), sent)
	require.Equal(t, int64(2), heard)
	r.listens("PSUBSCRIBE", "*")
	sent, heard = pairs(spares)
	require.Equal(t, int64(len(keys)), sent)
	require.Equal(t, int64(len(keys)+2), heard)
	// A few are published without asking.
	r.listens("PUNSUBSCRIBE", "*")
	keys = keys[:askFrom-1]
	sent, heard = pairs(nodeOpen(t, r.server.Addr(), Options{}))
	require.Equal(t, int64(len(keys)), sent)
	require.Zero(t, heard)
}

// What the ACL refuses is asked for once a connection, and nothing comes of it but that all is published.
func TestANodeAsksOnceForWhatItHasNoRightTo(t *testing.T) {
	t.Parallel()
	r := newEarRig(t, redistest.Run(t, redistest.Options{}))
	r.server.Do(t, "ACL", "SETUSER", "default", "-pubsub|channels")
	t.Cleanup(func() { r.server.Do(t, "ACL", "SETUSER", "default", "+pubsub|channels") })
	r.listens("SUBSCRIBE", "redisson_lock__channel:{many:7}")
	a, n, asked := newNodeAnswers(), nodeOpen(t, r.server.Addr(), Options{}), 0
	for range 3 {
		var ops []*Op
		for _, key := range manyKeys(64) {
			r.do("HSET", key, "field", "1")
			op := nodeOp(OpRelease, key, a)
			op.Field = "field"
			ops = append(ops, op)
		}
		before := r.sent()
		n.lanes[0].submitAll(ops)
		for i, op := range ops {
			got := a.await(t, op)
			require.Equal(t, CodeReleased, got.Code)
			require.Equal(t, i == 7, got.Value == 1)
		}
		require.Equal(t, before+64, r.sent())
		asked += strings.Count(r.server.Do(t, "ACL", "LOG"), "pubsub|channels")
		r.server.Do(t, "ACL", "LOG", "RESET")
	}
	require.Equal(t, 1, asked)
}
