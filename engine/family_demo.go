//go:build holdfast_family_demo

package engine

import (
	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// DemoLock returns a handle on a lock of a family that a test adds. Errors: as Lock.
func (e *Engine) DemoLock(name string, opts ...Option) *Lock {
	l := e.handle(name, resp.FamilyDemo, opts)
	return &l
}

// Its row would stand in family.go, were it not for a test only.
func init() {
	families[resp.FamilyDemo] = family{
		kind: slot.KindLock, channel: slot.LockChannel,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyDemo), HandsOff: true},
	}
}
