package resp

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// While a slot is on its way each of its keys is at the source or at the target, and one that is nowhere
// may be made at the target only. A script that needs several keys works where all of them are. So an op
// whose lock's key is not at the source goes to the target only when none of the keys beside it is left at
// the source: it would not see them there, and what it made in their place would stop the move. No key
// that the source does not have can come back there, so asking for one after the other is as good as
// asking for all at once.

// errSplit says that the keys of a lock are not all on one side.
var errSplit = &ServerError{
	Class: ClassTryAgain,
	Text:  "TRYAGAIN the slot is moving, and not all keys of this lock have arrived",
}

// otherKeys lists the keys beside its own that an op may make, or has to see. What a script only looks at, or
// makes anew under an owner id that was never used, is none: it does without.
func (op *Op) otherKeys() []string {
	if find := op.Family.row().otherKeys; find != nil {
		return find(op)
	}
	return nil
}

// asks reports whether the op is an acquire, asked for again or not.
func (op *Op) asks() bool { return op.Kind == OpAcquire || op.Kind == OpReacquire }

func otherKeysFenced(op *Op) []string {
	if !op.asks() {
		return nil
	}
	return []string{slot.FenceToken(op.Key)}
}

func otherKeysCounted(op *Op) []string {
	if !op.asks() && op.Kind != OpRelease { // the others look at no notes
		return nil
	}
	return []string{slot.CountedRequests(op.Key)}
}

// otherKeysLatch: whoever sets one or deletes it looks at its notes, too.
func otherKeysLatch(op *Op) []string {
	if op.Kind != OpCall {
		return otherKeysCounted(op)
	}
	return []string{slot.CountedRequests(op.Key)}
}

// otherKeysPermits has the key itself, too: the set may have arrived before it, and the script asks for that first.
func otherKeysPermits(op *Op) []string {
	if op.Kind == OpExtend || op.Kind == OpQueue { // those are about the set alone
		return nil
	}
	return []string{op.Key, slot.PermitTimeouts(op.Key)}
}

func otherKeysFair(op *Op) []string {
	if !op.asks() {
		return nil
	}
	return []string{
		slot.FairQueue(op.Key), slot.FairTimeouts(op.Key),
		slot.FairHeard(op.Key), slot.FairAsked(op.Key), slot.FairNotes(op.Key),
	}
}

func otherKeysRead(op *Op) []string {
	if op.Kind != OpReacquire && op.Kind != OpExtend {
		return nil
	}
	return []string{readMark(op.Key, op.Field)}
}

// readMark is the key that says until when a read hold of ours lives.
func readMark(key, field string) string { return slot.ReadHold(key, field, 1) }

// addProbes puts what finds out whether the keys beside an op's are here in front of its command.
func (c *command) addProbes(to *outbox) {
	c.probes = 0
	if op := c.ops[0]; op.alone && !op.asking {
		for _, key := range op.otherKeys() {
			to.add(to.wire.client.B().Exists().Key(key).Build())
			c.probes++
		}
	}
}

// probed keeps an op that is to go to the target of a move here, as long as a key beside its own is here.
func (c *command) probed(replies []rueidis.RedisResult) {
	r := &c.results[0]
	if r.Err == nil || r.Err.Class != ClassAsk {
		return
	}
	// ASK means that this key has gone, too. Any other answer, an error as well, means that it may be here.
	for _, reply := range replies {
		if err := classify(reply.Error()); err == nil || err.Class != ClassAsk {
			r.Err = errSplit
		}
	}
}

// renewMarks renews the marks of read holds whose hashes were renewed, while the slot is on its way: each
// where it is. One that is nowhere is made again.
func (n *Node) renewMarks(l *link, limit time.Duration, holds []*Renewal) {
	for addr, away := range n.setMarks(l, false, limit, holds) {
		target := n.nodes.member(addr)
		if target == nil {
			continue // the ASK is their answer
		}
		target.setMarks(target.retries, true, limit, away)
	}
}

// setMarks makes or raises marks that are here, and answers in their holds. It returns those that are to be
// asked for elsewhere, by address.
func (n *Node) setMarks(l *link, asking bool, limit time.Duration, holds []*Renewal) (away map[string][]*Renewal) {
	away = make(map[string][]*Renewal)
	for len(holds) > 0 {
		round := holds[:min(maxKeys, len(holds))]
		holds = holds[len(round):]
		w, failed := l.get()
		if failed != nil {
			for _, r := range round {
				r.Code, r.Err = CodeError, failed
			}
			continue
		}
		// Two commands a hold: SET NX makes a mark that is nowhere, PEXPIRE raises one that is here.
		cmds := make([]rueidis.Completed, 0, 4*len(round))
		for _, r := range round {
			for _, c := range markCommands(w, r) {
				if asking {
					cmds = append(cmds, w.client.B().Asking().Build())
				}
				cmds = append(cmds, c)
			}
		}
		ctx, cancel := n.world.WithTimeout(context.Background(), limit)
		replies := w.client.DoMulti(ctx, cmds...)
		cancel()
		// A hold's answer is the last error of its replies. Nil is none: SET NX found the mark.
		each := len(replies) / len(round)
		for i, r := range round {
			r.Code, r.Err = CodeRenewed, nil
			for _, reply := range replies[i*each : (i+1)*each] {
				if reply.NonRedisError() != nil && !rueidis.IsRedisNil(reply.Error()) {
					l.giveUp(w)
				}
				if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
					r.Code, r.Err = CodeError, classify(err)
				}
			}
			if r.Err != nil {
				// One that is on the other side is asked for there, once.
				if addr := redirection(r.Err.Text, "ASK ", n.Addr()); addr != "" && !asking {
					away[addr] = append(away[addr], r)
				}
			}
		}
	}
	return away
}

// markCommands make a read hold's mark where it is not, and raise it where it is.
func markCommands(w *wire, r *Renewal) [2]rueidis.Completed {
	key := readMark(r.Key, r.Field)
	set := w.client.B().Set().Key(key).Value("1").Nx().PxMilliseconds(r.LeaseMs).Build()
	if w.caps.Greater {
		return [2]rueidis.Completed{set, w.client.B().Pexpire().Key(key).Milliseconds(r.LeaseMs).Gt().Build()}
	}
	return [2]rueidis.Completed{set, w.client.B().Pexpire().Key(key).Milliseconds(r.LeaseMs).Build()}
}
