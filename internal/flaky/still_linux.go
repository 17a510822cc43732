package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const canStandStill = true

// stop stops all processes of a session and returns them. One that has been stopped already, by a test, is left as it is.
func stop(session int) (stopped []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may have any character: what counts stands behind its end.
		var state string
		var parent, group, of int
		_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
		if _, err := fmt.Sscan(string(rest), &state, &parent, &group, &of); err != nil || of != session || state == "T" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			stopped = append(stopped, pid)
		}
	}
	return stopped
}

// goOn has processes go on.
func goOn(stopped []int) {
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}
