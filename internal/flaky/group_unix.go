//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endAsGroup gives cmd a session and a process group of its own, so that cancelling it ends what it has started, too, and
// what it has started is known by its session, in whichever group.
func endAsGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
