// Package slot knows where names live: the Redis Cluster slot of a key, every
// key and channel name that a lock object derives from its own name, and which
// names may be used at all.
//
// The package is pure: no I/O, no clock, no goroutine, no state. The derived
// names are the ones Redisson uses, byte for byte, so that Go and Java programs
// meet on the same keys (see the table in catalogue.go).
//
// A Redis Cluster runs a script only if all its keys share one slot. Redisson's
// derived names keep that promise for ordinary names, and break it for some
// names with braces (`a{b`, `x{}y`, a count-down latch called `a{tag}`): those
// fail late, often in the release, when the lock is already held. [Check]
// refuses them before anything is sent.
//
// Only the engine package is a stable API; this one may change with it.
package slot
