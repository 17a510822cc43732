// Package renew is the watchdog: it knows which wire holds are held, when to renew each, in which
// batch, and what deadline an answer earns.
//
//	Watch ──► cohort (node, ~50 ms bucket) ──due──► batch of <= 128 keys an EVALSHA
//	            ▲                                     │ renewal connection; without an answer over a second one, too
//	            │ renewed: deadline = sent + lease − margin, next in lease/3 minus jitter
//	            └─────────────────────────────────────┤
//	                failed: again in lease/12 ────────┤
//	                not ours, or deadline near ───────┴──► Lost (final)
//
// The contract:
//
//   - No goroutine and no timer belongs to one hold. A cohort's firing walks a list.
//   - The trust deadline counts from the moment the answered attempt was sent, never from the
//     reply, and only moves forward, but for Lower: before a command is sent that lowers the key's expiry.
//   - While a round trip takes less than a third of the lease, and less than two seconds, no hold that is to
//     be renewed is lost, also if one of the two connections hangs.
//   - The loss of a hold is told before its deadline: by the smaller of 75 ms and a quarter of the
//     lease, and at once when the server says the lock is not ours. It is final; the hold is never
//     renewed again.
//   - One key's trouble is its own: a poison key, a refused name or another node delays nobody.
//
// Renew knows nothing of waiters. Only package engine is a stable API.
package renew
