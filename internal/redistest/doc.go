// Package redistest starts real Redis or Valkey servers: single servers, clusters
// and sentinel groups, each a private child process on a free port of 127.0.0.1
// with a data directory of its own and nothing persisted.
//
// It serves the tests and the load generator's embedded server, so the core
// ([Start], [StartCluster], [StartSentinel]) knows nothing of testing; [Run] and
// its kin are thin wrappers for tests.
//
//	s := redistest.Run(t, redistest.Options{})
//	client := dial(s.Addr())
//	s.Pause()                                   // SIGSTOP: the server hangs
//	s.Resume()
//	require.Equal(t, "1", s.Do(t, "EXISTS", "key"))
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
//
// Each server costs one goroutine, locked to its thread, for as long as the child
// lives: Linux sends the parent-death signal when that *thread* ends.
package redistest
