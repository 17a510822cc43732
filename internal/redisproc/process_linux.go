package redisproc

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr makes the kernel kill the child with its parent, and keeps a Ctrl-C
// meant for the parent from reaching the child first.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// stopped reports whether SIGSTOP has taken effect.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && (rest[0] == 'T' || rest[0] == 't')
}
