// Package yardstick is the raw limit that Holdfast is measured against: Redisson's own
// way of taking and freeing a lock, as two plain scripts, sent as fast as rueidis can
// send them and with nothing in between.
//
//	acquire   exists / hexists, hincrby, pexpire     nil: granted; else the rest of the lease
//	release   hexists, hincrby, del, publish         1: freed
//
// One key an EVALSHA, as Redisson sends it; the unlock latch, which Redisson writes
// beside every release, is left out, and so are futures, queues, renewal and waiting.
// Whoever wants to know what those cost divides by this.
//
// [Pipeline] is the yardstick: some goroutines, each sending a window of acquires in one
// DoMulti, then the window of releases. [Single] is the yardstick for one operation in
// flight: bare Do calls, one after the other. Both take other scripts through [Scripts],
// so that the scripts alone can be told from the code around them. Both take the nodes to
// send to: [One], or the [Masters] of a cluster.
//
// Every reply is looked at: an acquire that found the lock held, or a release that found
// it gone, ends the run with an error. No key is left behind.
package yardstick
