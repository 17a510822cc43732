package twin

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// The clock of a real server cannot be stepped. So time is what this file makes of it, the same on both sides:
//
//   - TIME inside a script under test answers what stands in the key timeKey.
//   - Every lease is a multiple of quantum, and PTTL inside a script under test answers the next multiple of it: what
//     little real time has passed since the expiry was set is not seen. PEXPIRE GT compares in the same way: it is given
//     half a quantum less.
//   - A step of the clock takes that much off every expiry, and those that are over are deleted.
//   - When the keys are compared every expiry is set to its multiple again, so that nothing adds up.
const (
	timeKey = "twin:{time}"
	quantum = 5000
)

// prelude stands before a script under test: it gives it this clock.
const prelude = `local redis = (function(real)
  local function wrap(call)
    return function(command, ...)
      if command == 'TIME' then
        return {string.match(real.call('GETRANGE', '` + timeKey + `', 0, -1), '(%d+) (%d+)')}
      end
      local key, left, condition = ...
      local n = tonumber(left)
      if condition == 'GT' and n and n < 1e12 then
        return call(command, key, n - 2500, condition)
      end
      local r = call(command, ...)
      if command == 'PTTL' and type(r) == 'number' and r > 0 then
        r = math.ceil(r / 5000) * 5000
      end
      return r
    end
  end
  return {call = wrap(real.call), pcall = wrap(real.pcall)}
end)(redis);`

// look answers every key with what it holds, and sets its expiry to the next multiple of quantum.
const look = `local keys, out = redis.call('KEYS', '*'), {}
table.sort(keys)
for _, key in ipairs(keys) do
  if key ~= '` + timeKey + `' then
    local kind, left, what = redis.call('TYPE', key).ok, redis.call('PTTL', key)
    if left > 0 then
      left = math.ceil(left / 5000) * 5000
      redis.call('PEXPIRE', key, left)
    end
    if kind == 'hash' then what = redis.call('HGETALL', key)
    elseif kind == 'list' then what = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'zset' then what = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    else what = {redis.call('GET', key)} end
    out[#out + 1] = {key, kind, left, what}
  end
end
return out`

// step takes ARGV[1] ms off every expiry, and sets the time to ARGV[2].
const step = `redis.call('DEL', 'twin:{time}:nothing')
redis.call('SET', '` + timeKey + `', ARGV[2])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then
    left = math.ceil(left / 5000) * 5000 - tonumber(ARGV[1])
    if left <= 0 then redis.call('DEL', key) else redis.call('PEXPIRE', key, left) end
  end
end
return 1`

// A pair is the twin beside a real server.
type pair struct {
	twin     *Server
	micros   int64
	conn     *redistest.Conn
	listener *redistest.Conn   // hears every PUBLISH, and SPUBLISH on shardChannel
	told     []string          // what the twin has published
	shas     map[string]string // the script's name or text -> what the real server calls it
	look     string
	step     string
	rounds   int
	prepare  func(*Server) // what the twin is told besides
	every    int           // compare the keys after so many actions
}

// Somebody listens with SSUBSCRIBE to shardChannel, and in both ways to heardChannel: that of a waiter of Redisson's.
const (
	shardChannel = "redisson_lock__channel:{b}"
	heardChannel = "redisson_lock__channel:{b}:j:7"
)

func newPair(t testing.TB, server *redistest.Server) *pair {
	ctx := context.Background()
	conn, err := server.Dial(ctx)
	require.NoError(t, err)
	listener, err := server.Dial(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = conn.Close(), listener.Close() })
	p := &pair{conn: conn, listener: listener, shas: make(map[string]string), every: compareAt}
	for name, text := range resp.ScriptTexts() {
		p.shas[name] = p.load(t, prelude+text)
	}
	for name, text := range RedissonTexts() {
		p.shas[name] = p.load(t, prelude+text)
	}
	p.look, p.step = p.load(t, look), p.load(t, step)
	p.real(t, "CONFIG", "SET", "hash-max-listpack-value", "1024")
	for name, u := range users {
		p.real(t, append([]string{"ACL", "SETUSER", name, "reset", "on", "nopass", "+@all"}, u.rules...)...)
	}
	for _, subscribe := range [][]string{{"PSUBSCRIBE", "*"}, {"SUBSCRIBE", heardChannel}, {"SSUBSCRIBE", shardChannel}, {"SSUBSCRIBE", heardChannel}} {
		_, err = listener.Do(ctx, subscribe...)
		require.NoError(t, err)
	}
	return p
}

func (p *pair) load(t testing.TB, text string) string {
	return redistest.Text(p.real(t, "SCRIPT", "LOAD", text))
}

func (p *pair) real(t testing.TB, args ...string) any {
	t.Helper()
	v, err := p.conn.Do(context.Background(), args...)
	require.NoError(t, err, "%q", args)
	return v
}

// start empties both sides.
func (p *pair) start(t testing.TB, micros int64) {
	p.micros = micros
	p.twin = New()
	p.twin.Micros = func() int64 { return p.micros }
	p.twin.granule = quantum
	p.twin.Publish = func(channel, message string) int64 {
		p.told = append(p.told, channel+" "+message)
		return 1 + p.twin.Listeners(channel)
	}
	p.twin.SPublish = func(channel, message string) int64 {
		if channel != shardChannel && channel != heardChannel {
			return 0
		}
		p.told = append(p.told, channel+" "+message)
		return 1
	}
	p.twin.Listeners = func(channel string) int64 { return flag(channel == heardChannel) }
	p.twin.Channels = func(sharded bool) []string {
		if sharded {
			return []string{shardChannel, heardChannel}
		}
		return []string{heardChannel}
	}
	p.twin.Patterns = 1
	if p.prepare != nil {
		p.prepare(p.twin)
	}
	for _, text := range resp.ScriptTexts() {
		p.twin.Do([]string{"SCRIPT", "LOAD", text})
	}
	p.real(t, "FLUSHALL")
	p.real(t, "SET", timeKey, p.time())
}

func (p *pair) time() string {
	return strconv.FormatInt(p.micros/1e6, 10) + " " + strconv.FormatInt(p.micros%1e6, 10)
}

// An action is one thing that happens to both sides.
type action struct {
	script string   // its name; "": a plain command
	args   []string // EVALSHA's from numkeys on; or the command
	step   int64    // ms, if it is a step of the clock
	under  string   // what is wrong with the server meanwhile: a key of troubles, or of users
}

// String shows an action as it would be typed.
func (a action) String() string {
	switch {
	case a.step > 0:
		return "step " + strconv.FormatInt(a.step, 10)
	case a.under != "":
		return a.under + ": " + a.script + " " + strings.Join(quoted(a.args), " ")
	case a.script != "":
		return a.script + " " + strings.Join(quoted(a.args), " ")
	default:
		return strings.Join(quoted(a.args), " ")
	}
}

func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \"") {
			out[i] = strconv.Quote(a)
		}
	}
	return out
}

// A trouble is a state of the server that refuses commands: how to make and to end it on either side.
type trouble struct {
	begin, end []string
	twin       func(s *Server, on bool)
}

func refusing(text string) func(*Server, bool) {
	return func(s *Server, on bool) {
		s.Refuse = ""
		if on {
			s.Refuse = text
		}
	}
}

var troubles = map[string]trouble{
	"out of memory": {
		[]string{"CONFIG", "SET", "maxmemory", "1"},
		[]string{"CONFIG", "SET", "maxmemory", "0"},
		func(s *Server, on bool) { s.OOM = on },
	},
	"too few replicas": {
		[]string{"CONFIG", "SET", "min-replicas-to-write", "1"},
		[]string{"CONFIG", "SET", "min-replicas-to-write", "0"},
		refusing("NOREPLICAS Not enough good replicas to write."),
	},
	"a replica": {
		[]string{"REPLICAOF", "127.0.0.1", "1"},
		[]string{"REPLICAOF", "NO", "ONE"},
		refusing("READONLY You can't write against a read only replica."),
	},
}

// A user is one whom the ACL refuses something.
type user struct {
	rules []string
	may   func(command, key string) bool
}

// without is a user who may use all but these commands.
func without(commands ...string) user {
	rules := []string{"~*", "&*"}
	for _, c := range commands {
		rules = append(rules, "-"+strings.ToLower(c))
	}
	return user{rules, func(c, _ string) bool { return !slices.Contains(commands, c) }}
}

var users = map[string]user{
	"some-keys": {
		[]string{"~a", "~b", "~*{a}*", "~twin:*", "&*"},
		func(command, key string) bool {
			return command == "PUBLISH" || command == "SPUBLISH" || key == "" || key == "a" || key == "b" || strings.Contains(key, "{a}")
		},
	},
	"some-channels": {
		[]string{"~*", "resetchannels", "&redisson_rwlock:*"},
		func(command, key string) bool {
			return command != "PUBLISH" && command != "SPUBLISH" || strings.HasPrefix(key, "redisson_rwlock:")
		},
	},
	"no-hset": without("HSET"), "no-pexpire": without("PEXPIRE"), "no-copy": without("COPY"), "no-dump": without("DUMP"),
	"no-restore": without("RESTORE"), "no-publish": without("PUBLISH"), "no-hdel": without("HDEL"),
	"no-pttl": without("PTTL"), "no-exists": without("EXISTS"), "no-hexists": without("HEXISTS"), "no-set": without("SET"),
	"no-get": without("GET"), "no-decrby": without("DECRBY"), "no-incrby": without("INCRBY"), "no-hget": without("HGET"), "no-hlen": without("HLEN"), "no-del": without("DEL"),
	"no-rpush": without("RPUSH"), "no-zadd": without("ZADD"), "no-lpos": without("LPOS"), "no-zscore": without("ZSCORE"),
	"no-lrem": without("LREM"), "no-lindex": without("LINDEX"), "no-zrange": without("ZRANGE"), "no-lpop": without("LPOP"),
	"no-zrem": without("ZREM"), "no-zcard": without("ZCARD"), "no-zcount": without("ZCOUNT"), "no-zrangebyscore": without("ZRANGEBYSCORE"),
	"no-undo-of-permits": without("INCRBY", "ZADD"), "no-undo-of-expiry": without("PEXPIRE", "HDEL"), "no-undo-of-token": without("SET", "HDEL"),
	"no-fence": without("GET", "HDEL"), "no-info": without("INFO"), "no-pubsub": without("PUBSUB"),
}

// onTwin runs an action on the twin and returns what it answers; the commands for the real server; and which of those
// answers.
func (p *pair) onTwin(a action) (answer Reply, commands [][]string, at int) {
	if a.step > 0 {
		p.micros += a.step * 1000
		p.twin.Age(0)
		return number(1), [][]string{{"EVALSHA", p.step, "0", strconv.FormatInt(a.step, 10), p.time()}}, 0
	}
	sent, command := a.args, a.args
	if a.script != "" {
		sent = append([]string{"EVALSHA", p.shas[a.script]}, a.args...)
		command = append([]string{"EVALSHA", shaOfName(a.script)}, a.args...)
	}
	if t, is := troubles[a.under]; is {
		t.twin(p.twin, true)
		defer t.twin(p.twin, false)
		return p.twin.Do(command), [][]string{t.begin, sent, t.end}, 1
	}
	if u, is := users[a.under]; is {
		p.twin.Deny = func(command, key string) string {
			if u.may(command, key) {
				return ""
			}
			return "NOPERM"
		}
		defer func() { p.twin.Deny = nil }()
		return p.twin.Do(command), [][]string{{"AUTH", a.under, "x"}, sent, {"AUTH", "default", "x"}}, 1
	}
	return p.twin.Do(command), [][]string{sent}, 0
}

func shaOfName(name string) string {
	for id, known := range scriptNames {
		if known == name {
			return scriptShas[id]
		}
	}
	return ""
}

// shown renders a reply of the twin so that it can be compared.
func shown(r Reply) string {
	switch r.Kind {
	case Int:
		return ":" + strconv.FormatInt(r.Int, 10)
	case Text, Status:
		return r.Text
	case Error:
		return "-" + errorText(r.Text)
	case Array:
		items := make([]string, len(r.Array))
		for i, item := range r.Array {
			items[i] = shown(item)
		}
		return "[" + strings.Join(items, " ") + "]"
	default:
		return "(nil)"
	}
}

// shownReal renders a reply of the real server likewise.
func shownReal(v any, err error) string {
	if err != nil {
		return "-" + errorText(err.Error())
	}
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case int64:
		return ":" + strconv.FormatInt(v, 10)
	case redistest.ReplyError:
		return "-" + errorText(string(v))
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = shownReal(item, nil)
		}
		return "[" + strings.Join(items, " ") + "]"
	default:
		return redistest.Text(v)
	}
}

// errorText leaves out what differs between versions and places: where in a script it was, and how the ACL says no.
func errorText(s string) string {
	if strings.HasPrefix(s, "ERR ACL failure in script:") {
		return "NOPERM"
	}
	s, _, _ = strings.Cut(s, " script: ")
	switch {
	case strings.HasPrefix(s, "ERR Script attempted to access"):
		return "ERR not here"
	case strings.HasPrefix(s, "ERR user_script:"), strings.HasPrefix(s, "ERR Lua redis lib"):
		return "ERR in the script"
	case strings.HasPrefix(s, "NOPERM"), strings.Contains(s, "The user executing the script"):
		return "NOPERM"
	}
	return strings.Replace(s, "Unknown command called", "Unknown Redis command called", 1) // Valkey
}

// keysOfTwin renders the keyspace of the twin as look does.
func (p *pair) keysOfTwin() []string {
	var out []string
	for _, e := range p.twin.Keys() {
		var what []Reply
		switch e.Kind {
		case TypeString:
			what = []Reply{text(e.Text)}
		case TypeHash:
			for _, f := range e.Hash {
				what = append(what, text(f.Name), text(f.Value))
			}
		case TypeList:
			what = texts(e.List)
		case TypeZSet:
			what = members(e.ZSet, true).Array
		}
		out = append(out, shown(array([]Reply{text(e.Key), text(e.Kind.String()), number(e.TTL), array(what)})))
	}
	return out
}

// A difference is where the two sides disagree.
type difference struct {
	at         int // index of the action, or how many there were if the keys differ
	twin, real string
}

// play runs actions on both sides from nothing and reports the first difference; nil: there is none.
func (p *pair) play(t testing.TB, micros int64, actions []action, seen func(action, Reply)) *difference {
	p.start(t, micros)
	for from := 0; from < len(actions); from += p.every {
		part := actions[from:min(from+p.every, len(actions))]
		if diff := p.round(t, part, seen); diff != nil {
			diff.at += from
			return diff
		}
	}
	return nil
}

// round runs actions on both sides, all in one write, and compares answers, messages and keys.
func (p *pair) round(t testing.TB, part []action, seen func(action, Reply)) (diff *difference) {
	var wire []byte
	answers, sizes, ats := make([]Reply, len(part)), make([]int, len(part)), make([]int, len(part))
	p.told = p.told[:0]
	for i, a := range part {
		answer, commands, at := p.onTwin(a)
		answers[i], sizes[i], ats[i] = answer, len(commands), at
		for _, c := range commands {
			wire = redistest.AppendCommand(wire, c...)
		}
	}
	p.rounds++
	end := "end " + strconv.Itoa(p.rounds)
	wire = redistest.AppendCommand(wire, "EVALSHA", p.look, "0")
	wire = redistest.AppendCommand(wire, "PUBLISH", "twin", end)
	_, err := p.conn.Write(wire)
	require.NoError(t, err)
	for i := range part {
		server := ""
		for at := range sizes[i] {
			v, err := p.conn.Receive(context.Background())
			if at == ats[i] {
				server = shownReal(v, err)
			} else {
				require.NoError(t, err)
			}
		}
		if twin := shown(answers[i]); diff == nil && server != twin {
			diff = &difference{at: i, twin: twin, real: server}
		}
		if seen != nil {
			seen(part[i], answers[i])
		}
	}
	there, err := p.conn.Receive(context.Background())
	require.NoError(t, err)
	_, err = p.conn.Receive(context.Background())
	require.NoError(t, err)
	heard := p.hear(t, end)
	switch {
	case diff != nil:
		return diff
	case strings.Join(heard, "; ") != strings.Join(p.told, "; "):
		return &difference{at: len(part), twin: strings.Join(p.told, "; "), real: strings.Join(heard, "; ")}
	}
	if diff = p.compareKeys(there); diff != nil {
		diff.at = len(part)
	}
	return diff
}

// hear reads what the real server has published until this message.
func (p *pair) hear(t testing.TB, end string) (heard []string) {
	for {
		v, err := p.listener.Receive(context.Background())
		require.NoError(t, err)
		message, is := v.([]any)
		if !is || len(message) < 3 {
			continue
		}
		channel, payload := redistest.Text(message[len(message)-2]), redistest.Text(message[len(message)-1])
		if kind := redistest.Text(message[0]); kind != "pmessage" && kind != "smessage" {
			continue
		}
		if payload == end {
			return heard
		}
		heard = append(heard, channel+" "+payload)
	}
}

func (p *pair) compareKeys(there any) *difference {
	items, _ := there.([]any)
	p.twin.Age(0) // look has set every expiry to its multiple, too
	have := p.keysOfTwin()
	for i := range max(len(items), len(have)) {
		twin, server := "nothing", "nothing"
		if i < len(have) {
			twin = have[i]
		}
		if i < len(items) {
			server = shownReal(items[i], nil)
		}
		if twin != server {
			return &difference{twin: twin, real: server}
		}
	}
	return nil
}

// wrongs names troubles and users, in order.
var wrongs = append(slices.Sorted(maps.Keys(troubles)), slices.Sorted(maps.Keys(users))...)
