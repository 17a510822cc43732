package resp

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A direct is a connection that one lane has for itself. Its client has dialled it, greeted the server and
// authenticated itself; the lane writes and reads, on whichever goroutine runs its round. So a round costs a write and
// a read, and no goroutine beside. What has arrived is kept when the rest does not come.
type direct struct {
	conn *watched
	out  []byte // the commands of the round
	sent int    // bytes of it that were written

	in    []byte // what has come
	first uint64 // how many commands had been answered before the round
	asked int    // commands of the round

	replies []rueidis.RedisResult
	form    cacheForm

	peeker      *peeker // whether it has ended meanwhile
	probe       [1]byte // see buffered
	poll        busyPoll
	polls       bool        // its lane polls for the replies of this round
	limited     bool        // it has a deadline
	interrupted atomic.Bool // it has one that is over
}

// stale reports whether the connection is of no more use, while nothing is on its way. Nobody has asked for what is
// there to be read, or for that of which a part came with the last reply: it is the end of the connection, or that of
// its TLS, or nothing good. Blocks: never.
func (d *direct) stale() bool {
	if !d.conn.in.between() {
		return true
	}
	_, secure := d.conn.Conn.(*tls.Conn)
	if !d.peeker.ready() {
		return secure && d.buffered()
	}
	// The guard says what it is, and counts. By TLS there may be a part of a message only, for which it would wait.
	if !secure {
		_, _ = d.conn.receive(make([]byte, directRead))
	}
	return true
}

// buffered reports whether TLS has read more than it has delivered: one read from the network may bring several of its
// records, and the peeker does not see them any more. Blocks: never.
func (d *direct) buffered() bool {
	_ = d.conn.SetReadDeadline(past) // nothing is read from the network
	n, err := d.conn.receive(d.probe[:])
	reset := d.conn.SetReadDeadline(time.Time{})
	return n > 0 || !timedOut(err) || reset != nil
}

const (
	directRead  = 16 << 10 // bytes that one read takes at least
	directKeep  = 1 << 20  // a larger buffer is given back after its round
	hijackLimit = time.Second
	// leadMost is how long a leader waits for its round. Its own caller may want to leave at any time; a server that is
	// well answers within a tenth of this.
	leadMost = time.Millisecond
	// leadBytes is how much a leader writes.
	leadBytes = 32 << 10
	// idlePing is after how long without a round the server is asked for a sign of life: servers and what stands before
	// them close what is idle for long.
	idlePing = time.Second
)

// claimWord is what a connection says to be found by: PING's argument.
func claimWord(n uint64) string { return "hf" + strconv.FormatUint(n%1e9, 10) }

// Commands.

// begin forgets the round before.
func (d *direct) begin() {
	d.out, d.sent, d.asked = d.out[:0], 0, 0
	if cap(d.out) > directKeep {
		d.out = nil
	}
}

// add adds a command, in up to three parts.
func (d *direct) add(parts ...[]string) {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	d.out = appendLength(d.out, '*', n)
	for _, part := range parts {
		for _, text := range part {
			d.out = appendLength(d.out, '$', len(text))
			d.out = append(d.out, text...)
			d.out = append(d.out, '\r', '\n')
		}
	}
	d.asked++
}

func appendLength(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

// Rounds.

// errLeft is what a leader gets whose time is over: the rest of the round is the worker's.
var errLeft = errors.New("the round goes on without its leader")

// open begins to send the round, which is for so many ops. Its lane may poll for the replies, or not.
func (d *direct) open(ops int, mayPoll bool) {
	d.in, d.first = d.in[:0], d.conn.in.answered
	d.conn.out.scan(d.out)
	d.polls = d.peeker != nil && d.poll.begin(time.Now(), ops, mayPoll)
}

// talk sends what is not sent and reads what has not come, until the round is complete or its time is over. A leader
// leaves it before that, after leadMost, and somebody else calls talk again. Blocks: until one of these.
func (d *direct) talk(over func() bool, leads bool) error {
	// A write that is cut in the middle would end TLS. One that is small does not wait: nothing else is on its way.
	if leads && len(d.out) > leadBytes {
		return errLeft
	}
	if err := d.limit(over, leads); err != nil {
		return err
	}
	for {
		err := d.step()
		switch {
		case err == nil && d.left() == 0:
			d.poll.end(time.Now())
			return nil
		case err == nil:
		case !timedOut(err):
			return err
		// A deadline that is over may be one that was meant for the round before.
		case leads && !over():
			d.poll.end(time.Now())
			return errLeft
		default:
			if err := d.limit(over, false); err != nil {
				return err
			}
		}
	}
}

// limit sets the deadline. First set, then asked: who ends the round notes that first, and then makes the deadline one
// that is over.
func (d *direct) limit(over func() bool, leads bool) error {
	var err error
	if d.limited && !leads || d.interrupted.Load() {
		d.limited = false
		d.interrupted.Store(false)
		err = d.conn.SetDeadline(time.Time{})
	}
	if leads && err == nil {
		d.limited, err = true, d.conn.SetReadDeadline(time.Now().Add(leadMost))
	}
	if err == nil && over() {
		return context.DeadlineExceeded
	}
	return err
}

// interrupt ends what waits for the connection. Any goroutine may call it.
func (d *direct) interrupt() {
	d.interrupted.Store(true)
	_ = d.conn.SetDeadline(past)
}

// step writes, or reads once everything is written.
func (d *direct) step() error {
	if d.sent < len(d.out) {
		n, err := d.conn.push(d.out[d.sent:])
		d.sent += n
		return err
	}
	if cap(d.in)-len(d.in) < directRead {
		grown := make([]byte, len(d.in), max(2*cap(d.in), 2*directRead))
		copy(grown, d.in)
		d.in = grown
	}
	if d.polls {
		d.polls = false
		d.poll.poll(d.peeker.ready)
	}
	n, err := d.conn.receive(d.in[len(d.in):cap(d.in)])
	d.in = d.in[:len(d.in)+n]
	return err
}

// left is how many replies of the round have not come.
func (d *direct) left() int {
	if d.sent < len(d.out) {
		return d.asked
	}
	return d.asked - int(d.conn.in.answered-d.first) //nolint:gosec // few
}

// finish returns the replies that have come, and the error for the others. They are valid until the next round.
func (d *direct) finish(failed error) []rueidis.RedisResult {
	clear(d.replies)
	d.replies = d.replies[:0]
	at, there := 0, d.asked-d.left()
	for range there {
		kind := byte('>')
		for kind == '>' { // a push is no reply
			at = d.form.passOver(d.in, at)
			kind = d.in[at]
			d.form.bytes = append(d.form.bytes[:0], cacheHead...)
			at = d.form.add(d.in, at)
		}
		d.replies = append(d.replies, d.form.message())
	}
	for len(d.replies) < d.asked {
		d.replies = append(d.replies, rueidis.NewErrorResult(failed))
	}
	if cap(d.in) > directKeep {
		d.in = nil
	}
	return d.replies
}

// Replies.

// A reply is made the client's message by the form in which the client caches messages: that is its only public way to
// make one. The form belongs to a version of the client, so it is looked at once before it is used: see hasCacheForm.

// cacheHead is what the form begins with: no time to live.
const cacheHead = "\x00\x00\x00\x00\x00\x00\x00"

// A cacheForm is a reply in that form.
type cacheForm struct {
	bytes []byte
	texts bool // the message points into bytes
}

// add appends what begins at in[at], and returns where the next one begins. The guard has seen that it is whole.
func (c *cacheForm) add(in []byte, at int) (next int) {
	at = c.passOver(in, at)
	kind := in[at]
	line, next := lineAt(in, at+1)
	switch kind {
	case ':':
		n, _ := integer(line)
		c.head(kind, n)
		return next
	case '_':
		c.head(kind, 0)
		return next
	case '#':
		n := int64(0)
		if line[0] == 't' {
			n = 1
		}
		c.head(kind, n)
		return next
	case '+', '-', ',', '(':
		c.text(kind, line)
		return next
	}
	// What comes with a length.
	n, _ := integer(line)
	if n < 0 { // RESP2's null
		c.head('_', 0)
		return next
	}
	switch kind {
	case '$', '=', '!':
		end := next + int(n)
		c.text(kind, in[next:end])
		return end + len("\r\n")
	case '%':
		n *= 2
	case '>': // within an array, which the client makes an array of
		kind = '*'
	}
	c.head(kind, n)
	for range n {
		next = c.add(in, next)
	}
	return next
}

// passOver passes over attributes: they describe what follows, and are none themselves. There may be any number.
func (c *cacheForm) passOver(in []byte, at int) (next int) {
	for in[at] == '|' {
		line, next := lineAt(in, at+1)
		n, _ := integer(line)
		before := *c
		for range 2 * n {
			next = c.add(in, next)
		}
		*c = cacheForm{before.bytes, before.texts}
		at = next
	}
	return at
}

func (c *cacheForm) head(kind byte, n int64) {
	c.bytes = append(c.bytes, kind)
	c.bytes = binary.BigEndian.AppendUint64(c.bytes, uint64(n)) //nolint:gosec // its bits
}

func (c *cacheForm) text(kind byte, text []byte) {
	c.head(kind, int64(len(text)))
	c.bytes = append(c.bytes, text...)
	c.texts = c.texts || len(text) > 0
}

// message makes the client's message of it.
func (c *cacheForm) message() rueidis.RedisResult {
	var m rueidis.RedisMessage
	err := m.CacheUnmarshalView(c.bytes)
	if c.texts {
		*c = cacheForm{} // the memory is the message's
	}
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return rueidis.NewResult(m, nil)
}

// lineAt returns the line from at on without its end, and where the next one begins.
func lineAt(in []byte, at int) (line []byte, next int) {
	for end := at; ; end++ {
		if in[end] == '\n' {
			return in[at : end-1], end + 1
		}
	}
}

// hasCacheForm reports whether this version of the client has the form that add makes.
//
//nolint:gochecknoglobals // it is asked once
var hasCacheForm = sync.OnceValue(func() bool {
	const said = "*3\r\n:-7\r\n$2\r\nab\r\n*1\r\n-OOM no\r\n"
	c := cacheForm{bytes: []byte(cacheHead)}
	c.add([]byte(said), 0)
	m := c.message()
	values, err := m.ToArray()
	if err != nil || len(values) != 3 {
		return false
	}
	n, err := values[0].AsInt64()
	text, err2 := values[1].ToString()
	inner, err3 := values[2].ToArray()
	if err != nil || err2 != nil || err3 != nil || n != -7 || text != "ab" || len(inner) != 1 {
		return false
	}
	refused, is := rueidis.IsRedisErr(inner[0].Error())
	return is && refused.Error() == "OOM no"
})
