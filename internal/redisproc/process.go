package redisproc

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one child process. It is over when done is closed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read it after done
}

// launch starts the child. One goroutine, locked to its thread, starts it and
// waits for it: the parent-death signal is bound to the thread that forked.
func launch(path, dir string, args []string) (*process, error) {
	log, err := os.OpenFile(logFile(dir), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = childAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig unless the process is over.
func (p *process) signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // "already finished"; or Windows, which can kill and nothing else
}

// kill ends the process at once, stopped or not, and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// terminate asks the process to end and kills it if it has not after grace.
func (p *process) terminate(grace time.Duration) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil { // over, or on Windows, which knows no such signal
		p.kill()
		return
	}
	p.resume()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}
