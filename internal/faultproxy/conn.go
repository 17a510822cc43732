package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

const readBuffer = 64 << 10

// conn is one connection through the proxy.
type conn struct {
	proxy    *Proxy
	client   *net.TCPConn
	server   *net.TCPConn
	toServer *line // filled by readCommands
	toClient *line // filled by readReplies and, to sever, by readCommands
	once     sync.Once
	done     chan struct{} // closed by close

	hung bool // no reply is delivered any more; readReplies only

	// out makes one step of taking a command off the list and putting its reply on
	// the line: what is put behind an empty list is behind all replies. Taken before
	// the proxy's lock.
	out sync.Mutex

	mu          sync.Mutex
	pending     []pending // commands whose replies have not come, in order
	ended       bool      // close has given up the pending ones
	resp3       bool
	passThrough bool // RESP2 with subscriptions: replies cannot be matched
}

// pending is a command that waits for its reply.
type pending struct {
	cmd   []string
	drop  *Rule  // swallows the reply; nil if none does
	sub   string // the kind of push that confirms it, if that is its reply
	want  int    // confirmations to come
	seen  bool   // a confirmation has come
	sever func() // not a command: close the connection when everything before is answered
}

func newConn(p *Proxy, client, server *net.TCPConn) *conn {
	return &conn{
		proxy: p, client: client, server: server,
		toServer: newLine(), toClient: newLine(), done: make(chan struct{}),
	}
}

// start starts the connection's four goroutines; they end by close.
func (c *conn) start() {
	running := &c.proxy.running
	running.Go(c.readCommands)
	running.Go(c.readReplies)
	running.Go(func() { c.deliver(c.toServer, c.server) })
	running.Go(func() { c.deliver(c.toClient, c.client) })
}

// close ends the connection on both sides, by RST if hard.
func (c *conn) close(hard bool) {
	c.once.Do(func() {
		if hard {
			reset(c.client)
			reset(c.server)
		}
		_ = c.client.Close()
		_ = c.server.Close()
		close(c.done)
		c.toServer.close()
		c.toClient.close()
		c.mu.Lock()
		left := c.pending
		c.pending, c.ended = nil, true
		c.mu.Unlock()
		c.leave(left)
	})
}

// leave takes the closed connection off the proxy's books.
func (c *conn) leave(left []pending) {
	c.proxy.mu.Lock()
	c.proxy.solveLocked(-len(left))
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
	for _, e := range left {
		if e.sever != nil {
			e.sever()
		}
	}
}

// readCommands is the goroutine that reads the client. When the client ends, the
// server is told so behind everything that is still on the line.
func (c *conn) readCommands() {
	r := bufio.NewReaderSize(c.client, readBuffer)
	for {
		cmd, raw, err := readCommand(r)
		if errors.Is(err, errProtocol) {
			c.close(true)
			return
		}
		if err != nil {
			c.toServer.put(item{end: eof})
			return
		}
		if len(cmd) == 0 { // "*0": servers ignore it
			continue
		}
		if !c.command(cmd, raw) {
			return
		}
	}
}

// command sends one command on its way, or reports false if a rule drops it.
func (c *conn) command(cmd []string, raw []byte) bool {
	p := c.proxy
	p.mu.Lock()
	p.stats.Commands[strings.ToUpper(cmd[0])]++
	if r := p.chooseLocked(dropCommand, cmd); r != nil {
		p.stats.CommandsDropped++
		p.mu.Unlock()
		c.severAfterPending(func() { r.strike(cmd) })
		return false
	}
	if r := p.chooseLocked(refuseCommand, cmd); r != nil {
		r.strike(cmd)
		cmd, raw = r.refusal()
	}
	hold := p.chooseLocked(holdCommand, cmd)
	if hold != nil {
		c.toServer.hold()
	}
	c.expect(pending{cmd: cmd, drop: p.chooseLocked(dropReply, cmd)})
	p.mu.Unlock()
	c.toServer.put(item{raw: raw, due: due(p.toServer.Load())})
	if hold != nil {
		hold.strike(cmd)
	}
	return true
}

func due(delay int64) time.Time {
	if delay <= 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(delay))
}

// expect notes that a reply to the command will come. The proxy's lock is held: the
// command counts as unsolved from the moment a rule has chosen it.
func (c *conn) expect(e pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := strings.ToLower(e.cmd[0])
	switch name {
	case "hello":
		c.resp3 = c.resp3 || len(e.cmd) > 1 && e.cmd[1] == "3"
	case "reset":
		c.resp3 = false
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		e.sub, e.want = name, max(1, len(e.cmd)-1)
		if !c.resp3 {
			c.passThrough = true
			c.proxy.solveLocked(-len(c.pending))
			c.pending = nil
		}
	}
	if c.passThrough || c.ended {
		return
	}
	c.pending = append(c.pending, e)
	c.proxy.solveLocked(+1)
}

// severAfterPending closes the connection when all commands before are answered.
func (c *conn) severAfterPending(then func()) {
	c.out.Lock()
	defer c.out.Unlock()
	c.proxy.mu.Lock()
	c.mu.Lock()
	now := len(c.pending) == 0
	if !now && !c.ended {
		c.pending = append(c.pending, pending{sever: then})
		c.proxy.solveLocked(+1)
	}
	c.mu.Unlock()
	c.proxy.mu.Unlock()
	if now {
		c.sever(then)
	}
}

// sever closes the connection behind the replies that are on the line.
func (c *conn) sever(then func()) {
	c.toClient.put(item{end: sever, then: then})
}

// readReplies is the goroutine that reads the server, until it ends. A reply that is
// not RESP ends the connection, too.
func (c *conn) readReplies() {
	r := bufio.NewReaderSize(c.server, readBuffer)
	for {
		raw, start, err := readReply(r)
		if err != nil {
			c.toClient.put(item{end: eof})
			return
		}
		c.out.Lock()
		c.reply(raw, raw[start:])
		c.out.Unlock()
	}
}

// reply delivers one reply or push, or swallows it.
func (c *conn) reply(raw, frame []byte) {
	var e pending
	if c.isPush(frame) {
		texts := items(frame)
		if channel, ok := messageChannel(texts); ok && c.dropMessage(texts[0], channel) {
			return
		}
		e = c.confirmed(texts)
	} else {
		e = c.answered(frame)
	}
	switch {
	case c.hung: // nothing is delivered any more
	case e.drop != nil:
		c.dropReply(e)
	default:
		it := item{raw: raw, due: due(c.proxy.toClient.Load())}
		if m := c.proxy.mangler.Load(); m != nil {
			var last bool
			if it.raw, last = m.change(raw, frame[0] == '>'); last {
				it.end, c.hung = sever, true
			}
		}
		c.toClient.put(it)
	}
	if e.sever != nil {
		c.sever(e.sever)
	}
}

// isPush reports whether a frame is out of band.
func (c *conn) isPush(frame []byte) bool {
	if frame[0] == '>' {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passThrough && frame[0] == '*'
}

// messageChannel returns the channel of a pub/sub message.
func messageChannel(texts []string) (string, bool) {
	switch {
	case len(texts) >= 3 && (texts[0] == "message" || texts[0] == "smessage"):
		return texts[1], true
	case len(texts) >= 4 && texts[0] == "pmessage":
		return texts[2], true
	}
	return "", false
}

func (c *conn) dropMessage(kind, channel string) bool {
	r := c.proxy.chooseMessage(channel)
	if r == nil {
		return false
	}
	c.proxy.mu.Lock()
	c.proxy.stats.MessagesDropped++
	c.proxy.mu.Unlock()
	r.strike([]string{kind, channel})
	return true
}

// dropReply swallows the reply to e as its rule says.
func (c *conn) dropReply(e pending) {
	c.proxy.mu.Lock()
	c.proxy.stats.RepliesDropped++
	c.proxy.mu.Unlock()
	c.hung = true // even before a cut: later replies must not slip out
	if e.drop.after == Hang {
		e.drop.strike(e.cmd)
		return
	}
	c.sever(func() { e.drop.strike(e.cmd) })
}

// answered takes the command that a reply belongs to off the list. Confirmed
// subscriptions were taken off before; one that was refused got an error reply.
func (c *conn) answered(frame []byte) pending {
	isError := frame[0] == '-' || frame[0] == '!'
	c.mu.Lock()
	var e pending
	taken := 0
	for taken < len(c.pending) && c.pending[taken].sever == nil {
		e = c.pending[taken]
		taken++
		if e.sub == "" || isError && !e.seen {
			break
		}
		e = pending{}
	}
	if isError && len(e.cmd) > 0 && strings.EqualFold(e.cmd[0], "hello") {
		c.resp3 = false
	}
	c.shiftLocked(taken)
	taken += c.severNextLocked(&e)
	c.mu.Unlock()
	c.proxy.solve(-taken)
	return e
}

// confirmed counts a push of that kind as a reply to the subscription that is first
// in the list, if it is one of that kind.
func (c *conn) confirmed(texts []string) pending {
	c.mu.Lock()
	var e pending
	taken := 0
	if len(c.pending) > 0 && len(texts) > 0 && c.pending[0].sub == texts[0] {
		first := &c.pending[0]
		first.seen = true
		first.want--
		e.drop, e.cmd = first.drop, first.cmd
		if first.want <= 0 {
			c.shiftLocked(1)
			taken = 1 + c.severNextLocked(&e)
		}
	}
	c.mu.Unlock()
	if taken > 0 {
		c.proxy.solve(-taken)
	}
	return e
}

// severNextLocked takes an order to sever off the list if it is due, into e. It
// returns how many entries it has taken.
func (c *conn) severNextLocked(e *pending) int {
	if len(c.pending) == 0 || c.pending[0].sever == nil {
		return 0
	}
	e.sever = c.pending[0].sever
	c.shiftLocked(1)
	return 1
}

// shiftLocked removes the first n entries without moving the others: a pipeline can
// be thousands of commands deep.
func (c *conn) shiftLocked(n int) {
	clear(c.pending[:n])
	c.pending = c.pending[n:]
}

// deliver is the goroutine that writes what a line carries. A side that does not take
// it any more does not matter: what is left is read off the line and dropped, so that
// late commands still run and their replies are still counted.
func (c *conn) deliver(l *line, dst *net.TCPConn) {
	for {
		left := l.take()
		if left == nil {
			return
		}
		for len(left) > 0 {
			n := c.awaitDue(left)
			c.proxy.gate.pass(c.done)
			c.write(left[:n], dst)
			left = left[n:]
		}
	}
}

// awaitDue waits until the first item is due and returns how many can go at once.
func (c *conn) awaitDue(items []item) int {
	if wait := time.Until(items[0].due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
		}
	}
	now := time.Now()
	for n, it := range items[1:] {
		if items[n].end != goOn || it.due.After(now) {
			return n + 1
		}
	}
	return len(items)
}

// write writes items in one piece; only the last can carry an end.
func (c *conn) write(items []item, dst *net.TCPConn) {
	parts := make([][]byte, len(items))
	for i, it := range items {
		parts[i] = it.raw
	}
	if all := bytes.Join(parts, nil); len(all) > 0 {
		_, _ = dst.Write(all)
	}
	last := items[len(items)-1]
	switch {
	case last.end == eof && dst == c.server:
		_ = dst.CloseWrite()
	case last.end != goOn:
		c.close(false)
	}
	if last.then != nil {
		last.then()
	}
}
