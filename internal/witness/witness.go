package witness

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotWitness is returned when the file is something else: it is left alone.
	ErrNotWitness = errors.New("witness: not a witness file")
	// ErrMismatch is returned when the run in the file has other keys or another prefix, or
	// does not let anybody in any more.
	ErrMismatch = errors.New("witness: another run")
)

// Options are what the processes of a run agree on.
type Options struct {
	Keys   int
	Prefix string // at most MaxPrefix bytes; empty: the run's own
	// FallbackPrefix is the prefix of a run whose first process names none.
	FallbackPrefix string
}

// violationsTold is how many violations are put in words.
const violationsTold = 5

// Witness is one process's place in a run. Take and Give are safe for concurrent use.
type Witness struct {
	view
	me         *process
	index      int
	mapped     []byte
	leftover   int
	generation atomic.Uint64
	again      atomic.Int64 // how often Take found another mark than it had just seen

	mu   sync.Mutex
	told []string // mu; at most violationsTold
}

// Open joins the run in the file at path, or begins one: in a new file, or where nobody who
// joined the last one is left alive.
//
// Blocks: while another process joins. Errors: ErrNotWitness, ErrMismatch, the system's.
func Open(path string, o Options) (*Witness, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the mapping stays
	if err := lock(f); err != nil {
		return nil, fmt.Errorf("witness: lock %s: %w", path, err)
	}
	defer func() { _ = unlock(f) }() // a file that was locked can be unlocked
	w := new(Witness)
	if err := w.attach(f, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), w.unmap())
	}
	return w, nil
}

// attach maps the file and takes a place in it. The file is locked.
func (w *Witness) attach(f *os.File, o Options) error {
	if len(o.Prefix) > MaxPrefix || len(o.FallbackPrefix) > MaxPrefix || o.Keys < 1 {
		return fmt.Errorf("%w: a prefix of at most %d bytes and at least one key", ErrMismatch, MaxPrefix)
	}
	running, err := w.inspect(f)
	if err != nil {
		return err
	}
	switch {
	case !running:
		if err := w.begin(f, o); err != nil {
			return err
		}
	case int(w.header.keys) != o.Keys:
		return fmt.Errorf("%w: it has %d keys, not %d", ErrMismatch, w.header.keys, o.Keys)
	case o.Prefix != "" && o.Prefix != w.header.prefixText():
		return fmt.Errorf("%w: its names begin with %q, not %q", ErrMismatch, w.header.prefixText(), o.Prefix)
	case w.header.begun.Load() > 0:
		return fmt.Errorf("%w: it has begun, with %d processes", ErrMismatch, w.header.begun.Load())
	}
	for i := range w.processes {
		if p := &w.processes[i]; p.state.Load() == stateFree {
			p.pid, p.started = uint64(os.Getpid()), startOf(os.Getpid())
			p.state.Store(stateJoined)
			w.me, w.index = p, i
			return nil
		}
	}
	return fmt.Errorf("%w: %d processes joined it already", ErrMismatch, MaxProcesses)
}

// inspect maps an existing file and reports whether somebody alive is in it.
func (w *Witness) inspect(f *os.File) (running bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	if info.Size() < int64(marksAt) {
		return false, ErrNotWitness
	}
	if w.mapped, err = mapFile(f, int(info.Size())); err != nil {
		return false, err
	}
	w.view = newView(w.mapped, 0)
	h := w.header
	switch {
	case h.magic.Load() != magic:
		return false, ErrNotWitness
	case h.version != version:
		return false, fmt.Errorf("%w of version %d: it has %d", ErrNotWitness, version, h.version)
	case int64(fileSize(int(h.keys))) != info.Size():
		return false, fmt.Errorf("%w: it has %d bytes for %d keys", ErrNotWitness, info.Size(), h.keys)
	}
	w.view = newView(w.mapped, int(h.keys))
	for i := range w.processes {
		if w.processes[i].present() {
			return true, nil
		}
	}
	for i := range w.marks {
		if w.marks[i].Load() != 0 {
			w.leftover++
		}
	}
	return false, nil
}

// begin makes the file empty and writes the header of a new run. Nobody has it mapped who
// would still look into it.
func (w *Witness) begin(f *os.File, o Options) error {
	if err := w.unmap(); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if err := f.Truncate(int64(fileSize(o.Keys))); err != nil {
		return err
	}
	var err error
	if w.mapped, err = mapFile(f, fileSize(o.Keys)); err != nil {
		return err
	}
	w.view = newView(w.mapped, o.Keys)
	h := w.header
	if o.Prefix == "" {
		o.Prefix = o.FallbackPrefix
	}
	h.version, h.keys, h.epoch = version, uint64(o.Keys), time.Now().UnixNano()
	h.prefixLen = uint64(copy(h.prefix[:], o.Prefix))
	h.magic.Store(magic)
	return nil
}

func (w *Witness) unmap() error {
	if w.mapped == nil {
		return nil
	}
	b := w.mapped
	w.mapped, w.view = nil, view{}
	return unmap(b)
}

// Prefix is what the run's names begin with.
func (w *Witness) Prefix() string { return w.header.prefixText() }

// Index is the place of this process among those of the run, from 0.
func (w *Witness) Index() int { return w.index }

// Leftover is how many marks processes of the last run left behind that ended while they held.
func (w *Witness) Leftover() int { return w.leftover }

// Take marks key as held by caller, who was granted it, and returns the mark to give back.
//
// Blocks: never. Allocates: never, but for a violation.
func (w *Witness) Take(key, caller int) (mark uint64) {
	mark = newMark(w.index, caller, w.generation.Add(1))
	for !w.takeFrom(w.marks[key].Load(), key, caller, mark) {
		w.again.Add(1)
	}
	return mark
}

// takeFrom marks key, where other was seen. It reports false if that is not there any more: then who is has to be seen
// first.
func (w *Witness) takeFrom(other uint64, key, caller int, mark uint64) bool {
	at := &w.marks[key]
	switch {
	case other == 0:
		return at.CompareAndSwap(0, mark)
	case w.abandonedBy(other):
		if !at.CompareAndSwap(other, mark) {
			return false
		}
		w.me.abandoned.Add(1)
	default:
		w.violation(key, caller, other, "granted to")
	}
	return true
}

// Give takes the mark back, just before the release.
func (w *Witness) Give(key int, mark uint64) {
	if !w.marks[key].CompareAndSwap(mark, 0) {
		_, caller := markedBy(mark)
		w.violation(key, caller, w.marks[key].Load(), "released by")
	}
}

// abandonedBy reports whether a mark's process is gone.
func (w *Witness) abandonedBy(mark uint64) bool {
	index, _ := markedBy(mark)
	return index != w.index && index < MaxProcesses && w.processes[index].gone()
}

func (w *Witness) violation(key, caller int, other uint64, what string) {
	holder := "nobody"
	if other != 0 {
		index, of := markedBy(other)
		holder = fmt.Sprintf("caller %d of process %d", of, w.pidOf(index))
	}
	w.tell(fmt.Sprintf("key %d was %s caller %d of process %d while %s has it", key, what, caller, w.me.pid, holder))
}

// tell counts a violation, and keeps the words of the first few.
func (w *Witness) tell(words string) {
	w.me.violations.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) < violationsTold {
		w.told = append(w.told, words)
	}
}

func (w *Witness) pidOf(index int) uint64 {
	if index < 0 || index >= MaxProcesses {
		return 0
	}
	return w.processes[index].pid
}

// Violations is how many this process found, and the first of them in words.
func (w *Witness) Violations() (n int64, told []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.me.violations.Load(), append([]string(nil), w.told...)
}

// Round is one measured round of this process: it counts the grants over time.
type Round struct {
	w     *Witness
	n     int
	began int64 // since epoch, in nanoseconds
}

// Begin begins the n-th round, from 0, at began.
func (w *Witness) Begin(n int, began time.Time) Round {
	r := Round{w, n, began.UnixNano() - w.header.epoch}
	if n < MaxRounds {
		w.me.rounds[n].from.Store(r.began)
	}
	return r
}

// Granted counts one grant, elapsed after the round began. Safe for concurrent use.
func (r Round) Granted(elapsed time.Duration) {
	r.w.me.grants.Add(1)
	if bin := (r.began + int64(elapsed)) / int64(BinWidth); bin >= 0 && bin < bins {
		r.w.me.bins[bin].Add(1)
	}
}

// End ends the round: grants are evenly to be expected until elapsed, and came at rate a
// second altogether.
func (r Round) End(elapsed time.Duration, rate float64) {
	if r.n < MaxRounds {
		at := &r.w.me.rounds[r.n]
		at.rate.Store(math.Float64bits(rate))
		at.to.Store(r.began + int64(elapsed))
	}
}

// Leave ends this process's part in the run, when nobody uses w any more. What it wrote stays. It is idempotent.
func (w *Witness) Leave() error {
	if w.me != nil {
		w.me.state.Store(stateLeft)
	}
	w.me = nil
	return w.unmap()
}
