package resp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// maxKeys bounds the keys of one EVALSHA, so that nobody waits long behind it: about 200 µs of server time. Of plain
// locks, which cost least, there may be plainKeys: what a call costs beside its keys is shared by more.
const (
	maxKeys   = 128
	plainKeys = 256
)

// Redisson's UNLOCK_MESSAGE, and its READ_UNLOCK_MESSAGE, which wakes every reader.
const (
	unlockMessage     = "0"
	readUnlockMessage = "1"
)

// A command is one EVALSHA on its way: some of the run's ops that stand together and share script, lease and,
// when acquiring, the owner id.
type command struct {
	script   *script
	ops      []*Op
	results  []Result // parallel to ops
	field    string   // acquiring: the batch's owner id
	at       int      // where in the pipeline its reply is
	probes   int      // how many commands before it look for the keys beside its own
	refusals int      // how often the not-after had passed
	reloads  int      // how often the script was missing
	asks     bool     // releasing: who listens
}

// appendCommands cuts ops of one kind into commands. Acquires are expected to be sorted by lease;
// a key that comes twice starts a new command, because COPY onto itself is an error and two grants
// of one key would be worse.
func appendCommands(cmds []command, ops []*Op, results []Result, n *Node) []command {
	for start := 0; start < len(ops); {
		end := start + 1
		if batched(ops[start]) && !n.declares.Load() {
			end = batchLen(ops, start)
		}
		first := ops[start]
		c := command{script: scriptOf(first.Kind, first.Family), ops: ops[start:end], results: results[start:end]}
		if end == start+1 && c.script.one != nil {
			c.script = c.script.one
		}
		if first.Kind == OpAcquire {
			c.field = first.Family.newField(n.world, n.opts.ID)
			for _, op := range c.ops {
				op.Field = c.field
				if op.Family.row().values {
					op.Field = slot.GroupOf(c.field, valuesOf(op.Key))
				}
			}
		}
		cmds = append(cmds, c)
		start = end
	}
	return cmds
}

// batched reports whether an op may share a command. Fair waiters that ask again do: there may be
// thousands of them. Acquires of values do not: two that share one would find each other's owner id to have it.
func batched(op *Op) bool {
	row := op.Family.row()
	return op.Kind == OpAcquire && !row.values || op.Kind == OpRelease || op.Kind == OpReacquire && row.places
}

// batchLen finds how many ops from start on may travel in one command.
func batchLen(ops []*Op, start int) int {
	first := ops[start]
	if first.alone || first.Inside || start+1 == len(ops) {
		return start + 1
	}
	most := maxKeys
	if s := scriptOf(first.Kind, first.Family); s == scriptAcquire || s == scriptRelease {
		most = plainKeys
	}
	var seen keySet
	end, work := start, 0
	for end < len(ops) && end-start < most {
		op := ops[end]
		if work += op.Family.Work(op.Field); work > most && end > start {
			break
		}
		if op.alone || op.Inside || op.Kind != first.Kind || op.Family != first.Family || op.Left != first.Left {
			break
		}
		if op.Kind != OpRelease && (op.LeaseMs != first.LeaseMs || op.Waits != first.Waits) {
			break
		}
		if !seen.add(op) {
			break
		}
		end++
	}
	return end
}

// A keySet finds duplicate keys of one batch by their hashes: open addressing, no allocation.
type keySet struct {
	slots [4 * plainKeys]*Op
}

func (s *keySet) add(op *Op) bool {
	for i := op.Hash % uint64(len(s.slots)); ; i = (i + 1) % uint64(len(s.slots)) {
		switch other := s.slots[i]; {
		case other == nil:
			s.slots[i] = op
			return true
		case other.Key == op.Key:
			return false
		}
	}
}

// newWireID makes an owner id: the engine's UUID and 63 random bits, Redisson's "uuid:threadId".
func newWireID(w *world.World, id string) string {
	var space [64]byte
	buf := append(space[:0], id...)
	buf = append(buf, ':')
	buf = strconv.AppendInt(buf, w.Int64()|1, 10)
	return string(buf)
}

// An envelope is how a connection's node takes commands.
type envelope struct {
	wire     *wire
	cluster  bool // several keys travel in ARGV, of any slots; one alone is declared
	publish  string
	asks     string // how releases of askFrom keys find out who listens
	askFrom  int
	now      clock.Instant
	notAfter int64
	// Scratch: who sends them copies them.
	keys, args []string
	// The last of each: most commands have the same lease, and a thousand of a lone caller's go within a few milliseconds.
	lease, limit decimal
}

// A decimal is a number and its text, which is made once while the number stays.
type decimal struct {
	n    int64
	text string
}

func (d *decimal) of(n int64) string {
	if d.text == "" || d.n != n {
		d.n, d.text = n, strconv.FormatInt(n, 10)
	}
	return d.text
}

// build makes the EVALSHA.
func (c *command) build(e *envelope, to *outbox) {
	// Declared keys must be of one slot. Those of a batch are not, so they travel as arguments.
	if e.cluster && len(c.ops) > 1 {
		e.keys, e.args = e.keys[:0], c.appendArgs(e.args[:0], e, c.ops)
	} else {
		e.keys, e.args = appendKeys(e.keys[:0], c.ops), c.appendArgs(e.args[:0], e, nil)
	}
	to.call(c.script, e.keys, e.args)
}

// copies reports whether further keys may be made from the first one granted: by COPY, or where keys are
// of any slot by RESTORE, which only the script of the plain lock does.
func (c *command) copies(w *wire, anySlot bool) bool {
	switch {
	case len(c.ops) < 2 || w.noCopy.Load():
		return false
	case anySlot:
		return c.ops[0].Family.row().dumps
	default:
		return w.caps.Copy
	}
}

// appendArgs lists the ARGV of the script, with the keys of inline where the script expects them.
func (c *command) appendArgs(args []string, e *envelope, inline []*Op) []string {
	w, first := e.wire, c.ops[0]
	row := first.Family.row()
	// The scripts for one key.
	switch c.script {
	case scriptAcquireOne:
		return append(args, e.lease.of(first.LeaseMs), first.Field, e.limit.of(e.notAfter))
	case scriptReleaseOne:
		publish, channel := first.Family.publish(e.publish), ""
		if publish != "" {
			channel = slot.LockChannel(first.Key)
		}
		return append(args, publish, channel, first.releaseMessage(e.cluster), first.Field)
	}
	// Acquires and reacquires. Where waiters have places in a queue, the arguments are that script's own.
	switch {
	case row.places && first.asks():
		args = append(args, e.lease.of(first.LeaseMs), e.limit.of(e.notAfter),
			flag(first.Waits), fairGraceMs, fairPlaceMs, e.publish, strconv.Itoa(len(inline)))
		return appendFields(appendKeys(args, inline), c.ops)
	case first.Kind == OpAcquire, first.Kind == OpReacquire && row.reacquire == row.acquire:
		args = append(args, e.lease.of(first.LeaseMs), first.Field, e.limit.of(e.notAfter),
			flag(c.copies(w, inline != nil)))
		if row.tells {
			args = append(args, e.publish)
		}
		if row.more != nil {
			args = row.more(args, w, first)
		}
		return appendKeys(args, inline)
	}
	// The other kinds, each as its script wants it.
	switch first.Kind {
	case OpReacquire, OpCount, OpLeave:
		return append(args, e.lease.of(first.leaseMs(e.now)), first.Field, e.limit.of(e.notAfter),
			strconv.FormatInt(int64(first.Count), 10), reacquireMode(first.Kind))
	case OpRelease:
		args = append(args, first.Family.publish(e.publish), first.releaseMessage(e.cluster), strconv.Itoa(len(inline)))
		if c.script == scriptRelease {
			args = append(args, c.ask(e))
		}
		if row.places {
			heirs := heirsOf(c.ops)
			args = append(args, strconv.Itoa(len(heirs)/3), fairGraceMs, fairPlaceMs)
			return append(appendFields(appendKeys(args, inline), c.ops), heirs...)
		}
		return appendFields(appendKeys(args, inline), c.ops)
	case OpExtend:
		return append(args, e.lease.of(first.LeaseMs), flag(w.caps.Greater), "0", first.Field)
	case OpCall:
		return append(args, e.publish, first.Field, strconv.FormatInt(int64(first.Count), 10),
			e.lease.of(first.LeaseMs), e.limit.of(e.notAfter), first.releaseMessage(e.cluster))
	case OpForce:
		args = append(args, first.Family.publish(e.publish), row.message, first.Field, row.forced,
			e.limit.of(e.notAfter))
		if row.values {
			args = append(args, valuesOf(first.Key))
		}
		return args
	case OpQueue:
		if row.values { // an argument each: what a command may be answered goes by how many it has
			args = slices.AppendSeq(args, eachValue(first.Key))
		}
		return args
	default:
		return args
	}
}

// ask is how a release finds out who listens, so that only what somebody hears is published; "": not at all.
func (c *command) ask(e *envelope) string {
	c.asks = e.asks != "" && len(c.ops) >= max(e.askFrom, 2) && !c.ops[0].Family.row().silent &&
		e.wire.heard.worth(len(c.ops), e.now)
	if !c.asks {
		return ""
	}
	return e.asks
}

// insideField is the field that an op's reader is let in beside; "": none.
func (op *Op) insideField() string {
	if !op.Inside {
		return ""
	}
	return op.Sink.(Insider).Inside()
}

// leaseMs is the lease that a command asks for which is made at now.
func (op *Op) leaseMs(now clock.Instant) int64 {
	if s, is := op.Sink.(Lowering); is && op.Kind == OpLeave {
		return s.Keep(now).Milliseconds()
	}
	return op.LeaseMs
}

// reacquireMode is what reacquire.lua calls the kinds of op that it serves.
func reacquireMode(k OpKind) string {
	switch k {
	case OpCount:
		return "1"
	case OpLeave:
		return "2"
	default:
		return "0"
	}
}

func appendKeys(args []string, ops []*Op) []string {
	for _, op := range ops {
		args = append(args, op.key())
	}
	return args
}

// key is the key that the op's script is called for.
func (op *Op) key() string {
	if op.Kind == OpExtend || op.Kind == OpQueue {
		return op.Family.renewKey(op.Key)
	}
	return op.Family.object(op.Key)
}

// appendFields lists the fields of ops in stretches: what was acquired together is mostly released together.
func appendFields(args []string, ops []*Op) []string {
	return appendStretches(args, len(ops), func(i int) string { return ops[i].Field })
}

// appendStretches lists the fields of n keys: a field, and how many keys in a row it is for.
func appendStretches(args []string, n int, field func(i int) string) []string {
	for start := 0; start < n; {
		end := start + 1
		for end < n && field(end) == field(start) {
			end++
		}
		args = append(args, field(start), strconv.Itoa(end-start))
		start = end
	}
	return args
}

// heirsOf lists who may have the locks next that are given back: the number of the key, a field, its lease.
func heirsOf(ops []*Op) (args []string) {
	for i, op := range ops {
		if b, ok := op.Sink.(Bequest); ok {
			for _, h := range b.Heirs() {
				args = append(args, strconv.Itoa(i+1), h.Field, strconv.FormatInt(h.LeaseMs, 10))
			}
		}
	}
	return args
}

// bequeaths reports whether the release of op may have been passed on to the waiter with this number.
func (op *Op) bequeaths(number int64) bool {
	b, ok := op.Sink.(Bequest)
	return ok && slices.ContainsFunc(b.Heirs(), func(h Heir) bool {
		return strings.HasSuffix(h.Field, fairMark+strconv.FormatInt(number, 10))
	})
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
