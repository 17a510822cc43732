package witness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// alive reports whether pid lives and is the process that began at started. One that has
// ended and was not yet waited for is not alive.
func alive(pid int, started uint64) bool {
	if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
		return false
	}
	state, began := stat(pid)
	return lives(state, began, started)
}

// lives is alive by what was read: what is not for us to see may well live.
func lives(state byte, began, started uint64) bool {
	return state != 'Z' && state != 'X' && (started == 0 || began == 0 || began == started)
}

// startOf is when pid began, in ticks since the machine did; 0: unknown.
func startOf(pid int) uint64 {
	_, began := stat(pid)
	return began
}

// stat reads state and start of pid; 0: unknown.
func stat(pid int) (state byte, began uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // of no text nothing is known
	return parse(text)
}

func parse(text []byte) (state byte, began uint64) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before it may hold anything
	const stateField, startField = 0, 19                            // after the name
	if len(fields) <= startField {
		return 0, 0
	}
	began, _ = strconv.ParseUint(string(fields[startField]), 10, 64) // 0: unknown
	return fields[stateField][0], began
}
