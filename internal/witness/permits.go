package witness

import "fmt"

// Permits of a semaphore are counted for all processes together: what a process had that died is held for good, since
// nobody else can give it back. Beside that each process says what it has and what it is about to get or to give, so
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
	w.me.permits.Add(int64(n))
	if held := w.header.permits.Add(int64(n)); held > int64(permits) {
		w.tell(fmt.Sprintf("caller %d of process %d was granted %d permits: %d of %d are held", caller, w.me.pid, n, held, permits))
	}
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
