package resp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A wire is one dedicated connection of a link, with what is known of the server behind it. It is
// never mended: after an error or a missed limit it is given up, and the link dials another.
type wire struct {
	client rueidis.DedicatedClient
	caps   capabilities
	est    estimate
	stock  *stock
	noCopy atomic.Bool // learnt from the ACL's refusal; forgotten with the connection
	heard  hearing
	direct *direct // what its lane writes to and reads from instead; nil: the client does
	// malformed: a reply was none of our scripts'. Replies and commands may not belong together any more.
	malformed atomic.Bool
}

// A link keeps one wire to its node, dialled on demand. Each lane has its own, or all share one; renewals have their
// own, and a second one for retries, so that acquires never delay a renewal.
type link struct {
	name  string
	clock clock.Clock
	from  *endpoint
	dial  func() (rueidis.DedicatedClient, error)
	limit time.Duration // of the handshake
	wg    *world.Group
	world *world.World
	// follows: what is connected to must be a master. Whoever named it may be late.
	follows bool
	// owned, if set, is what watches the connections: its lane has it for itself, see direct.
	owned   *Guard
	pollers *atomic.Int32 // lanes that poll
	// evicts, if set, is told by which policy the server may throw locks away; "" if it never does.
	evicts func(policy string)
	// begins says which scripts the handshake loads, stockOf what the server with this run id was given.
	begins  func() scriptSet
	stockOf func(run string) *stock

	cur atomic.Pointer[wire]

	mu       sync.Mutex // held while dialling: one dial at a time
	closed   bool
	failed   *ServerError // the last dial's failure, shared by those who come right after it
	failedAt clock.Instant
	epoch    atomic.Uint64 // wires made so far

	leaveFrom, leavePause atomic.Int64 // a clock.Instant and a time.Duration; see leave
}

// shareFailure is how long a failed dial answers for the next ones: without it, each lane in turn
// would wait for a host that swallows connections.
const shareFailure = 25 * time.Millisecond

// get returns the wire, dialling if there is none. Blocks: for a dial and one round trip.
func (l *link) get() (*wire, *ServerError) {
	// The usual case, without mu: each round of each lane comes here.
	if w := l.cur.Load(); w != nil {
		return w, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.cur.Load(); w != nil {
		return w, nil
	}
	if l.closed {
		return nil, errClosed
	}
	if l.failed != nil && l.clock.Now().Sub(l.failedAt) < shareFailure {
		return nil, l.failed
	}
	// Read before the dial: a move during it makes this a connection to the old master.
	moves := l.from.moves.Load()
	w, err := l.connect()
	if err != nil {
		// Who asks after a move is to dial the new server at once.
		if !errors.Is(err, errMoved) {
			l.failed, l.failedAt = err, l.clock.Now()
		}
		return nil, err
	}
	l.failed = nil
	l.epoch.Add(1)
	// Stored before moves is read again: who moves counts first and then looks for wires, so one sees the other.
	l.cur.Store(w)
	l.watch(w)
	if l.from.moves.Load() != moves { // meanwhile; who moved may have looked before it was there
		l.giveUp(w)
		return nil, unreachable(errMoved)
	}
	return w, nil
}

var errMoved = errors.New("the sentinels name another master")

// watch gives a wire up as soon as its connection breaks, also while nothing is on its way: what
// comes next then dials, instead of being sent nowhere, with an unknown outcome.
func (l *link) watch(w *wire) {
	// No message is expected. But rueidis returns the channel only for hooks that are not empty.
	broken := w.client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	l.wg.Add(1)
	l.world.Await("link.watch", broken, func() { // ends with the connection
		defer l.wg.Done()
		l.giveUp(w)
	})
}

// connect makes a wire: the usual scripts loaded, the server's clock and version known.
func (l *link) connect() (*wire, *ServerError) {
	client, err := l.dial()
	if err != nil {
		return nil, l.from.unreachable(err)
	}
	w := &wire{client: client}
	b := client.B()
	// One pipeline asks for all. TIME stands last: whatever came behind it would make the estimate older.
	loads := l.begins()
	cmds := w.appendLoads(make([]rueidis.Completed, 0, len(catalogue)+5), loads)
	word := ""
	if l.owned != nil && hasCacheForm() {
		word = l.owned.claims.claim(claimWord)
		cmds = append(cmds, b.Ping().Message(word).Build())
	}
	role := len(cmds)
	if l.follows {
		cmds = append(cmds, b.Role().Build())
	}
	cmds = append(cmds, b.Info().Section("memory").Build(), b.Info().Section("server").Build(), b.Time().Build())
	ctx, cancel := l.world.WithTimeout(context.Background(), l.limit)
	defer cancel()
	replies := client.DoMulti(ctx, cmds...)
	received := l.clock.Now()
	serverMs, err := timeOf(replies[len(replies)-1])
	// INFO may be refused or unknown: then nothing is presumed of the version.
	if info, err := replies[len(replies)-2].ToString(); err == nil {
		w.caps = parseInfo(info)
		w.caps.Version = l.hidden(w.caps.Version)
	}
	// A server that is of no use is refused here, before an op is sent to it.
	if refused := l.check(w, replies[role], err); refused != nil {
		if word != "" {
			_ = l.owned.claims.take(word)
		}
		l.discard(w)
		return nil, refused
	}
	w.est.learn(serverMs, received)
	w.stock = l.stockOf(w.caps.Run)
	_ = w.stock.note(loads, replies) // why it was refused says whoever misses one
	if info, err := replies[len(replies)-3].ToString(); err == nil && l.evicts != nil {
		l.evicts(l.hidden(evictionPolicy(info)))
	}
	if word != "" {
		return w, l.hijack(w, word)
	}
	return w, nil
}

// hijack takes the connection of a wire over from its client. Where that is not possible the wire goes by the client.
func (l *link) hijack(w *wire, word string) *ServerError {
	conn := l.owned.claims.take(word)
	if conn == nil {
		return nil
	}
	hijacked, err := conn.hijack(hijackLimit)
	switch {
	case err != nil:
		l.discard(w)
		return l.from.unreachable(err)
	case !hijacked:
		return nil
	}
	w.direct = &direct{conn: conn, peeker: newPeeker(conn.Conn), poll: busyPoll{pollers: l.pollers}}
	// What came meanwhile, and the client has not read, would be the answer to the lane's first command.
	if w.direct.stale() {
		l.discard(w)
		return l.from.unreachable(errStray)
	}
	return nil
}

// hidden takes passwords out of what the server says of itself.
func (l *link) hidden(text string) string {
	if l.from.hide == nil {
		return text
	}
	return l.from.hide(text)
}

// check refuses a server that cannot be used: silent, a sentinel, or no master where one is to be followed.
func (l *link) check(w *wire, role rueidis.RedisResult, err error) *ServerError {
	if w.caps.Sentinel {
		return &ServerError{Class: ClassOther, Text: l.from.address() + " is a sentinel", cause: ErrIsSentinel}
	}
	if err != nil {
		return l.from.unreachable(err)
	}
	if !l.follows {
		return nil
	}
	parts, err := role.ToArray() // refused: then the first write tells
	if err != nil || len(parts) == 0 {
		return nil
	}
	if name, err := parts[0].ToString(); err == nil && name != "master" {
		text := fmt.Sprintf("%s is no master, its role is %s", l.from.address(), Printable(name))
		return hidden(l.from.hide, &ServerError{Class: ClassReadOnly, Text: text, said: true})
	}
	return nil
}

func timeOf(r rueidis.RedisResult) (int64, error) {
	parts, err := r.AsIntSlice()
	switch {
	case r.Error() != nil:
		return 0, r.Error()
	case err != nil || len(parts) != 2 || parts[0] <= 0 || parts[0] > longestMs/1000 || parts[1] < 0 || parts[1] >= 1e6:
		return 0, unexpected("TIME", r)
	}
	return parts[0]*1000 + parts[1]/1000, nil
}

// giveUp ends a wire that has an unanswered command or an error. Everything else in flight on it is
// answered with an error, too.
func (l *link) giveUp(w *wire) {
	if l.cur.CompareAndSwap(w, nil) {
		l.discard(w)
	}
}

// How long a connection is kept at least, once the one before it was left: an address may lead to a replica for good.
const (
	leaveLeast = 100 * time.Millisecond
	leaveMost  = 5 * time.Second
)

// leave gives up a wire whose server takes no writes any more, and says whether it did. The next one may lead
// elsewhere: to whoever is master now, where the address is a proxy's or a name's. While it does not, the pause
// between two of them doubles.
func (l *link) leave(w *wire) bool {
	if !l.follows { // else what is no master is refused when it is connected to
		now := l.clock.Now()
		next := clock.Instant(l.leaveFrom.Load())
		if now.Before(next) || l.cur.Load() != w {
			return false
		}
		// A pause that ended long ago belongs to other trouble: then the pauses begin anew.
		pause := leaveLeast
		if now.Sub(next) < leaveMost {
			pause = min(max(2*time.Duration(l.leavePause.Load()), leaveLeast), leaveMost)
		}
		// Several lanes may be told at the same time. One of them leaves.
		if !l.leaveFrom.CompareAndSwap(int64(next), int64(now.Add(pause))) {
			return false
		}
		l.leavePause.Store(int64(pause))
	}
	l.giveUp(w)
	return true
}

// discard closes in the background: rueidis waits up to a second for a silent peer.
func (l *link) discard(w *wire) {
	l.wg.Go("link.discard", func() {
		if w.direct != nil {
			_ = w.direct.conn.Close() // what its lane reads ends now; TLS may wait for its last word
		}
		w.client.Close()
	})
}

func (l *link) close() {
	// mu is held while dialling. So no wire is made after this.
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if w := l.cur.Swap(nil); w != nil {
		l.discard(w)
	}
}

// A stock is what one run of a server was given of our scripts, over whichever connection. Another server, and the same
// one when it was started anew, has a stock of its own. What it has lost since then NOSCRIPT tells.
type stock struct {
	run   string        // the server's id of it; "": not known, and so each connection has a stock of its own
	given atomic.Uint64 // scriptSet
}

// lacks returns those of these scripts that the server was not given yet.
func (s *stock) lacks(which scriptSet) scriptSet { return which &^ scriptSet(s.given.Load()) }

// note notes what has come of loading these scripts: replies begins with the answers to appendLoads, in its order. A
// script that is refused for good counts as given: somebody else may have loaded it, and if nobody has then NOSCRIPT
// tells. Else each command would bring it along. note returns what was refused so.
func (s *stock) note(which scriptSet, replies []rueidis.RedisResult) (no unloaded) {
	if which == 0 {
		return no
	}
	given, at := scriptSet(0), 0
	for i := range catalogue {
		one := scriptSet(1) << i
		if which&one == 0 {
			continue
		}
		err := classify(replies[at].Error())
		at++
		if err == nil || !err.Class.Transient() {
			given |= one
		}
		if err != nil && !err.Class.Transient() {
			no.which |= one
			no.err = cmp.Or(no.err, err)
		}
	}
	s.given.Or(uint64(given))
	return no
}

// unloaded is which scripts a server does not load, and why.
type unloaded struct {
	which scriptSet
	err   *ServerError
}

// of returns why a script is not there; nil: not for that.
func (u unloaded) of(s *script) *ServerError {
	if u.which&(1<<s.at) == 0 {
		return nil
	}
	return u.err
}

// appendLoads loads scripts that the server has not. The commands that need them follow in the same write: only a
// SCRIPT FLUSH between two neighbours can come in between.
func (w *wire) appendLoads(cmds []rueidis.Completed, which scriptSet) []rueidis.Completed {
	for i, s := range catalogue {
		if which&(1<<i) != 0 {
			cmds = append(cmds, w.client.B().ScriptLoad().Script(s.text).Build())
		}
	}
	return cmds
}

// capabilities are what the version of a server promises. Nothing is probed by writing.
type capabilities struct {
	Version  string
	Run      string // its id: another one after each start
	Copy     bool   // COPY: 6.2
	Greater  bool   // PEXPIRE GT: 7.0
	Cluster  bool
	Sentinel bool
}

// parseInfo reads the "server" section of INFO. Valkey says in redis_version which version of Redis it is compatible
// with. What Redis calls redis_mode is server_mode there.
func parseInfo(info string) capabilities {
	var c capabilities
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "redis_version":
			c.Version = Printable(value)
		case "run_id":
			c.Run = value
		case "redis_mode", "server_mode":
			c.Cluster, c.Sentinel = value == "cluster", value == "sentinel"
		}
	}
	c.Copy = atLeast(c.Version, 6, 2)
	c.Greater = atLeast(c.Version, 7, 0)
	return c
}

// evictionPolicy reads the "memory" section of INFO: a server with a memory limit and any policy but
// noeviction may throw away locks that are held, for they all have an expiry.
func evictionPolicy(info string) string {
	limit, policy := "0", ""
	for line := range strings.Lines(info) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = Printable(value)
		}
	}
	if limit == "0" || policy == "noeviction" {
		return ""
	}
	return policy
}

func atLeast(version string, major, minor int) bool {
	have, rest := leadingInt(version)
	if have != major {
		return have > major
	}
	if !strings.HasPrefix(rest, ".") {
		return minor == 0
	}
	have, _ = leadingInt(rest[1:])
	return have >= minor
}

// leadingInt reads digits; -1 if there are none.
func leadingInt(s string) (int, string) {
	n, i := 0, 0
	for i < len(s) && i < 6 && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 {
		return -1, s
	}
	return n, s[i:]
}
