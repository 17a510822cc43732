package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// Open connects and returns when a node has answered and takes writes.
//
// Errors: ErrConfig, also where an address answers that is no Redis, or speaks TLS where none is asked for, or the
// reverse; *ServerError with what the server or the network said, also where it takes no writes: it is a replica or
// full; ctx's own, with whose answer was waited for.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &openError{"open: " + err.Error(), []error{err}}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(programLog{})
	}
	type opened struct {
		e   *Engine
		err error
	}
	done := make(chan opened, 1)
	go func() {
		world.NewPart("connection").Label() // what the client starts; all others have labels of their own
		e, err := open(cfg, clock.System(), nil)
		if err == nil {
			e, err = fit(e)
		}
		done <- opened{e, err}
	}()
	select {
	case o := <-done:
		return o.e, o.err
	case <-ctx.Done():
		go func() { // the dial ends by its own limit
			if o := <-done; o.e != nil {
				_ = o.e.Close(context.Background())
			}
		}()
		return nil, &openError{"open: " + ctx.Err().Error() + " before an answer from " + cfg.asked(), []error{ctx.Err()}}
	}
}

// fit closes an engine again whose servers take no writes: who was given the address of a replica is told now, not by
// each acquire. A node that does not answer is no reason: others may, and it may come back.
func fit(e *Engine) (*Engine, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := ping(ctx, e, false) // too few replicas come and go, and are no reason not to begin
	if !resp.RefusesWrites(err) {
		return e, nil
	}
	return nil, errors.Join(err, e.Close(context.Background()))
}

// programLog is the logger of an engine that was given none: the program's own, for what needs attention.
type programLog struct{}

// Enabled leaves out what is no trouble.
func (programLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
}

// Handle asks who is the default now: a program may set it after it opened the engine.
func (programLog) Handle(ctx context.Context, r slog.Record) error {
	return slog.Default().Handler().Handle(ctx, r)
}

// WithAttrs is never called: the engine gives attributes with each line.
func (l programLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is never called, either.
func (l programLog) WithGroup(string) slog.Handler { return l }

// open connects an engine whose time is c's. subscriptions makes what it hears of releases by; nil: the
// multiplexer.
func open(cfg Config, c clock.Clock, subscriptions func(addr string) pubsub.Subscriptions) (*Engine, error) {
	w := world.Of(c)
	id := newUUID(w)
	cfg.guard = &resp.Guard{Own: true}
	guard := cfg.guard
	if cfg.Client != nil { // its connections are not the engine's
		guard = nil
	}
	hide := cfg.hider()
	nodes, err := connect(cfg, resp.Options{
		ID: id, Clock: c, PubSub: cfg.PubSub, Publish: cfg.Publish, AskFrom: cfg.ask, QueueMax: cfg.QueueMax,
		Lanes: cfg.lanes, ManyOps: cfg.many, RunMost: cfg.runs, Recent: cfg.keeps, Wide: cfg.wide,
		Subscriptions: subscriptions, Hide: hide, Guard: guard,
	})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, place: cfg.place(), hide: hide, id: id, clock: c, world: w,
		ended: w.NewLatch(), closed: w.NewLatch(), settled: w.NewBell(),
	}
	if err := e.start(nodes); err != nil {
		nodes.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) start(nodes *resp.Nodes) error {
	pool, err := callback.New(e.world, e.cfg.Logger)
	if err != nil {
		return err
	}
	timing := e.cfg.wheel
	timing.Clock = e.clock
	w, err := wheel.New(timing)
	if err != nil {
		pool.Release()
		return fmt.Errorf("holdfast: timing wheel: %w", err)
	}
	e.callbacks, e.wheel = pool, w
	// What is due runs on a goroutine of its set: it enters a section, and never blocks.
	deliver := func(now clock.Instant, due []timed) {
		for _, t := range due {
			t.due(now)
		}
	}
	e.timers, e.shortTimers = wheel.NewSet(w, timerWidth, deliver), wheel.NewSet(w, shortWidth, deliver)
	e.nodes = nodes
	owner := func(s renew.Subject) renew.Renewer {
		if !nodes.Cluster() {
			return nodes.Owner(0) // of a million holds none is in a cache, and no slot is asked for
		}
		return nodes.Owner(s.(*hold).ent.slot)
	}
	e.watchdog = renew.New(e.clock, w, owner, listener{e})
	// From here on things happen by themselves: everything they use is there.
	nodes.Start(resp.Hooks{
		Moved: e.slotsMoved, Retired: func(n *resp.Node) { e.watchdog.Retire(n) },
		Master: func(addr string) {
			e.log(slog.LevelInfo, "holdfast: the sentinels name another master", "node", addr)
		},
	})
	e.timers.Schedule(ticking{e}, e.clock.Now().Add(tickEvery))
	return nil
}

// ID returns the engine's UUID: the first half of every owner id it writes.
func (e *Engine) ID() string { return e.id }

// Ping asks every node for an answer, and whether it takes writes: readiness. It fails with *ServerError where a server
// is a replica (ClassReadOnly), is full (ClassOOM), cannot write its data to disk (ClassMisconf), or, from Redis 7.0
// on, has fewer replicas than min-replicas-to-write (ClassNoReplicas). Where the user has no right to INFO little of
// that is known. Without an answer it fails with ctx's error, after 2.5 s with context.DeadlineExceeded. Blocks: until
// ctx ends, 2.5 s at most.
func (e *Engine) Ping(ctx context.Context) error { return ping(ctx, e, true) }

// ping is Ping; thorough: by a script, too.
func ping(ctx context.Context, e *Engine, thorough bool) error {
	if e.closing.Load() {
		return ErrClosed
	}
	err := ctx.Err()
	if err == nil {
		err = e.nodes.Ping(ctx, thorough)
	}
	if err != nil {
		return &pingError{err}
	}
	return nil
}

// ticking is the engine's own regular look: at answers that are overdue, so that their callers'
// contexts are watched, and at callbacks that are stuck.
type ticking struct{ e *Engine }

// Scheduled is its place among the timers.
func (t ticking) Scheduled() *wheel.Item[timed] { return &t.e.tickItem }

func (t ticking) due(now clock.Instant) {
	e := t.e
	e.ticked.Store(int64(now))
	e.callbacks.Tick()
	e.overdue = e.nodes.Tick(now, tickEvery, e.overdue[:0])
	for _, key := range e.overdue {
		e.watchName(key)
	}
	clear(e.overdue)
	if !e.stuck && e.wheel.Stuck() > 0 {
		e.stuck = true
		e.log(slog.LevelWarn,
			"holdfast: the timing wheel is stuck; a system timer and a ticker do without it, "+
				"what waits for time comes up to 50 ms late")
	}
	for _, n := range e.nodes.All() {
		if policy := n.TakeEvicts(); policy != "" {
			e.log(slog.LevelWarn, "holdfast: this server may throw away locks that are held; set maxmemory-policy noeviction",
				"node", n.Addr(), "maxmemory-policy", policy)
		}
	}
	if now.Sub(e.refused) >= time.Second { // a server that sends such things may do so on each new connection
		if why := e.cfg.guard.TakeRefused(); why != "" {
			e.refused = now
			if e.hide != nil { // it begins with what the server sent
				why = e.hide(why)
			}
			e.log(slog.LevelWarn, "holdfast: a connection was closed for what the server sent", "err", why,
				"connections", e.cfg.guard.Refused())
		}
	}
	e.timers.Schedule(t, now.Add(tickEvery))
}

// watchName makes everybody in a name's queue see the end of their ctx.
func (e *Engine) watchName(key string) {
	hash := xxhash.Sum64String(key)
	sc := e.enter(hash)
	for ent := range sc.sh.names.get(hash, key).withChildren {
		for op := range ent.ops {
			sc.watchWait(op)
		}
	}
	sc.leave()
}

// Close ends the engine: waiters fail with ErrClosed, held locks are released (or left to expire
// with KeepOnClose), renewals stop last. It returns nil when every goroutine of the engine is gone,
// and ctx's error, naming what is left, if that takes longer; the rest then ends by itself. Where releases had no
// answer it returns ErrUnknown, with how many, and the name of one and its last error.
// A callback that never returns is counted in the error. Blocks: as ctx allows, and for 15 s at most where the server
// gives no answers, callbacks aside. Idempotent.
//
// Where ctx has ended before the call, or is cancelled meanwhile, releases still have Config.CloseGrace for their
// answers, counted from the call. The ctx that ends a program has ended when its deferred Close runs: without the
// grace, its locks would be nobody's until their leases are over. A deadline that lies ahead is kept to.
//
// Called by a callback (of OnComplete, or a logger's) it waits for everything but callbacks: it would wait for
// itself. Those return in their own time, and a Close from elsewhere waits for them. A goroutine that a callback
// starts and waits for is not known as a part of it: there ctx must bound Close.
func (e *Engine) Close(ctx context.Context) error {
	call := closeCall{ctx, ctx.Err() != nil, e.clock.Now()}
	if e.closing.CompareAndSwap(false, true) {
		e.stopAdmitting()
		e.world.Go("close", func() { e.shutDown(call) })
	}
	over := e.closed
	if callback.Inside() {
		over = e.ended
	}
	if over.WaitIn(ctx) {
		return e.endErr
	}
	grace, cancel := call.inGrace(e)
	defer cancel()
	if over.WaitIn(grace) {
		return e.endErr
	}
	return e.unfinished(ctx.Err())
}

// A closeCall is a call of Close.
type closeCall struct {
	ctx   context.Context
	ended bool // ctx had ended before
	began clock.Instant
}

// inGrace is a call's ctx while it lasts, and then what is left of CloseGrace.
func (c closeCall) inGrace(e *Engine) (context.Context, context.CancelFunc) {
	err := c.ctx.Err()
	left := cmp.Or(e.cfg.CloseGrace, closeGrace) - e.clock.Now().Sub(c.began)
	if err == nil || left <= 0 || errors.Is(err, context.DeadlineExceeded) && !c.ended {
		return c.ctx, func() {}
	}
	return e.world.WithTimeout(context.WithoutCancel(c.ctx), left)
}

// unfinished says what a Close that ran out of time leaves behind.
func (e *Engine) unfinished(cause error) error {
	text := "holdfast: close"
	if left := e.unanswered(); left > 0 {
		text += fmt.Sprintf(": %d commands unanswered", left)
	}
	if stuck := e.callbacks.Stuck(); stuck != "" {
		text += ": " + stuck
	}
	failed := fmt.Errorf("%s: %w", text, cause)
	if e.ended.IsOpen() {
		return errors.Join(e.endErr, failed)
	}
	return failed
}

// stopAdmitting ends what can be ended at once: closing lets nobody in any more.
func (e *Engine) stopAdmitting() {
	e.joints.close() // they give back what they have
	for i := range e.shards {
		e.closeShard(&e.shards[i])
	}
	e.nodes.Hurry() // nobody wants what replicas are waited for any more
}

func (e *Engine) closeShard(sh *shard) {
	var contexts []*leaseContext
	sc := e.enterShard(sh)
	if sh.names.n == 0 { // most have none
		sc.unlock()
		return
	}
	all := slices.Collect(sh.entries)
	for _, ent := range all {
		ent.StopAdmitting()
		sc.failSome(ent, func(*acquireOp) error { return ErrClosed })
	}
	for _, ent := range all { // nobody waits any more, so nothing is passed on
		if h := ent.hold; h != nil {
			contexts = append(contexts, sc.closeHold(h)...)
		}
		sc.tidy(ent)
	}
	sc.unlock()
	e.world.Yield("Engine.closeShard: changes ended, holds released | their contexts cancelled")
	cause := ErrLost
	if !e.cfg.KeepOnClose {
		cause = &becauseError{ErrReleased, ErrClosed}
	}
	for _, c := range contexts {
		c.cancel(cause)
	}
	e.world.Yield("Engine.closeShard: contexts cancelled | futures told")
	sc.publish()
	e.world.Yield("Engine.stopAdmitting: a shard shut | the next")
}

// settleLimit bounds how long Close waits for answers, whatever its ctx allows: later ones change
// nothing, the leases run out.
const settleLimit = 6 * time.Second

// shutDown waits for what is on its way and ends every goroutine. It runs on its own, so that Close
// can keep to its ctx.
func (e *Engine) shutDown(call closeCall) {
	ctx := call.ctx
	// What is on its way may have its answers.
	e.drain(ctx, settleLimit)
	if ctx.Err() != nil {
		grace, cancel := call.inGrace(e)
		e.drain(grace, settleLimit)
		cancel()
	}
	if e.unanswered() > 0 { // once more, and then every future gets its answer, definite or not
		e.draining.Store(true)
		now := e.clock.Now()
		for _, t := range e.timers.Drain() {
			e.world.Yield("Engine.shutDown: timers drained | one due")
			t.due(now)
		}
		e.drain(context.WithoutCancel(ctx), e.nodes.AttemptLimit()+time.Second)
	}
	e.draining.Store(true)
	if e.unanswered() > 0 {
		// nobody ticks any more when the wheel has stopped: their rounds would end by rueidis' ping, 11 s later
		e.nodes.GiveUp()
	}
	e.world.Yield("Engine.shutDown: draining | the watchdog ended")
	// Top down: the watchdog uses the wheel and the nodes, the wheel's items the nodes.
	e.watchdog.Close()
	e.world.Yield("Engine.shutDown: the watchdog ended | the wheel stopped")
	e.wheel.Stop()
	e.world.Yield("Engine.shutDown: the wheel stopped | the nodes closed")
	e.nodes.Close()
	if left := e.givenUp.n.Load(); left > 0 {
		failed := *e.givenUp.first.Load()
		failed.releases = left
		e.endErr = &failed
	}
	e.endStreams()
	e.ended.Open()
	e.world.Yield("Engine.shutDown: all but callbacks ended | they have returned")
	// The grace is this call's: others wait for callbacks longer, or shorter.
	grace, cancel := call.inGrace(e)
	defer cancel()
	e.callbacks.Close(grace)
	e.closed.Open()
}

// drain waits until everything on its way is answered, as long as it may.
func (e *Engine) drain(ctx context.Context, most time.Duration) {
	ctx, cancel := e.world.WithTimeout(ctx, most)
	defer cancel()
	for e.unanswered() > 0 && ctx.Err() == nil {
		e.settled.WaitIn(ctx)
	}
}

// unanswered counts the ops on their way, and the calls that are still to tell somebody's result.
func (e *Engine) unanswered() int {
	n := 0
	for i := range e.shards {
		sc := e.enterShard(&e.shards[i])
		n += sc.sh.pending
		sc.leave()
		n += int(e.shards[i].telling.Load())
	}
	return n + e.joints.unfinished()
}

// newUUID makes a random (version 4) UUID in its canonical form, as Java's UUID.randomUUID. w draws its bytes, and not
// the reader that a program may have given to the library, for all its packages.
func newUUID(w *world.World) string {
	return uuid.Must(uuid.NewRandomFromReader(w)).String() // w has bytes without end
}
