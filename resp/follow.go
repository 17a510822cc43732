package resp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
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

// choose asks the sentinels and finds the master that most of them name, and who they are.
func (f *follower) choose() finding {
	voices, known := f.voices(f.look())
	found := choose(voices, f.now, known)
	if found.err == nil {
		found.peers = agreedPeers(voices, f.named, known)
	}
	return found
}

// voices are the answers that count, and of how many they are. A sentinel may be asked twice, by the name that it was
// configured with and by the address that the others know: it has one vote. So those count that the others name, or the
// configured ones, where more of them answer: the addresses may be of a network that is not ours.
func (f *follower) voices(all []finding) (voices []finding, known int) {
	if len(f.named) == 0 {
		return all, len(f.known())
	}
	// Those that the others name, and the rest, which were configured.
	var named, others []finding
	answered, more := 0, 0 // of the named; and of the others, less those
	for _, one := range all {
		switch {
		case f.named[one.from]:
			named = append(named, one)
		default:
			others = append(others, one)
		}
		switch {
		case one.err != nil:
		case f.named[one.from]:
			answered++
			more--
		default:
			more++
		}
	}
	// Of how many: the smaller list must not lower what a majority is.
	known = max(len(f.named), len(f.seeds)) // one that lies may have kept the others from being named at first
	switch {
	case more > 0:
		return others, known
	case answered > 0:
		return named, known
	default:
		return all, known // why nobody answered
	}
}

// choose finds the master that sentinels name: the one that most of them do. A sentinel that lies can claim any
// epoch, so an epoch alone decides nothing; it is what tells an old configuration from a new one where most name the
// same.
//
// A master is left for another one
//
//   - that more than half of the known sentinels name, of an epoch that is not older. A failover needs the votes of
//     more than half of them, too, and they tell each other at once: it costs a fraction of a second to wait for
//     them.
//   - that more than half of the known name, of an older epoch, if no answer is as new as what is followed: somebody
//     has set them up anew.
//   - that more than half of those name that answer, if the master that is followed does not answer as one. After an
//     outage the others may be down with the old master, or be known by two names, or be gone for good. A sentinel that
//     lies wins this way only when the master and the other sentinels are all silent; while one of them answers, it
//     does not.
//
// At the beginning nothing is left: the one that most of those name that answer, and one that answers is enough. Of two
// that do not agree none is believed.
func choose(all []finding, now followed, known int) finding {
	// The votes, and how new the newest answer is.
	votes := make(map[string][]int64) // epochs, by the master that is named
	answered, newest := 0, int64(-1)
	for _, one := range all {
		if one.err == nil {
			answered++
			newest = max(newest, one.epoch)
			votes[one.addr] = append(votes[one.addr], one.epoch)
		}
	}
	if answered == 0 {
		return whyNone(all)
	}
	// What they are worth, by the rules above, in their order. What falls through is believed.
	best := elect(votes, now.addr)
	n := len(votes[best.addr])
	switch {
	case best.addr == "": // two have as many
		return finding{err: &ServerError{Class: ClassMasterDown, Text: errDisagree.Error(), cause: errDisagree}}
	case best.addr == now.addr && 2*n <= known: // too few to say how new it is
		best.epoch = now.epoch
	case now.addr == "", best.addr == now.addr:
	case 2*n > known && (best.epoch >= now.epoch || newest < now.epoch):
	case 2*n > known, 2*n > answered && best.epoch >= now.epoch:
		best.weak = true
	case best.epoch < now.epoch:
		return finding{err: errOlder}
	default:
		return finding{err: &ServerError{Class: ClassMasterDown, Text: errDisagree.Error(), cause: errDisagree}}
	}
	return best
}

// elect finds the master with the most votes, and the epoch that most of its voters reach; with equal votes the one
// that is followed, or none.
func elect(votes map[string][]int64, now string) (best finding) {
	most := 0
	for addr, epochs := range votes {
		switch n := len(epochs); {
		case n > most:
			best.addr, most = addr, n
		case n == most && addr == now:
			best.addr = addr
		case n == most && best.addr != now:
			best.addr = ""
		}
	}
	if epochs := votes[best.addr]; len(epochs) > 0 {
		slices.Sort(epochs)
		best.epoch = epochs[(len(epochs)-1)/2] // who claims more than the others does not raise it
	}
	return best
}

// agreedPeers lists the sentinels: those before, with whom more than half of the known name, each itself included, and
// without whom more than half of them leave out. So one that lies, and the silence of the others, change nothing. At
// the beginning those are listed that more than half name of who answered.
func agreedPeers(voices []finding, before map[string]bool, known int) []string {
	// How many name each. A set for each voice: naming somebody twice counts once.
	naming, answered := make(map[string]int), 0
	for _, one := range voices {
		if one.err != nil {
			continue
		}
		answered++
		seen := map[string]bool{one.from: true}
		for _, addr := range one.peers {
			seen[addr] = true
		}
		for addr := range seen {
			naming[addr]++
		}
	}
	if len(before) == 0 {
		known = answered
	}
	// Newcomers need a majority to come in, those before a majority to be left out.
	peers := make([]string, 0, len(before))
	for addr, n := range naming {
		if 2*n > known && !before[addr] {
			peers = append(peers, addr)
		}
	}
	for addr := range before {
		if 2*(answered-naming[addr]) <= known {
			peers = append(peers, addr)
		}
	}
	slices.Sort(peers)
	return peers
}

// whyNone says why no sentinel named a master: what one of them refuses says more than silence.
func whyNone(all []finding) finding {
	var failures []error
	var refused, silent finding
	for _, one := range all {
		switch {
		case errors.Is(one.err, ErrNoSuchMaster), refused.err == nil && !Dead(one.err):
			refused = finding{from: one.from, err: one.err}
		default:
			silent = finding{from: one.from, err: one.err}
			failures = append(failures, &Failure{one.from, one.err})
		}
	}
	// Only a server that is there refuses. A wrong name or password outweighs any timeout.
	switch {
	case refused.err != nil:
		return refused
	case len(failures) == 1:
		return silent
	default:
		cause := errors.Join(failures...)
		return finding{err: &ServerError{Class: ClassUnreachable, Text: "no sentinel answered", cause: cause}}
	}
}

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
