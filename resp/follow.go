package resp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

var (
	// ErrNoSuchMaster is returned by Follow when sentinels answered and none knows the name.
	ErrNoSuchMaster = errors.New("no sentinel knows this master")
	// ErrNotSentinel is returned by Follow when what answered is no sentinel.
	ErrNotSentinel = errors.New("not a sentinel")
	// ErrIsSentinel is returned by Open when an address is a sentinel's.
	ErrIsSentinel = errors.New("a sentinel")
	// ErrNoCluster is returned by Open when one of several addresses is a single server's.
	ErrNoCluster = errors.New("a single server")
)

// Sentinels says who names the master.
type Sentinels struct {
	Master string                                    // its name
	Addrs  []string                                  // sentinels; those they know are asked, too
	Ask    func(addr string) (rueidis.Client, error) // makes the client of a sentinel
	Dial   func(addr string) (rueidis.Client, error) // makes the client of a master
}

const (
	lookEvery = 5 * time.Second        // how often sentinels are asked when nothing looks wrong
	lookLimit = time.Second            // of one sentinel's answer; the others' time after the first good one
	lookGrace = 100 * time.Millisecond // the others' time after most of the known have named one master
	lookAgain = 300 * time.Millisecond // until sentinels that do not agree are asked again, at Open
	lookTries = 10                     //
	mostPeers = 64                     // sentinels that are asked
)

// A follower knows the master of a name, and moves its node there whenever the sentinels agree on
// another.
//
// It asks all sentinels it has heard of at once and believes what most of them name: one that is cut off from the
// others goes on naming the old master, and one that lies names its own, with whatever epoch it likes. See choose. It
// asks when one of them publishes a switch, when an answer of the master makes it doubtful, when a connection breaks,
// and every 5 s.
//
// Locks: mu guards the sentinels; it is never held during I/O.
type follower struct {
	name string
	ask  func(addr string) (rueidis.Client, error)
	hide func(text string) string // see Options.Hide

	node *Node
	told func(addr string) // hears of a new master; may be nil

	seeds  []string
	mu     sync.Mutex
	peers  map[string]*endpoint // by address
	closed bool

	now   followed        // the keeper's
	named map[string]bool // the sentinels that most of them name; the keeper's

	ctx    context.Context //nolint:containedctx // ends with close
	cancel context.CancelFunc
	doubts chan struct{} // capacity 1: the master may be another
	news   chan struct{} // capacity 1: a sentinel says so
	wg     sync.WaitGroup
}

// Follow connects to the master that sentinels name, and follows it through failovers.
//
// Errors: *ServerError, as *Failure where it is about one server; its cause may be ErrNoSuchMaster or
// ErrNotSentinel. Blocks: for a dial of
// each silent address.
func Follow(s Sentinels, o Options) (*Nodes, error) {
	o.fill()
	o.Follows = true
	f := &follower{
		name: s.Master, ask: s.Ask, hide: o.Hide, seeds: s.Addrs, peers: make(map[string]*endpoint),
		doubts: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	// Who is master: asked before anything runs, so that a wrong name is an error of this call.
	f.meet(nil)
	found := f.find()
	if found.err != nil {
		f.close()
		if found.from != "" {
			return nil, &Failure{found.from, found.err}
		}
		return nil, found.err
	}
	f.believe(found)
	// The first connection, which tells whether that is a server we can use.
	from := &endpoint{addr: found.addr, dial: s.Dial, hide: o.Hide}
	n := newNode(from, o)
	w, failed := n.commands.get()
	if failed == nil && w.caps.Cluster {
		why := " is a node of a cluster, and a master named by sentinels was asked for"
		failed = &ServerError{Class: ClassOther, Text: found.addr + why}
	}
	if failed != nil {
		n.abort()
		from.close()
		f.close()
		return nil, &Failure{found.addr, failed}
	}
	n.follow, f.node = f, n
	n.start(nil, pubSubMode{publish: "PUBLISH"})
	return &Nodes{single: n, follow: f, opts: o}, nil
}

// find asks for the first time, and again while the sentinels do not agree: a failover may be under way. Blocks: for a
// dial of each silent address, and up to about 3 s where they do not agree.
func (f *follower) find() finding {
	for tries := 1; ; tries++ {
		found := f.choose()
		if found.err == nil || tries == lookTries || !errors.Is(found.err, errDisagree) {
			return found
		}
		timer := time.NewTimer(lookAgain)
		<-timer.C
	}
}

// start begins to follow.
func (f *follower) start(told func(addr string)) {
	f.told = told
	f.wg.Go(f.keep)
	f.wg.Go(f.listen)
}

// suspect has the sentinels asked, soon. Blocks: never.
func (f *follower) suspect() { signal(f.doubts) }

// keep is the goroutine that asks: started by start, ended by close.
func (f *follower) keep() {
	world.NewPart("topology").Label()
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	pause := tableLeast
	for {
		timer.Reset(lookEvery)
		select {
		case <-f.ctx.Done():
			return
		case <-f.doubts:
		case <-f.news:
			pause = tableLeast
		case <-timer.C:
			pause = tableLeast
		}
		if f.follow(f.choose()) {
			pause = tableLeast
		} else {
			pause = min(2*pause, tableMost)
		}
		timer.Reset(pause/2 + rand.N(pause))
		select { // one asking serves a burst of doubts, but news are never late
		case <-f.ctx.Done():
			return
		case <-f.news:
			signal(f.news)
		case <-timer.C:
		}
	}
}

// follow moves the node to the master that was found, and says whether that is another.
func (f *follower) follow(found finding) bool {
	if found.err != nil || f.ctx.Err() != nil || found.weak && f.node.mastering(f.ctx) {
		return false
	}
	f.believe(found)
	if found.addr == f.node.Addr() {
		return false
	}
	f.node.move(found.addr)
	if f.told != nil {
		f.told(found.addr)
	}
	return true
}

// believe keeps what was found.
func (f *follower) believe(found finding) {
	f.now = followed{found.addr, found.epoch}
	f.meet(found.peers)
	f.named = make(map[string]bool, len(found.peers))
	for _, addr := range found.peers {
		f.named[addr] = true
	}
}

// followed is the master that is followed, and the epoch of the configuration that named it; zero before there is one.
type followed struct {
	addr  string
	epoch int64
}

// A finding is what one sentinel says, or what follows from what all said.
type finding struct {
	from  string // the sentinel
	addr  string
	epoch int64
	peers []string
	err   *ServerError
	weak  bool // it holds only if the master that is followed does not answer as one
}

var (
	errDisagree = errors.New("the sentinels do not agree")
	errOlder    = &ServerError{Class: ClassOther, Text: "the sentinels that answer have an older configuration"}
)

// look asks every known sentinel and returns what came in time.
func (f *follower) look() []finding {
	ask := f.known()
	// All are asked at once: silent ones cost nobody else's time.
	answers := make(chan finding, len(ask))
	for _, p := range ask {
		f.wg.Go(func() {
			one := f.askOne(p)
			one.from = p.addr
			answers <- one
		}) // it may outlive this call: a dial of a silent host
	}
	// The answers. The time that is left for others shrinks as the outcome becomes clear.
	var all []finding
	grace := time.NewTimer(lookLimit + dialTimeout)
	defer grace.Stop()
	good, votes, agreed := false, make(map[string]int), false
	for len(all) < len(ask) {
		select {
		case one := <-answers:
			all = append(all, one)
			if one.err != nil {
				continue
			}
			votes[one.addr]++
			switch {
			case agreed:
			case 2*votes[one.addr] > len(ask): // whoever is late cannot outvote them
				agreed = true
				grace.Reset(lookGrace)
			case !good: // a sentinel that lies may be the quickest
				grace.Reset(lookLimit)
			}
			good = true
		case <-grace.C:
			return all
		case <-f.ctx.Done():
			return all
		}
	}
	return all
}

// askOne asks one sentinel for the master, the epoch of what it knows, and the other sentinels.
func (f *follower) askOne(p *endpoint) finding {
	// A dial may take longer than the look that asks: it goes on, and its client serves the next one.
	client, err := p.get()
	if err != nil {
		return finding{err: p.unreachable(err)}
	}
	ctx, cancel := context.WithTimeout(f.ctx, lookLimit)
	defer cancel()
	replies := client.DoMulti(ctx,
		client.B().Arbitrary("SENTINEL", "GET-MASTER-ADDR-BY-NAME", f.name).Build(),
		client.B().Arbitrary("SENTINEL", "MASTER", f.name).Build(),
		client.B().Arbitrary("SENTINEL", "SENTINELS", f.name).Build())
	// The address decides whether this is an answer at all.
	address, err := replies[0].AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err):
		return finding{err: &ServerError{
			Class: ClassOther, Text: fmt.Sprintf("%s knows no master named %q", p.addr, f.name), cause: ErrNoSuchMaster,
		}}
	case err != nil:
		failed := p.refused(err)
		if strings.Contains(strings.ToLower(failed.Text), "unknown command") {
			failed = &ServerError{Class: ClassOther, Text: p.addr + " is not a sentinel", cause: ErrNotSentinel}
		}
		return finding{err: failed}
	case len(address) != 2 || !dialable(address[0], address[1]):
		failed := hidden(p.hide, unexpected("SENTINEL GET-MASTER-ADDR-BY-NAME", replies[0]))
		failed.Class = ClassOther
		return finding{err: failed}
	}
	found := finding{addr: net.JoinHostPort(address[0], address[1])}
	// What follows may be refused or unknown: then the answer counts as old, and nobody is met.
	if about, err := replies[1].AsStrMap(); err == nil {
		found.epoch, _ = strconv.ParseInt(about["config-epoch"], 10, 64)
	}
	if others, err := replies[2].ToArray(); err == nil {
		for _, other := range others {
			about, err := other.AsStrMap()
			if err == nil && dialable(about["ip"], about["port"]) && len(found.peers) < mostPeers {
				found.peers = append(found.peers, net.JoinHostPort(about["ip"], about["port"]))
			}
		}
	}
	return found
}

// dialable reports whether a host and a port that a server names can be ones.
func dialable(host, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && plainHost(host)
}

// known lists the sentinels.
func (f *follower) known() []*endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*endpoint, 0, len(f.peers))
	for _, p := range f.peers {
		all = append(all, p)
	}
	return all
}

// meet makes those who were configured and those who were named the known sentinels.
func (f *follower) meet(named []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	wanted := make(map[string]bool, len(named)+len(f.seeds))
	for _, list := range [][]string{f.seeds, named} {
		for _, addr := range list {
			if len(wanted) < mostPeers {
				wanted[addr] = true
			}
			if wanted[addr] && f.peers[addr] == nil {
				f.peers[addr] = &endpoint{addr: addr, dial: f.ask, hide: f.hide}
			}
		}
	}
	for addr, p := range f.peers {
		if named != nil && !wanted[addr] {
			delete(f.peers, addr)
			f.wg.Go(p.close)
		}
	}
}

// listen is the goroutine that hears of switches, over one sentinel at a time: started by start, ended
// by close.
func (f *follower) listen() {
	world.NewPart("topology").Label()
	for tries := 0; f.ctx.Err() == nil; tries++ {
		all := f.known()
		if f.hear(all[rand.IntN(len(all))]) {
			tries = 0
		}
		timer := time.NewTimer(time.Millisecond + rand.N(min(20*time.Millisecond<<min(tries, 6), time.Second)))
		select {
		case <-f.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// hear subscribes to one sentinel until the connection ends, and says whether that had worked.
func (f *follower) hear(p *endpoint) bool {
	client, err := p.get()
	if err != nil {
		return false
	}
	conn, release := client.Dedicate()
	defer release()
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if name, _, _ := strings.Cut(m.Message, " "); name == f.name {
			signal(f.news)
		}
	}})
	ctx, cancel := context.WithTimeout(f.ctx, lookLimit)
	err = conn.Do(ctx, conn.B().Subscribe().Channel("+switch-master").Build()).Error()
	cancel()
	if err != nil {
		return false
	}
	signal(f.doubts) // what was published before
	select {
	case <-lost: //nolint:errcheck // why it ended does not matter
	case <-f.ctx.Done():
	}
	return true
}

// close ends the following. Blocks: for a dial and an answer that are under way.
func (f *follower) close() {
	// closed comes first: from now on meet adds nobody.
	f.mu.Lock()
	f.closed = true
	peers := f.peers
	f.mu.Unlock()
	f.cancel()
	for _, p := range peers {
		f.wg.Go(p.close)
	}
	f.wg.Wait()
}

// signal wakes the one reader of a channel of capacity 1; a signal already there will do.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
