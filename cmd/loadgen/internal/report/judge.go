package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// telling is how often a release publishes.
type telling struct {
	least, most int64
	note        string
}

// tells says how often the release of a kind publishes. A spinning waiter asks by itself; that of a fair
// lock is told only if somebody waits and is not of the releasing engine, and once more by who asks while it is free
// and somebody else is next. Of plain and fenced locks that are given back together those are published that somebody
// listens to.
func tells(kind string, contended bool) telling {
	switch {
	case kind == config.KindFair && contended:
		return telling{0, 2, "one acquiring command, one HDEL and at most two PUBLISH a pair"}
	case kind == config.KindSpin, kind == config.KindFair:
		return telling{0, 0, "one acquiring command, one HDEL and no PUBLISH a pair"}
	case kind == config.KindLock, kind == config.KindFenced:
		return telling{0, 1, "one acquiring command, one HDEL and at most one PUBLISH a pair"}
	}
	return telling{1, 1, "one acquiring command, one HDEL and one PUBLISH a pair"}
}

// greetEvery is how often a sentinel publishes on the master that it is there: every two seconds, but at each of its
// ticks, up to twenty a second, until that is answered. A loaded master answers late.
const greetEvery = 50 * time.Millisecond

// greetings is how many messages of sentinels the server may have counted between two readings: one more than
// there are periods from the beginning of the first to the end of the second.
func greetings(before, after topology.Snapshot) int64 {
	return max(before.Greeters, after.Greeters) * int64(after.Ended.Sub(before.Began)/greetEvery+1)
}

// verdict is what comparing the server's counters with ours came to.
type verdict struct {
	note     string   // why nothing was compared, or that all was well
	failures []string // disagreements
	ghosts   []string // grants the server knows nothing of: two may have held one lock
}

// counted is what the servers have run in a phase, by their own counters; why says that they do not know, or that what
// was counted before has nothing to do with what was counted after.
func (r Round) counted() (did topology.Commands, why string) {
	did = r.After.Commands.Minus(r.Before.Commands)
	switch {
	case r.Before.Silent || r.After.Silent:
		return did, "the server gave no answers any more"
	case !r.Before.Known || !r.After.Known:
		return did, "the server has no command counters to show"
	case r.Before.Runs != r.After.Runs:
		return did, "a server was started anew meanwhile, and counts from 0 again"
	case r.After.ResetSince(r.Before), r.Before.Marks == 0 && did.Fell(): // the second where nothing can be marked
		return did, "the server's counters were reset meanwhile"
	}
	return did, ""
}

// uncompared says why nothing is to be compared; "": it is.
func uncompared(mode string, r Round) string {
	before, after := r.Before, r.After
	switch {
	case mode == "off":
		return "not checked (--check-server off)"
	case r.Several:
		return "not checked: who waits for several locks gives some back meanwhile"
	case r.Kind == config.KindRW:
		return "not checked: readers of one engine share what the server counts"
	case r.Kind == config.KindSemaphore:
		return "not checked: one command takes permits for many callers"
	case r.Kind == config.KindLatch:
		return "not checked: latches are not taken by the commands that are counted"
	case r.Kind == config.KindPermits:
		return "not checked: leased permits are not taken by the commands that are counted"
	case !before.Known || !after.Known:
		_, why := r.counted()
		return "not available (" + why + ")"
	case mode == "auto" && (!before.Alone || !after.Alone):
		return "shared server: not checked (--check-server on compares all the same)"
	}
	if slices.Contains(r.Disturbed, config.ChaosClient) {
		return "not checked: another client took part"
	}
	if config.ChangesServers(r.Disturbed) {
		return "not checked: replicas count what their master did, and one of them took over"
	}
	return ""
}

// judge compares what the engine granted and released in a phase with what the server
// did. With errors, and where connections were cut or given up, there were repeats, which may run a command twice: then
// the server may have done more, but never less.
//
// A lock that one holder here handed to the next was neither freed nor taken on the server.
// Where locks are contended for, a COPY or RESTORE may find its key taken and change nothing.
func judge(mode string, r Round) verdict {
	if why := uncompared(mode, r); why != "" {
		return verdict{note: why}
	}
	before, after, rec := r.Before, r.After, r.Rec
	granted, released := rec.Granted-r.HandedOver, rec.Released-r.HandedOver
	did, anew := r.counted()
	if anew != "" {
		if mode == "on" {
			return verdict{note: "compared nothing: " + anew, failures: []string{"the server check compared nothing: " + anew}}
		}
		return verdict{note: "not checked: " + anew}
	}
	took := did.HSet + did.Copy + did.Restore
	exact := rec.ErrorCount() == 0 && !config.Repeats(r.Disturbed) && !r.Reconnected
	var v verdict
	if took < granted {
		v.ghosts = append(v.ghosts, fmt.Sprintf(
			"%d grants, but the server ran only %d acquiring commands (%d HSET + %d COPY + %d RESTORE): some lock was granted without being taken",
			granted, took, did.HSet, did.Copy, did.Restore))
	}
	idle := int64(0)
	if r.Contended {
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
	tell := tells(r.Kind, r.Contended)
	if did.Publish < tell.least*released || did.Publish > tell.most*released+greetings(before, after) && exact {
		v.failures = append(v.failures, fmt.Sprintf(
			"%d releases, but the server ran %d PUBLISH", released, did.Publish))
	}
	if len(v.failures)+len(v.ghosts) == 0 {
		v.note = "agrees: " + tell.note
		if r.HandedOver > 0 {
			v.note += " that was not handed over"
		}
		if !exact {
			v.note = "agrees, repeats allowed for"
		}
	}
	return v
}
