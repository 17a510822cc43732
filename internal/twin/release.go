package twin

import (
	"strconv"
	"strings"
)

// release is the twin of release.lua.
func (s *Server) release(KEYS, ARGV list) Reply {
	now := s.time()
	publish, message := ARGV.at(1), ARGV.at(2)
	out, released := begin(now), int64(0)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 4, wantInline(KEYS, ARGV.at(3)))
	var heard map[string]bool
	if ARGV.at(4) != "" && publish != "" {
		var v int64
		if heard, v = s.heard(publish == "SPUBLISH", ARGV.at(4) == "masters", int64(n)); heard == nil {
			out.add(0, number(v))
		}
	}
	fields := stretch{ARGV: ARGV, at: 5 + wantInt(ARGV.at(3))}
	for i := 1; i <= n; i++ {
		key, field := keys.at(skip+i), fields.next()
		v := s.pcall("HDEL", key, field)
		if v.is(1) && (publish == "" || heard != nil && !heard[key]) {
			released++
			v = number(0)
		} else if v.is(1) {
			released++
			channel := "redisson_lock__channel:" + tagged(key)
			v = s.pcall(publish, channel, message)
			if v.table() {
				v = number(-2)
			}
		} else if v.is(0) {
			v = number(-1)
		}
		if !v.is(0) {
			out.add(i, v)
		}
	}
	return out.end(released)
}

// infoNumber reads a number of what INFO says.
func infoNumber(info, what string) (int64, bool) {
	_, after, found := strings.Cut(info, "\n"+what+":")
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, found && err == nil
}

// heard lists the keys of a release of n keys that somebody listens to. nil: it is not known, and v says why.
func (s *Server) heard(sharded, masters bool, n int64) (heard map[string]bool, v int64) {
	channels, patterns, list := "pubsub_channels", "pubsub_patterns", "CHANNELS"
	if sharded {
		channels, patterns, list = "pubsubshard_channels", "", "SHARDCHANNELS"
	}
	replicas := text("")
	if !masters {
		replicas = s.pcall("INFO", "replication")
	}
	stats := s.pcall("INFO", "stats")
	if replicas.table() || stats.table() {
		return nil, -2
	}
	none := func(info, what string) bool { n, is := infoNumber(info, what); return is && n == 0 }
	v = -1
	if (masters || none(replicas.Text, "connected_slaves") && none(replicas.Text, "repl_backlog_active")) &&
		(patterns == "" || none(stats.Text, patterns)) {
		if count, is := infoNumber(stats.Text, channels); is {
			v = count
		}
	}
	if v < 0 || v > n {
		return nil, v
	}
	names := s.pcall("PUBSUB", list, "redisson_lock__channel:*")
	if names.err() {
		return nil, -2
	}
	heard = make(map[string]bool)
	for _, name := range names.Array {
		key := strings.TrimPrefix(name.Text, "redisson_lock__channel:")
		heard[key] = true
		heard[key[min(1, len(key)):max(len(key)-1, min(1, len(key)))]] = true
	}
	return heard, 0
}
