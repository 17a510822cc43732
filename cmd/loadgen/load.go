package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// drainGrace is how long operations that have begun may take to end after a phase is
// over. What is still unanswered then is given up and counted as an error.
const drainGrace = 15 * time.Second

// load is a set of locks, cut into slots, and what drives them. A slot has one operation
// in flight at a time and keys that are nobody else's, so no key ever repeats in flight.
type load struct {
	cfg    *config
	locks  []*engine.Lock // by key
	slots  []keyRound     // by slot
	ledger *ledger
	gaps   *gaps // by slot; nil: nobody asks

	mu   sync.Mutex
	recs []*recorder // of the phase that runs; mu: the progress line looks in from outside
}

// keyRange is a stretch of numbers.
type keyRange struct{ first, count int }

// keyRound is the part of the keys that one slot goes round: every step-th. Neighbouring slots use
// neighbouring keys at about the same time, so that the load generator's own memory is read in
// order and what is measured is the engine.
type keyRound struct{ first, step, end int }

// next is the key after key.
func (r keyRound) next(key int) int {
	if key += r.step; key < r.end {
		return key
	}
	return r.first
}

// newLoad makes the lock of every key, with the engine of its slot. Given the homes of names, every async
// client has keys of one home: it looks at its operations in the order in which they were submitted, and
// would let all masters wait for the slowest.
func newLoad(cfg *config, engines []*engine.Engine, h homes) *load {
	numbers := h.place(cfg)
	name := func(key int) string { return lockName(cfg.prefix, 'k', numbers[key]) }
	l := &load{
		cfg:    cfg,
		locks:  make([]*engine.Lock, cfg.keys),
		slots:  make([]keyRound, cfg.inflight),
		ledger: newLedger(cfg.keys, name),
	}
	for i := range l.slots {
		l.slots[i] = keyRound{i, cfg.inflight, cfg.keys}
	}
	for key := range l.locks {
		eng := engines[key%cfg.inflight%len(engines)]
		l.locks[key] = newLock(eng, cfg.kind, name(key), cfg.lease)
	}
	return l
}

// homes are the masters of a cluster, and which of them a name belongs to. The zero value knows of none.
type homes struct {
	n  int
	of func(name string) int
}

// place gives every key the number in its name, so that its home is that of the client which drives it.
// Without homes, or where they cannot be shared out evenly, numbers are the keys themselves.
func (h homes) place(cfg *config) []int {
	numbers := make([]int, cfg.keys)
	if h.n < 2 || cfg.api != "async" || cfg.clients%h.n != 0 {
		for key := range numbers {
			numbers[key] = key
		}
		return numbers
	}
	homeOf := make([]int, cfg.inflight) // by slot
	for client, window := range cut(cfg.inflight, cfg.clients) {
		for i := range window.count {
			homeOf[window.first+i] = client % h.n
		}
	}
	spare, next := make([][]int, h.n), 0
	for key := range numbers {
		want := homeOf[key%cfg.inflight]
		for len(spare[want]) == 0 {
			at := h.of(lockName(cfg.prefix, 'k', next))
			spare[at] = append(spare[at], next)
			next++
		}
		numbers[key], spare[want] = spare[want][0], spare[want][1:]
	}
	return numbers
}

// cut divides n things into parts that differ by one at most. n >= parts.
func cut(n, parts int) []keyRange {
	ranges := make([]keyRange, parts)
	for i := range ranges {
		first := i * n / parts
		ranges[i] = keyRange{first, (i+1)*n/parts - first}
	}
	return ranges
}

// lockName is the name of the i-th lock of a kind: 24 bytes, unless the prefix is long.
func lockName(prefix string, kind byte, i int) string {
	const length, least = 24, 8
	return fmt.Sprintf("%s:%c:%0*d", prefix, kind, max(length-len(prefix)-3, least), i)
}

// drive runs the load for length and returns what was seen, when the last answer has
// come. The end of ctx ends it early, not unfinished.
func (l *load) drive(ctx context.Context, length time.Duration) (total *recorder, skipped int64) {
	p := newPhase(length)
	ops, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer time.AfterFunc(length+drainGrace, giveUp).Stop()
	defer context.AfterFunc(ctx, func() {
		p.end()
		time.AfterFunc(drainGrace, giveUp)
	})()

	var pace *pacer
	var starts <-chan time.Duration
	if l.cfg.rate > 0 {
		pace = startPacer(p, l.cfg.rate)
		starts = pace.starts
	}
	var wg sync.WaitGroup
	if l.cfg.api == "sync" {
		l.startCallers(ops, &wg, p, starts)
	} else {
		l.startClients(ops, &wg, p, starts)
	}
	wg.Wait()

	total = newRecorder()
	for _, r := range l.recs {
		total.merge(r)
	}
	if pace != nil {
		skipped = pace.skipped // the clients end only after starts is closed
	}
	return total, skipped
}

// startClients starts the async clients, each with a window of the slots.
func (l *load) startClients(ctx context.Context, wg *sync.WaitGroup, p *phase, starts <-chan time.Duration) {
	windows := cut(len(l.slots), l.cfg.clients)
	for i, rec := range l.newRecorders(len(windows)) {
		c := newClient(ctx, l, windows[i], rec)
		c.phase, c.starts = p, starts
		wg.Go(c.run) // ends with the phase
	}
}

// recorderShards is how many recorders blocking callers share.
const recorderShards = 16

// startCallers starts the blocking callers, one a slot.
func (l *load) startCallers(ctx context.Context, wg *sync.WaitGroup, p *phase, starts <-chan time.Duration) {
	recs := l.newRecorders(min(recorderShards, len(l.slots)))
	for i := range l.slots {
		c := caller{load: l, slot: i, rec: recs[i%len(recs)], phase: p, starts: starts}
		wg.Go(func() { c.run(ctx) }) // ends with the phase
	}
}

// newRecorders replaces the recorders of the last phase.
func (l *load) newRecorders(n int) []*recorder {
	recs := make([]*recorder, n)
	for i := range recs {
		recs[i] = newRecorder()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recs = recs
	return recs
}

// pairs is how many pairs the running phase has done so far.
func (l *load) pairs() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.recs {
		n += r.live.Load()
	}
	return n
}

// firstKey is where slot begins its round, by the seed: all slots on the same lap.
func (l *load) firstKey(slot int) int {
	laps := l.cfg.keys / l.cfg.inflight
	rng := rand.New(rand.NewPCG(l.cfg.seed, 0))
	return slot + rng.IntN(laps)*l.cfg.inflight
}
