package contest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// spinBelow is the shortest hold that sleeps. A sleep of the runtime is some tens of
// microseconds late, and up to a millisecond in an idle process; what is shorter turns on
// the spot, which is exact and takes a core.
const spinBelow = 50 * time.Microsecond

// holdFor is what a holder does while it holds.
func holdFor(hold time.Duration) {
	switch {
	case hold <= 0:
	case hold >= spinBelow:
		time.Sleep(hold)
	default:
		for began := time.Now(); time.Since(began) < hold; {
		}
	}
}

// Lock is what callers contend for: a lock of an engine, or a mutex.
type Lock interface {
	Acquire(ctx context.Context) (Held, error)
}

// Held is a lock that somebody has.
type Held interface {
	Release(ctx context.Context) error
}

// EngineLock is a lock of an engine, for blocking callers and for those with callbacks.
type EngineLock struct{ *engine.Lock }

// Acquire waits for the lock.
func (l EngineLock) Acquire(ctx context.Context) (Held, error) {
	lease, err := l.Lock.Acquire(ctx)
	if lease == nil {
		return nil, err // not a held that is nil inside
	}
	return lease, err
}

// A later lock answers by callback.
type later interface {
	AcquireLater(ctx context.Context, then func(Held, error))
}

// asyncHeld is what is given back by a future.
type asyncHeld interface {
	ReleaseAsync() *engine.Future[struct{}]
}

// heldLater is what a later lock may answer with.
type heldLater interface{ ReleaseLater(then func(error)) }

// Contest is so many callers on fewer keys, each always on its own: who takes, keeps and frees
// in turn, and how often each was served.
type Contest struct {
	keys     int
	hold     time.Duration
	grace    time.Duration // for what has begun to end
	Locks    []Lock        // by caller
	Ledger   *meter.Ledger
	Witness  *witness.File // nil: none
	Observer Observer      // nil: none
	Counted  bool          // many may hold a key at once: the locks count them
	Gaps     *meter.Gaps   // by name, and behind those by name of readers; nil: nobody asks

	Readers   []Lock  // rw: the shared half, by caller; nil: locks are all there is
	ReadShare float64 // rw: how many of the turns are a reader's
	Seed      uint64
	Several   *Several // multi; nil: a turn takes one key

	mu     sync.Mutex
	recs   []*meter.Recorder // of the phase that runs; mu: the progress line looks in from outside
	Served []int64           // grants of each caller in the last phase
	Reads  *meter.Recorder   // rw: of the last phase, what Drive returned in its two parts
	Writes *meter.Recorder
}

// Observer sees each grant beside the ledger, from its holder.
type Observer interface {
	Granted(key int, asked, now time.Time, lease *engine.Lease)
}

// New makes a contest of a caller for each of the locks; name names the keys in what is told of them.
func New(cfg *config.Config, locks []Lock, name func(key int) string) *Contest {
	return &Contest{
		keys:   cfg.Keys,
		hold:   cfg.Hold,
		grace:  pace.GraceOf(cfg),
		Locks:  locks,
		Ledger: meter.NewLedger(cfg.Keys, name),
		Served: make([]int64, len(locks)),
	}
}

// GraceOf is how long the callers of a phase that is over may take to have their last turn.
func (c *Contest) GraceOf(processes int) time.Duration {
	return c.grace + 2*c.hold*time.Duration(len(c.Locks)*max(processes, 1))
}

// Drive lets the callers contend for length, and returns what was seen when each of them had
// its last turn. run takes one caller through the phase, and its own answer that it is done.
func (c *Contest) Drive(
	ctx context.Context, length, grace time.Duration, round *witness.Round, run func(context.Context, *Contender),
) *meter.Recorder {
	p := pace.NewPhase(length)
	ops, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer time.AfterFunc(length+grace, giveUp).Stop()
	defer context.AfterFunc(ctx, func() {
		p.End()
		time.AfterFunc(grace, giveUp)
	})()

	recs, readRecs := c.newRecorders()
	callers := make([]Contender, len(c.Locks))
	var wg sync.WaitGroup
	for i := range callers {
		callers[i] = Contender{
			contest: c, n: i, key: i % c.keys, lock: c.Locks[i], rec: recs[i%len(recs)], phase: p, round: round, done: &wg,
		}
		callers[i].keys = []int{callers[i].key}
		if c.Readers != nil || c.Several != nil {
			callers[i].rng = rand.New(rand.NewPCG(c.Seed, uint64(i)))
		}
		if c.Readers != nil {
			callers[i].readRec = readRecs[i%len(recs)]
		}
		wg.Add(1)
	}
	for i := range callers {
		run(ops, &callers[i]) // ends with the phase
	}
	wg.Wait()

	total := meter.NewRecorder()
	for _, r := range recs {
		total.Merge(r)
	}
	if c.Readers != nil {
		c.Reads, c.Writes = meter.NewRecorder(), total
		total = meter.NewRecorder()
		for _, r := range readRecs {
			c.Reads.Merge(r)
		}
		total.Merge(c.Reads)
		total.Merge(c.Writes)
	}
	for i := range callers {
		c.Served[i] = callers[i].served
	}
	return total
}

// newRecorders replaces the recorders of the last phase: those of the callers, and of what they read.
func (c *Contest) newRecorders() (recs, readRecs []*meter.Recorder) {
	n := min(meter.RecorderShards, len(c.Locks))
	all := make([]*meter.Recorder, 0, 2*n)
	for range n {
		all = append(all, meter.NewRecorder())
	}
	for range n {
		if c.Readers != nil {
			all = append(all, meter.NewRecorder())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recs = all
	return all[:n], all[n:]
}

// Pairs is how many pairs the running phase has done so far.
func (c *Contest) Pairs() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.recs {
		n += r.Live.Load()
	}
	return n
}

// Contender is one caller of a contest.
type Contender struct {
	contest *Contest
	n       int // of the caller
	key     int
	keys    []int // that this turn takes: key, but for multi
	lock    Lock
	rec     *meter.Recorder // shared with other callers, under its mutex
	phase   *pace.Phase
	rng     *rand.Rand      // rw, multi
	readRec *meter.Recorder // rw
	reading bool            // rw: this turn is a reader's
	noted   bool            // rw: the ledger has this reader
	marks   []uint64        // of the witness, by key of this turn
	round   *witness.Round  // nil: nobody counts over time
	done    *sync.WaitGroup
	served  int64
	_       [64]byte // served is written by one caller and must not slow down the next
}

// Block is a caller that blocks: it takes, keeps and frees until the phase is over.
func Block(ctx context.Context, c *Contender) {
	go func() { // ends with the phase
		defer c.done.Done()
		world.NewPart("caller").Label()
		for !c.phase.Over(c.phase.Elapsed()) {
			if err := c.turn(ctx); err != nil && ctx.Err() == nil {
				time.Sleep(pace.ErrorPause)
			}
		}
	}()
}

// choose settles what the next turn takes.
func (c *Contender) choose() Lock {
	if s := c.contest.Several; s != nil {
		return s.choose(c)
	}
	if c.rng == nil {
		return c.lock
	}
	if c.reading = c.rng.Float64() < c.contest.ReadShare; c.reading {
		return c.contest.Readers[c.n]
	}
	return c.lock
}

func (c *Contender) turn(ctx context.Context) error {
	wanted := c.choose()
	since := c.phase.Elapsed()
	got, err := wanted.Acquire(ctx)
	granted := c.phase.Elapsed()
	var freeing time.Duration
	if err == nil {
		c.begin(since, granted, got)
		holdFor(c.contest.hold)
		c.end()
		freeing = c.phase.Elapsed()
		err = got.Release(ctx)
	}
	freed := c.phase.Elapsed()
	c.record(got != nil, err, granted-since, freed-freeing)
	return err
}

// begin notes everywhere that this caller holds its keys.
func (c *Contender) begin(asked, granted time.Duration, got Held) {
	for _, key := range c.keys {
		if c.reading {
			c.noted = c.contest.Ledger.TakeShared(key, uint64(c.n)+1)
			c.contest.Gaps.Granted(c.contest.keys + key)
		} else {
			if !c.contest.Counted {
				c.contest.Ledger.Take(key, uint64(c.n)+1)
			}
			c.contest.Gaps.Granted(key)
		}
	}
	if lease, ok := got.(*engine.Lease); ok && c.contest.Observer != nil {
		c.contest.Observer.Granted(c.key, c.phase.Began.Add(asked), c.phase.Began.Add(granted), lease)
	}
	c.marks = c.marks[:0]
	if w := c.contest.Witness; w != nil {
		for _, key := range c.keys {
			c.marks = append(c.marks, w.Take(key, c.n))
		}
	}
	c.served++
	if c.round != nil {
		c.round.Granted(granted)
	}
}

// end notes that it is about to let go.
func (c *Contender) end() {
	for i, mark := range c.marks {
		c.contest.Witness.Give(c.keys[i], mark)
	}
	for _, key := range c.keys {
		switch {
		case c.contest.Counted:
		case !c.reading:
			c.contest.Ledger.Give(key, uint64(c.n)+1)
		case c.noted:
			c.contest.Ledger.GiveShared(key, uint64(c.n)+1)
		}
	}
}

func (c *Contender) record(granted bool, err error, waited, freeing time.Duration) {
	rec := c.rec
	if c.reading {
		rec = c.readRec
	}
	rec.Pair(granted, err, waited, freeing)
}

// chain is a caller without a goroutine: each step begins the next from its callback, so
// that one thing happens at a time.
type chain struct {
	*Contender
	ctx     context.Context //nolint:containedctx // of the operations
	since   time.Duration   // the acquire was submitted
	waited  time.Duration
	freeing time.Duration // the release was submitted
	held    Held
}

// CallBack is the asynchronous caller.
func CallBack(ctx context.Context, c *Contender) {
	s := &chain{Contender: c, ctx: ctx}
	s.submit()
}

func (s *chain) submit() {
	s.since = s.phase.Elapsed()
	if s.phase.Over(s.since) {
		s.done.Done()
		return
	}
	switch wanted := s.choose().(type) {
	case EngineLock:
		wanted.AcquireAsync(s.ctx).OnComplete(s.leased)
	case later:
		wanted.AcquireLater(s.ctx, s.granted)
	default:
		panic(fmt.Sprintf("a %T has no futures", s.lock))
	}
}

func (s *chain) leased(lease *engine.Lease, err error) { s.granted(lease, err) }

func (s *chain) granted(held Held, err error) {
	now := s.phase.Elapsed()
	s.waited = now - s.since
	if err != nil {
		s.over(false, err)
		return
	}
	s.held = held
	s.begin(s.since, now, held)
	if s.contest.hold >= spinBelow { // without keeping the engine's worker
		time.AfterFunc(s.contest.hold, s.free)
		return
	}
	holdFor(s.contest.hold)
	s.free()
}

func (s *chain) free() {
	s.end()
	s.freeing = s.phase.Elapsed()
	switch held := s.held.(type) {
	case asyncHeld:
		held.ReleaseAsync().OnComplete(func(_ struct{}, err error) { s.over(true, err) })
	case heldLater:
		held.ReleaseLater(func(err error) { s.over(true, err) })
	}
}

func (s *chain) over(granted bool, err error) {
	s.record(granted, err, s.waited, s.phase.Elapsed()-s.freeing)
	if err != nil && s.ctx.Err() == nil {
		time.AfterFunc(pace.ErrorPause, s.submit)
		return
	}
	s.submit()
}
