// Package hot lets many callers contend for one lock, each implementation in the same way:
// Holdfast, the rivals redislock and rueidislock, and a sync.Mutex as the limit. A caller
// takes the lock, keeps it, frees it and begins again; what it waited is its wait.
//
// Every implementation has one client in each process, set up as its documentation advises
// for one server; see [Impls].
package hot
