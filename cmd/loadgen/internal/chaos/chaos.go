package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Chaos disturbs loadgen's own servers while a scenario measures; nil disturbs nobody. Its goroutine
// owns everything in it between begin and the end that begin returns.
type Chaos struct {
	cfg     *config.Config
	srv     *topology.Server
	witness *witness.Observer
	engines []*engine.Engine // of this process
	rng     *rand.Rand
	kinds   []string // still to be chosen from: a master is killed once
	Muted   bool     // the quiet stretch: begin does nothing

	done   map[string]int64
	failed []string
	moved  *movedSlot
	client report.Client
	gaps   *meter.Gaps                 // of the round in which a client is killed
	died   atomic.Pointer[MasterDeath] // of the master that was killed; replaced as a whole, read by anybody

	masters   []*redisproc.Server // of a cluster with replicas, at the last look; nil: not known
	unplanned bool                // one of them was replaced, and by no step
}

// movedSlot is a slot that is away from home.
type movedSlot struct {
	slot uint16
	home *redisproc.Server
}

// MasterDeath is the end of a master, and of its slots.
type MasterDeath struct {
	Addr     string
	slots    [redisproc.Slots]bool // that it served
	At       time.Time
	Replaced time.Time // a replica serves all of them; zero: not yet
}

// Of reports whether name was served by the master that died; false if none did.
func (f *MasterDeath) Of(name string) bool { return f != nil && f.slots[slot.Of(name)] }

// LongestStep bounds a disturbance: an election among servers that share a core with the load.
const LongestStep = time.Minute

// askAgain is how long a replica has to take over before it is told again.
const askAgain = 2500 * time.Millisecond

// longestPause is how long a paused master stands still at most: shorter than an attempt may take.
const longestPause = time.Second

// New makes the disturbances that cfg asks for; nil for none.
func New(cfg *config.Config, srv *topology.Server, engines []*engine.Engine, w *witness.Observer) *Chaos {
	if len(cfg.Chaos) == 0 {
		return nil
	}
	return &Chaos{
		cfg: cfg, srv: srv, engines: engines, witness: w, kinds: slices.Clone(cfg.Chaos),
		rng: rand.New(rand.NewPCG(cfg.ChaosSeed, 0)), done: make(map[string]int64),
	}
}

// Begin disturbs, one thing at a time, until end is called, which waits until all is as it was: paused
// servers go on, a slot on its way has arrived.
func (c *Chaos) Begin(ctx context.Context) (end func()) {
	if c == nil || c.Muted {
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

// KindsNow are those of the round that is measured.
func (c *Chaos) KindsNow() []string {
	if c == nil || c.Muted {
		return nil
	}
	return c.cfg.Chaos
}

func (c *Chaos) run(ctx context.Context) {
	pace := time.NewTicker(c.cfg.ChaosEvery)
	defer pace.Stop()
	over := time.NewTimer(c.cfg.Duration) // what is still to be answered then is not disturbed further
	defer over.Stop()
	for len(c.kinds) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-pace.C:
		}
		kind := c.kinds[c.rng.IntN(len(c.kinds))]
		// What has begun is brought to its end, whatever becomes of ctx.
		step, cancel := context.WithTimeout(context.WithoutCancel(ctx), LongestStep)
		c.noteFailovers(step, 0)
		err := c.step(step, ctx, kind)
		c.noteFailovers(step, replacedBy(kind))
		cancel()
		if err != nil {
			c.failed = append(c.failed, fmt.Sprintf("%s: %v", kind, err))
			continue
		}
		c.done[kind]++
	}
}

// step does one thing. early ends when nobody needs it any more.
func (c *Chaos) step(ctx, early context.Context, kind string) error {
	switch kind {
	case config.ChaosSlots:
		return c.moveSlot(ctx)
	case config.ChaosFailover:
		return c.failover(ctx)
	case config.ChaosKill:
		return c.kill(ctx)
	case config.ChaosClient:
		return c.killClient(ctx, early)
	}
	master, err := c.anyMaster(ctx)
	if err != nil {
		return err
	}
	switch kind {
	case config.ChaosPause:
		master.Pause()
		defer master.Resume()
		select {
		case <-early.Done():
		case <-time.After(c.pauseTime()):
		}
		return nil
	case config.ChaosKillConn:
		return killConnections(ctx, master)
	default:
		_, err := master.Command(ctx, "SCRIPT", "FLUSH")
		return err
	}
}

func (c *Chaos) pauseTime() time.Duration {
	return min(c.cfg.ChaosEvery/2, c.cfg.Lease/6, longestPause)
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
func (c *Chaos) anyMaster(ctx context.Context) (*redisproc.Server, error) {
	switch {
	case c.srv.Cluster != nil:
		return c.srv.Cluster.Owner(ctx, c.anySlot())
	case c.srv.Sentinel != nil:
		return c.srv.Sentinel.Current(ctx)
	default:
		return c.srv.Embedded.Process(), nil
	}
}

func (c *Chaos) anySlot() uint16 { return uint16(c.rng.IntN(redisproc.Slots)) }

// owners is the master of every slot.
func (c *Chaos) owners(ctx context.Context) ([]*redisproc.Server, error) {
	if c.srv.Sentinel == nil {
		return c.srv.Cluster.Owners(ctx)
	}
	master, err := c.srv.Sentinel.Current(ctx)
	return slices.Repeat([]*redisproc.Server{master}, redisproc.Slots), err
}

// moveSlot moves a slot away, or the one that is away back home.
func (c *Chaos) moveSlot(ctx context.Context) error {
	cluster := c.srv.Cluster
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
func (c *Chaos) living(ctx context.Context, s *redisproc.Server) (bool, error) {
	owners, err := c.srv.Cluster.Owners(ctx)
	return slices.Contains(owners, s), err
}

// failover tells a replica to take over, and waits until it has.
func (c *Chaos) failover(ctx context.Context) error {
	if c.srv.Sentinel != nil {
		return c.sentinelFailover(ctx)
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	var replicas []*redisproc.Server
	for _, n := range c.srv.Cluster.Nodes() {
		if f := c.Death(); !slices.Contains(owners, n) && (f == nil || n.Addr() != f.Addr) {
			replicas = append(replicas, n)
		}
	}
	if len(replicas) == 0 {
		return errors.New("no replica is left")
	}
	return c.takeOver(ctx, replicas[c.rng.IntN(len(replicas))])
}

// takeOver tells a replica to take over until it has. It looks first: who has become a master refuses to be told.
func (c *Chaos) takeOver(ctx context.Context, next *redisproc.Server) error {
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
func (c *Chaos) sentinelFailover(ctx context.Context) error {
	old, err := c.srv.Sentinel.Current(ctx)
	if err != nil {
		return err
	}
	begun := false
	return await(ctx, func() error {
		// Refused while the last one is not over, or its old master not yet a good replica.
		if !begun {
			if _, err := c.srv.Sentinel.Sentinels[0].Command(ctx, "SENTINEL", "FAILOVER", redisproc.MasterName); err != nil {
				return err
			}
			begun = true
		}
		now, err := c.srv.Sentinel.Current(ctx)
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

// ReplicaMayBeBehind reports whether a replica is in the place of a master that lived, and perhaps lacks its last
// writes: a sentinel put it there, or it was elected in a cluster, where the machine did not let a master run for its
// node timeout. Call it after the end that begin returned.
func (c *Chaos) ReplicaMayBeBehind(ctx context.Context) bool {
	if c == nil {
		return false
	}
	c.noteFailovers(ctx, 0)
	return c.unplanned || c.srv.Sentinel != nil && c.done[config.ChaosFailover] > 0
}

// replacedBy is how many masters of a cluster a step of a kind replaces.
func replacedBy(kind string) int {
	if kind == config.ChaosKill || kind == config.ChaosFailover {
		return 1
	}
	return 0
}

// noteFailovers looks who is a master now. If more masters are gone since the last look than were to be replaced, there
// was an unplanned failover.
func (c *Chaos) noteFailovers(ctx context.Context, planned int) {
	now := c.mastersNow(ctx)
	if now == nil {
		return
	}
	gone := 0
	for _, m := range c.masters {
		if !slices.Contains(now, m) {
			gone++
		}
	}
	c.unplanned = c.unplanned || gone > planned
	c.masters = now
}

// mastersNow is who serves slots of a cluster with replicas; nil without, and where nobody says.
func (c *Chaos) mastersNow(ctx context.Context) []*redisproc.Server {
	if c.srv.Cluster == nil || c.cfg.Replicas == 0 {
		return nil
	}
	owners, err := c.srv.Cluster.Owners(ctx)
	if err != nil {
		return nil
	}
	var masters []*redisproc.Server
	for _, m := range owners {
		if !slices.Contains(masters, m) {
			masters = append(masters, m)
		}
	}
	return masters
}

// kill kills a master and waits until a replica serves its slots.
func (c *Chaos) kill(ctx context.Context) error {
	c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return kind == config.ChaosKill })
	victim, err := c.anyMaster(ctx)
	if err != nil {
		return err
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	f := MasterDeath{Addr: victim.Addr()}
	for i, owner := range owners {
		f.slots[i] = owner == victim
	}
	f.At = time.Now()
	dead := f
	c.died.Store(&dead)
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
	f.Replaced = time.Now()
	c.died.Store(&f)
	return nil
}

// Death is that of a master, nil if none died.
func (c *Chaos) Death() *MasterDeath {
	if c == nil {
		return nil
	}
	return c.died.Load()
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

// AddTo reports, after the last end.
func (c *Chaos) AddTo(r *report.Report, quiet *report.Round) {
	if c == nil {
		return
	}
	out := &report.Chaos{
		Done: c.done, Failed: append([]string{}, c.failed...), EveryS: c.cfg.ChaosEvery.Seconds(), Seed: c.cfg.ChaosSeed,
	}
	r.Chaos = out
	c.addClient(r, out)
	for _, f := range c.failed {
		r.Fail("chaos %s", f)
	}
	if len(c.done) == 0 {
		r.Fail("nothing was disturbed: the measured time is shorter than --chaos-every")
	}
	if quiet == nil || quiet.Rec.Released == 0 {
		return
	}
	out.Quiet = &report.Quiet{PairsPerS: float64(quiet.Rec.Released) / quiet.Cost.Wall.Seconds()}
	if calls := report.ScriptCalls([]report.Round{*quiet}); calls != nil {
		out.Quiet.ScriptCalls = *calls
		if r.ScriptCalls != nil && *calls > 0 {
			ratio := *r.ScriptCalls / *calls
			out.Calls = &ratio
		}
	}
}
