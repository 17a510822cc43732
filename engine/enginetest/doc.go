// Package enginetest is a double of Redis for the unit tests of programs that use locks. The engine
// is the real one, all of it; the server is miniredis, inside the test's process, and does as the
// test says:
//
//	func TestReportStopsWhenItsLockIsLost(t *testing.T) {
//		srv := enginetest.Start(t)
//		done := make(chan error, 1)
//		go func() { done <- report.Run(ctx, srv.Engine()) }()
//		srv.AwaitHeld("nightly-report")
//		srv.Lose("nightly-report")
//		require.ErrorIs(t, <-done, engine.ErrLost)
//	}
//
// A server with its engine costs about ten milliseconds; the cleanup of the test closes both. Each
// test has its own; nothing is shared.
//
// # Troubles
//
//	Lose         the lock is deleted behind its holder's back; returns when the holder's lease is lost
//	Steal        somebody else holds the lock now, as a Java client would
//	LosePermits  the same of all permits of a PermitSemaphore
//	Free         that other owner releases it
//	Advance      time passes for everybody but the engines of this server: other owners' leases end
//	Refuse       commands are answered with an error, OOM or READONLY or another, until Accept
//	Down         connections are cut and refused until Up
//
// [Server.NewEngine] opens a further engine: another process that contends. One that is closed with
// KeepOnClose leaves its locks behind like a process that crashed.
//
// A latch is lost by its Delete, a barrier broken by its Reset, or by a party with a short MaxWait: any engine may do so.
// A plain Semaphore is drained by DrainPermits.
//
// AwaitHeld and AwaitWaiters are for tests that start their subject in the background: they take the
// place of a sleep. Held and Owner tell what the server has.
//
// # Names
//
// The server knows keys. A name given to a method of [Server] includes the Prefix of the engine that
// uses it, if it has one, and means database 0.
//
// # What differs from a real Redis
//
//   - Timing. Scripts are interpreted some hundred times slower than by Redis, one at a time: nothing
//     measured here says anything about speed. Messages are never lost or late.
//
//   - Time is real. An engine's leases run on the machine's clock, which Advance does not move:
//     a FixedLease of 100 ms lasts 100 ms. Package testing/synctest cannot be used, since sockets and
//     that clock are outside its bubble. A key expires when somebody looks, to about 2 ms.
//
//   - There is no ACL, no memory limit, no replica, no failover, no cluster and no persistence. What
//     they would answer can be said with Refuse; a refused command has done nothing, never a part.
//
//   - The server does not tell its version, so the engine uses no command that is newer than Redis 5.
//
//   - Closing waits for what the engine waits for: after Down in the middle of an acquire, the cleanup
//     may take two or three seconds.
//
// What is promised of locks on Redis is to be tested on Redis; this package is for what a program
// does with the answers.
//
// # Leak detectors
//
// After the cleanup no goroutine is left but the two that package ants starts when it is imported:
// goleak needs goleak.IgnoreCurrent() in TestMain.
package enginetest
