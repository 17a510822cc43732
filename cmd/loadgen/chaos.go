package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// chaos disturbs loadgen's own servers while a scenario measures; nil disturbs nobody. Its goroutine
// owns everything in it between begin and the end that begin returns.
type chaos struct {
	cfg     *config
	srv     *server
	engines []*engine.Engine // of this process
	rng     *rand.Rand
	kinds   []string // still to be chosen from: a master is killed once
	muted   bool     // the quiet stretch: begin does nothing

	done   map[string]int64
	failed []string
	moved  *movedSlot
	client clientReport
	gaps   *gaps                // of the round in which a client is killed
	fell   atomic.Pointer[fall] // of the master that was killed; replaced as a whole, read by anybody
}

// movedSlot is a slot that is away from home.
type movedSlot struct {
	slot uint16
	home *redisproc.Server
}

// fall is the death of a master.
type fall struct {
	addr     string
	slots    [redisproc.Slots]bool // that it served
	at       time.Time
	replaced time.Time // a replica serves all of them; zero: not yet
}

// of reports whether name was served by the master that died; false if none did.
func (f *fall) of(name string) bool { return f != nil && f.slots[slot.Of(name)] }

// longestStep bounds a disturbance: an election among servers that share a core with the load.
const longestStep = time.Minute

// askAgain is how long a replica has to take over before it is told again.
const askAgain = 2500 * time.Millisecond

// longestPause is how long a paused master stands still at most: shorter than an attempt may take.
const longestPause = time.Second

func newChaos(cfg *config, srv *server, engines []*engine.Engine) *chaos {
	if len(cfg.chaos) == 0 {
		return nil
	}
	return &chaos{
		cfg: cfg, srv: srv, engines: engines, kinds: slices.Clone(cfg.chaos),
		rng: rand.New(rand.NewPCG(cfg.chaosSeed, 0)), done: make(map[string]int64),
	}
}

// begin disturbs, one thing at a time, until end is called, which waits until all is as it was: paused
// servers go on, a slot on its way has arrived.
func (c *chaos) begin(ctx context.Context) (end func()) {
	if c == nil || c.muted {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	go func() { // ends with end
		defer close(gone)
		c.run(ctx)
	}()
	return func() {
		cancel()
		<-gone
	}
}

// kindsNow are those of the round that is measured.
func (c *chaos) kindsNow() []string {
	if c == nil || c.muted {
		return nil
	}
	return c.cfg.chaos
}

func (c *chaos) run(ctx context.Context) {
	pace := time.NewTicker(c.cfg.chaosEvery)
	defer pace.Stop()
	for len(c.kinds) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		kind := c.kinds[c.rng.IntN(len(c.kinds))]
		// What has begun is brought to its end, whatever becomes of ctx.
		step, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestStep)
		err := c.step(step, ctx, kind)
		cancel()
		if err != nil {
			c.failed = append(c.failed, fmt.Sprintf("%s: %v", kind, err))
			continue
		}
		c.done[kind]++
	}
}

// step does one thing. early ends when nobody needs it any more.
func (c *chaos) step(ctx, early context.Context, kind string) error {
	switch kind {
	case chaosSlots:
		return c.moveSlot(ctx)
	case chaosFailover:
		return c.failover(ctx)
	case chaosKill:
		return c.kill(ctx)
	case chaosClient:
		return c.killClient(ctx, early)
	}
	master, err := c.anyMaster(ctx)
	if err != nil {
		return err
	}
	switch kind {
	case chaosPause:
		master.Pause()
		defer master.Resume()
		select {
		case <-early.Done():
		case <-time.After(c.pauseTime()):
		}
		return nil
	case chaosKillConn:
		return killConnections(ctx, master)
	default:
		_, err := master.Command(ctx, "SCRIPT", "FLUSH")
		return err
	}
}

func (c *chaos) pauseTime() time.Duration {
	return min(c.cfg.chaosEvery/2, c.cfg.lease/6, longestPause)
}

// killConnections ends those of clients and subscribers. Replicas and the cluster bus keep theirs.
func killConnections(ctx context.Context, s *redisproc.Server) error {
	for _, kind := range []string{"normal", "pubsub"} {
		if _, err := s.Command(ctx, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"); err != nil {
			return err
		}
	}
	return nil
}

// anyMaster is a master that lives.
func (c *chaos) anyMaster(ctx context.Context) (*redisproc.Server, error) {
	switch {
	case c.srv.cluster != nil:
		return c.srv.cluster.Owner(ctx, c.anySlot())
	case c.srv.sentinel != nil:
		return c.srv.sentinel.Current(ctx)
	default:
		return c.srv.embedded.Process(), nil
	}
}

func (c *chaos) anySlot() uint16 { return uint16(c.rng.IntN(redisproc.Slots)) }

// owners is the master of every slot.
func (c *chaos) owners(ctx context.Context) ([]*redisproc.Server, error) {
	if c.srv.sentinel == nil {
		return c.srv.cluster.Owners(ctx)
	}
	master, err := c.srv.sentinel.Current(ctx)
	return slices.Repeat([]*redisproc.Server{master}, redisproc.Slots), err
}

// moveSlot moves a slot away, or the one that is away back home.
func (c *chaos) moveSlot(ctx context.Context) error {
	cluster := c.srv.cluster
	if m := c.moved; m != nil {
		c.moved = nil
		if home, err := c.living(ctx, m.home); err != nil || !home {
			return err
		}
		return cluster.MoveSlot(ctx, m.slot, m.home)
	}
	number := c.anySlot()
	from, err := cluster.Owner(ctx, number)
	if err != nil {
		return err
	}
	owners, err := cluster.Owners(ctx)
	if err != nil {
		return err
	}
	var others []*redisproc.Server
	for _, n := range cluster.Nodes() {
		if n != from && slices.Contains(owners, n) {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return errors.New("no other master")
	}
	if err := cluster.MoveSlot(ctx, number, others[c.rng.IntN(len(others))]); err != nil {
		return err
	}
	c.moved = &movedSlot{number, from}
	return nil
}

// living reports whether s is still a master.
func (c *chaos) living(ctx context.Context, s *redisproc.Server) (bool, error) {
	owners, err := c.srv.cluster.Owners(ctx)
	return slices.Contains(owners, s), err
}

// failover tells a replica to take over, and waits until it has.
func (c *chaos) failover(ctx context.Context) error {
	if c.srv.sentinel != nil {
		return c.sentinelFailover(ctx)
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	var replicas []*redisproc.Server
	for _, n := range c.srv.cluster.Nodes() {
		if f := c.fall(); !slices.Contains(owners, n) && (f == nil || n.Addr() != f.addr) {
			replicas = append(replicas, n)
		}
	}
	if len(replicas) == 0 {
		return errors.New("no replica is left")
	}
	return c.takeOver(ctx, replicas[c.rng.IntN(len(replicas))])
}

// takeOver tells a replica to take over until it has. It looks first: who has become a master refuses to be told.
func (c *chaos) takeOver(ctx context.Context, next *redisproc.Server) error {
	var asked time.Time
	return await(ctx, func() error {
		owners, err := c.owners(ctx)
		if err == nil && slices.Contains(owners, next) {
			return nil
		}
		// Masters do not elect a second successor of one master within twice their node timeout, and forget
		// that they were asked.
		if time.Since(asked) > askAgain {
			if _, err := next.Command(ctx, "CLUSTER", "FAILOVER"); err != nil {
				return fmt.Errorf("%s: %w; cluster as it sees it: %s", next.Addr(), err, clusterNodes(ctx, next))
			}
			asked = time.Now()
		}
		return errors.Join(err, fmt.Errorf("%s has not taken over", next.Addr()))
	})
}

// clusterNodes is what s knows of its cluster, for an error.
func clusterNodes(ctx context.Context, s *redisproc.Server) string {
	v, err := s.Command(ctx, "CLUSTER", "NODES")
	if err != nil {
		return err.Error()
	}
	return redisproc.Text(v)
}

// sentinelFailover has a sentinel put a replica in the master's place. It is over when the old master follows the
// new one: until then it takes commands from who has not heard, and what they did is lost.
func (c *chaos) sentinelFailover(ctx context.Context) error {
	old, err := c.srv.sentinel.Current(ctx)
	if err != nil {
		return err
	}
	begun := false
	return await(ctx, func() error {
		// Refused while the last one is not over, or its old master not yet a good replica.
		if !begun {
			if _, err := c.srv.sentinel.Sentinels[0].Command(ctx, "SENTINEL", "FAILOVER", redisproc.MasterName); err != nil {
				return err
			}
			begun = true
		}
		now, err := c.srv.sentinel.Current(ctx)
		if err != nil {
			return err
		}
		if now == old {
			return errors.New("nobody has taken over")
		}
		role, err := old.Command(ctx, "ROLE")
		if err != nil {
			return err
		}
		if parts, ok := role.([]any); !ok || len(parts) == 0 || redisproc.Text(parts[0]) != "slave" {
			return fmt.Errorf("%s still takes itself for the master", old.Addr())
		}
		return nil
	})
}

// sentinelReplaced reports whether a sentinel has put a replica in the place of a living master. Call it
// after the end that begin returned.
func (c *chaos) sentinelReplaced() bool {
	return c != nil && c.srv.sentinel != nil && c.done[chaosFailover] > 0
}

// kill kills a master and waits until a replica serves its slots.
func (c *chaos) kill(ctx context.Context) error {
	c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return kind == chaosKill })
	victim, err := c.anyMaster(ctx)
	if err != nil {
		return err
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	f := fall{addr: victim.Addr()}
	for i, owner := range owners {
		f.slots[i] = owner == victim
	}
	f.at = time.Now()
	dead := f
	c.fell.Store(&dead)
	victim.Kill()
	err = await(ctx, func() error {
		owners, err := c.owners(ctx)
		if err == nil && slices.Contains(owners, victim) {
			err = errors.New("nobody has taken over")
		}
		return err
	})
	if err != nil {
		return err
	}
	f.replaced = time.Now()
	c.fell.Store(&f)
	return nil
}

// fall is the death of a master, nil if none died.
func (c *chaos) fall() *fall {
	if c == nil {
		return nil
	}
	return c.fell.Load()
}

// await asks, with pauses, until try has no complaint.
func await(ctx context.Context, try func() error) error {
	const pause = 20 * time.Millisecond
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// chaosReport is what was done to the servers, and what it cost the client in script calls.
type chaosReport struct {
	Done   map[string]int64 `json:"done"`
	Failed []string         `json:"failed"` // disturbances that did not succeed
	EveryS float64          `json:"every_s"`
	Seed   uint64           `json:"seed"`

	Client *clientReport `json:"client"` // one was killed

	Quiet *quietReport `json:"quiet"` // the same load undisturbed, just before
	Calls *float64     `json:"script_calls_to_quiet"`
}

type quietReport struct {
	PairsPerS   float64 `json:"pairs_per_s"`
	ScriptCalls float64 `json:"script_calls_per_pair"`
}

// addTo reports, after the last end.
func (c *chaos) addTo(r *report, quiet *round) {
	if c == nil {
		return
	}
	out := &chaosReport{Done: c.done, Failed: append([]string{}, c.failed...), EveryS: c.cfg.chaosEvery.Seconds(), Seed: c.cfg.chaosSeed}
	r.Chaos = out
	c.addClient(r, out)
	for _, f := range c.failed {
		r.fail("chaos %s", f)
	}
	if len(c.done) == 0 {
		r.fail("nothing was disturbed: the measured time is shorter than --chaos-every")
	}
	if quiet == nil || quiet.rec.released == 0 {
		return
	}
	out.Quiet = &quietReport{PairsPerS: float64(quiet.rec.released) / quiet.cost.wall.Seconds()}
	if calls := scriptCalls([]round{*quiet}); calls != nil {
		out.Quiet.ScriptCalls = *calls
		if r.ScriptCalls != nil && *calls > 0 {
			ratio := *r.ScriptCalls / *calls
			out.Calls = &ratio
		}
	}
}

func (c *chaosReport) rows() [][2]string {
	parts := make([]string, 0, len(c.Done))
	for _, kind := range slices.Sorted(maps.Keys(c.Done)) {
		parts = append(parts, fmt.Sprintf("%s %s", kind, count(c.Done[kind])))
	}
	rows := append([][2]string{{"chaos", strings.Join(parts, ", ")}}, c.Client.rows()...)
	if q := c.Quiet; q != nil {
		text := number(q.PairsPerS) + " pairs/s"
		if c.Calls != nil {
			text += fmt.Sprintf(", %.4f script calls a pair; with chaos %.2f times that", q.ScriptCalls, *c.Calls)
		}
		rows = append(rows, [2]string{"undisturbed before", text})
	}
	return rows
}
