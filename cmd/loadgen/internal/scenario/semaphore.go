package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// answersLate is how long an answer takes at most of a server that permits are taken from.
const answersLate = 500 * time.Millisecond

// freePause is how often the server is asked how many permits are free.
const freePause = 20 * time.Millisecond

// newSemaphoreScenario is contend on one semaphore: callers take permits, and never hold more than there are. At the
// end all of them are free again, but for those that a killed client had: under leases those, too.
func newSemaphoreScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder(), permits: new(permitCheck)}
}

// permitCheck compares what callers hold with what there is; nil checks nothing.
type permitCheck struct {
	s       *Stage
	name    string
	count   *contest.Counter
	callers []*contest.Semaphore
	set     bool // the semaphore is there
	idle    idlePermits
}

// open makes the semaphore of each caller.
func (c *permitCheck) open(s *Stage, name string) []contest.Lock {
	c.s, c.name = s, name
	c.count = &contest.Counter{
		Permits: s.Cfg.Permits, Take: s.Cfg.Take, Held: meter.NewPermits(s.Cfg.Permits), Witness: s.Witness.File(),
		Leased: s.Cfg.Scenario == config.KindPermits,
	}
	locks := make([]contest.Lock, s.Cfg.Clients)
	for i := range locks {
		one := c.caller(s.Engines[i%len(s.Engines)], i)
		c.callers, locks[i] = append(c.callers, one), one
	}
	return locks
}

// caller makes the semaphore of one of them.
func (c *permitCheck) caller(eng *engine.Engine, i int) *contest.Semaphore {
	if c.count.Leased {
		return c.count.NewLeased(eng.PermitSemaphore(c.name, engine.WatchdogLease(c.s.Cfg.Lease)), i, c.s.Cfg.Seed)
	}
	return c.count.NewSemaphore(eng.Semaphore(c.name), i, c.s.Cfg.Seed)
}

// give gives the semaphore its permits; nil gives none.
func (c *permitCheck) give(ctx context.Context) error {
	if c == nil || !c.s.Witness.First() {
		return nil
	}
	set, err := c.semaphore().TrySetPermits(ctx, c.s.Cfg.Permits)
	if err != nil {
		return fmt.Errorf("give the semaphore its permits: %w", err)
	}
	if !set {
		return fmt.Errorf("there is a semaphore %q already: give another --prefix", c.name)
	}
	c.set = true
	return nil
}

func (c *permitCheck) semaphore() permitKeeper {
	if c.count.Leased {
		return c.s.Engines[0].PermitSemaphore(c.name)
	}
	return c.s.Engines[0].Semaphore(c.name)
}

// permitKeeper is a semaphore of either kind.
type permitKeeper interface {
	TrySetPermits(ctx context.Context, n int) (bool, error)
	Delete(ctx context.Context) (bool, error)
}

// watch looks at the server until the function it returns is called; nil looks at nothing.
func (c *permitCheck) watch(ctx context.Context) (end func()) {
	if c == nil {
		return func() {}
	}
	c.idle.since = time.Time{}
	// Pinned: rueidis would use its memory again after a second try, and the writer of a connection that was cut meanwhile
	// may still read it.
	get, role := c.s.Srv.Client.B().Get().Key(c.name).Build().Pin(), c.s.Srv.Client.B().Role().Build().Pin()
	return every(ctx, freePause, func(ctx context.Context) {
		began := time.Now()
		free, err := c.s.Srv.Client.Do(ctx, get).AsInt64()
		enough := err == nil && free >= int64(c.s.Cfg.Take)
		if enough && c.s.Srv.Topology != "cluster" { // there a replica says who its master is
			enough = !saysReplica(c.s.Srv.Client.Do(ctx, role))
		}
		now := time.Now()
		answers := now.Sub(began) < answersLate // nobody can take from a server that stands still
		c.idle.look(now, answers && enough, func() (oldest time.Time, waits bool) {
			for _, one := range c.callers {
				if since, ok := one.WaitsSince(); ok && (!waits || since.Before(oldest)) {
					oldest, waits = since, true
				}
			}
			return oldest, waits
		})
	})
}

// saysReplica reports whether a server has said that it is one, from which nobody can take. Who may not ask is told
// nothing.
func saysReplica(role rueidis.RedisResult) bool {
	said, err := role.ToArray()
	if err != nil || len(said) == 0 {
		return false
	}
	is, err := said[0].ToString()
	return err == nil && is == "slave"
}

// every calls look again and again, until the function it returns is called.
func every(ctx context.Context, pause time.Duration, look func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	go func() { // ends with end
		defer close(gone)
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		cancel()
		<-gone
	}
}

// idlePermits is how long a caller waited while there were enough free permits for whoever it is.
type idlePermits struct {
	since   time.Time // there were enough at every look since then; zero: not at the last one
	longest time.Duration
}

// look notes what was seen at now: are there enough, and if so, who has waited longest?
func (p *idlePermits) look(now time.Time, enough bool, oldest func() (since time.Time, waits bool)) {
	switch {
	case !enough:
		p.since = time.Time{}
		return
	case p.since.IsZero():
		p.since = now
	}
	since, waits := oldest()
	if since.Before(p.since) {
		since = p.since
	}
	if waits {
		p.longest = max(p.longest, now.Sub(since))
	}
}

// addTo reports, when every process has released what it had, and takes the semaphore away; nil was not asked.
func (c *permitCheck) addTo(ctx context.Context, r *report.Report) error {
	if c == nil {
		return nil
	}
	out := &report.Permits{
		Permits: c.s.Cfg.Permits, Take: c.s.Cfg.Take, Most: c.count.Held.Most.Load(),
		Idle: c.idle.longest.Seconds(), Bound: config.IdleMost.Seconds(), Judged: !config.ChangesServers(c.s.Cfg.Chaos),
		Leased: c.count.Leased, Lost: c.count.Lost.Load(),
	}
	r.Contend.Permits = out
	r.AddOverdrawn(c.count.Held)
	if w := c.count.Witness; w != nil {
		out.KilledHeld, out.KilledUnsettled = w.Permits(true)
	}
	free, gone, err := c.freeAtLast(ctx, out.KilledHeld+out.KilledUnsettled > 0)
	if err != nil {
		err = fmt.Errorf("ask how many permits are free: %s", c.s.Srv.Hide(err))
	} else {
		out.Gone = gone
		out.AddTo(r, free)
	}
	if late := c.s.Witness.Align(ctx); late != nil || !c.set { // the others ask, too
		return errors.Join(err, late)
	}
	_, failed := c.semaphore().Delete(ctx)
	return errors.Join(err, failed)
}

// freeAtLast asks how many are free. Where a client was killed it waits for them until its leases have run out.
func (c *permitCheck) freeAtLast(ctx context.Context, killed bool) (free int64, gone bool, err error) {
	var wait time.Duration
	if c.count.Leased && killed {
		wait = c.s.Cfg.GapBound()
	}
	for began := time.Now(); ; time.Sleep(freePause) {
		free, gone, err = c.free(ctx)
		if err != nil || free >= int64(c.count.Permits) || time.Since(began) >= wait {
			return free, gone, err
		}
	}
}

// free asks the server past the engine. Leased permits stand beside the others with the server's time at which they
// are free, and stay there until somebody asks for permits. gone: the server knows of no semaphore.
func (c *permitCheck) free(ctx context.Context) (free int64, gone bool, err error) {
	ask := func(cmd rueidis.Completed) rueidis.RedisResult { return c.s.Srv.Ask(ctx, cmd)[0] }
	b := c.s.Srv.Client.B()
	free, err = ask(b.Get().Key(c.name).Build()).AsInt64()
	if gone = rueidis.IsRedisNil(err); gone {
		free, err = 0, nil
	}
	if err != nil || !c.count.Leased {
		return free, gone, err
	}
	now, err := ask(b.Time().Build()).AsStrSlice()
	for until := time.Now().Add(c.s.Cfg.GapBound()); err != nil && ctx.Err() == nil && time.Now().Before(until); {
		time.Sleep(freePause) // without a key it may go to any master of a cluster, also to one that is dead
		now, err = ask(b.Time().Build()).AsStrSlice()
	}
	if err != nil {
		return 0, gone, err
	}
	over := b.Zcount().Key("{" + c.name + "}:timeout").Min("-inf").Max(now[0] + "000").Build()
	expired, err := ask(over).AsInt64()
	return free + expired, gone, err
}
