package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serverCommands are the server's own counters over one measured phase: how often it ran
// the commands a lock is made of, whoever sent them.
type serverCommands struct {
	Evalsha int64 `json:"evalsha"`
	HSet    int64 `json:"hset"`
	Copy    int64 `json:"copy"`
	Restore int64 `json:"restore"` // in a cluster, in place of COPY
	HDel    int64 `json:"hdel"`
	Publish int64 `json:"publish"` // PUBLISH and SPUBLISH
}

func (c serverCommands) minus(b serverCommands) serverCommands {
	return serverCommands{
		Evalsha: c.Evalsha - b.Evalsha,
		HSet:    c.HSet - b.HSet,
		Copy:    c.Copy - b.Copy,
		Restore: c.Restore - b.Restore,
		HDel:    c.HDel - b.HDel,
		Publish: c.Publish - b.Publish,
	}
}

func (c serverCommands) plus(b serverCommands) serverCommands {
	return c.minus(serverCommands{}.minus(b))
}

// snapshot is what the server says at one quiet moment.
type snapshot struct {
	commands serverCommands
	known    bool          // the server keeps such counters and lets us see them
	alone    bool          // no connection but ours
	cpu      time.Duration // user and system time of all servers, replicas too; 0 where unknown
	at       time.Time
	greeters int64 // sentinels of this run's own, which publish a greeting on the master every greetEvery
}

const greetEvery = 2 * time.Second

// greetings is how many messages of sentinels the server may have counted between two readings.
func greetings(before, after snapshot) int64 {
	return before.greeters * int64(after.at.Sub(before.at)/greetEvery+1)
}

// snapshot reads the counters. It is taken when everything sent has been answered.
func (s *server) snapshot(ctx context.Context) snapshot {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	snap := snapshot{at: time.Now()}
	if s.sentinel != nil {
		snap.greeters = int64(len(s.sentinel.Sentinels))
	}
	for _, node := range s.masters(ctx) {
		text, err := node.Do(ctx, node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return snapshot{}
		}
		snap.commands = snap.commands.plus(parseCommands(text))
		snap.known = true
	}
	foreign, ok := s.foreign(ctx)
	snap.cpu = s.cpu(ctx)
	snap.alone = s.ours() || ok && foreign == 0
	return snap
}

// cpu is the time that all servers have spent on a core; 0 if one will not say.
func (s *server) cpu(ctx context.Context) (sum time.Duration) {
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

// cpuPerPair is what the servers spent between two readings, in microseconds a pair; false where one
// of them would not say, or was not the same process.
func cpuPerPair(before, after time.Duration, pairs int64) (us float64, ok bool) {
	if before <= 0 || after < before || pairs <= 0 {
		return 0, false
	}
	return float64((after - before).Nanoseconds()) / 1e3 / float64(pairs), true
}

// parseCommands picks the commands of a lock out of an INFO commandstats answer.
func parseCommands(text string) serverCommands {
	info := parseInfo(text)
	calls := func(command string) int64 {
		for part := range strings.SplitSeq(info["cmdstat_"+command], ",") {
			if digits, ok := strings.CutPrefix(part, "calls="); ok {
				n, _ := strconv.ParseInt(digits, 10, 64) // the server's own number; 0 fails the check
				return n
			}
		}
		return 0
	}
	return serverCommands{
		Evalsha: calls("evalsha"),
		HSet:    calls("hset"),
		Copy:    calls("copy"),
		Restore: calls("restore"),
		HDel:    calls("hdel"),
		Publish: calls("publish") + calls("spublish"),
	}
}

// verdict is what comparing the server's counters with ours came to.
type verdict struct {
	note     string   // why nothing was compared, or that all was well
	failures []string // disagreements
	ghosts   []string // grants the server knows nothing of: two may have held one lock
}

// countsOthers reports whether chaos made the servers' counters say something else than what this process
// had them do.
func countsOthers(chaos []string) bool {
	return changesServers(chaos) || slices.Contains(chaos, chaosClient)
}

// changesServers reports whether chaos made the servers' counters useless.
func changesServers(chaos []string) bool {
	return slices.Contains(chaos, chaosFailover) || slices.Contains(chaos, chaosKill)
}

// repeats reports whether chaos can cost answers, so that a command has to be sent again.
func repeats(chaos []string) bool {
	return slices.Contains(chaos, chaosPause) || slices.Contains(chaos, chaosKillConn)
}

// judge compares what the engine granted and released in a phase with what the server
// did. With errors, and where connections were cut, there were repeats, which may run a command twice: then the server may
// have done more, but never less.
//
// A lock that one holder here handed to the next was neither freed nor taken on the server.
// Where locks are contended for, a COPY or RESTORE may find its key taken and change nothing.
func judge(mode string, r round) verdict {
	before, after, rec := r.before, r.after, r.rec
	granted, released := rec.granted-r.handedOver, rec.released-r.handedOver
	switch {
	case mode == "off":
		return verdict{note: "not checked (--check-server off)"}
	case r.kind == kindRW:
		return verdict{note: "not checked: readers of one engine share what the server counts"}
	case !before.known || !after.known:
		return verdict{note: "not available (the server has no command counters to show)"}
	case mode == "auto" && (!before.alone || !after.alone):
		return verdict{note: "shared server: not checked (--check-server on compares all the same)"}
	}
	if slices.Contains(r.disturbed, chaosClient) {
		return verdict{note: "not checked: another client took part"}
	}
	if changesServers(r.disturbed) {
		return verdict{note: "not checked: replicas count what their master did, and one of them took over"}
	}
	did := after.commands.minus(before.commands)
	took, exact := did.HSet+did.Copy+did.Restore, rec.errorCount() == 0 && !repeats(r.disturbed)
	var v verdict
	if took < granted {
		v.ghosts = append(v.ghosts, fmt.Sprintf(
			"%d grants, but the server ran only %d acquiring commands (%d HSET + %d COPY + %d RESTORE): some lock was granted without being taken",
			granted, took, did.HSet, did.Copy, did.Restore))
	}
	idle := int64(0)
	if r.contended {
		idle = did.Copy + did.Restore
	}
	if took > granted+idle && exact {
		v.failures = append(v.failures, fmt.Sprintf(
			"%d grants, but the server ran %d acquiring commands (%d HSET + %d COPY + %d RESTORE): %d too many, by this run or by another client that came and went",
			granted, took, did.HSet, did.Copy, did.Restore, took-granted))
	}
	if did.HDel < released || did.HDel > released && exact {
		v.failures = append(v.failures, fmt.Sprintf(
			"%d releases, but the server ran %d HDEL", released, did.HDel))
	}
	tell := tells(r.kind, r.contended)
	if did.Publish < tell.least*released || did.Publish > tell.most*released+greetings(before, after) && exact {
		v.failures = append(v.failures, fmt.Sprintf(
			"%d releases, but the server ran %d PUBLISH", released, did.Publish))
	}
	if len(v.failures)+len(v.ghosts) == 0 {
		v.note = "agrees: " + tell.note
		if r.handedOver > 0 {
			v.note += " that was not handed over"
		}
		if !exact {
			v.note = "agrees, repeats allowed for"
		}
	}
	return v
}
