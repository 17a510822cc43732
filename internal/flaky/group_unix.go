//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endAsGroup gives cmd a process group of its own, so that cancelling it ends what it has started, too.
func endAsGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
