package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// The simulated network: what stands below a lane. A simServer runs commands on a twin of Redis, a simClient
// dials it, a simConn carries commands and answers, simSubs carries messages.

// A simServer is one Redis server: a keyspace, a clock of its own, and who listens.
type simServer struct {
	refuses func(args []string) string // of a scene: the error that a command is refused with, or none
	s       *sim
	w       *world.World
	twin    *twin.Server
	skew    time.Duration
	drift   float64 // of its clock's rate
	epoch   int64   // what it shows at the world's beginning, in µs since 1970
	stopped clock.Instant
	dark    clock.Instant // until then nothing arrives, and nobody is let in
	renews  bool          // but renewals
	conns   []*simConn
	subs    []*simSubs
	reds    *simReds // it is one of several; nil: it is the only one
	runs    int      // how many servers it was so far
}

func newSimServer(s *sim) *simServer {
	v := &simServer{s: s, w: s.w, twin: twin.New(), epoch: s.w.Wall(s.w.Now()).UnixMicro() - int64(s.w.Now())/1000}
	v.adopt(v.twin)
	return v
}

// adopt makes a keyspace the server's.
func (v *simServer) adopt(t *twin.Server) {
	v.twin = t
	v.runs++
	t.Run = strconv.Itoa(v.runs)
	t.Micros, t.Publish, t.Listeners, t.Channels, t.Acks = v.micros, v.publish, v.listeners, v.channels, 1
}

// micros is what the server's clock shows: it may be stepped, and run fast or slow.
func (v *simServer) micros() int64 {
	now := int64(v.w.Now())
	shown := v.epoch + now/1000 + v.skew.Microseconds()
	if v.drift != 0 {
		shown += int64(float64(now) / 1000 * v.drift)
	}
	return shown
}

// publish sends a message to every connection that is subscribed, and counts them.
func (v *simServer) publish(channel, message string) int64 {
	if v.s.published != nil {
		v.s.published[channel] = true
	}
	heard := int64(0)
	for _, sub := range v.subs {
		if sub.subscribed(channel) {
			heard++
			sub.deliver(channel, message)
		}
	}
	return heard
}

// listeners counts the connections that are subscribed to a channel.
func (v *simServer) listeners(channel string) (n int64) {
	for _, sub := range v.subs {
		if sub.subscribed(channel) {
			n++
		}
	}
	return n
}

// channels lists the channels that somebody is subscribed to.
func (v *simServer) channels(bool) (all []string) {
	for _, sub := range v.subs {
		for _, ch := range sub.order {
			if sub.subscribed(ch.name) {
				all = append(all, ch.name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// run executes one command that an engine has sent.
func (v *simServer) run(args []string, r *simRound) twin.Reply {
	v.s.commands++
	if v.reds != nil {
		reply := v.twin.Do(args)
		v.reds.check()
		return reply
	}
	before := v.s.beforeCommand(args)
	before.from, before.sent = r.conn.client, r.sent
	v.audience()
	published := v.beforePublish(args, before.script)
	if v.refuses != nil {
		defer func(was string) { v.twin.Refuse = was }(v.twin.Refuse)
		v.twin.Refuse = v.refuses(args)
	}
	reply := v.twin.Do(args)
	published.after(v)
	v.s.afterCommand(args, before, &reply)
	return reply
}

// latency draws how long something travels one way.
func (v *simServer) latency() time.Duration {
	d := v.s.line + 40*time.Microsecond + v.w.N(160*time.Microsecond)
	if v.s.faults && v.w.Int64N(200) == 0 {
		d += v.w.N(30 * time.Millisecond)
	}
	return d
}

// simClient is a rueidis.Client as far as an engine uses a given one.
type simClient struct {
	rueidis.Client
	server *simServer
	proc   *world.Process
	se     *simEngine
	gen    int // of the engine
}

func (c *simClient) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (c *simClient) Nodes() map[string]rueidis.Client {
	return map[string]rueidis.Client{"sim:6379": c}
}
func (c *simClient) Close() {}

func (c *simClient) Dedicate() (rueidis.DedicatedClient, func()) {
	conn := &simConn{v: c.server, w: c.server.w, proc: c.proc, client: c, broken: make(chan error)}
	conn.id = c.server.s.nextID()
	c.server.conns = append(c.server.conns, conn)
	return conn, conn.Close
}

// simConn is one connection. Commands arrive, and answers come back, in the order in which they were sent.
type simConn struct {
	rueidis.DedicatedClient
	v          *simServer
	w          *world.World
	proc       *world.Process
	client     *simClient
	id         int
	ended      bool
	greeted    bool
	broken     chan error
	lastArrive clock.Instant
	lastReply  clock.Instant
	flying     []*simRound
}

// simRound is one write with its answers.
type simRound struct {
	conn    *simConn
	args    [][]string
	replies []rueidis.RedisResult
	ran     int // so many commands were run
	heard   int // so many answers came before the connection broke
	done    world.Latch
	failed  bool
	fate    simFate
	one     struct { // most rounds are one command
		args    [1][]string
		replies [1]rueidis.RedisResult
	}
	sent clock.Instant
	slow time.Duration // of the answer; negative: the connection breaks instead
}

//nolint:gochecknoglobals // its builder is all that is used
var simBuilder = mock.NewClient(nil).B()

func (c *simConn) B() rueidis.Builder { return simBuilder }

func (c *simConn) SetPubSubHooks(rueidis.PubSubHooks) <-chan error {
	if c.ended {
		c.w.Outside(c.w.Now(), func() { c.w.Closed(c.broken) })
	}
	return c.broken
}

// Close breaks the connection from this side.
func (c *simConn) Close() { c.cut() }

// cut ends the connection: whoever waits for an answer gets none.
func (c *simConn) cut() {
	if c.ended {
		return
	}
	c.ended = true
	for i, other := range c.v.conns {
		if other == c {
			c.v.conns = append(c.v.conns[:i:i], c.v.conns[i+1:]...)
			break
		}
	}
	close(c.broken)
	c.w.Closed(c.broken)
	for _, r := range c.flying {
		r.fail()
	}
	c.flying = nil
}

func (r *simRound) fail() {
	r.failed = true
	r.done.Open()
}

var errSimBroken = errors.New("simulated: the connection broke")

func (c *simConn) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.DoMulti(ctx, cmd)[0]
}

// DoMulti sends commands and waits for their answers, or for the end of ctx.
func (c *simConn) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	r := &simRound{conn: c}
	r.done.Init(c.w)
	r.args, r.replies = r.one.args[:0], r.one.replies[:0]
	if n := len(cmds); n > 1 {
		r.args, r.replies = make([][]string, 0, n), make([]rueidis.RedisResult, 0, n)
	}
	for _, cmd := range cmds {
		r.args = append(r.args, cmd.Commands())
	}
	if !c.greeted { // the handshake: a dial takes no time here, see package world on waiting under a mutex
		c.greeted = true
		if c.ended || c.v.stopped > c.w.Now() || c.v.s.refusesDial(c.v) || c.client.se.isCutOff() {
			return r.errors(errSimBroken)
		}
		r.execute(len(r.args))
		return r.replies
	}
	if c.ended {
		return r.errors(errSimBroken)
	}
	limit := c.w.EndsAt(ctx)
	if limit == 0 {
		limit = c.w.Now().Add(simAttempt)
	}
	c.flying = append(c.flying, r)
	r.send()
	r.wait(ctx, limit)
	for i, other := range c.flying {
		if other == r {
			c.flying = slices.Delete(c.flying, i, i+1)
			break
		}
	}
	switch {
	case r.failed:
		return r.errors(errSimBroken)
	case !r.done.IsOpen():
		return r.errors(context.DeadlineExceeded)
	default:
		c.v.s.noteAnswered(c.client.se, r.args)
		return r.replies
	}
}

// wait waits for the answers, at the longest until the limit, or a little more where ctx says that is not over.
func (r *simRound) wait(ctx context.Context, limit clock.Instant) {
	w := r.conn.w
	if r.args[0][0] == "WAIT" { // it ends with its context, and nothing else ends that later
		ctx, cancel := w.WithTimeout(ctx, limit.Sub(w.Now()))
		defer cancel()
		r.done.WaitIn(ctx)
		return
	}
	for !r.done.IsOpen() {
		r.done.WaitUntil(limit)
		if ctx.Err() != nil || !r.done.IsOpen() && (w.EndsAt(ctx) != 0 || w.Now().Sub(r.sent) > simPing) {
			return
		}
		limit = w.Now().Add(10 * time.Millisecond)
	}
}

func (r *simRound) errors(err error) []rueidis.RedisResult {
	all := append(make([]rueidis.RedisResult, 0, len(r.args)), r.replies[:r.heard]...)
	for len(all) < len(r.args) {
		all = append(all, rueidis.NewErrorResult(err))
	}
	return all
}

// execute runs the commands up to the n-th.
func (r *simRound) execute(n int) {
	for ; r.ran < n; r.ran++ {
		r.replies = append(r.replies, simResult(r.conn.v.run(r.args[r.ran], r)))
	}
}

// copyLater runs commands of the round again, or for the first time, though nobody will hear their answers.
func (r *simRound) copyLater(from int, after time.Duration) {
	v, at := r.conn.v, r.conn.w.Now().Add(after)
	for i := from; i < len(r.args); i++ {
		args := r.args[i]
		if args[0] == "WAIT" {
			continue
		}
		v.s.late++
		v.s.copies++
		back, sent := v.s.steppedBack, v.w.Now()
		v.w.Outside(max(at, v.stopped), func() {
			v.s.copies--
			if v.s.steppedBack != back && v.w.Now().Sub(sent) > simAttempt { // a step back prolongs a not-after
				v.s.excuseNamed(args)
			}
			v.s.story("a late copy runs: %s", simArgs(args))
			v.run(args, r)
		})
	}
}

// lateBy draws how much later a copy runs: from 1 ms to 8 s, as likely in each power of two.
func (c *simConn) lateBy() time.Duration {
	x := float64(c.w.Int64N(1<<30)) / (1 << 30)
	return time.Duration(float64(time.Millisecond) * math.Pow(8000, x))
}

// send puts the round on its way. What becomes of it is drawn from the seed.
func (r *simRound) send() {
	c, w := r.conn, r.conn.w
	r.sent = w.Now()
	c.lastArrive = max(c.lastArrive, w.Now().Add(c.v.latency()), c.v.stopped)
	fate := c.v.s.drawFate()
	for _, args := range r.args {
		if c.v.s.slow != nil && r.slow == 0 {
			r.slow = c.v.s.slow(args)
		}
	}
	if r.args[0][0] == "WAIT" {
		r.sendWait(fate)
		return
	}
	r.fate = fate
	w.Outside(c.lastArrive, r.arrive)
}

// arrive is when the server reads the round.
func (r *simRound) arrive() {
	c, w, fate := r.conn, r.conn.w, r.fate
	if c.v.dark > w.Now() && (!c.v.renews || !r.renews()) {
		c.v.s.story("conn %d: %s is lost on its way", c.id, simArgs(r.args[0]))
		return
	}
	if c.client.se.isCutOff() && !c.client.se.cut.oneWay {
		c.v.s.story("conn %d: %s is lost on its way, for the engine is cut off", c.id, simArgs(r.args[0]))
		return
	}
	if c.v.stopped > w.Now() {
		w.Outside(c.v.stopped, r.arrive)
		return
	}
	if c.ended && fate == fateNone { // broken meanwhile, by this side or by another round's fate
		fate = []simFate{fateBreakBefore, fateLostAnswer, fateBreakLate}[w.Int64N(3)]
	}
	n := len(r.args)
	switch fate {
	case fateBreakBefore:
		c.v.s.story("conn %d breaks before %s ran", c.id, simArgs(r.args[0]))
		c.cut()
		return
	case fateBreakLate:
		c.v.s.story("conn %d breaks before %s runs, late", c.id, simArgs(r.args[0]))
		c.cut()
		r.copyLater(0, c.lateBy())
		return
	case fatePartly:
		n = int(w.Int64N(int64(n)))
	default:
	}
	r.execute(n)
	switch fate {
	case fateNone:
		if c.client.se.isCutOff() {
			c.v.s.story("conn %d: the answer to %s is lost, for the engine is cut off", c.id, simArgs(r.args[0]))
			return
		}
		if r.slow < 0 {
			c.cut()
			return
		}
		c.lastReply = max(c.lastReply, w.Now().Add(c.v.latency()+r.slow))
		w.Outside(c.lastReply, r.done.Open)
	case fateSlow:
		c.lastReply = max(c.lastReply, w.Now().Add(c.lateBy()))
		w.Outside(c.lastReply, r.done.Open)
	case fateLostAnswer:
		c.v.s.story("conn %d: the answer to %s is lost", c.id, simArgs(r.args[0]))
	case fatePartly:
		r.heard = int(w.Int64N(int64(n + 1)))
		c.v.s.story("conn %d breaks after %d of %d commands, %d were answered", c.id, n, len(r.args), r.heard)
		c.cut()
		if w.Int64N(2) == 0 {
			r.copyLater(n, c.lateBy())
		}
	case fateTwice:
		c.v.s.story("conn %d breaks after %s ran, a copy is left", c.id, simArgs(r.args[0]))
		c.cut()
		r.copyLater(0, c.lateBy())
	default: // fateBreakAfter
		c.v.s.story("conn %d breaks after %s ran", c.id, simArgs(r.args[0]))
		c.cut()
	}
}

// renews reports whether the round has renewals only.
func (r *simRound) renews() bool {
	for _, args := range r.args {
		if args[0] == "SCRIPT" { // what loads them
			continue
		}
		if name := simScriptNames[scriptArg(args)]; name != "renew" && name != "readrenew" {
			return false
		}
	}
	return true
}

// sendWait is WAIT n ms: it blocks the connection until as many replicas have seen what was written.
func (r *simRound) sendWait(fate simFate) {
	c, w := r.conn, r.conn.w
	wanted, _ := strconv.ParseInt(r.args[0][1], 10, 64)
	ms, _ := strconv.ParseInt(r.args[0][2], 10, 64)
	w.Outside(c.lastArrive, func() {
		if fate != fateNone && fate != fateSlow {
			c.cut()
			return
		}
		seen, after := c.v.twin.Acks, c.v.latency()
		if seen < wanted {
			after = time.Duration(ms) * time.Millisecond
		}
		c.lastReply = max(c.lastReply, w.Now().Add(after))
		r.replies = []rueidis.RedisResult{simResult(twin.Reply{Kind: twin.Int, Int: seen})}
		r.ran = 1
		w.Outside(c.lastReply, r.done.Open)
	})
}

// simResult makes what rueidis would have read.
func simResult(r twin.Reply) rueidis.RedisResult { return rueidis.NewResult(simMessage(r), nil) }

func simMessage(r twin.Reply) rueidis.RedisMessage {
	switch r.Kind {
	case twin.Int:
		return mock.RedisInt64(r.Int)
	case twin.Text:
		return mock.RedisBlobString(r.Text)
	case twin.Status:
		return mock.RedisString(r.Text)
	case twin.Error:
		return mock.RedisError(r.Text)
	case twin.Array:
		all := make([]rueidis.RedisMessage, len(r.Array))
		for i := range r.Array {
			all[i] = simMessage(r.Array[i])
		}
		return mock.RedisArray(all...)
	default:
		return mock.RedisNil()
	}
}

// simSubs is one engine's subscription connection.
type simSubs struct {
	v        *simServer
	proc     *world.Process
	channels map[string]*simChannel
	order    []*simChannel // the same, in the order in which they were made
	last     clock.Instant // messages arrive in order
	lost     bool          // no connection at the moment
	deaf     bool          // messages are swallowed
	closed   bool
	refs     int
}

type simChannel struct {
	name      string
	subs      []*simSub
	at        bool // the server has it
	confirmed bool
	asked     bool
}

type simSub struct {
	m  *simSubs
	ch *simChannel
	wk pubsub.Waker
}

func newSimSubs(v *simServer, p *world.Process) *simSubs {
	m := &simSubs{v: v, proc: p, channels: make(map[string]*simChannel)}
	v.subs = append(v.subs, m)
	return m
}

func (m *simSubs) Subscribe(channel string, wk pubsub.Waker) (pubsub.Subscription, error) {
	if m.closed {
		return nil, pubsub.ErrClosed
	}
	ch := m.channels[channel]
	if ch == nil {
		ch = &simChannel{name: channel}
		m.channels[channel] = ch
		m.order = append(m.order, ch)
	}
	s := &simSub{m: m, ch: ch, wk: wk}
	ch.subs = append(ch.subs, s)
	m.refs++
	switch {
	case ch.confirmed:
		m.wake(s, pubsub.WakeSubscribed, "")
	case m.lost:
		m.wake(s, pubsub.WakeLost, "")
	default:
		m.ask(ch)
	}
	return s, nil
}

// ask subscribes at the server.
func (m *simSubs) ask(ch *simChannel) {
	if ch.asked {
		return
	}
	ch.asked = true
	w := m.v.w
	w.Outside(max(w.Now().Add(m.v.latency()), m.v.stopped), func() {
		if m.lost || m.closed || !ch.asked {
			return
		}
		ch.at = true
		m.last = max(m.last, w.Now().Add(m.v.latency()))
		w.Outside(m.last, func() { m.confirm(ch, pubsub.WakeSubscribed) })
	})
}

func (m *simSubs) confirm(ch *simChannel, cause pubsub.WakeCause) {
	if m.lost || m.closed || !ch.at {
		return
	}
	ch.confirmed = true
	for _, s := range ch.subs {
		m.wake(s, cause, "")
	}
}

func (m *simSubs) wake(s *simSub, cause pubsub.WakeCause, message string) {
	m.v.s.hears(s.wk)
	m.v.w.In(m.proc, "wake", func() {
		if !m.closed {
			s.wk.Wake(cause, message)
		}
	})
}

func (m *simSubs) subscribed(channel string) bool {
	ch := m.channels[channel]
	return ch != nil && ch.at && !m.lost && !m.closed
}

// deliver carries a message to everybody who waits for it here.
func (m *simSubs) deliver(channel, message string) {
	w := m.v.w
	m.last = max(m.last, w.Now().Add(m.v.latency()))
	w.Outside(m.last, func() {
		ch := m.channels[channel]
		if ch == nil || m.lost || m.closed || m.deaf || m.v.s.dropsMessage() {
			return
		}
		for _, s := range ch.subs {
			m.wake(s, pubsub.WakeMessage, message)
		}
	})
}

func (s *simSub) Drop() {
	for i, other := range s.ch.subs {
		if other == s {
			s.ch.subs = append(s.ch.subs[:i:i], s.ch.subs[i+1:]...)
			s.m.refs--
			break
		}
	}
	if len(s.ch.subs) == 0 {
		s.m.v.w.Outside(s.m.v.w.Now().Add(1600*time.Millisecond+s.m.v.w.N(800*time.Millisecond)), s.ch.linger(s.m))
	}
}

// linger ends a channel that nobody came back for.
func (ch *simChannel) linger(m *simSubs) func() {
	return func() {
		if len(ch.subs) > 0 || m.channels[ch.name] != ch {
			return
		}
		delete(m.channels, ch.name)
		for i, other := range m.order {
			if other == ch {
				m.order = append(m.order[:i:i], m.order[i+1:]...)
				break
			}
		}
		ch.at, ch.confirmed, ch.asked = false, false, false
	}
}

// cut loses the connection for a while.
func (m *simSubs) cut(d time.Duration) {
	if m.lost || m.closed {
		return
	}
	m.lost = true
	for _, ch := range m.order {
		ch.at, ch.confirmed, ch.asked = false, false, false
		for _, s := range ch.subs {
			m.wake(s, pubsub.WakeLost, "")
		}
	}
	w := m.v.w
	w.Outside(max(w.Now().Add(d), m.v.stopped), m.back)
}

// back is when there is a connection again.
func (m *simSubs) back() {
	if !m.lost {
		return
	}
	w := m.v.w
	m.lost = false
	for _, ch := range m.order {
		ch.asked, ch.at = true, true
		m.last = max(m.last, w.Now().Add(m.v.latency()))
		w.Outside(m.last, func() { m.confirm(ch, pubsub.WakeReconnect) })
	}
}

func (m *simSubs) Listens(channel string) bool {
	ch := m.channels[channel]
	return ch != nil && ch.asked && !m.lost
}

func (m *simSubs) Listeners(channel string) int {
	if ch := m.channels[channel]; ch != nil {
		return len(ch.subs)
	}
	return 0
}

func (m *simSubs) Replace() { m.cut(m.v.latency()) }

func (m *simSubs) Stats() pubsub.Stats { return pubsub.Stats{} }

func (m *simSubs) Close() {
	m.closed = true
	for i, other := range m.v.subs {
		if other == m {
			m.v.subs = append(m.v.subs[:i:i], m.v.subs[i+1:]...)
			break
		}
	}
}

// simPing is how long rueidis bears a connection that is silent: its ping has 10 s, and begins a second later.
const simPing = 11 * time.Second

// simAttempt is how long one attempt may take: resp.Options' default.
const simAttempt = 2500 * time.Millisecond
