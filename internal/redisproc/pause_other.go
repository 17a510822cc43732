//go:build !unix

package redisproc

// CanPause reports whether this system lets one process stop another: [Server.Pause] needs that.
const CanPause = false

func (p *process) pause() {}

func (p *process) resume() {}
