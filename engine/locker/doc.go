// Package locker makes a distributed lock a [sync.Locker], for code that expects one: sync.Cond, a
// library, a struct with an embedded mutex.
//
// A sync.Locker has neither errors nor contexts, and a lock on Redis can be lost. Where the code is
// yours, Acquire and Do of package engine say more. Here,
//
//   - Lock does not return without the lock. It tries again, with pauses that grow to a second, after
//     every error that [engine.SafeToRetry] calls safe, and panics on the others: a bad name, a closed
//     engine, a refusal that needs somebody's help. A lease that its own owner has lost is waited for until it was
//     unlocked. LockContext returns errors instead.
//   - Unlock panics if the Locker is not locked, like sync.Mutex, but can be recovered from. It does
//     not complain about a lease that was lost: ask Lost before, or watch Context.
//   - The goroutines that share one Locker exclude each other by a token of their own as well: they do
//     so even while the lease is lost, until Unlock. Other processes are kept out by the lease alone.
//
// Like sync.Mutex a Locker is not reentrant, and any goroutine may unlock it.
package locker
