//go:build !unix

package chaos

import (
	"errors"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// stop cannot be done here. The flags refuse what would need it.
func (v *victim) stop() error { return errors.ErrUnsupported }

func (v *victim) resume() error { return errors.ErrUnsupported }
