package witness

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Bounds of a file. They are part of its format: version counts their changes.
const (
	MaxProcesses = 64
	MaxRounds    = 128
	MaxPrefix    = 64

	// BinWidth is how finely grants are counted over time.
	BinWidth = 250 * time.Millisecond

	bins    = 1 << 14 // more than an hour; what comes later is in no bin
	magic   = 0x484f_4c44_5749_544e
	version = 2
)

// The life of a process in a run.
const (
	stateFree uint32 = iota
	stateJoined
	stateLeft
)

// header is the beginning of the file. What is not atomic is written under the file's lock
// before magic, and never again.
type header struct {
	magic     atomic.Uint64
	version   uint64
	keys      uint64
	epoch     int64 // Unix time in nanoseconds: bins count from here
	prefixLen uint64
	prefix    [MaxPrefix]byte
	begun     atomic.Uint64 // how many the start barrier let go; 0: not yet, or there is none
	permits   atomic.Int64  // that all processes hold, the dead ones too
	rival     [MaxRounds]atomic.Uint64
}

// process is one process's part of the file. It alone writes there.
type process struct {
	pid        uint64
	started    uint64 // when the pid began, so that a second use of it is told apart; 0: unknown
	state      atomic.Uint32
	phase      atomic.Uint32 // how many barriers it has reached
	grants     atomic.Int64
	violations atomic.Int64
	abandoned  atomic.Int64
	permits    atomic.Int64  // that it holds
	unsettled  atomic.Int64  // permits that it has asked for or is giving back
	p50        atomic.Uint64 // float64 bits, microseconds
	p99        atomic.Uint64
	longest    atomic.Uint64
	rounds     [MaxRounds]stretch
	bins       [bins]atomic.Uint32
}

// stretch is one measured round of a process.
type stretch struct {
	from atomic.Int64 // since epoch, in nanoseconds
	to   atomic.Int64 // 0: not over
	rate atomic.Uint64
}

// Marks are process+1 in 8 bits, caller in 20, generation in 36.
const (
	callerBits     = 20
	generationBits = 36
)

func newMark(index, caller int, generation uint64) uint64 {
	return uint64(index+1)<<(callerBits+generationBits) |
		uint64(caller)&(1<<callerBits-1)<<generationBits |
		generation&(1<<generationBits-1)
}

// markedBy splits a mark that is not 0.
func markedBy(mark uint64) (index, caller int) {
	return int(mark>>(callerBits+generationBits)) - 1, int(mark >> generationBits & (1<<callerBits - 1))
}

// Where the parts of a file lie.
const (
	headerSize  = int(unsafe.Sizeof(header{}))
	processSize = int(unsafe.Sizeof(process{}))
	processesAt = (headerSize + 63) &^ 63
	marksAt     = processesAt + MaxProcesses*processSize
)

func fileSize(keys int) int { return marksAt + 8*keys }

// view is a mapped file.
type view struct {
	header    *header
	processes *[MaxProcesses]process
	marks     []atomic.Uint64
}

// newView lays the parts over mapped, which begins at a page and holds keys marks.
func newView(mapped []byte, keys int) view {
	v := view{
		header:    (*header)(unsafe.Pointer(&mapped[0])),
		processes: (*[MaxProcesses]process)(unsafe.Pointer(&mapped[processesAt])),
	}
	if keys > 0 {
		v.marks = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mapped[marksAt])), keys)
	}
	return v
}

func (h *header) prefixText() string { return string(h.prefix[:min(h.prefixLen, MaxPrefix)]) }

// gone reports whether the process ended without leaving.
func (p *process) gone() bool {
	return p.state.Load() == stateJoined && !alive(int(p.pid), p.started)
}

// present reports whether the process takes part and lives.
func (p *process) present() bool {
	return p.state.Load() == stateJoined && alive(int(p.pid), p.started)
}
