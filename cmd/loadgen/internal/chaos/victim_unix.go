//go:build unix

package chaos

import (
	"os/exec"
	"syscall"
	"time"
)

// ownGroup keeps a Ctrl-C from reaching cmd: it is meant for us.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// stopTime is how long a signal has to reach every thread of it.
const stopTime = 5 * time.Millisecond

// stop makes it stand still.
func (v *victim) stop() error {
	err := v.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(stopTime)
	return err
}

// resume lets it go on.
func (v *victim) resume() error { return v.cmd.Process.Signal(syscall.SIGCONT) }
