//go:build !linux

package redisproc

import "syscall"

// childAttr leaves the child in the parent's process group, so that at least a
// Ctrl-C ends both: there is no parent-death signal here.
func childAttr() *syscall.SysProcAttr { return nil }

// stopped cannot tell here; the signal is taken to act at once.
func stopped(int) bool { return true }
