//go:build unix

package redisproc

import "syscall"

// CanPause reports whether this system lets one process stop another: [Server.Pause] needs that.
const CanPause = true

// pause makes the process stand still.
func (p *process) pause() { p.signal(syscall.SIGSTOP) }

// resume lets it go on.
func (p *process) resume() { p.signal(syscall.SIGCONT) }
