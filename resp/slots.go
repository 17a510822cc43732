package resp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const (
	tableEvery    = 30 * time.Second      // how old the table may get when nothing looks wrong
	tableLeast    = 50 * time.Millisecond // between two readings, growing while they change nothing
	tableMost     = time.Second           //
	tableLimit    = time.Second           // of one node's answer
	tableAsked    = 3                     // how many nodes are asked at a time
	retireAfter   = 5 * time.Second       // without a slot
	maxTableNodes = 1000                  // masters and replicas; more is no cluster: Redis' own limit
	maxStrangers  = 64                    // nodes that redirections name and no table does
	maxIdle       = 2 * maxStrangers      // nodes without a slot: of more, none is kept
)

// A slotRange is a range of slots and the address of their master.
type slotRange struct {
	first, last int
	master      string
}

// view is what one node says of the cluster.
type view struct {
	ranges []slotRange
	known  []string // masters and replicas
	epoch  int64    // of its configuration; unknownEpoch: it may not be asked
}

const unknownEpoch = -1

// Suspect asks for the table to be read anew, soon. Blocks: never.
func (ns *Nodes) Suspect() {
	if ns.single == nil {
		signal(ns.suspect)
	}
}

// keep is the goroutine that keeps the table: started by Start, ended by Close.
func (ns *Nodes) keep() {
	world.NewPart("topology").Label()
	timer := time.NewTimer(tableEvery)
	defer timer.Stop()
	pause := tableLeast
	for {
		timer.Reset(tableEvery)
		select {
		case <-ns.stop:
			return
		case <-ns.suspect:
		case <-timer.C:
		}
		changes := ns.counts.changes.Load()
		_ = ns.readTable() // whoever needs the table goes on with the old one
		if ns.learned.Swap(false) && ns.hooks.Moved != nil {
			ns.hooks.Moved()
		}
		if ns.counts.changes.Load() != changes {
			pause = tableLeast
		} else {
			pause = min(2*pause, tableMost)
		}
		timer.Reset(pause/2 + rand.N(pause))
		select { // one reading serves a burst of doubts
		case <-ns.stop:
			return
		case <-timer.C:
		}
	}
}

// readTable asks nodes for the table until one answers, and takes its view over. A node that is cut off from the others
// goes on naming the old owners: what is older than the configuration that is followed counts only if more than half of
// all nodes answered and none knows better. Then somebody has set them up anew. It ends with Close, which then waits
// for those that are being asked, and for no others.
func (ns *Nodes) readTable() error {
	ns.counts.refreshes.Add(1)
	// Whom to ask: everybody heard of, in random order, so that no node is asked first by every engine.
	ns.mu.Lock()
	ask := make([]*endpoint, 0, len(ns.endpoints))
	for _, p := range ns.endpoints {
		ask = append(ask, p)
	}
	ns.mu.Unlock()
	if len(ask) == 0 {
		return &ServerError{Class: ClassUnreachable, Text: "no node of the cluster is known"}
	}
	rand.Shuffle(len(ask), func(i, j int) { ask[i], ask[j] = ask[j], ask[i] })
	type answer struct {
		view *view
		err  error
	}
	// Room for all of them: a goroutine that outlives this call must not block.
	answers := make(chan answer, len(ask))
	next, waiting := 0, 0
	start := func() {
		p := ask[next]
		next++
		waiting++
		ns.wg.Go(func() { // it may outlive this call: a dial of a silent host
			v, err := askTable(p)
			answers <- answer{v, err}
		})
	}
	// A few at a time. One that fails, or is behind, is followed by the next; the first that is up to date ends it.
	for next < min(tableAsked, len(ask)) {
		start()
	}
	var last error
	var older *view
	answered := 0
	for waiting > 0 {
		var a answer
		select {
		case a = <-answers:
		case <-ns.stop:
			return errClosed
		}
		waiting--
		switch {
		case a.err != nil:
			last = a.err
		case a.view.epoch == unknownEpoch || a.view.epoch >= ns.epoch.Load():
			return ns.adopt(a.view)
		default:
			answered++
			if older == nil || a.view.epoch > older.epoch {
				older = a.view
			}
		}
		if next < len(ask) {
			start()
		}
	}
	// All have answered, and nobody was up to date.
	switch {
	case older == nil:
		return classify(last)
	case 2*answered <= len(ask):
		return &ServerError{Class: ClassOther, Text: "the nodes of the cluster that answer have an older configuration"}
	}
	return ns.adopt(older)
}

// askTable reads CLUSTER SLOTS from one node, and by CLUSTER INFO how new what it says is.
func askTable(p *endpoint) (*view, error) {
	client, err := p.get()
	if err != nil {
		return nil, p.unreachable(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tableLimit)
	defer cancel()
	replies := client.DoMulti(ctx, client.B().ClusterInfo().Build(), client.B().ClusterSlots().Build())
	ranges, err := replies[1].ToArray()
	switch _, refused := rueidis.IsRedisErr(err); {
	case err != nil && !refused && replies[1].NonRedisError() == nil:
		return nil, hidden(p.hide, unexpected("CLUSTER SLOTS", replies[1]))
	case err != nil:
		return nil, p.refused(err)
	}
	v, err := parseView(ranges, p.addr)
	if err != nil {
		return nil, hidden(p.hide, AsServerError(err))
	}
	info, _ := replies[0].ToString() // it may be refused
	v.epoch = parseEpoch(info)
	return v, nil
}

// parseEpoch reads the epoch of a node's configuration out of its CLUSTER INFO.
func parseEpoch(info string) int64 {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "cluster_current_epoch:"); ok {
			if epoch, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && epoch >= 0 {
				return epoch
			}
		}
	}
	return unknownEpoch
}

// errView is the error of a reply to CLUSTER SLOTS that is no table.
func errView(why string) error {
	return &ServerError{Class: ClassOther, Text: "malformed reply to CLUSTER SLOTS: " + why, said: true}
}

// parseView reads the reply of CLUSTER SLOTS: {first, last, {host, port, id, …}, replicas…} each. No slot has two
// masters, and no table more than maxTableNodes nodes: each of them costs goroutines and connections.
func parseView(ranges []rueidis.RedisMessage, asked string) (*view, error) {
	host, _, err := net.SplitHostPort(asked)
	if err != nil {
		host = asked
	}
	switch {
	case len(ranges) == 0:
		why := " is a node of a cluster and knows of no slot that is served"
		return nil, &ServerError{Class: ClassClusterDown, Text: asked + why, said: true}
	case len(ranges) > slotCount:
		return nil, errView(fmt.Sprintf("%d ranges of %d slots", len(ranges), slotCount))
	}
	p := &viewParser{host: host, seen: make(map[string]bool)}
	for i := range ranges {
		if why := p.add(&ranges[i]); why != "" {
			return nil, errView(why + " in range " + strconv.Itoa(i+1))
		}
	}
	return &p.view, nil
}

// A viewParser puts a view together, range by range.
type viewParser struct {
	view
	host   string          // of the node that was asked
	seen   map[string]bool // the addresses of known
	served [slotCount]bool
}

// add reads one range. It answers what is wrong with it; "" if nothing is.
func (p *viewParser) add(r *rueidis.RedisMessage) string {
	parts, err := r.ToArray()
	if err != nil || len(parts) < 3 {
		return excerptOf(r)
	}
	// The slots. One that comes twice would belong to whoever is named last.
	first, ok1 := number(&parts[0])
	last, ok2 := number(&parts[1])
	if !ok1 || !ok2 || first < 0 || last >= slotCount || first > last {
		return excerpt(parts)
	}
	for slot := first; slot <= last; slot++ {
		if p.served[slot] {
			return fmt.Sprintf("slot %d for the second time", slot)
		}
		p.served[slot] = true
	}
	// The nodes: the master, then its replicas, which are only asked for tables.
	for i := range parts[2:] {
		addr, why := p.node(&parts[2+i])
		if why != "" {
			return why
		}
		if i == 0 {
			p.ranges = append(p.ranges, slotRange{int(first), int(last), addr})
		}
		if p.seen[addr] {
			continue
		}
		if len(p.known) == maxTableNodes {
			return fmt.Sprintf("more than %d nodes", maxTableNodes)
		}
		p.seen[addr] = true
		p.known = append(p.known, addr)
	}
	return ""
}

// node reads {host, port, …}. A node that does not know its own host leaves it empty: it is the one that was asked.
func (p *viewParser) node(m *rueidis.RedisMessage) (addr, why string) {
	node, err := m.ToArray()
	if err != nil || len(node) < 2 {
		return "", excerptOf(m)
	}
	name, err := node[0].ToString()
	port, ok := number(&node[1])
	if err != nil && !node[0].IsNil() || !ok || port < 1 || port > 65535 {
		return "", excerpt(node)
	}
	if name == "" || name == "?" {
		name = p.host
	}
	if !plainHost(name) {
		return "", excerpt(node)
	}
	return net.JoinHostPort(name, strconv.FormatInt(port, 10)), ""
}

// plainHost reports whether a host that a server names can be one: it is dialled, and stands in logs and errors.
func plainHost(host string) bool {
	return host != "" && len(host) <= 255 &&
		!strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '"' || r > '~' })
}

// adopt makes a view the table.
func (ns *Nodes) adopt(v *view) error {
	ns.mu.Lock()
	if ns.closed {
		ns.mu.Unlock()
		return errClosed
	}
	if v.epoch != unknownEpoch {
		ns.epoch.Store(v.epoch)
	}
	// The owners. The table is read without mu, so an op may meet half of a change: a redirection mends that.
	changed := false
	for _, r := range v.ranges {
		n := ns.memberLocked(r.master)
		for s := r.first; s <= r.last; s++ {
			changed = ns.table[s].Swap(n) != n || changed
		}
	}
	anybody := ns.memberLocked(v.ranges[0].master)
	for s := range ns.table { // nobody serves it: whoever is asked says so
		ns.table[s].CompareAndSwap(nil, anybody)
	}
	// The nodes, and whom to ask from now on.
	ns.listLocked()
	ns.known = make(map[string]bool, len(v.known))
	for _, addr := range v.known {
		ns.known[addr] = true
		ns.endpointLocked(addr)
	}
	emptied, retired, gone := ns.sweepLocked()
	ns.mu.Unlock()
	// The rest runs without mu: hooks may block, and so does closing.
	if changed {
		ns.counts.changes.Add(1)
	}
	for _, n := range emptied {
		n.replay()
	}
	for _, n := range retired {
		ns.retire(n)
	}
	for _, p := range gone {
		ns.wg.Go(p.close)
	}
	if changed && ns.hooks.Moved != nil {
		ns.hooks.Moved()
	}
	return nil
}

// memberLocked finds the node of an address, or makes it: then the caller has to list the nodes anew.
func (ns *Nodes) memberLocked(addr string) *Node {
	m := ns.members[addr]
	if m == nil {
		m = &membership{node: newNode(ns.endpointLocked(addr), ns.opts)}
		m.node.start(ns, ns.mode)
		ns.members[addr] = m
	}
	m.idle = 0
	return m.node
}

func (ns *Nodes) endpointLocked(addr string) *endpoint {
	p := ns.endpoints[addr]
	if p == nil {
		p = &endpoint{addr: addr, dial: ns.dial, borrowed: ns.borrowed, hide: ns.opts.Hide}
		ns.endpoints[addr] = p
	}
	return p
}

// listLocked publishes the nodes.
func (ns *Nodes) listLocked() {
	all := make([]*Node, 0, len(ns.members))
	for _, m := range ns.members {
		all = append(all, m.node)
	}
	ns.all.Store(&all)
	if crowd := ns.opts.Crowd; crowd != nil {
		crowd.Store(int32(len(all))) //nolint:gosec // maxTableNodes, and some
	}
}

// sweepLocked finds the nodes whose slots all have gone to others, takes out those that have served none for a while,
// and the endpoints that nobody names any more. It waits for what others are still to be sent of a node's
// releases; where many serve none at once, as where table after table names others, for nothing.
func (ns *Nodes) sweepLocked() (emptied, retired []*Node, gone []*endpoint) {
	serving := make(map[*Node]bool, len(ns.members))
	for s := range ns.table {
		serving[ns.table[s].Load()] = true
	}
	now, many := ns.opts.Clock.Now(), len(ns.members)-len(serving) > maxIdle
	for addr, m := range ns.members {
		switch {
		case serving[m.node]:
			m.idle = 0
		case m.idle == 0 && !many:
			m.idle = now
			emptied = append(emptied, m.node)
		case many, now.Sub(m.idle) > replayMovedFor, now.Sub(m.idle) > retireAfter && !m.node.owesReplay():
			delete(ns.members, addr)
			retired = append(retired, m.node)
		}
	}
	if len(retired) > 0 {
		ns.listLocked()
	}
	// Members first: an endpoint stays as long as a node uses it.
	for addr, p := range ns.endpoints {
		if !ns.known[addr] && ns.members[addr] == nil {
			delete(ns.endpoints, addr)
			gone = append(gone, p)
		}
	}
	return emptied, retired, gone
}

// retire ends a node in the background.
func (ns *Nodes) retire(n *Node) {
	if ns.hooks.Retired != nil {
		ns.hooks.Retired(n)
	}
	ns.wg.Go(n.Close)
}

// learn records what a MOVED says. Nil: the node is one too many.
func (ns *Nodes) learn(slot uint16, addr string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.namedLocked(addr)
	if n != nil && slot < slotCount && ns.table[slot].Swap(n) != n {
		ns.counts.changes.Add(1)
		// Whoever waits for a release has to move, too. The table that is read next shows no change any more.
		ns.learned.Store(true)
		signal(ns.suspect)
	}
	return n
}

// member returns the node of an address that a redirection names. Nil: it is one too many.
func (ns *Nodes) member(addr string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.namedLocked(addr)
}

// namedLocked finds the node of an address that a redirection names, or makes it. Of those that no table has named
// there are maxStrangers at the most: who names more waits for the table. The keeper's readings forget them again.
func (ns *Nodes) namedLocked(addr string) *Node {
	if ns.closed {
		return nil
	}
	if ns.members[addr] == nil && !ns.known[addr] {
		strangers := 0
		for other := range ns.members {
			if !ns.known[other] {
				strangers++
			}
		}
		if strangers >= maxStrangers {
			ns.counts.strangers.Add(1)
			signal(ns.suspect)
			return nil
		}
	}
	n := ns.memberLocked(addr)
	if len(*ns.all.Load()) != len(ns.members) {
		ns.listLocked()
	}
	return n
}
