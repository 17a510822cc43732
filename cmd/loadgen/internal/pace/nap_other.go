//go:build !linux

package pace

import "time"

// A napper sleeps.
type napper struct{}

func newNapper() *napper { return &napper{} }

// nap sleeps for d.
func (*napper) nap(d time.Duration) { time.Sleep(d) }

// close ends it.
func (*napper) close() {}
