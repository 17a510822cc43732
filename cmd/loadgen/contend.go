package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// spinBelow is the shortest hold that sleeps. A sleep of the runtime is some tens of
// microseconds late, and up to a millisecond in an idle process; what is shorter turns on
// the spot, which is exact and takes a core.
const spinBelow = 50 * time.Microsecond

// keep is what a holder does while it holds.
func keep(hold time.Duration) {
	switch {
	case hold <= 0:
	case hold >= spinBelow:
		time.Sleep(hold)
	default:
		for began := time.Now(); time.Since(began) < hold; {
		}
	}
}

// lock is what callers contend for: a lock of an engine, or a mutex.
type lock interface {
	acquire(ctx context.Context) (grip, error)
}

// grip is a lock that is held.
type grip interface {
	Release(ctx context.Context) error
}

type engineLock struct{ *engine.Lock }

func (l engineLock) acquire(ctx context.Context) (grip, error) {
	lease, err := l.Acquire(ctx)
	if lease == nil {
		return nil, err // not a grip that holds a nil
	}
	return lease, err
}

// contest is so many callers on fewer keys, each always on its own: who takes, keeps and frees
// in turn, and how often each was served.
type contest struct {
	keys    int
	hold    time.Duration
	locks   []lock // by caller
	ledger  *ledger
	witness *witness.Witness // nil: none
	looker  onlooker         // nil: none
	gaps    *gaps            // by name, and behind those by name of readers; nil: nobody asks

	readers   []lock  // rw: the shared half, by caller; nil: locks are all there is
	readShare float64 // rw: how many of the turns are a reader's
	seed      uint64

	mu     sync.Mutex
	recs   []*recorder // of the phase that runs; mu: the progress line looks in from outside
	served []int64     // grants of each caller in the last phase
	reads  *recorder   // rw: of the last phase, what drive returned in its two parts
	writes *recorder
}

// onlooker sees each grant beside the ledger, from its holder.
type onlooker interface {
	granted(key int, asked, now time.Time, lease *engine.Lease)
}

func newContest(cfg *config, locks []lock, name func(key int) string) *contest {
	return &contest{
		keys:   cfg.keys,
		hold:   cfg.hold,
		locks:  locks,
		ledger: newLedger(cfg.keys, name),
		served: make([]int64, len(locks)),
	}
}

// graceOf is how long the callers of a phase that is over may take to have their last turn.
func (c *contest) graceOf(processes int) time.Duration {
	return drainGrace + 2*c.hold*time.Duration(len(c.locks)*max(processes, 1))
}

// drive lets the callers contend for length, and returns what was seen when each of them had
// its last turn. run takes one caller through the phase, and its own answer that it is done.
func (c *contest) drive(ctx context.Context, length, grace time.Duration, round *witness.Round, run func(context.Context, *contender)) *recorder {
	p := newPhase(length)
	ops, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer time.AfterFunc(length+grace, giveUp).Stop()
	defer context.AfterFunc(ctx, func() {
		p.end()
		time.AfterFunc(grace, giveUp)
	})()

	recs, readRecs := c.newRecorders()
	callers := make([]contender, len(c.locks))
	var wg sync.WaitGroup
	for i := range callers {
		callers[i] = contender{
			contest: c, n: i, key: i % c.keys, lock: c.locks[i], rec: recs[i%len(recs)], phase: p, round: round, done: &wg,
		}
		if c.readers != nil {
			callers[i].readRec, callers[i].rng = readRecs[i%len(recs)], rand.New(rand.NewPCG(c.seed, uint64(i)))
		}
		wg.Add(1)
	}
	for i := range callers {
		run(ops, &callers[i]) // ends with the phase
	}
	wg.Wait()

	total := newRecorder()
	for _, r := range recs {
		total.merge(r)
	}
	if c.readers != nil {
		c.reads, c.writes = newRecorder(), total
		total = newRecorder()
		for _, r := range readRecs {
			c.reads.merge(r)
		}
		total.merge(c.reads)
		total.merge(c.writes)
	}
	for i := range callers {
		c.served[i] = callers[i].served
	}
	return total
}

// newRecorders replaces the recorders of the last phase: those of the callers, and of what they read.
func (c *contest) newRecorders() (recs, readRecs []*recorder) {
	n := min(recorderShards, len(c.locks))
	all := make([]*recorder, 0, 2*n)
	for range n {
		all = append(all, newRecorder())
	}
	for range n {
		if c.readers != nil {
			all = append(all, newRecorder())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recs = all
	return all[:n], all[n:]
}

func (c *contest) pairs() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.recs {
		n += r.live.Load()
	}
	return n
}

// contender is one caller of a contest.
type contender struct {
	contest *contest
	n       int // of the caller
	key     int
	lock    lock
	rec     *recorder // shared with other callers, under its mutex
	phase   *phase
	rng     *rand.Rand     // rw
	readRec *recorder      // rw
	reading bool           // rw: this turn is a reader's
	noted   bool           // rw: the ledger has this reader
	round   *witness.Round // nil: nobody counts over time
	done    *sync.WaitGroup
	served  int64
	_       [64]byte // served is written by one caller and must not slow down the next
}

// block is a caller that blocks: it takes, keeps and frees until the phase is over.
func block(ctx context.Context, c *contender) {
	go func() { // ends with the phase
		defer c.done.Done()
		for !c.phase.over(c.phase.elapsed()) {
			if err := c.turn(ctx); err != nil && ctx.Err() == nil {
				time.Sleep(errorPause)
			}
		}
	}()
}

// choose settles what the next turn takes.
func (c *contender) choose() lock {
	if c.rng == nil {
		return c.lock
	}
	if c.reading = c.rng.Float64() < c.contest.readShare; c.reading {
		return c.contest.readers[c.n]
	}
	return c.lock
}

func (c *contender) turn(ctx context.Context) error {
	wanted := c.choose()
	since := c.phase.elapsed()
	held, err := wanted.acquire(ctx)
	granted := c.phase.elapsed()
	var freeing time.Duration
	if err == nil {
		mark := c.begin(since, granted, held)
		keep(c.contest.hold)
		c.end(mark)
		freeing = c.phase.elapsed()
		err = held.Release(ctx)
	}
	freed := c.phase.elapsed()
	c.record(held != nil, err, granted-since, freed-freeing)
	return err
}

// begin notes everywhere that this caller holds its key.
func (c *contender) begin(asked, granted time.Duration, held grip) (mark uint64) {
	if c.reading {
		c.noted = c.contest.ledger.takeShared(c.key, uint64(c.n)+1)
		c.contest.gaps.granted(c.contest.keys + c.key)
	} else {
		c.contest.ledger.take(c.key, uint64(c.n)+1)
		c.contest.gaps.granted(c.key)
	}
	if lease, ok := held.(*engine.Lease); ok && c.contest.looker != nil {
		c.contest.looker.granted(c.key, c.phase.began.Add(asked), c.phase.began.Add(granted), lease)
	}
	if w := c.contest.witness; w != nil {
		mark = w.Take(c.key, c.n)
	}
	c.served++
	if c.round != nil {
		c.round.Granted(granted)
	}
	return mark
}

// end notes that it is about to let go.
func (c *contender) end(mark uint64) {
	if w := c.contest.witness; w != nil {
		w.Give(c.key, mark)
	}
	switch {
	case !c.reading:
		c.contest.ledger.give(c.key, uint64(c.n)+1)
	case c.noted:
		c.contest.ledger.giveShared(c.key, uint64(c.n)+1)
	}
}

func (c *contender) record(granted bool, err error, waited, freeing time.Duration) {
	rec := c.rec
	if c.reading {
		rec = c.readRec
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if granted {
		rec.acquired(waited)
	}
	if err != nil {
		rec.failed(err)
		return
	}
	rec.freed(freeing)
	rec.live.Store(rec.released)
}

// chain is a caller without a goroutine: each step begins the next from its callback, so
// that one thing happens at a time.
type chain struct {
	*contender
	ctx     context.Context //nolint:containedctx // of the operations
	since   time.Duration   // the acquire was submitted
	waited  time.Duration
	freeing time.Duration // the release was submitted
	mark    uint64
	lease   *engine.Lease
}

// callBack is the asynchronous caller.
func callBack(ctx context.Context, c *contender) {
	s := &chain{contender: c, ctx: ctx}
	s.submit()
}

func (s *chain) submit() {
	s.since = s.phase.elapsed()
	if s.phase.over(s.since) {
		s.done.Done()
		return
	}
	wanted, ok := s.choose().(engineLock)
	if !ok {
		panic(fmt.Sprintf("a %T has no futures", s.lock))
	}
	wanted.AcquireAsync(s.ctx).OnComplete(s.granted)
}

func (s *chain) granted(lease *engine.Lease, err error) {
	now := s.phase.elapsed()
	s.waited = now - s.since
	if err != nil {
		s.over(false, err)
		return
	}
	s.lease, s.mark = lease, s.begin(s.since, now, lease)
	if s.contest.hold >= spinBelow { // without keeping the engine's worker
		time.AfterFunc(s.contest.hold, s.free)
		return
	}
	keep(s.contest.hold)
	s.free()
}

func (s *chain) free() {
	s.end(s.mark)
	s.freeing = s.phase.elapsed()
	s.lease.ReleaseAsync().OnComplete(func(_ struct{}, err error) { s.over(true, err) })
}

func (s *chain) over(granted bool, err error) {
	s.record(granted, err, s.waited, s.phase.elapsed()-s.freeing)
	if err != nil && s.ctx.Err() == nil {
		time.AfterFunc(errorPause, s.submit)
		return
	}
	s.submit()
}

// fairnessOf is the least and the most of how often each was served; nil for nobody.
func fairnessOf(served []int64) *fairness {
	if len(served) == 0 {
		return nil
	}
	return &fairness{Min: float64(slices.Min(served)), Max: float64(slices.Max(served))}
}
