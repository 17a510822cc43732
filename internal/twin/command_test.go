package twin

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// TestDifferentialCommandsAnswerAsTheServerDoes is the same for plain commands, with every kind of argument.
func TestDifferentialCommandsAnswerAsTheServerDoes(t *testing.T) {
	p := newPair(t, redistest.Run(t, redistest.Options{}))
	ops, seed := int(fromEnv("HOLDFAST_OPS", 60_000))/2, uint64(fromEnv("HOLDFAST_SEED", time.Now().UnixNano()%1e9))
	t.Logf("HOLDFAST_SEED=%d", seed)
	seen := map[string]bool{}
	for done := 0; done < ops; seed++ {
		g := newGenerator(seed)
		actions := make([]action, 0, sequenceLen)
		for range sequenceLen {
			if g.chance(4) {
				actions = append(actions, action{step: quantum * (1 + g.Int64N(10))})
				continue
			}
			actions = append(actions, action{args: g.command()})
		}
		diff := p.play(t, g.start, actions, func(a action, _ Reply) {
			if len(a.args) > 0 {
				seen[strings.ToUpper(a.args[0])] = true
			}
		})
		if diff != nil {
			report(t, p, seed, g.start, actions, diff)
		}
		done += len(actions)
	}
	for _, form := range commandForms {
		require.True(t, seen[strings.Fields(form)[0]], form)
	}
}

// commandForms are commands with what stands for an argument: k a key, f a field or a member, v a value, i a whole
// number, s a score, ms a time, odd one that is no multiple of quantum.
var commandForms = []string{
	"PING", "EXISTS k", "EXISTS k k", "DEL k", "UNLINK k k", "TYPE k", "PEXPIRE k ms", "PEXPIRE k odd GT", "PEXPIRE k odd LT",
	"PEXPIRE k ms NX", "PEXPIRE k ms XX", "PEXPIRE k ms SO", "PERSIST k",
	"GET k", "SET k v", "SET k v PX ms", "SET k v GET", "SET k v NX", "SET k v XX", "SET k v PX ms GET", "SET k v NX GET",
	"SET k v KEEPTTL", "SET k v PX", "SET k v SO",
	"INCR k", "DECR k", "INCRBY k i", "DECRBY k i",
	"HSET k f v", "HSET k f v f v", "HSET k f", "HSET k f v f", "HGET k f", "HDEL k f", "HDEL k f f", "HEXISTS k f", "HLEN k", "HGETALL k", "HSCAN k 0 COUNT 1", "HSCAN k x COUNT 1",
	"HINCRBY k f i", "LLEN k", "LINDEX k i", "LRANGE k i i", "LPOS k f", "LREM k i f", "LPOP k", "RPUSH k f", "RPUSH k f f",
	"LINSERT k BEFORE f f", "LINSERT k AFTER f f", "LINSERT k SO f f",
	"ZADD k s f", "ZADD k s f s f", "ZADD k NX s f s f", "ZADD k XX s f s f", "ZREM k f", "ZREM k f f", "ZSCORE k f", "ZCARD k", "ZRANGE k i i", "ZRANGE k i i WITHSCORES",
	"ZRANGEBYSCORE k s s", "ZRANGEBYSCORE k (s s", "ZRANGEBYSCORE k -inf (s", "ZRANGEBYSCORE k s s WITHSCORES LIMIT 1 2", "ZRANGEBYSCORE k -inf s LIMIT 0 3", "ZCOUNT k s s", "ZCOUNT k (s +inf", "ZINCRBY k s f",
	"COPY k k", "PUBLISH f v", "SPUBLISH f v", "PUBSUB NUMSUB f", "PUBSUB SHARDNUMSUB f", "PTTL none",
}

// odd is a time that is no multiple of quantum, and longer than those before it: so GT and LT say the same whether or
// not a little real time has passed.
func (g *generator) odd() string {
	if g.chance(20) {
		return g.one("0", "-1", "x")
	}
	g.odds += 2
	n, _ := strconv.ParseInt(g.one("2500", "27500", "57500", "117500"), 10, 64)
	return strconv.FormatInt(n+g.odds, 10)
}

func (g *generator) command() []string {
	words := strings.Fields(g.one(commandForms...))
	for i, w := range words {
		if i == 0 {
			if g.chance(2) {
				words[0] = strings.ToLower(w)
			}
			continue
		}
		switch w {
		case "k":
			words[i] = g.one("k1", "k2", "k3", "k4")
		case "f":
			words[i] = g.one("f", "g", "h", "j")
		case "v":
			words[i] = g.one("1", "2", "text", "", "-7", "9223372036854775807", "1.5", " 1")
		case "i":
			words[i] = g.one("0", "1", "2", "-1", "-2", "-3", "3", "100", "-100", "x", "", "1.0")
		case "s", "(s":
			words[i] = strings.TrimSuffix(w, "s") + g.one("1", "2", "-3", "1700000000000", "inf", "-inf", "2", "3", "x", "1e3")
		case "odd":
			words[i] = g.odd()
		case "ms":
			words[i] = g.one("5000", "30000", "60000", "120000", "0", "-1", "-5000", "x", "9223372036854775807")
		}
	}
	return words
}
