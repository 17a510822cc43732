package resp

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A Renewal is one key's renewal and, afterwards, its answer.
type Renewal struct {
	Key, Field string
	Family     Family
	LeaseMs    int64
	Code       Code         // CodeRenewed, CodeNotOurs or CodeError
	Err        *ServerError // of CodeError
	SentAt     clock.Instant
}

// suspiciousAnswer reports whether the answer of a renewal may mean that another server is the master now.
func suspiciousAnswer(r Renewal) bool { return r.Err != nil && r.Err.Class.suspicious() }

func (r *Renewal) script() *script { return r.Family.row().renew }

// work is how many keys' work it is.
func (r *Renewal) work() int { return r.Family.Work(r.Field) }

// slot is that of its key.
func (r *Renewal) slot() uint16 { return slot.Of(r.Family.object(r.Key)) }

// sameKind reports whether two renewals may share a command.
func (r *Renewal) sameKind(other *Renewal) bool {
	return r.script() == other.script() && r.LeaseMs == other.LeaseMs
}

// MaxRenewWork bounds what one pipeline write renews, in keys' work: the limit of an attempt has to cover the
// server's work for all of it. Whatever is begun below it travels with the rest, so what a caller gathers until it
// has so much is one round trip. The number of its commands does not count: one after the other, many kinds would
// need as many.
const MaxRenewWork = 16 * maxKeys

// Connect makes the first of the two connections of renewals, if there is none. Blocks: for a dial.
func (n *Node) Connect() { _, _ = n.renewals.get() }

// Renew raises the TTL of every key that its field still holds to its lease, and answers in
// batch. With retry it uses the second connection, so that a first one that hangs does not decide.
// The keys of one call should be different, and sorted by family and lease: neighbours of one kind share a command.
//
// Blocks: up to limit, and again for what is beyond MaxRenewWork; callers are the watchdog's own goroutines.
func (n *Node) Renew(retry bool, limit time.Duration, batch []Renewal) {
	link := n.renewals
	if retry {
		link = n.retries
	}
	// The commands: neighbours of one kind share one, unless this node wants every key declared.
	pending := make([][]Renewal, 0, len(batch)/maxKeys+1)
	for start := 0; start < len(batch); {
		end, work := start+1, batch[start].work()
		for !n.declares.Load() && end < len(batch) && batch[end].sameKind(&batch[start]) {
			if work += batch[end].work(); work > maxKeys {
				break
			}
			end++
		}
		pending = append(pending, batch[start:end])
		start = end
	}
	// The rounds: each sends so many commands, and returns what has to go again.
	reloads, load := 0, false
	for len(pending) > 0 {
		round := pending[:renewable(pending)]
		scripts := n.reloaded.Load()
		again, missing := n.renewRound(link, limit, round, load)
		load = missing && (load || n.claimReload(scripts))
		if missing {
			reloads++
		}
		if reloads > maxReloads {
			fail(again, &ServerError{Class: ClassNoScript, Text: "the server keeps forgetting its scripts"})
			again = nil
		}
		pending = append(pending[len(round):], again...)
	}
	n.noteRenewals(batch)
	// What this server does not serve, or not as a master.
	switch {
	case n.nodes != nil:
		n.elsewhere(link, limit, batch)
	case n.follow != nil && slices.ContainsFunc(batch, suspiciousAnswer):
		n.follow.suspect()
	}
}

// renewable is how many of the parts travel together.
func renewable(parts [][]Renewal) (n int) {
	for work := 0; n < len(parts) && work < MaxRenewWork; n++ {
		for i := range parts[n] {
			work += parts[n][i].work()
		}
	}
	return n
}

// noteRenewals keeps why the last batch failed, if that is no matter of its keys: then it is why any other does, too.
func (n *Node) noteRenewals(batch []Renewal) {
	var failed *ServerError
	for i := range batch {
		failed = batch[i].Err
		if failed == nil || failed.Class.perKey() || !failed.Class.Transient() {
			n.renewing.Store(nil)
			return
		}
	}
	n.renewing.Store(hidden(n.opts.Hide, failed))
}

// RenewalError is why the server renews nothing; nil: it does, or refuses single keys, or nothing has come back.
func (n *Node) RenewalError() *ServerError { return n.renewing.Load() }

// elsewhere deals with the keys of a batch that this node of a cluster does not serve. It asks for
// each alone, so that the refusal names the node, and tells the table. Keys of a slot that is just
// moving are renewed at the node that takes it over, those of a read hold each where it is; the others
// are answered ClassMoved, for the watchdog to send them to their new node.
func (n *Node) elsewhere(l *link, limit time.Duration, batch []Renewal) {
	// Which keys to ask for alone: those not served here, or refused in unknown words, while the table names this node.
	var moved [][]Renewal
	doubtful := false
	for i := range batch {
		r := &batch[i]
		if r.Code != CodeError || r.Err == nil {
			continue
		}
		doubtful = doubtful || r.Err.Class.suspicious()
		if (r.Err.Class == ClassMoved || undeclared(r) && !n.declares.Load()) && n.nodes.Owner(r.slot()) == n {
			moved = append(moved, batch[i:i+1])
		}
	}
	if doubtful {
		n.nodes.Suspect()
	}
	// Ask. If unknown words are gone when keys are declared, this node never gets a batch again.
	for left := moved; len(left) > 0; {
		round := left[:renewable(left)]
		left = left[len(round):]
		before := slices.ContainsFunc(round, func(part []Renewal) bool { return undeclared(&part[0]) })
		n.renewRound(l, limit, round, false)
		if before && !slices.ContainsFunc(round, func(part []Renewal) bool { return undeclared(&part[0]) }) {
			n.declares.Store(true)
		}
	}
	var marks []*Renewal // of holds whose hashes are renewed, and whose marks are not where those are
	for _, part := range moved {
		r := &part[0]
		if r.Code == CodeError && r.Family.row().marks && r.Err.Class == ClassMoved &&
			redirection(r.Err.Text, "MOVED ", n.Addr()) == "" {
			marks = append(marks, r)
		}
	}
	// Refusals with an address: MOVED corrects the table for the next firing, ASK is followed now.
	asking := make(map[string][][]Renewal)
	for i := range batch {
		r := &batch[i]
		if r.Code != CodeError || r.Err == nil {
			continue
		}
		if addr := redirection(r.Err.Text, "MOVED ", n.Addr()); addr != "" {
			n.nodes.learn(r.slot(), addr)
		} else if addr := redirection(r.Err.Text, "ASK ", n.Addr()); addr != "" {
			asking[addr] = append(asking[addr], batch[i:i+1])
		}
	}
	// Hashes are renewed where they are, then the marks of read holds, which may be on the other side.
	for addr, parts := range asking {
		if target := n.nodes.member(addr); target != nil {
			target.renewAsking(limit, parts)
			for _, part := range parts {
				if r := &part[0]; r.Code == CodeRenewed && r.Family.row().marks {
					marks = append(marks, r)
				}
			}
		}
	}
	n.renewMarks(l, limit, marks)
}

// undeclared reports whether a renewal was refused in words that we do not know: the server minds, perhaps, that the
// keys of a batch are not declared.
func undeclared(r *Renewal) bool {
	return r.Code == CodeError && r.Err != nil && r.Err.Class == ClassOther
}

// renewAsking renews keys of slots that are moving to this node.
func (n *Node) renewAsking(limit time.Duration, parts [][]Renewal) {
	w, failed := n.retries.get()
	if failed != nil {
		fail(parts, failed)
		return
	}
	for len(parts) > 0 {
		round := parts[:min(maxKeys, len(parts))]
		parts = parts[len(round):]
		// The scripts that this node was never asked for.
		hashes := make([]Renewal, len(round))
		for i, part := range round {
			// Of a read hold only the hash is renewed, for its mark may be elsewhere.
			hashes[i] = Renewal{Key: part[0].Key, Field: part[0].Field, LeaseMs: part[0].LeaseMs}
			if !part[0].Family.row().marks {
				hashes[i].Family = part[0].Family
			}
		}
		loads := n.loadsFor(w, hashes)
		cmds := w.appendLoads(make([]rueidis.Completed, 0, 2*len(round)+len(catalogue)), loads)
		first := len(cmds)
		// One key a command: ASKING holds for one, and keys of several slots may be on their way here.
		for i := range hashes {
			cmds = append(cmds, w.client.B().Asking().Build(), renewCommand(w, true, hashes[i:i+1]))
		}
		ctx, cancel := n.world.WithTimeout(context.Background(), limit)
		sentAt := n.opts.Clock.Now()
		replies := w.client.DoMulti(ctx, cmds...)
		cancel()
		// Every second reply is ASKING's.
		received := n.opts.Clock.Now()
		refused := w.stock.note(loads, replies)
		for i, part := range round {
			reply := replies[first+2*i+1]
			if reply.NonRedisError() != nil {
				n.retries.giveUp(w)
			}
			// Not repaired here: the watchdog asks again soon.
			if readRenewals(w, reply, part, exchange{sentAt, received}) == noScript {
				missing := &ServerError{Class: ClassNoScript, Text: "NOSCRIPT"}
				fail([][]Renewal{part}, cmp.Or(refused.of(part[0].script()), missing))
			}
		}
		if w.malformed.Load() {
			n.retries.giveUp(w)
		}
	}
}

func fail(parts [][]Renewal, err *ServerError) {
	for _, part := range parts {
		for i := range part {
			part[i].Code, part[i].Err = CodeError, err
		}
	}
}

// loadsFor notes that the scripts of these renewals are about to be called, and returns those that the server was not
// given yet.
func (n *Node) loadsFor(w *wire, batch []Renewal) (which scriptSet) {
	for i := range batch {
		n.use(batch[i].script())
		which |= batch[i].script().set()
	}
	return w.stock.lacks(which)
}

// renewRound sends one pipeline write, loading all used scripts first if asked to, and returns what must
// go again: parts refused as a whole, in halves, and parts that met NOSCRIPT.
func (n *Node) renewRound(
	l *link, limit time.Duration, parts [][]Renewal, load bool,
) (again [][]Renewal, missing bool) {
	w, failed := l.get()
	if failed != nil {
		fail(parts, failed)
		return nil, false
	}
	// The pipeline: the loads, if any, then one EVALSHA for each part.
	cmds := make([]rueidis.Completed, 0, len(parts)+len(catalogue))
	loads := scriptSet(0)
	for _, part := range parts {
		loads |= n.loadsFor(w, part[:1])
	}
	if load {
		loads |= n.used()
	}
	cmds = w.appendLoads(cmds, loads)
	first := len(cmds)
	for _, part := range parts {
		cmds = append(cmds, renewCommand(w, n.nodes != nil, part))
	}
	// Sent. An answer proves a lease from sentAt on, so that is from before the write.
	ctx, cancel := n.world.WithTimeout(context.Background(), limit)
	sentAt := n.opts.Clock.Now()
	replies := w.client.DoMulti(ctx, cmds...)
	cancel()
	received := n.opts.Clock.Now()
	// The answers: what must go again, and what the connection is still good for.
	refused := w.stock.note(loads, replies)
	lost, left := false, false
	for i, part := range parts {
		reply := replies[first+i]
		if reply.NonRedisError() != nil {
			lost = true
		}
		why := refused.of(part[0].script())
		switch outcome := readRenewals(w, reply, part, exchange{sentAt, received}); {
		case outcome == split:
			again = append(again, part[:len(part)/2], part[len(part)/2:])
		case outcome == noScript && why != nil:
			fail([][]Renewal{part}, why)
		case outcome == noScript:
			missing = true
			again = append(again, part)
		}
		left = left || slices.ContainsFunc(part, func(r Renewal) bool { return n.left(r.Err) })
	}
	// A connection that owes an answer is given up; one to a server that takes no writes is left, with its pauses.
	switch {
	case lost || w.malformed.Load():
		l.giveUp(w)
	case left:
		n.leave(l, w)
	}
	return again, missing
}

func renewCommand(w *wire, cluster bool, part []Renewal) rueidis.Completed {
	var there [2 * maxKeys]string // the client copies them
	keys, fields := sideBySide(part, there[:0])
	sha := w.client.B().Evalsha().Sha1(part[0].script().sha)
	lease, greater := strconv.FormatInt(part[0].LeaseMs, 10), flag(w.caps.Greater)
	// Declared keys must be of one slot. Those of a batch are not, so they travel as arguments.
	if cluster && len(part) > 1 {
		return sha.Numkeys(0).Arg(lease, greater, strconv.Itoa(len(part))).Arg(keys...).Arg(fields...).Build()
	}
	// To the client they are arguments: it would compute the slot of each key, and the connection is chosen already.
	return sha.Numkeys(int64(len(part))).Arg(keys...).Arg(lease, greater, "0").Arg(fields...).Build()
}

// sideBySide returns the keys of a command and their fields: one for each key, or each and how many keys it is for,
// whichever is less. They are copied, so that they stand one behind the other: the client writes them on another
// processor, which would wait for each of a million that stand anywhere.
func sideBySide(part []Renewal, space []string) (keys, fields []string) {
	size, stretches := 0, 0
	for i := range part {
		space = append(space, part[i].Family.renewKey(part[i].Key))
		size += len(space[i])
		if i == 0 || part[i].Field != part[i-1].Field {
			stretches++
		}
	}
	if 2*stretches < len(part) {
		space = appendStretches(space, len(part), func(i int) string { return part[i].Field })
	} else {
		for i := range part {
			space = append(space, part[i].Field)
		}
	}
	for _, text := range space[len(part):] {
		size += len(text)
	}
	var b strings.Builder
	b.Grow(size)
	for _, text := range space {
		b.WriteString(text)
	}
	all := b.String()
	for i, text := range space {
		space[i], all = all[:len(text)], all[len(text):]
	}
	return space[:len(part)], space[len(part):]
}

// An exchange is when a command was sent and its reply came.
type exchange struct{ sent, received clock.Instant }

// readRenewals reads {now, renewed, i, v, ...} into part.
func readRenewals(w *wire, reply rueidis.RedisResult, part []Renewal, at exchange) outcome {
	// The reply as a whole.
	values, failed := arrayOf(w, part[0].script(), reply)
	if failed != nil {
		return refuseRenewals(w, part, failed)
	}
	now, ok := serverTime(values)
	if !ok {
		return refuseRenewals(w, part, malformed(part[0].script().name, values))
	}
	w.est.learn(now, at.received)
	sparse, n, ok := sparseOf(values, 2, len(part))
	if !ok {
		return refuseRenewals(w, part, malformed(part[0].script().name, values))
	}
	// The keys. Whoever is not named was renewed.
	for i := range part {
		part[i].Code, part[i].Err, part[i].SentAt = CodeRenewed, nil, at.sent
	}
	for sparse.next() {
		if !sparse.rises() || sparse.refused == nil && sparse.v != -1 {
			return refuseRenewals(w, part, malformed(part[0].script().name, values))
		}
		n++
		r := &part[sparse.at-1]
		r.Code = CodeNotOurs
		if sparse.refused != nil {
			r.Code, r.Err = CodeError, sparse.refused
		}
	}
	// The script counts, too. A key that it neither counted nor named would be trusted for nothing.
	if sparse.bad || n != int64(len(part)) {
		return refuseRenewals(w, part, malformed(part[0].script().name, values))
	}
	return settled
}

// refuseRenewals gives every renewal of a command the same error, unless something can be done about it first.
func refuseRenewals(w *wire, part []Renewal, err *ServerError) outcome {
	switch {
	case err.Class == ClassNoScript:
		return noScript
	case err.Class.perKey() && len(part) > 1:
		return split
	case err.malformed:
		w.malformed.Store(true)
	}
	fail([][]Renewal{part}, err)
	return settled
}
