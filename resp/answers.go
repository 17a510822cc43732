package resp

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// outcome is what has to happen with a command after its reply.
type outcome uint8

const (
	settled  outcome = iota // every op has its result
	tooLate                 // the not-after had passed: send again, with the time it told us
	noScript                // load the scripts, send again
	split                   // refused as a whole for what may be one key's fault
)

// readReply reads the reply of a command into the results of its ops.
func (c *command) readReply(w *wire, reply rueidis.RedisResult, sentAt, received clock.Instant) outcome {
	for i := range c.results {
		c.results[i] = Result{SentAt: sentAt, ReceivedAt: received}
	}
	if n, is := numberOf(w, reply); is {
		return c.readNumber(w, n, received)
	}
	values, failed := arrayOf(w, c.script, reply)
	if failed != nil {
		return c.fail(w, failed)
	}
	if k := c.ops[0].Kind; k == OpInspect || k == OpQueue {
		return c.readInspect(w, values)
	}
	now, ok := serverTime(values)
	if !ok {
		return c.malformed(w, values)
	}
	w.est.learn(now, received)
	return c.readKeys(w, values)
}

// readKeys reads what follows the server's time.
func (c *command) readKeys(w *wire, values []rueidis.RedisMessage) outcome {
	switch first := c.ops[0]; first.Kind {
	case OpAcquire, OpReacquire, OpCount, OpLeave:
		switch {
		case len(values) == 1:
			return tooLate
		case c.script == scriptAcquireOne:
			return c.readOne(w, values)
		case c.script == first.Family.row().count:
			return c.readReacquire(w, values)
		case first.Family.row().meets:
			return c.readMeeting(w, values)
		case first.Family.row().opens:
			return c.readLook(w, values)
		case first.Family.row().tokens:
			return c.readTokens(w, values)
		default:
			return c.readSparse(w, values, CodeGranted)
		}
	case OpForce:
		return c.readForce(w, values)
	case OpCall:
		return c.readCall(w, values)
	case OpRelease:
		if c.script == scriptReleaseOne { // it answers numbers only
			return c.malformed(w, values)
		}
		return c.readSparse(w, values, CodeReleased)
	default:
		return c.readSparse(w, values, CodeRenewed)
	}
}

// leastTime tells times, in ms, from all other numbers that scripts answer: a reply that belongs to another command is
// no grant. It is a day of 1973.
const leastTime = 100_000_000_000

// readNumber reads the number that a script for one key answers: of an acquire the server's time, when it was granted;
// of a release who heard it, or what else has become of the lock.
func (c *command) readNumber(w *wire, n int64, received clock.Instant) outcome {
	r, ok := &c.results[0], false
	switch {
	case c.script == scriptAcquireOne && n >= leastTime:
		w.est.learn(n, received)
		r.Code = CodeGranted
		return settled
	case c.script == scriptReleaseOne && n >= 0 && n < leastTime:
		r.Code, r.Value, ok = CodeReleased, n, true
	case c.script == scriptReleaseOne && n >= -2 && n < 0:
		r.Code, r.Value, ok = codeOf(CodeReleased, n)
	}
	if !ok {
		return c.fail(w, malformedText(c.script.name, strconv.FormatInt(n, 10)))
	}
	return settled
}

// readOne reads {now, v} of an acquire of one key that was not granted.
func (c *command) readOne(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values) != 2 {
		return c.malformed(w, values)
	}
	r := &c.results[0]
	if v, ok := number(&values[1]); ok {
		if r.Code, r.Value, ok = codeOf(CodeGranted, v); !ok {
			return c.malformed(w, values)
		}
		return settled
	}
	if _, is := rueidis.IsRedisErr(values[1].Error()); !is {
		return c.malformed(w, values)
	}
	r.Code, r.Err = CodeError, classify(values[1].Error())
	return settled
}

// malformed answers every op of the command that its outcome is unknown.
func (c *command) malformed(w *wire, values []rueidis.RedisMessage) outcome {
	return c.fail(w, malformed(c.script.name, values))
}

// noteUndeclared notes who was refused in words that we do not know where several keys of a cluster travel undeclared:
// that may be what the server minds.
func (c *command) noteUndeclared() {
	if len(c.ops) == 1 {
		return
	}
	for i := range c.results {
		if err := c.results[i].Err; err != nil && err.Class == ClassOther {
			c.ops[i].among = true
		}
	}
}

// fail gives every op the same error, unless something can be done about it first.
func (c *command) fail(w *wire, err *ServerError) outcome {
	if err.malformed {
		w.malformed.Store(true)
	}
	if err.Class == ClassNoScript && c.reloads < maxReloads {
		return noScript
	}
	if err.Class.perKey() && len(c.ops) > 1 {
		return split
	}
	for i := range c.results {
		c.results[i].Code, c.results[i].Value, c.results[i].Err = CodeError, 0, err
	}
	return settled
}

// readSparse reads {now, n, i, v, ...}: n keys answered normal, the others are named, in their order.
func (c *command) readSparse(w *wire, values []rueidis.RedisMessage, normal Code) outcome {
	sparse, n, ok := sparseOf(values, 2, len(c.ops))
	if !ok {
		return c.malformed(w, values)
	}
	// Each key has answered as most do, unless it is named.
	for i := range c.results {
		c.results[i].Code = normal
	}
	named, normals := int64(0), int64(0) // keys named in the reply, and those of them that are normal after all
	refusesCopy, inVain := false, int64(0)
	for sparse.next() {
		// Key 0 is none: it says that the ACL refused to copy. The keys were acquired one by one.
		if sparse.at == 0 && normal == CodeGranted {
			refusesCopy = true
			continue
		}
		// Or why each key was published although it was asked who listens.
		if sparse.at == 0 && c.asks && sparse.refused == nil && inVain == 0 && named == 0 && sparse.v != 0 {
			inVain = sparse.v
			continue
		}
		if sparse.at < 0 && c.ops[0].Family.row().places && normal == CodeGranted && sparse.tellsMore() {
			r := &c.results[sparse.last-1]
			if r.Code != CodeBusy || r.Since != 0 || sparse.v <= 0 {
				return c.malformed(w, values)
			}
			r.Since = sparse.v
			continue
		}
		if !sparse.rises() {
			return c.malformed(w, values)
		}
		r := &c.results[sparse.at-1]
		named++
		if sparse.refused != nil {
			r.Code, r.Err = CodeError, sparse.refused
			continue
		}
		r.Code, r.Value, ok = codeOf(normal, sparse.v)
		if !ok || r.Code == CodePassed && !c.ops[sparse.at-1].bequeaths(r.Value) {
			return c.malformed(w, values)
		}
		if r.Code == normal || r.Code == CodePassed {
			normals++
		}
	}
	// The script counts, too. A key that it neither counted nor named must not pass for granted.
	if sparse.bad || n+named-normals != int64(len(c.ops)) {
		return c.malformed(w, values)
	}
	if inVain != 0 && !w.heard.inVain(inVain, len(c.ops), c.results[0].ReceivedAt) {
		return c.malformed(w, values)
	}
	// Believed only now: nothing is learnt from a reply that is malformed.
	if refusesCopy {
		w.noCopy.Store(true)
	}
	return settled
}

// readTokens reads {now, n, token, i, v, ...}: n keys were granted with this token, the others are named, in their
// order, with a token of their own or why there is none.
func (c *command) readTokens(w *wire, values []rueidis.RedisMessage) outcome {
	sparse, n, ok := sparseOf(values, 3, len(c.ops))
	if !ok {
		return c.malformed(w, values)
	}
	// The token of those that are not named. Tokens are above 0, so a grant without one is no grant.
	token, ok := number(&values[2])
	if !ok || n > 0 && token <= 0 {
		return c.malformed(w, values)
	}
	for i := range c.results {
		c.results[i].Code, c.results[i].Value = CodeGranted, token
	}
	// Those that are named: a token of their own, or why there is none.
	for sparse.next() {
		if !sparse.rises() {
			return c.malformed(w, values)
		}
		n++
		r := &c.results[sparse.at-1]
		switch v := sparse.v; {
		case sparse.refused != nil:
			r.Code, r.Value, r.Err = CodeError, 0, sparse.refused
		case v > 0:
			r.Value = v
		case v == -3:
			r.Code, r.Value = CodeWrongKind, 0
		case v == -1:
			r.Code, r.Value = CodeBusy, -1
		case v <= -10:
			r.Code, r.Value = CodeBusy, lifeMs(-(v + 10))
		default:
			return c.malformed(w, values)
		}
	}
	// As in readSparse: each key is counted or named.
	if sparse.bad || n != int64(len(c.ops)) {
		return c.malformed(w, values)
	}
	return settled
}

// codeOf reads the number of a key that did not answer as most do. False: no script of ours answers it.
func codeOf(normal Code, v int64) (Code, int64, bool) {
	switch {
	case normal == CodeGranted && v == -3:
		return CodeWrongKind, 0, true
	case normal == CodeGranted:
		return CodeBusy, lifeMs(v), v > -3
	case normal == CodeReleased && v == -2:
		return CodeReleased, -1, true
	case normal == CodeReleased && v <= -10:
		return CodePassed, -(v + 10), true
	case normal == CodeReleased && v > 0:
		return CodeReleased, v, true
	default:
		return CodeNotOurs, 0, v == -1
	}
}

// readForce reads {now, code}.
func (c *command) readForce(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values) == 1 {
		return tooLate
	}
	code, ok := number(&values[1])
	switch {
	case !ok || len(values) != 2:
		return c.malformed(w, values)
	case code == 0:
		c.results[0].Code = CodeNone
	case code == 1:
		c.results[0].Code = CodeReleased
	case code == -3:
		c.results[0].Code = CodeWrongKind
	default:
		return c.malformed(w, values)
	}
	return settled
}

// readCall reads {now, code, v}.
func (c *command) readCall(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values) == 1 {
		return tooLate
	}
	return c.readCoded(w, values, map[int64]Code{0: CodeNone, 1: CodeDone, -3: CodeWrongKind})
}

// readLook reads {now, code, mark}.
func (c *command) readLook(w *wire, values []rueidis.RedisMessage) outcome {
	return c.readCoded(w, values, map[int64]Code{
		0: CodeBusy, 1: CodeGranted, 2: CodeOpened, 3: CodeGone, 4: CodeDeleted, -3: CodeWrongKind,
	})
}

// readMeeting reads {now, code, ms, verdicts}.
func (c *command) readMeeting(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values) != 4 {
		return c.malformed(w, values)
	}
	code, ok1 := number(&values[1])
	ms, ok2 := number(&values[2])
	verdicts, err := values[3].ToString()
	r := &c.results[0]
	switch {
	case !ok1 || !ok2 || err != nil || ms < -1 || strings.Trim(verdicts, "wpbnu") != "":
		return c.malformed(w, values)
	case code == 0 && (verdicts == "" || len(verdicts) == partiesOf(c.ops[0].Field)):
		r.Code, r.Value, r.Verdicts = CodeMet, lifeMs(ms), verdicts
	case code == -3 && verdicts == "":
		r.Code = CodeWrongKind
	default:
		return c.malformed(w, values)
	}
	return settled
}

// partiesOf is how many parties a request names, see barrier.lua.
func partiesOf(request string) int { return strings.Count(request, "/") }

// readCoded reads {now, code, v}, where code is one of these.
func (c *command) readCoded(w *wire, values []rueidis.RedisMessage, codes map[int64]Code) outcome {
	if len(values) != 3 {
		return c.malformed(w, values)
	}
	code, ok1 := number(&values[1])
	v, ok2 := number(&values[2])
	known, ok3 := codes[code]
	if !ok1 || !ok2 || !ok3 {
		return c.malformed(w, values)
	}
	c.results[0].Code, c.results[0].Value = known, v
	return settled
}

// readReacquire reads {now, code, v}.
func (c *command) readReacquire(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values) != 3 {
		return c.malformed(w, values)
	}
	code, ok1 := number(&values[1])
	v, ok2 := number(&values[2])
	if !ok1 || !ok2 {
		return c.malformed(w, values)
	}
	r, must := &c.results[0], reacquireMode(c.ops[0].Kind) != "0" // it asked only whether the lock is ours
	r.Value = lifeMs(v)
	switch {
	case code == 1 && !must:
		r.Code = CodeGranted
	case code == 2:
		r.Code = CodeOurs
	case code == 0 && !must && v > -3:
		r.Code = CodeBusy
	case code == -1 && must:
		r.Code = CodeGone
	case code == -3:
		r.Code = CodeWrongKind
	default:
		return c.malformed(w, values)
	}
	return settled
}

// readInspect reads {ms, name, number, name, number, ...}, or of a hash that has more fields, or longer ones, than
// are read {ms, how many, mode}.
func (c *command) readInspect(w *wire, values []rueidis.RedisMessage) outcome {
	if len(values)%2 == 0 {
		return c.malformed(w, values)
	}
	left, ok := number(&values[0])
	if !ok || left < -2 {
		return c.malformed(w, values)
	}
	r := &c.results[0]
	if len(values) == 3 && values[1].IsInt64() { // a field is a text, whatever it says
		more, _ := number(&values[1])
		if more < 1 {
			return c.malformed(w, values)
		}
		r.More, values = more, values[1:]
	}
	fields := make([]string, 0, len(values)-1)
	for i := range values[1:] {
		text, err := values[1+i].ToString()
		if err != nil {
			return c.malformed(w, values)
		}
		fields = append(fields, text)
	}
	r.Code, r.Value, r.Fields = CodeInspected, lifeMs(left), fields
	return settled
}
