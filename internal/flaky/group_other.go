//go:build !unix

package main

import "os/exec"

// endAsGroup does nothing: there are no process groups here, and cancelling cmd kills it alone.
func endAsGroup(*exec.Cmd) {}
