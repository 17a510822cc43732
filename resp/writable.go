package resp

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// writableSections are what a Ping asks for beside the PING itself, which a replica answers, too, and a server that is
// full. A write would tell more; but it would need a key, and every user has rights to other ones.
//
//nolint:gochecknoglobals // a constant in all but name
var writableSections = [...]string{"replication", "memory", "persistence"}

// appendWritable adds those questions, unless they were refused before: whoever watches refused commands is not to be
// told with each Ping.
func (n *Node) appendWritable(cmds []rueidis.Completed, w *wire) []rueidis.Completed {
	if n.unasked.Load() {
		return cmds
	}
	for _, section := range writableSections {
		cmds = append(cmds, w.client.B().Info().Section(section).Build())
	}
	return cmds
}

// refusal is what the answers say against the server; nil: nothing, or they are not known.
func (n *Node) refusal(answers []rueidis.RedisResult) *ServerError {
	fields := make(map[string]string)
	for _, r := range answers {
		text, err := r.ToString()
		if failed := classify(err); failed != nil && failed.Class == ClassNoPerm {
			n.unasked.Store(true)
		}
		for line := range strings.Lines(text) {
			if key, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				fields[key] = value
			}
		}
	}
	class, why := refusesWrites(fields)
	if class == ClassNone {
		return nil
	}
	return &ServerError{Class: class, Text: n.Addr() + " takes no writes: " + why, said: true}
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
