package resp

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A Ping asks more than the PING itself, which a replica answers, too, and a server that is full. A write would need a
// key, and every user has rights to other ones.

// writableSections are those of INFO that tell.
//
//nolint:gochecknoglobals // a constant in all but name
var writableSections = [...]string{"replication", "memory", "persistence"}

// A server from 7.0 on refuses a script that does not say that it writes nothing wherever it would refuse a write: also
// where too few replicas are there, or a snapshot has failed. This one writes nothing.
//
//nolint:gochecknoglobals // a constant in all but name
var scriptWriting = newScript("writing", "#!lua\nreturn 1")

// forbiddenFor is how long what was refused for lack of a right is not asked again.
const forbiddenFor = time.Minute

// appendWritable adds those questions, unless they were refused lately: whoever watches refused commands is not to be
// told with each Ping.
func (n *Node) appendWritable(cmds []rueidis.Completed, w *wire, thorough bool) []rueidis.Completed {
	b, now := w.client.B(), int64(n.opts.Clock.Now())
	if now >= n.infoFrom.Load() {
		for _, section := range writableSections {
			cmds = append(cmds, b.Info().Section(section).Build())
		}
	}
	if thorough && now >= n.loadFrom.Load() && atLeast(w.caps.Version, 7, 0) {
		cmds = append(cmds, b.ScriptLoad().Script(scriptWriting.text).Build(),
			b.Evalsha().Sha1(scriptWriting.sha).Numkeys(0).Build())
	}
	return cmds
}

// refusal is what the answers to the commands of such names say against the server; nil: nothing, or it is not known.
func (n *Node) refusal(asked []string, answers []rueidis.RedisResult) *ServerError {
	fields := make(map[string]string)
	again := int64(n.opts.Clock.Now().Add(forbiddenFor))
	var failed *ServerError
	for i, r := range answers {
		text, err := r.ToString()
		switch said := classify(r.Error()); {
		case said == nil:
		case said.Class == ClassNoPerm && asked[i] == "INFO":
			n.infoFrom.Store(again)
		case said.Class == ClassNoPerm:
			n.loadFrom.Store(again)
		case asked[i] == "EVALSHA" && RefusesWrites(said):
			failed = said
		}
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if key, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				fields[key] = value
			}
		}
	}
	class, why := refusesWrites(fields)
	switch {
	case class != ClassNone:
		return &ServerError{Class: class, Text: n.Addr() + " takes no writes: " + why, said: true}
	case failed != nil:
		return n.takesNoWrites(failed)
	default:
		return nil
	}
}

// takesNoWrites says it of the server where its refusal means that: a PING may be refused, too, after a snapshot that
// failed.
func (n *Node) takesNoWrites(refused *ServerError) *ServerError {
	if RefusesWrites(refused) && refused.said {
		refused = &ServerError{Class: refused.Class, Text: n.Addr() + " takes no writes: " + refused.Text, said: true}
	}
	return hidden(n.opts.Hide, refused)
}

// refusesWrites says why a server of which INFO says this takes no writes; ClassNone: it takes them, as far as known.
func refusesWrites(info map[string]string) (Class, string) {
	number := func(key string) int64 {
		value, _ := strconv.ParseInt(info[key], 10, 64)
		return value
	}
	limit := number("maxmemory")
	switch {
	case info["role"] == "slave" && info["slave_read_only"] == "1":
		return ClassReadOnly, "it is a replica"
	case limit > 0 && info["maxmemory_policy"] == "noeviction" &&
		number("used_memory")-number("mem_not_counted_for_evict") > limit:
		return ClassOOM, "its memory is full"
	case info["aof_last_write_status"] == "err":
		return ClassMisconf, "it cannot write its append-only file"
	default:
		return ClassNone, ""
	}
}

// RefusesWrites reports whether err says that a server takes no writes now, and so gives no locks.
func RefusesWrites(err error) bool {
	if err == nil {
		return false
	}
	switch AsServerError(err).Class {
	case ClassReadOnly, ClassOOM, ClassMisconf, ClassNoReplicas, ClassMasterDown:
		return true
	default:
		return false
	}
}
