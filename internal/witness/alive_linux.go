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
	state, began, ok := stat(pid)
	if !ok {
		return true // not for us to see
	}
	return state != 'Z' && state != 'X' && (started == 0 || began == 0 || began == started)
}

// startOf is when pid began, in ticks since the machine did; 0: unknown.
func startOf(pid int) uint64 {
	_, began, _ := stat(pid)
	return began
}

// stat reads state and start of pid.
func stat(pid int) (state byte, began uint64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	_, rest, found := bytes.Cut(text, []byte(") ")) // the name before it may hold anything but this, at worst a wrong start
	fields := bytes.Fields(rest)
	const stateField, startField = 0, 19 // after the name
	if !found || len(fields) <= startField {
		return 0, 0, false
	}
	began, _ = strconv.ParseUint(string(fields[startField]), 10, 64) // 0: unknown
	return fields[stateField][0], began, true
}
