// Package redisproc starts real Redis or Valkey servers: single servers, clusters
// and sentinel groups, each a private child process on a free port of 127.0.0.1
// with a data directory of its own and nothing persisted.
//
// It knows nothing of package testing: the load generator's own servers are these, on
// every system that Go builds for. Tests use them by package redistest, which stops them at the
// end of a test.
//
// What the package promises:
//
//   - The server that answers is the one that was started: `INFO server` must show
//     the child's process id. A port that somebody else took is given up.
//   - No orphans. On Linux the kernel kills the child when this process dies, however
//     it dies; everywhere [Server.Stop] ends the child, waits for it and removes its
//     directory.
//   - Commands of the helpers travel over a connection of their own, with a small
//     RESP reader of this package: nothing of the product is needed to judge it.
//   - Where a system cannot stop a process for a while ([CanPause] is false, on Windows),
//     [Server.Pause] does nothing.
//
// Each server costs one goroutine, locked to its thread, for as long as the child
// lives: Linux sends the parent-death signal when that *thread* ends.
package redisproc
