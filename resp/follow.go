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
)

var (
	// ErrNoSuchMaster is returned by Follow when sentinels answered and none knows the name.
	ErrNoSuchMaster = errors.New("no sentinel knows this master")
	// ErrNotSentinel is returned by Follow when what answered is no sentinel.
	ErrNotSentinel = errors.New("not a sentinel")
	// ErrIsSentinel is returned by Open when an address is a sentinel's.
	ErrIsSentinel = errors.New("a sentinel")
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
	lookLimit = time.Second            // of one sentinel's answer
	lookGrace = 100 * time.Millisecond // the others' time after the first good answer
	mostPeers = 64                     // sentinels that are asked
)

// A follower knows the master of a name, and moves its node there whenever the sentinels agree on
// another.
//
// It asks all sentinels it has heard of at once and believes the newest answer, by the epoch of their
// configuration: one that is cut off from the others goes on naming the old master. It asks when one
// of them publishes a switch, when an answer of the master makes it doubtful, when a connection breaks,
// and every 5 s.
//
// Locks: mu guards the sentinels; it is never held during I/O.
type follower struct {
	name string
	ask  func(addr string) (rueidis.Client, error)

	node *Node
	told func(addr string) // hears of a new master; may be nil

	seeds  []string
	mu     sync.Mutex
	peers  map[string]*endpoint // by address
	closed bool

	epoch int64 // of the configuration that is followed; the keeper's

	ctx    context.Context //nolint:containedctx // ends with close
	cancel context.CancelFunc
	doubts chan struct{} // capacity 1: the master may be another
	news   chan struct{} // capacity 1: a sentinel says so
	wg     sync.WaitGroup
}

// Follow connects to the master that sentinels name, and follows it through failovers.
//
// Errors: *ServerError; its cause may be ErrNoSuchMaster or ErrNotSentinel. Blocks: for a dial of
// each silent address.
func Follow(s Sentinels, o Options) (*Nodes, error) {
	o.fill()
	o.Follows = true
	f := &follower{
		name: s.Master, ask: s.Ask, seeds: s.Addrs, peers: make(map[string]*endpoint),
		doubts: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.meet(nil)
	found := choose(f.look(), 0, 0)
	if found.err != nil {
		f.close()
		return nil, found.err
	}
	f.epoch = found.epoch
	from := &endpoint{addr: found.addr, dial: s.Dial}
	n := newNode(from, o)
	w, failed := n.commands.get()
	if failed == nil && w.caps.Cluster {
		failed = &ServerError{Class: ClassOther, Text: found.addr + " is a node of a cluster, and a master named by sentinels was asked for"}
	}
	if failed != nil {
		n.abort()
		from.close()
		f.close()
		return nil, failed
	}
	n.follow, f.node = f, n
	n.start(nil, pubSubMode{publish: "PUBLISH"})
	return &Nodes{single: n, follow: f, opts: o}, nil
}

// start begins to follow.
func (f *follower) start(told func(addr string)) {
	f.told = told
	f.wg.Go(f.keep)
	f.wg.Go(f.listen)
}

// suspect asks the sentinels, soon. Blocks: never.
func (f *follower) suspect() { signal(f.doubts) }

// keep is the goroutine that asks: started by start, ended by close.
func (f *follower) keep() {
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
		if f.follow(choose(f.look(), f.epoch, len(f.known()))) {
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
	if found.err != nil || f.ctx.Err() != nil {
		return false
	}
	f.meet(found.peers)
	f.epoch = found.epoch
	if found.addr == f.node.Addr() {
		return false
	}
	f.node.move(found.addr)
	if f.told != nil {
		f.told(found.addr)
	}
	return true
}

// A finding is what one sentinel says, or what follows from what all said.
type finding struct {
	addr  string
	epoch int64
	peers []string
	err   *ServerError
}

// choose finds the newest of what sentinels said. What is older than the configuration that is followed
// counts only if more than half of all known sentinels answered and none knows better: then somebody has
// set them up anew.
func choose(all []finding, epoch int64, known int) finding {
	best := finding{epoch: -1}
	answered := 0
	var failures []error
	var refused *ServerError
	for _, one := range all {
		switch {
		case one.err == nil:
			answered++
			best.peers = append(best.peers, one.peers...)
			if one.epoch > best.epoch {
				best.addr, best.epoch = one.addr, one.epoch
			}
		case errors.Is(one.err, ErrNoSuchMaster), refused == nil && one.err.Class != ClassUnreachable && one.err.Class != ClassUnknown:
			refused = one.err
		default:
			failures = append(failures, one.err)
		}
	}
	switch {
	case answered == 0 && refused != nil:
		best.err = refused
	case answered == 0 && len(failures) == 1:
		best.err = AsServerError(failures[0])
	case answered == 0:
		best.err = &ServerError{Class: ClassUnreachable, Text: "no sentinel answered", cause: errors.Join(failures...)}
	case best.epoch < epoch && 2*answered <= known:
		best.err = &ServerError{Class: ClassOther, Text: "the sentinels that answer have an older configuration"}
	}
	return best
}

// look asks every known sentinel and returns what came in time.
func (f *follower) look() []finding {
	ask := f.known()
	answers := make(chan finding, len(ask))
	for _, p := range ask {
		f.wg.Go(func() { answers <- f.askOne(p) }) // it may outlive this call: a dial of a silent host
	}
	var all []finding
	grace := time.NewTimer(lookLimit + dialTimeout)
	defer grace.Stop()
	good := false
	for len(all) < len(ask) {
		select {
		case one := <-answers:
			all = append(all, one)
			if one.err == nil && !good {
				good = true
				grace.Reset(lookGrace)
			}
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
	client, err := p.get()
	if err != nil {
		return finding{err: unreachable(err)}
	}
	ctx, cancel := context.WithTimeout(f.ctx, lookLimit)
	defer cancel()
	replies := client.DoMulti(ctx,
		client.B().Arbitrary("SENTINEL", "GET-MASTER-ADDR-BY-NAME", f.name).Build(),
		client.B().Arbitrary("SENTINEL", "MASTER", f.name).Build(),
		client.B().Arbitrary("SENTINEL", "SENTINELS", f.name).Build())
	address, err := replies[0].AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err):
		return finding{err: &ServerError{
			Class: ClassOther, Text: fmt.Sprintf("%s knows no master named %q", p.addr, f.name), cause: ErrNoSuchMaster,
		}}
	case err != nil:
		failed := classify(err)
		if strings.Contains(strings.ToLower(failed.Text), "unknown command") {
			failed = &ServerError{Class: ClassOther, Text: p.addr + " is not a sentinel", cause: ErrNotSentinel}
		}
		return finding{err: failed}
	case len(address) != 2:
		return finding{err: &ServerError{Class: ClassOther, Text: "unexpected reply to SENTINEL GET-MASTER-ADDR-BY-NAME"}}
	}
	found := finding{addr: net.JoinHostPort(address[0], address[1])}
	// What follows may be refused or unknown: then the answer counts as old, and nobody is met.
	if about, err := replies[1].AsStrMap(); err == nil {
		found.epoch, _ = strconv.ParseInt(about["config-epoch"], 10, 64)
	}
	if others, err := replies[2].ToArray(); err == nil {
		for _, other := range others {
			if about, err := other.AsStrMap(); err == nil && about["ip"] != "" && about["port"] != "" {
				found.peers = append(found.peers, net.JoinHostPort(about["ip"], about["port"]))
			}
		}
	}
	return found
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
				f.peers[addr] = &endpoint{addr: addr, dial: f.ask}
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
