package witness

import (
	"context"
	"fmt"
	"time"
)

// barrierPause is how often a process that waits looks whether the others have come. It is
// how far apart they begin at most.
const barrierPause = 200 * time.Microsecond

// Await reaches the next barrier and returns when everybody has: the first time at least
// want processes, then all of the run that are alive. Every process calls it equally often.
//
// Blocks: until then, for as long as ctx and timeout allow. Errors: ctx's own, or who is missing.
func (w *Witness) Await(ctx context.Context, want int, timeout time.Duration) error {
	phase := w.me.phase.Add(1)
	end := time.Now().Add(timeout)
	for {
		here, missing := w.reached(phase)
		if len(missing) == 0 && (phase > 1 || here >= want) {
			if phase == 1 && want > 1 {
				w.header.begun.Store(uint64(here))
			}
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end) && phase == 1:
			return fmt.Errorf("witness: %d of %d processes came within %v", here, want, timeout)
		case time.Now().After(end):
			return fmt.Errorf("witness: processes %v did not come to barrier %d within %v", missing, phase, timeout)
		}
		time.Sleep(barrierPause)
	}
}

// reached counts the processes that came as far as phase, and lists the pids of those alive
// that did not.
func (w *Witness) reached(phase uint32) (here int, missing []int) {
	for i := range w.processes {
		p := &w.processes[i]
		switch {
		case p.state.Load() == stateFree:
		case p.phase.Load() >= phase:
			here++
		case p.present():
			missing = append(missing, int(p.pid))
		}
	}
	return here, missing
}
