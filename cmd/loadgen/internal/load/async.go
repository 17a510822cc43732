package load

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// client drives a window of slots through futures, from one goroutine. Operations are
// looked at in the order in which they were submitted: a result that is there is taken
// without waiting, and the client waits only for the oldest. It allocates nothing an
// operation.
type client struct {
	ctx    context.Context
	load   *Load
	rec    *meter.Recorder
	phase  *pace.Phase
	starts <-chan time.Duration // open loop: the intended starts; nil: closed loop

	slots []asyncSlot
	queue []int32 // a ring: the slots with something in flight, oldest first
	head  int
	count int
	free  []int32 // open loop: slots with nothing in flight

	now  time.Duration // since the phase began, as it was read last
	uses int           // of that reading
	open bool          // it is an open loop
}

const (
	// clockUses is how many results a client that finds them waiting takes with one reading of the clock. That is some ten
	// microseconds of work: a latency is told too short by as much at most.
	clockUses = 8
	// liveEvery is after how many pairs the progress line sees them.
	liveEvery = 64
)

// elapsed is the time since the phase began, read anew if the client has waited since. In an open loop it waits for starts,
// too, and whatever it finds done may have been begun after the last reading.
func (c *client) elapsed(waited bool) time.Duration {
	if c.uses++; waited || c.open || c.uses >= clockUses {
		c.now, c.uses = c.phase.Elapsed(), 0
	}
	return c.now
}

// asyncSlot is one operation: an acquire, then the release of what it brought.
type asyncSlot struct {
	acquire *engine.Future[*engine.Lease] // nil: the release is in flight
	release *engine.Future[struct{}]
	since   time.Duration // submitted, or to be submitted, since the phase began
	keys    keyRound
	key     int
	holder  uint64
}

func newClient(ctx context.Context, l *Load, window keyRange, rec *meter.Recorder) *client {
	c := &client{
		ctx:   ctx,
		load:  l,
		rec:   rec,
		slots: make([]asyncSlot, window.count),
		queue: make([]int32, window.count),
		free:  make([]int32, 0, window.count),
	}
	for i := range c.slots {
		slot := window.first + i
		c.slots[i] = asyncSlot{keys: l.slots[slot], key: l.firstKey(slot), holder: uint64(slot) + 1}
		c.free = append(c.free, int32(i))
	}
	return c
}

// run drives the window until the phase is over and everything is answered.
func (c *client) run() {
	world.NewPart("caller").Label()
	defer func() { c.rec.Live.Store(c.rec.Released) }()
	if c.starts != nil {
		c.runOpen()
		return
	}
	for _, i := range c.free {
		c.submit(i, c.elapsed(true))
	}
	c.free = c.free[:0]
	for c.count > 0 {
		i := c.pop()
		if s := &c.slots[i]; c.step(i, s) {
			if now := s.since; !c.phase.Over(now) {
				c.submit(i, now)
			}
		}
	}
}

// runOpen is run for the open loop: it starts what is due as long as a slot is free, and
// otherwise looks at the oldest operation.
func (c *client) runOpen() {
	c.open = true
	for {
		mayStart := c.starts != nil && len(c.free) > 0
		switch {
		case mayStart && c.count == 0:
			at, ok := <-c.starts
			c.start(at, ok)
		case mayStart:
			c.startOrAdvance()
		case c.count > 0:
			c.advance()
		default:
			return
		}
	}
}

// startOrAdvance does whichever can be done first: a start that is due, or the next step
// of the oldest operation.
func (c *client) startOrAdvance() {
	select {
	case at, ok := <-c.starts:
		c.start(at, ok)
		return
	default:
	}
	oldest := &c.slots[c.queue[c.head]]
	if !oldest.ready() {
		select {
		case at, ok := <-c.starts:
			c.start(at, ok)
			return
		case <-oldest.done():
		case <-c.ctx.Done():
		}
	}
	c.advance()
}

// start submits what was to begin at at; not ok: nothing more will begin.
func (c *client) start(at time.Duration, ok bool) {
	if !ok {
		c.starts = nil
		return
	}
	last := len(c.free) - 1
	i := c.free[last]
	c.free = c.free[:last]
	c.submit(i, at)
}

// advance takes the oldest operation one step on.
func (c *client) advance() {
	if i := c.pop(); c.step(i, &c.slots[i]) {
		c.free = append(c.free, i)
	}
}

// submit begins slot i's next pair; its latency counts from since.
func (c *client) submit(i int32, since time.Duration) {
	s := &c.slots[i]
	s.key = s.keys.next(s.key)
	s.since = since
	s.acquire = c.load.locks[s.key].AcquireAsync(c.ctx)
	c.push(i)
}

// step waits for what slot i has in flight and does what follows from it. It reports
// whether the pair is over, well or badly; s.since is then when that was seen.
func (c *client) step(i int32, s *asyncSlot) (over bool) {
	if s.acquire == nil {
		return c.finish(s)
	}
	lease, err, ok := s.acquire.Result()
	if !ok {
		lease, err = s.acquire.Await(c.ctx)
	}
	s.acquire = nil
	now := c.elapsed(!ok)
	if err != nil {
		c.failed(s, err)
		return true
	}
	c.rec.Acquired(now - s.since)
	c.load.Gaps.Granted(int(s.holder) - 1)
	c.load.Ledger.Take(s.key, s.holder)
	c.load.Ledger.Give(s.key, s.holder)
	s.since = now
	s.release = lease.ReleaseAsync()
	c.push(i)
	return false
}

// finish waits for the release.
func (c *client) finish(s *asyncSlot) (over bool) {
	_, err, ok := s.release.Result()
	if !ok {
		_, err = s.release.Await(c.ctx)
	}
	s.release = nil
	now := c.elapsed(!ok)
	if err != nil {
		c.failed(s, err)
		return true
	}
	c.rec.Freed(now - s.since)
	if c.rec.Released%liveEvery == 0 {
		c.rec.Live.Store(c.rec.Released)
	}
	s.since = now
	return true
}

func (c *client) failed(s *asyncSlot, err error) {
	c.rec.Failed(err)
	if c.ctx.Err() == nil {
		time.Sleep(pace.ErrorPause)
	}
	s.since = c.elapsed(true)
}

func (c *client) push(i int32) {
	at := c.head + c.count
	if at >= len(c.queue) {
		at -= len(c.queue)
	}
	c.queue[at] = i
	c.count++
}

func (c *client) pop() int32 {
	i := c.queue[c.head]
	if c.head++; c.head == len(c.queue) {
		c.head = 0
	}
	c.count--
	return i
}

func (s *asyncSlot) ready() bool {
	if s.acquire != nil {
		_, _, ok := s.acquire.Result()
		return ok
	}
	_, _, ok := s.release.Result()
	return ok
}

func (s *asyncSlot) done() <-chan struct{} {
	if s.acquire != nil {
		return s.acquire.Done()
	}
	return s.release.Done()
}
