//go:build !linux

package main

import "time"

// nap sleeps for d.
func nap(d time.Duration) { time.Sleep(d) }
