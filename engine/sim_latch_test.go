package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// Latches in the simulation: callers set them, count them down and wait for them. Nobody is let in who has not met it
// open, everybody who waited when it opened is let in, and a request counts once.

// A simLatch is a latch.
type simLatch struct {
	name    string
	count   int           // on the server, when somebody last looked
	openAt  clock.Instant // when it was last open, if it is closed
	opened  clock.Instant // when it was last opened; 0: never
	waiters []*simAwait
	counted map[string]bool // requests that have counted it down
}

// A simAwait is a caller that waits for a latch.
type simAwait struct {
	who   string
	se    *simEngine
	gen   int
	tally *simTally
	since clock.Instant
	over  bool
}

func newSimLatch(name string) *simLatch { return &simLatch{name: name, counted: make(map[string]bool)} }

// look notes what a latch is. request: what has just counted it down; "": nothing has.
func (c *simCounted) look(l *simLatch, request string) {
	now, before := c.s.w.Now(), l.count
	if before == 0 {
		l.openAt = now
	}
	n, err := strconv.Atoi(c.s.server.twin.Do([]string{"GET", l.name}).Text)
	switch l.count = max(n, 0); {
	case err == nil && n <= 0 && !c.excused:
		c.s.fail("a count is above zero", "%q is %d", l.name, n)
	case before > 0 && l.count == 0:
		l.opened = now
	}
	if l.count >= before || request == "" || c.excused {
		return
	}
	if l.counted[request] {
		c.s.fail("a request counts once", "%q went from %d to %d by %s, which had counted before", l.name, before, l.count, request)
	}
	l.counted[request] = true
}

// latched looks at what a command has done to latches.
func (c *simCounted) latched(args []string) {
	if c == nil {
		return
	}
	requests := simRequests(args)
	for i, key := range simKeysOf(args) {
		for _, l := range c.latches {
			if key != l.name {
				continue
			}
			request := ""
			if i < len(requests) {
				request = requests[i]
			}
			c.look(l, request)
		}
	}
}

// simRequests are the requests of a call that counts latches down, by key.
func simRequests(args []string) (all []string) {
	if simScriptNames[args[1]] != "latchdown" {
		return nil
	}
	keys := simKeysOf(args)
	for at := len(args) - 1; at > 0; at-- { // request, n, request, n: as many as there are keys
		n, err := strconv.Atoi(args[at])
		if err != nil || strings.Count(args[at-1], ":") != 2 {
			break
		}
		for range n {
			all = append(all, args[at-1])
		}
		if at--; len(all) >= len(keys) {
			break
		}
	}
	slices.Reverse(all)
	return all
}

// latch sets a latch, counts it down, or waits for it.
func (a *simActor) latch(st *simStep) {
	s := a.s
	if s.counted == nil {
		return
	}
	l := s.counted.latches[st.name%len(s.counted.latches)]
	handle := a.se.eng.CountDownLatch(l.name)
	s.ops++
	switch {
	case st.pick == 0:
		n := 1 + st.lease%3
		f := handle.TrySetCountAsync(context.Background(), n)
		await(s, f)
		set, err, _ := f.Result()
		s.story("%s has set %q to %d: %v, %v", a.who(), l.name, n, set, err)
	case st.pick < 4:
		tally := a.se.tally
		f := handle.CountDownAsync(1)
		f.then(func() {
			_, err, _ := f.Result()
			tally.released(err)
			s.story("%s has counted %q down: %v", a.who(), l.name, err)
		})
		if !st.loose {
			await(s, f)
		}
	default:
		a.await(st, l)
	}
}

// await waits for a latch, for a while.
func (a *simActor) await(st *simStep, l *simLatch) {
	s := a.s
	var opts []Option
	if most := simWaits[st.wait]; most > 0 {
		opts = append(opts, MaxWait(most))
	}
	w := &simAwait{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, since: s.w.Now()}
	l.waiters = append(l.waiters, w)
	s.story("%s waits for %q", w.who, l.name)
	ctx, cancel := s.w.WithCancel(context.Background())
	f := a.se.eng.CountDownLatch(l.name, opts...).AwaitAsync(ctx)
	done := s.w.NewLatch()
	f.then(func() {
		_, err, _ := f.Result()
		s.story("%s has waited for %q: %v", w.who, l.name, err)
		s.awaited(l, w, simWaits[st.wait], err)
		done.Open()
	})
	if !done.WaitUntil(s.w.Now().Add(st.after + 2*time.Second)) { // perhaps nobody opens it
		w.over = true
		cancel()
	}
	done.WaitIn(context.Background())
	cancel()
}

// awaited follows the result of one who waited.
func (s *sim) awaited(l *simLatch, w *simAwait, most time.Duration, err error) {
	l.waiters = slices.DeleteFunc(l.waiters, func(other *simAwait) bool { return other == w })
	s.counted.look(l, "")
	if took := s.w.Now().Sub(w.since); most > 0 && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for %q, and at most %v", w.who, took, l.name, most)
	}
	switch {
	case err == nil:
		w.tally.grants++
		if l.count > 0 && l.openAt < w.since && !s.counted.excused {
			s.fail("a latch lets nobody in early", "%s was let in by %q, which is %d and was last open at %v, before it came", w.who, l.name,
				l.count, time.Duration(l.openAt)-time.Hour)
		}
	case errors.Is(err, ErrLatchGone) && !s.counted.excused:
		s.fail("a latch that is counted down is open", "%s was told %v of %q", w.who, err, l.name)
	case s.healthy() && !errors.Is(err, ErrNotOpen) && !errors.Is(err, ErrClosed) && !w.over && (most == 0 || !errors.Is(err, ErrUnknown)):
		s.fail("where nothing goes wrong there are no errors", "%s waited for %q: %v", w.who, l.name, err)
	}
}

// checkLatches: who waited when a latch was opened is let in soon, where nothing goes wrong any more.
func (c *simCounted) checkLatches() {
	now := c.s.w.Now()
	if c.excused || c.s.quietAt == 0 || now.Sub(c.s.quietAt) < simCalm {
		return
	}
	for _, l := range c.latches {
		if l.opened == 0 || now.Sub(l.opened) < simSoon+8*c.s.line {
			continue
		}
		for _, w := range l.waiters {
			if !w.over && !w.se.closing && w.gen == w.se.gen && w.since.Add(simSoon/2) < l.opened {
				c.s.fail("a latch lets everybody in", "%s has waited for %q since %v, and it was opened at %v", w.who, l.name,
					time.Duration(w.since)-time.Hour, time.Duration(l.opened)-time.Hour)
			}
		}
	}
}

// latchShards are those of their names.
func (c *simCounted) latchShards() (all []uint64) {
	for _, l := range c.latches {
		all = append(all, xxhash.Sum64String(l.name)%shardCount)
	}
	return all
}
