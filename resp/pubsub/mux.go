package pubsub

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

var (
	// ErrClosed is returned by Subscribe after Close. Nothing was sent.
	ErrClosed = errors.New("holdfast: subscription multiplexer is closed")
	// ErrTooManyChannels is returned by Subscribe when the channel is new and
	// Config.MaxChannels are there already. Nothing was sent; the waiter polls.
	ErrTooManyChannels = errors.New("holdfast: too many subscribed channels")
)

// WakeCause says why a waiter was woken. Every cause means "try again now"; what may be
// relied on afterwards is the answer of Sub.Confirmed.
type WakeCause uint8

const (
	// WakeMessage: a message was published on the channel.
	WakeMessage WakeCause = iota + 1
	// WakeSubscribed: the subscription is confirmed for the first time since Subscribe.
	// What was published before is lost, what is published from now on is heard.
	WakeSubscribed
	// WakeReconnect: confirmed again after WakeLost. Messages may have been missed.
	WakeReconnect
	// WakeLost: connection lost, not to be had, or subscription refused. No messages until
	// the next WakeReconnect; the waiter polls. Told once per loss.
	WakeLost
)

// String returns the cause in lower case.
func (c WakeCause) String() string {
	switch c {
	case WakeMessage:
		return "message"
	case WakeSubscribed:
		return "subscribed"
	case WakeReconnect:
		return "reconnect"
	case WakeLost:
		return "lost"
	default:
		return "unknown"
	}
}

// Waker is what a channel's waiter looks like to the multiplexer.
//
// Wake comes from the connection's reader or from a goroutine of the multiplexer, never from
// inside Subscribe or Drop, and no lock of the multiplexer is held meanwhile: it may call
// Subscribe, Drop and Confirmed. It must not block (it would hold up every other channel of
// the node) and must not call Close. Calls for one waiter can come from two goroutines at
// once and overtake each other, and one that had begun can still arrive after Drop returned;
// after Close returned none does. The payload is set with WakeMessage alone.
type Waker interface {
	Wake(cause WakeCause, payload string)
}

// Config configures a Mux. Only Dedicate has no default.
type Config struct {
	// Dedicate opens a connection of its own to the node, in RESP3, and returns it with its
	// release function. Called from one goroutine at a time; ctx ends with Close.
	Dedicate func(ctx context.Context) (rueidis.DedicatedClient, func(), error)
	// Sharded uses SSUBSCRIBE and SUNSUBSCRIBE, one channel per command, because the
	// channels may be of different slots.
	Sharded bool
	// Linger is how long a channel stays subscribed after its last reference went, give or
	// take a quarter. Default 2 s. Longer: fewer commands where the same names are fought
	// over again and again; shorter: fewer messages that nobody here wants.
	Linger time.Duration
	// MaxChannels caps the channels, lingering ones included. Default 100 000.
	MaxChannels int
	// BackoffMin and BackoffMax bound the delay between two attempts to connect, and
	// between two attempts to subscribe a channel that the server could not take just now.
	// The delay is drawn from zero to a bound that doubles. Default 20 ms and 1 s.
	BackoffMin, BackoffMax time.Duration
	// Batch is how many channels go into one SUBSCRIBE. Default 256.
	Batch int
	// Attempt is the limit of one exchange with the server; when it passes, the connection
	// is given up. Default 2.5 s.
	Attempt time.Duration
	// RefusedRetry is when a channel that the ACL refuses is asked for again, give or take
	// a fifth; a new connection asks at once. Default 30 s.
	RefusedRetry time.Duration
	// ProbeEvery is the interval of the delivery probe, zero for none: a message published
	// to ProbeChannel over the subscription connection has to come back before the next
	// interval ends, else the connection is replaced. It finds a path that answers commands
	// and swallows messages, within two intervals. The user needs PUBLISH on that channel;
	// without it the probe is off.
	ProbeEvery time.Duration
	// ProbeChannel defaults to a random name. With Sharded it has no default (its slot has
	// to be the node's), and the probe is off without it.
	ProbeChannel string
	// OnEvent, if set, is told what happens to the connection. It runs in the manager
	// goroutine and must not block.
	OnEvent func(Event)
}

// Mux shares one subscription connection to a node among any number of waiters.
//
// A channel is subscribed while anybody references it and for Linger longer. Subscribe and
// Drop only note what is wanted; one manager goroutine owns the connection, takes all the
// work there is at once and sends it in one pipeline. A second goroutine greets waiters that
// join a channel which is confirmed already, so that this does not wait for the network.
// Goroutines: these two, and at most closersMax that close a dead connection.
//
// Locks: a shard's mutex, inside it the work list's. Neither is held during Wake or I/O.
type Mux struct {
	cfg    Config
	seed   maphash.Seed
	shards [subShards]subShard

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup // manager, greeter, closers
	closed  atomic.Bool
	gate    sync.RWMutex  // held for reading during Wake, so that Close can wait for the last one
	kicked  chan struct{} // wakes the manager; capacity 1
	greeted chan struct{} // wakes the greeter; capacity 1
	closers chan struct{} // a slot for each connection being closed

	work struct {
		sync.Mutex
		todo  []*subChannel // to be subscribed; each at most once (subChannel.queued)
		moved []*subChannel // the server dropped them; to be tried again after a delay
		greet []*subChannel // joined by a waiter while their state was known already
	}
	replace  atomic.Bool // the connection leads to a server that is not ours any more
	pressure atomic.Bool // the cap was hit: sweep lingering channels at once

	count subCounters
	mgr   subManager // the manager goroutine's alone
}

const (
	subShards  = 64
	closersMax = 4
)

// subShard is one part of the table of channels.
type subShard struct {
	mu       sync.Mutex
	channels map[string]*subChannel
	idle     idleList // confirmed channels that nobody references, oldest first
}

// subPhase is where a channel stands on the current connection.
type subPhase = uint32

const (
	phaseIdle          subPhase = iota // not subscribed; on the work list
	phaseSubscribing                   // command in flight
	phaseConfirmed                     // subscribed
	phaseUnsubscribing                 // command in flight
	phaseRefused                       // refused, or dropped by the server; to be tried again later
)

// subChannel is one channel. Only the manager removes it from its shard.
type subChannel struct {
	name   string
	phase  atomic.Uint32 // written under the shard's mutex, read anywhere
	refs   int           // shard's mutex, as everything down to the next blank line
	head   *Sub
	epoch  uint64 // the connection that phase speaks of
	queued bool   // on the work list
	gone   bool   // the server dropped it while the unsubscribe was in flight
	greet  bool   // on the greeter's list

	idling             bool // on the idle list
	idleSince          time.Time
	idlePrev, idleNext *subChannel

	single  bool      // manager's: subscribe it with a command of its own
	tries   int       // manager's: refusals in a row
	retryAt time.Time // manager's: end of phaseRefused
}

// Sub is one waiter's reference to a channel.
type Sub struct {
	mux        *Mux
	ch         *subChannel
	waker      Waker
	prev, next *Sub // shard's mutex, as everything below
	dropped    bool
	lost       bool // told WakeLost and nothing since
	told       bool // told WakeSubscribed, or WakeReconnect
}

// New returns a multiplexer that connects at the first Subscribe. End it with Close.
func New(cfg Config) *Mux {
	m := &Mux{
		cfg:     cfg.withDefaults(),
		seed:    maphash.MakeSeed(),
		kicked:  make(chan struct{}, 1),
		greeted: make(chan struct{}, 1),
		closers: make(chan struct{}, closersMax),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	for i := range m.shards {
		m.shards[i].channels = make(map[string]*subChannel)
	}
	m.wg.Go(m.manage)
	m.wg.Go(m.greetLoop)
	return m
}

// Subscribe adds a reference to channel and wakes w from then on: with WakeSubscribed as soon
// as the subscription is confirmed (soon after the return, if it was already), with
// WakeLost if it cannot be had.
//
// Blocks: never; no I/O in the caller.
// Errors: ErrTooManyChannels, ErrClosed. Without an error, Drop must follow.
func (m *Mux) Subscribe(channel string, w Waker) (*Sub, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	sh := m.shard(channel)
	s := &Sub{mux: m, waker: w}
	sh.mu.Lock()
	ch := sh.channels[channel]
	if ch == nil {
		// A new channel. It counts first and is taken back if it is too many: no mutex is held over all shards.
		if m.count.channels.Add(1) > int64(m.cfg.MaxChannels) {
			m.count.channels.Add(-1)
			sh.mu.Unlock()
			// Lingering channels are let go at once, so that the next attempt finds room.
			m.pressure.Store(true)
			m.kick()
			return nil, ErrTooManyChannels
		}
		ch = &subChannel{name: channel}
		sh.channels[channel] = ch
	}
	ch.add(s)
	m.count.refs.Add(1)
	// One that lingered is still subscribed: it needs no command.
	m.unidleLocked(sh, ch)
	// The phase says who tells the waiter: the manager, the greeter, or the end of the command in flight.
	switch ch.phase.Load() {
	case phaseIdle:
		m.enqueueLocked(ch)
		sh.mu.Unlock()
		m.kick()
	case phaseConfirmed, phaseRefused:
		m.greetLaterLocked(ch)
		sh.mu.Unlock()
		signal(m.greeted)
	default: // a command is in flight; its end finds the new reference
		sh.mu.Unlock()
	}
	return s, nil
}

// Confirmed reports whether the channel is subscribed on the current connection, with no
// command for it in flight: what is published now is heard, unless the connection is
// already dying unnoticed.
//
// Blocks: never. Allocates: never.
func (s *Sub) Confirmed() bool {
	return s.ch.phase.Load() == phaseConfirmed && !s.mux.closed.Load()
}

// Listens reports whether a message published on the channel now reaches this connection, or may:
// subscribed, lingering, or with a command in flight.
//
// Blocks: never. Allocates: never.
func (m *Mux) Listens(channel string) bool {
	sh := m.shard(channel)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ch := sh.channels[channel]
	if ch == nil {
		return false
	}
	phase := ch.phase.Load()
	return phase != phaseIdle && phase != phaseRefused
}

// Listeners returns how many references to a channel there are.
//
// Blocks: never. Allocates: never.
func (m *Mux) Listeners(channel string) int {
	sh := m.shard(channel)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if ch := sh.channels[channel]; ch != nil {
		return ch.refs
	}
	return 0
}

// Channel returns the name of the channel.
func (s *Sub) Channel() string { return s.ch.name }

// Drop gives the reference back; the last one of a channel starts its linger. Calling it
// again does nothing. A Wake that had begun may still arrive.
//
// Blocks: never.
func (s *Sub) Drop() {
	m, ch := s.mux, s.ch
	sh := m.shard(ch.name)
	sh.mu.Lock()
	if s.dropped {
		sh.mu.Unlock()
		return
	}
	s.dropped = true
	ch.remove(s)
	m.count.refs.Add(-1)
	first := false
	// In any other phase, whoever ends it finds that nobody is left.
	if ch.refs == 0 && ch.phase.Load() == phaseConfirmed {
		first = m.idleLocked(sh, ch, time.Now())
	}
	sh.mu.Unlock()
	if first {
		m.kick() // arms the sweep
	}
}

// Replace gives the connection up and makes another at once, for the server is another now. Blocks: never.
func (m *Mux) Replace() {
	m.replace.Store(true)
	m.kick()
}

// Close ends every goroutine and the connection. No Wake runs after it. Waiters are not
// told. It takes as long as the Wake that is running, and up to a second if the server is
// silent. Idempotent; not to be called from Wake.
func (m *Mux) Close() {
	m.closed.Store(true)
	m.cancel()
	m.gate.Lock()   // waits for the Wake that is running; every later one sees closed
	m.gate.Unlock() //nolint:staticcheck // the empty section is the wait
	m.wg.Wait()
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&c.Linger, 2*time.Second)
	set(&c.BackoffMin, 20*time.Millisecond)
	set(&c.BackoffMax, time.Second)
	set(&c.Attempt, 2500*time.Millisecond)
	set(&c.RefusedRetry, 30*time.Second)
	// Sizes, and what sharded channels rule out.
	if c.MaxChannels <= 0 {
		c.MaxChannels = 100_000
	}
	if c.Batch <= 0 {
		c.Batch = 256
	}
	if c.Sharded {
		c.Batch = 1
		// A random channel would mostly be in another node's slot.
		if c.ProbeChannel == "" {
			c.ProbeEvery = 0
		}
	}
	if c.ProbeChannel == "" {
		c.ProbeChannel = randomProbeChannel()
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	return c
}

func (m *Mux) shard(channel string) *subShard {
	return &m.shards[maphash.String(m.seed, channel)%subShards]
}

func (m *Mux) kick() { signal(m.kicked) }

// signal wakes the one reader of a channel of capacity 1; a signal already there will do.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enqueueLocked puts ch on the work list, once. The list is bounded by MaxChannels.
func (m *Mux) enqueueLocked(ch *subChannel) {
	if ch.queued {
		return
	}
	ch.queued = true
	m.work.Lock()
	m.work.todo = append(m.work.todo, ch)
	m.work.Unlock()
}

// greetLaterLocked puts ch on the greeter's list, once. The list is bounded by MaxChannels.
func (m *Mux) greetLaterLocked(ch *subChannel) {
	if ch.greet {
		return
	}
	ch.greet = true
	m.work.Lock()
	m.work.greet = append(m.work.greet, ch)
	m.work.Unlock()
}

// setPhaseLocked moves ch to phase and keeps the count of confirmed channels.
func (m *Mux) setPhaseLocked(ch *subChannel, phase subPhase) {
	old := ch.phase.Swap(phase)
	if old == phaseConfirmed && phase != phaseConfirmed {
		m.count.confirmed.Add(-1)
	} else if old != phaseConfirmed && phase == phaseConfirmed {
		m.count.confirmed.Add(1)
	}
}

// forgetLocked removes ch from the table, if it is still there.
func (m *Mux) forgetLocked(sh *subShard, ch *subChannel) {
	if sh.channels[ch.name] != ch {
		return
	}
	m.unidleLocked(sh, ch)
	m.setPhaseLocked(ch, phaseIdle)
	delete(sh.channels, ch.name)
	m.count.channels.Add(-1)
}

// idleLocked starts the linger of ch and reports whether it is the only lingering channel.
func (m *Mux) idleLocked(sh *subShard, ch *subChannel, now time.Time) bool {
	ch.idleSince = now
	sh.idle.push(ch)
	return m.count.lingering.Add(1) == 1
}

func (m *Mux) unidleLocked(sh *subShard, ch *subChannel) {
	if ch.idling {
		sh.idle.remove(ch)
		m.count.lingering.Add(-1)
	}
}

// add makes s a reference to the channel.
func (ch *subChannel) add(s *Sub) {
	s.ch, s.next = ch, ch.head
	if ch.head != nil {
		ch.head.prev = s
	}
	ch.head = s
	ch.refs++
}

// remove takes back what add did.
func (ch *subChannel) remove(s *Sub) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		ch.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	ch.refs--
}

// idleList is a list of lingering channels in the order in which they became idle.
type idleList struct{ head, tail *subChannel }

func (l *idleList) push(ch *subChannel) {
	ch.idling, ch.idlePrev, ch.idleNext = true, l.tail, nil
	if l.tail != nil {
		l.tail.idleNext = ch
	} else {
		l.head = ch
	}
	l.tail = ch
}

func (l *idleList) remove(ch *subChannel) {
	if ch.idlePrev != nil {
		ch.idlePrev.idleNext = ch.idleNext
	} else {
		l.head = ch.idleNext
	}
	if ch.idleNext != nil {
		ch.idleNext.idlePrev = ch.idlePrev
	} else {
		l.tail = ch.idlePrev
	}
	ch.idling, ch.idlePrev, ch.idleNext = false, nil, nil
}
