package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// timed is whoever waits in e.timers.
type timed interface{ due(now clock.Instant) }

// Open connects and returns when a node has answered.
//
// Errors: ErrConfig; *ServerError with what the server or the network said; ctx's own.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type opened struct {
		e   *Engine
		err error
	}
	done := make(chan opened, 1)
	go func() {
		e, err := open(cfg, clock.System(), nil)
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
		return nil, ctx.Err()
	}
}

// open connects an engine whose time is c's. subscriptions makes what it hears of releases by; nil: the
// multiplexer.
func open(cfg Config, c clock.Clock, subscriptions func(addr string) pubsub.Subscriptions) (*Engine, error) {
	w := world.Of(c)
	id := newUUID(w)
	cfg.guard = &resp.Guard{Own: true}
	hide := cfg.hider()
	nodes, err := connect(cfg, resp.Options{
		ID: id, Clock: c, PubSub: cfg.PubSub, QueueMax: cfg.QueueMax, Subscriptions: subscriptions, Hide: hide,
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
	deliver := func(now clock.Instant, due []*wheel.Item) {
		for _, item := range due {
			item.Owner.(timed).due(now)
		}
	}
	e.timers, e.shortTimers = w.NewSet(timerWidth, deliver), w.NewSet(shortWidth, deliver)
	e.nodes = nodes
	owner := func(s renew.Subject) renew.Renewer { return nodes.Owner(s.(*hold).ent.slot) }
	e.watchdog = renew.New(e.clock, w, owner, listener{e})
	// From here on things happen by themselves: everything they use is there.
	nodes.Start(resp.Hooks{
		Moved: e.slotsMoved, Retired: func(n *resp.Node) { e.watchdog.Retire(n) },
		Master: func(addr string) {
			e.log(slog.LevelInfo, "holdfast: the sentinels name another master", "node", addr)
		},
	})
	e.tickItem.Owner = ticking{e}
	e.timers.Schedule(&e.tickItem, e.clock.Now().Add(tickEvery))
	return nil
}

// ID returns the engine's UUID: the first half of every owner id it writes.
func (e *Engine) ID() string { return e.id }

// Ping asks every node for an answer: readiness. Blocks: until ctx ends, 2.5 s at most.
func (e *Engine) Ping(ctx context.Context) error {
	if e.closing.Load() {
		return ErrClosed
	}
	return e.nodes.Ping(ctx)
}

// ticking is the engine's own regular look: at answers that are overdue, so that their callers'
// contexts are watched, and at callbacks that are stuck.
type ticking struct{ e *Engine }

func (t ticking) due(now clock.Instant) {
	e := t.e
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
	e.timers.Schedule(&e.tickItem, now.Add(tickEvery))
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
// and ctx's error, naming what is left, if that takes longer; the rest then ends by itself.
// A callback that never returns is counted in the error. Blocks: as ctx allows, and for 15 s at most where the server
// gives no answers, callbacks aside. Idempotent.
//
// Called by a callback (of OnComplete, or a logger's) it waits for everything but callbacks: it would wait for
// itself. Those return in their own time, and a Close from elsewhere waits for them. A goroutine that a callback
// starts and waits for is not known as a part of it: there ctx must bound Close.
func (e *Engine) Close(ctx context.Context) error {
	if e.closing.CompareAndSwap(false, true) {
		e.stopAdmitting()
		e.world.Go("close", func() { e.shutDown(ctx) })
	}
	over, err := e.closed, &e.closeErr
	if callback.Inside() {
		over, err = e.ended, &e.endErr
	}
	if over.WaitIn(ctx) {
		return *err
	}
	return e.unfinished(ctx.Err())
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
	return fmt.Errorf("%s: %w", text, cause)
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
		cause = fmt.Errorf("%w: %w", ErrReleased, ErrClosed)
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
func (e *Engine) shutDown(ctx context.Context) {
	// What is on its way may have its answers.
	e.drain(ctx, settleLimit)
	if e.unanswered() > 0 { // once more, and then every future gets its answer, definite or not
		e.draining.Store(true)
		now := e.clock.Now()
		for _, item := range e.timers.Drain() {
			e.world.Yield("Engine.shutDown: timers drained | one due")
			item.Owner.(timed).due(now)
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
	if left := e.givenUp.Load(); left > 0 {
		e.endErr = fmt.Errorf("holdfast: close: %d releases had no answer: locks expire by themselves, "+
			"permits of semaphores do not", left)
	}
	e.ended.Open()
	e.world.Yield("Engine.shutDown: all but callbacks ended | they have returned")
	e.closeErr = e.endErr
	if stuck := e.callbacks.Close(ctx); stuck != "" {
		e.closeErr = errors.Join(e.endErr, fmt.Errorf("holdfast: close: %s", stuck))
	}
	e.endStreams()
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

// newUUID makes a random (version 4) UUID in its canonical form, as Java's UUID.randomUUID.
func newUUID(w *world.World) string {
	var b [16]byte
	if w == nil {
		_, _ = rand.Read(b[:]) // never fails
	} else {
		binary.BigEndian.PutUint64(b[:], uint64(w.Int64()))
		binary.BigEndian.PutUint64(b[8:], uint64(w.Int64()))
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := make([]byte, 36)
	hex.Encode(text, b[:4])
	text[8] = '-'
	hex.Encode(text[9:], b[4:6])
	text[13] = '-'
	hex.Encode(text[14:], b[6:8])
	text[18] = '-'
	hex.Encode(text[19:], b[8:10])
	text[23] = '-'
	hex.Encode(text[24:], b[10:])
	return string(text)
}
