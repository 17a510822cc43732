package wheel

import (
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// What corrects the timing wheel: the alarm, which is exact and counts suspend, and the ticker, which trusts neither.

const (
	// every is the period of the ticker.
	every = 50 * time.Millisecond
	// stuckAfter is how late the timing wheel is when it counts as stuck, and how long Stop waits for one that may be.
	stuckAfter = time.Second
)

func (w *Wheel) startAlarm(cfg Config) error {
	if cfg.NoAlarm {
		return nil
	}
	alarm, err := w.clock.NewAlarm(w.onAlarm)
	if err != nil {
		return fmt.Errorf("wheel: %w", err)
	}
	w.alarm, w.alarmed.set = alarm, alarm.Arm
	return nil
}

// onAlarm is the alarm's function.
//
// A set that opens a new earliest bucket while this runs arms the alarm itself: it finds
// armed either cleared or not earlier than its own. A set that was kicked arms it when it
// comes to rest.
func (w *Wheel) onAlarm() {
	w.alarmed.spent()
	w.arm(w.sweep())
}

func (w *Wheel) startTicker(cfg Config) {
	ticks, stop := cfg.Ticks, func() {}
	if ticks == nil {
		ticker := time.NewTicker(every)
		ticks, stop = ticker.C, ticker.Stop
	}
	w.ticking.Go(func() {
		defer stop()
		w.tickLoop(ticks)
	})
}

func (w *Wheel) tickLoop(ticks <-chan time.Time) {
	world.NewPart("timers").Label()
	for {
		select {
		case <-ticks:
			w.arm(w.sweep())
			w.timers.look()
		case <-w.quit:
			return
		}
	}
}

// stuckTicks is for how many ticks the timing wheel has to look stuck. Ticks are counted, and not their time: a
// process that is suspended has none.
const stuckTicks = int(stuckAfter / every)

// look is the ticker's look at the timing wheel. It is stuck if a call of it does not return, or if its timer does
// not come. It runs on the wall clock and sleeps by one that stands still in a suspended machine: only where both have
// come that far is it late.
func (t *timers) look() {
	if t == nil {
		return
	}
	// A call that was on its way at the last tick, and still is, has taken a whole period.
	calls, due := t.calls.Load(), t.due.Load()
	hangs := calls%2 != 0 && calls == t.seen
	now := time.Now()
	silent := due != nil && now.After(*due) && now.UnixMilli() > due.UnixMilli()
	t.seen = calls
	if !hangs && !silent {
		t.late = 0
		return
	}
	// Equal, not more: it counts once each time.
	if t.late++; t.late == stuckTicks {
		t.stuck.Add(1)
	}
}

// Stuck is how often the timing wheel was found stuck. Items are then delivered by the alarm, or where there is
// none by the ticker.
func (w *Wheel) Stuck() int64 {
	if w.timers == nil {
		return 0
	}
	return w.timers.stuck.Load()
}
