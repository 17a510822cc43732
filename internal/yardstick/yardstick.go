package yardstick

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// Options say how much to send at once, and for how long. Zero fields have defaults.
type Options struct {
	Goroutines int           // senders, in a cluster for each node; default 4
	Window     int           // operations each has in flight, in one DoMulti; default 256
	Names      int           // distinct locks each goes round; default Window, never less
	Duration   time.Duration // the run ends with the first round that begins after it
	Pairs      int64         // or after exactly so many; with neither, the run lasts a second
	Lease      time.Duration // default 30 s
	Prefix     string        // put before every key; a random part follows
	Publish    string        // the command that tells the waiters; default PUBLISH
	Scripts    Scripts       // default Redisson
}

// Result is what a run did and what it cost this process.
type Result struct {
	Pairs   int64         // locks taken and freed
	Elapsed time.Duration // wall clock
	CPU     time.Duration // user and system time of the whole process; 0 where unknown
	Errors  int64         // replies that were not those of an uncontended lock
	Allocs  uint64        // heap objects made by the whole process
}

// PairsPerSecond is the throughput of the run.
func (r Result) PairsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Pairs) / r.Elapsed.Seconds()
}

// CPUPerPair is the time on a core that one pair cost this process.
func (r Result) CPUPerPair() time.Duration {
	if r.Pairs == 0 {
		return 0
	}
	return r.CPU / time.Duration(r.Pairs)
}

// AllocsPerPair is the number of heap objects that one pair cost this process.
func (r Result) AllocsPerPair() float64 {
	if r.Pairs == 0 {
		return 0
	}
	return float64(r.Allocs) / float64(r.Pairs)
}

// ClientOption returns what a client must be made with to be the yardstick: one
// connection, always pipelined, without client-side caching, to one server.
func ClientOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{addr},
		AlwaysPipelining:  true,
		DisableCache:      true,
		ForceSingleClient: true,
		PipelineMultiplex: -1,
	}
}

// Pipeline takes and frees uncontended locks as fast as rueidis can: each goroutine
// sends a window of acquires in one DoMulti, then a window of releases of the same locks.
//
// On a cluster every node has goroutines of its own, and these send it nothing but keys that it
// serves. No call has to be divided among nodes and none waits for the slower of two, so this is what
// a client could reach that knew where every key lies.
//
// Blocks: until the run is over; the end of ctx ends it after the current round.
// Errors: the first reply that was wrong, or ctx's own.
func Pipeline(ctx context.Context, nodes []Node, o Options) (Result, error) {
	return run(ctx, nodes, o.withDefaults(), newWindowed)
}

// Single takes and frees uncontended locks one after the other from one goroutine, each
// by a bare Do call: the yardstick for one operation in flight. Goroutines and Window do
// not matter to it, nor do nodes beyond the first.
//
// Blocks: until the run is over; the end of ctx ends it after the current pair.
// Errors: the first reply that was wrong, or ctx's own.
func Single(ctx context.Context, nodes []Node, o Options) (Result, error) {
	o.Goroutines, o.Window = 1, 1
	return run(ctx, nodes[:1], o.withDefaults(), newBare)
}

func (o Options) withDefaults() Options {
	if o.Goroutines <= 0 {
		o.Goroutines = 4
	}
	if o.Window <= 0 {
		o.Window = 256
	}
	o.Names = max(o.Names, o.Window)
	if o.Lease <= 0 {
		o.Lease = 30 * time.Second
	}
	if o.Duration <= 0 && o.Pairs <= 0 {
		o.Duration = time.Second
	}
	if o.Publish == "" {
		o.Publish = "PUBLISH"
	}
	if o.Scripts.Acquire == "" {
		o.Scripts = Redisson()
	}
	return o
}

// sender is one goroutine's way of sending: it takes and frees each of names once, and
// returns how many replies were wrong, with the first of them.
type sender interface {
	round(names []Name) (wrong int64, err error)
}

// newSender makes the sender of one goroutine; width is the most names a round can have.
type newSender func(w wire, width int) sender

// run loads the scripts, sets the goroutines of every node going, and measures from the first send
// to the last reply.
func run(ctx context.Context, nodes []Node, o Options, sends newSender) (Result, error) {
	names := makeNames(nodes, o)
	senders := make([]sender, 0, len(names))
	for _, n := range nodes {
		w, err := load(ctx, n.Client, o.Scripts)
		if err != nil {
			return Result{}, err
		}
		for range o.Goroutines {
			senders = append(senders, sends(w, o.Window))
		}
	}
	budget := newBudget(o)
	var (
		wg    sync.WaitGroup
		pairs atomic.Int64
		wrong atomic.Int64
		errs  = make([]error, len(senders))
	)
	before := readUsage()
	budget.begin()
	for i := range senders {
		wg.Go(func() { // ends with the budget, ctx or its first wrong reply
			done, bad, err := drive(ctx, senders[i], names[i], o.Window, budget)
			pairs.Add(done)
			wrong.Add(bad)
			errs[i] = err
		})
	}
	wg.Wait()
	r := readUsage().since(before)
	r.Pairs, r.Errors = pairs.Load(), wrong.Load()
	err := errors.Join(errs...)
	if r.Errors > 0 {
		for i, n := range nodes {
			err = errors.Join(err, remove(n.Client, names[i*o.Goroutines:(i+1)*o.Goroutines]))
		}
	}
	return r, err
}

// drive goes round names, a window at a time, until the budget or ctx ends.
func drive(ctx context.Context, s sender, names []Name, window int, b *budget) (done, wrong int64, err error) {
	at := 0
	for {
		if err := ctx.Err(); err != nil {
			return done, wrong, err
		}
		n := b.take(window)
		if n == 0 {
			return done, wrong, nil
		}
		if at+n > len(names) {
			at = 0
		}
		bad, err := s.round(names[at : at+n])
		at += n
		if err != nil {
			return done, wrong + bad, err
		}
		done += int64(n)
	}
}

// budget is what a run may still do: a time, a number of pairs, or both.
type budget struct {
	duration time.Duration
	until    time.Time // zero: no end
	counted  bool
	left     atomic.Int64
}

func newBudget(o Options) *budget {
	b := &budget{duration: o.Duration, counted: o.Pairs > 0}
	b.left.Store(o.Pairs)
	return b
}

func (b *budget) begin() {
	if b.duration > 0 {
		b.until = time.Now().Add(b.duration)
	}
}

// take returns how many pairs, at most n, the caller may do next; 0 ends the run.
func (b *budget) take(n int) int {
	if !b.until.IsZero() && !time.Now().Before(b.until) {
		return 0
	}
	if !b.counted {
		return n
	}
	left := b.left.Add(-int64(n))
	return max(0, n+int(min(0, left)))
}

// makeNames returns the locks of each goroutine, node by node: those of a node lie in slots that it
// serves. No two are the same, in this run or in another on the same server.
func makeNames(nodes []Node, o Options) [][]Name {
	id := rand.Text()
	leaseMs := strconv.FormatInt(o.Lease.Milliseconds(), 10)
	all := make([][]Name, len(nodes)*o.Goroutines)
	for g := range all {
		serves := nodes[g/o.Goroutines].Serves
		all[g] = make([]Name, 0, o.Names)
		for i := 0; len(all[g]) < o.Names; i++ {
			key := fmt.Sprintf("%s%s:%d:%d", o.Prefix, id, g, i)
			if serves != nil && !serves(slot.Of(key)) {
				continue
			}
			all[g] = append(all[g], Name{
				Key:     key,
				Channel: "redisson_lock__channel:{" + key + "}",
				Publish: o.Publish,
				Field:   fmt.Sprintf("%s:%d", id, g),
				LeaseMs: leaseMs,
			})
		}
	}
	return all
}

// remove deletes what a run with wrong replies may have left.
func remove(client rueidis.Client, names [][]Name) error {
	ctx := context.Background()
	for _, of := range names {
		cmds := make([]rueidis.Completed, 0, len(of))
		for _, n := range of {
			cmds = append(cmds, client.B().Del().Key(n.Key).Build())
		}
		for _, r := range client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return fmt.Errorf("clean up: %w", err)
			}
		}
	}
	return nil
}

// usage is what this process has used so far.
type usage struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
}

func readUsage() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: cpuTime(), allocs: m.Mallocs}
}

func (u usage) since(before usage) Result {
	return Result{
		Elapsed: u.at.Sub(before.at),
		CPU:     u.cpu - before.cpu,
		Allocs:  u.allocs - before.allocs,
	}
}
