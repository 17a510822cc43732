package topology

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// CountKeys counts those of n locks that have a key.
func (s *Server) CountKeys(ctx context.Context, n int, name func(int) string) (left int64, err error) {
	b := s.Client.B()
	for first := 0; first < n; first += Batch {
		cmds := make([]rueidis.Completed, 0, Batch)
		for i := first; i < min(first+Batch, n); i++ {
			cmds = append(cmds, b.Exists().Key(name(i)).Build())
		}
		for _, reply := range s.Ask(ctx, cmds...) {
			one, err := reply.AsInt64()
			if err != nil {
				return left, fmt.Errorf("look for keys that are left: %s", s.Hide(err))
			}
			left += one
		}
	}
	return left, nil
}

// Batch is how many locks are asked after in one round trip: two commands each, and
// rueidis takes a pipeline of 2000 elsewhere.
const Batch = 512

// Commands are the server's own counters over one measured phase: how often it ran
// the commands a lock is made of, whoever sent them.
type Commands struct {
	Evalsha int64 `json:"evalsha"`
	HSet    int64 `json:"hset"`
	Copy    int64 `json:"copy"`
	Restore int64 `json:"restore"` // in a cluster, in place of COPY
	HDel    int64 `json:"hdel"`
	Publish int64 `json:"publish"` // PUBLISH and SPUBLISH
}

// Minus is what ran from b to c.
func (c Commands) Minus(b Commands) Commands {
	return Commands{
		Evalsha: c.Evalsha - b.Evalsha,
		HSet:    c.HSet - b.HSet,
		Copy:    c.Copy - b.Copy,
		Restore: c.Restore - b.Restore,
		HDel:    c.HDel - b.HDel,
		Publish: c.Publish - b.Publish,
	}
}

// Fell reports whether any counter is below what it was: they count from 0 again.
func (c Commands) Fell() bool {
	return min(c.Evalsha, c.HSet, c.Copy, c.Restore, c.HDel, c.Publish) < 0
}

// Plus is what ran in both.
func (c Commands) Plus(b Commands) Commands {
	return c.Minus(Commands{}.Minus(b))
}

// Snapshot is what the server says at one quiet moment.
type Snapshot struct {
	Commands Commands
	Known    bool          // the server keeps such counters and lets us see them
	Silent   bool          // a server gave no answer
	Alone    bool          // no connection but ours
	CPU      time.Duration // user and system time of all servers, replicas too; 0 where unknown
	Greeters int64         // sentinels that are connected: each publishes a greeting on the master now and then
	Runs     string        // which processes the masters are: one that was started anew counts from 0
	Marks    int64         // how often a command ran that each reading sends, and nobody else
	Readings int64         // masters that were read

	Began, Ended time.Time // of the reading: what ran in between may or may not be counted
}

// Snapshot reads the counters. It is taken when everything sent has been answered.
func (s *Server) Snapshot(ctx context.Context) Snapshot {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	snap, runs := Snapshot{Began: time.Now()}, []string(nil)
	for _, node := range s.masters(ctx) {
		replies := node.DoMulti(ctx, node.B().Echo().Message("loadgen reads").Build(), node.B().Info().Section("commandstats").Build())
		text, err := replies[1].ToString()
		if err != nil {
			return unknown(err)
		}
		snap.Commands = snap.Commands.Plus(parseCommands(text))
		snap.Marks += callsOf(parseInfo(text), "echo")
		if text, err = node.Do(ctx, node.B().Info().Section("server").Build()).ToString(); err != nil {
			return unknown(err)
		}
		runs = append(runs, parseInfo(text)["run_id"])
		snap.Known = true
		snap.Readings++
	}
	slices.Sort(runs)
	snap.Runs = strings.Join(runs, " ")
	others, ok := s.connected(ctx)
	snap.CPU = s.CPU(ctx)
	snap.Alone = s.Ours() || ok && others.foreign == 0
	snap.Greeters, snap.Ended = others.sentinels, time.Now()
	return snap
}

// unknown is what is left of a reading that failed.
func unknown(err error) Snapshot {
	_, refused := rueidis.IsRedisErr(err)
	return Snapshot{Silent: !refused}
}

// ResetSince reports whether counters were reset after a reading before: what it has sent is not counted any more. Where
// the command is not allowed there is nothing to see.
func (s Snapshot) ResetSince(before Snapshot) bool {
	return before.Marks > 0 && s.Marks < before.Marks+s.Readings
}

// CPU is the time that all servers have spent on a core; 0 if one will not say.
func (s *Server) CPU(ctx context.Context) (sum time.Duration) {
	for _, node := range s.nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("cpu").Build()).ToString()
		if err != nil {
			return 0
		}
		info := parseInfo(text)
		for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
			seconds, err := strconv.ParseFloat(info[field], 64)
			if err != nil {
				return 0
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// callsOf is how often a command ran.
func callsOf(info map[string]string, command string) int64 {
	for part := range strings.SplitSeq(info["cmdstat_"+command], ",") {
		if digits, ok := strings.CutPrefix(part, "calls="); ok {
			n, _ := strconv.ParseInt(digits, 10, 64) // the server's own number; 0 fails the check
			return n
		}
	}
	return 0
}

// parseCommands picks the commands of a lock out of an INFO commandstats answer.
func parseCommands(text string) Commands {
	info := parseInfo(text)
	calls := func(command string) int64 { return callsOf(info, command) }
	return Commands{
		Evalsha: calls("evalsha"),
		HSet:    calls("hset"),
		Copy:    calls("copy"),
		Restore: calls("restore"),
		HDel:    calls("hdel"),
		Publish: calls("publish") + calls("spublish"),
	}
}
