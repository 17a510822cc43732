package witness

import "fmt"

// Permits of a semaphore are counted for all processes together: what a process had that died is held for good, since
// nobody else can give it back, unless they are leased. Beside that each process says what it has and what it is about to get or to give, so
// that the others can tell what it had when it died.

// Ask notes that this process is about to take or to give n permits.
func (w *Witness) Ask(n int) { w.me.unsettled.Add(int64(n)) }

// Settled notes that it knows what became of them.
func (w *Witness) Settled(n int) { w.me.unsettled.Add(-int64(n)) }

// Enter counts n permits of so many that caller was granted, between Ask and Settled. More than there are is a
// violation.
//
// Blocks: never. Allocates: never, but for a violation.
func (w *Witness) Enter(n, permits, caller int) {
	if held := w.enter(n); held > int64(permits) {
		w.overdrawn(n, permits, caller, held)
	}
}

// EnterLeased is Enter where permits are leased: what a process has that ended without leaving counts no longer, though
// its leases may not be over yet.
//
// Blocks: never. Allocates: only where there are too many with those of the dead.
func (w *Witness) EnterLeased(n, permits, caller int) {
	held := w.enter(n)
	if held <= int64(permits) {
		return
	}
	dead, _ := w.Permits(true)
	if held -= dead; held > int64(permits) {
		w.overdrawn(n, permits, caller, held)
	}
}

// enter counts them. A process that is killed in it, or in Exit, has said of itself that it has more than is counted
// for all, never less.
func (w *Witness) enter(n int) (held int64) {
	w.me.permits.Add(int64(n))
	return w.header.permits.Add(int64(n))
}

func (w *Witness) overdrawn(n, permits, caller int, held int64) {
	w.tell(fmt.Sprintf("caller %d of process %d was granted %d permits: %d of %d are held", caller, w.me.pid, n, held, permits))
}

// Exit takes them back, between Ask and the release.
func (w *Witness) Exit(n int) {
	w.header.permits.Add(-int64(n))
	w.me.permits.Add(-int64(n))
}

// Permits returns what the other processes have and what they are about to get or to give; gone: only those that ended
// without leaving.
func (w *Witness) Permits(gone bool) (held, unsettled int64) {
	for i := range w.processes {
		p := &w.processes[i]
		if i == w.index || p.state.Load() == stateFree || gone && !p.gone() {
			continue
		}
		held += p.permits.Load()
		unsettled += p.unsettled.Load()
	}
	return held, unsettled
}
