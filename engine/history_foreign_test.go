package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/history"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// A foreigner takes and gives back locks with Redisson's own scripts, never renews, and trusts a lease for as
// long as the bound says. Engines must exclude it, and be excluded by it, as they are by each other.
type foreigner struct {
	*fire
	server  *redistest.Server
	scripts yardstick.Scripts
	id      uint32
	log     *history.Log
	random  *rand.Rand
	conn    *redistest.Conn // nil: none
	threads int             // so far: each hold is another thread's, so that an unanswered one is not entered again
}

// joinForeigner adds one caller who is no engine's.
func (f *fire) joinForeigner(s *redistest.Server, id uint32) {
	x := &foreigner{
		fire: f, server: s, scripts: yardstick.Redisson(), id: id,
		log: f.history.Log(), random: rand.New(rand.NewPCG(f.seed, uint64(id))),
	}
	f.callers.Go(func() {
		for f.running.Err() == nil {
			x.call()
		}
		if x.conn != nil {
			_ = x.conn.Close()
		}
	})
}

// ask runs a script. Any trouble costs the connection, and leaves the outcome unknown.
func (x *foreigner) ask(script string, args []string) (reply any, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.TooLong)
	defer cancel()
	if x.conn == nil {
		if x.conn, err = x.server.Dial(ctx); err != nil {
			return nil, err
		}
	}
	if reply, err = x.conn.Do(ctx, append([]string{"EVAL", script}, args...)...); err != nil {
		_ = x.conn.Close()
		x.conn = nil
	}
	return reply, err
}

func (x *foreigner) call() {
	g := history.Grant{Name: uint32(x.random.IntN(len(x.names))), Caller: x.id, Called: x.clock.Now()}
	name := x.names[g.Name]
	x.threads++
	n := yardstick.Name{
		Key: name.Text, Channel: "redisson_lock__channel:{" + name.Text + "}", Publish: "PUBLISH",
		Field: fmt.Sprintf("6e3814a1-e847-452b-a982-45baf93a1df2:%d%06d", x.id, x.threads), LeaseMs: fmt.Sprint(name.Lease.Milliseconds()),
	}
	busy, err := x.ask(x.scripts.Acquire, x.scripts.AcquireArgs(nil, n))
	if err != nil || busy != nil {
		x.ended.Add(1)
		testkit.LastUntil(time.Now().Add(time.Millisecond)) // a client that polls
		return
	}
	g.Hold, g.Deadline = history.ID(n.Field), g.Called.Add(name.Trust())
	g.Begin = x.clock.Now()
	g.End = g.Begin
	x.stay(&g)
	g.Sent = x.clock.Now()
	freed, err := x.ask(x.scripts.Release, x.scripts.ReleaseArgs(nil, n))
	g.Answered = x.clock.Now()
	switch {
	case err != nil:
		g.Outcome = history.Unknown
	case freed == nil:
		g.Outcome = history.Lost
	}
	x.log.Add(g)
	x.grants.Add(1)
	x.foreign.Add(1)
}

// stay believes for up to two milliseconds, or as long as may be where holders are to stay.
func (x *foreigner) stay(g *history.Grant) {
	until := g.Begin.Add(time.Duration(x.random.Int64N(int64(2 * time.Millisecond))))
	if x.linger.Load() {
		until = g.Deadline
		x.staying.Add(1)
		defer x.staying.Add(-1)
	}
	for now := g.Begin; now < g.Deadline; now = x.clock.Now() {
		g.End = now
		if now >= until || x.running.Err() != nil {
			return
		}
		testkit.LastUntil(time.Now().Add(min(time.Millisecond, until.Sub(now))))
	}
}
