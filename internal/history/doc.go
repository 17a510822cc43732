// Package history records what holders of locks believed, and checks afterwards that they could.
//
//	h := history.New(history.Name{Text: "hot", Lease: time.Second})
//	log := h.Log()                  // one a goroutine: adding takes no lock
//	log.Add(history.Grant{...})     // when the grant is over
//	h.Delete(history.Deletion{...}) // whoever takes a lock away says so
//	report, err := h.Check()
//
// All instants are read from one clock, the engine's. Belief is recorded so that it cannot be
// overstated: it begins when the grant was seen, and ends at the last reading of the clock after which
// the holder was still told that it holds. The signal of a loss is final, so the holder believed all the
// time in between.
//
// # The bound
//
// Two holders of one name never believe at once, except after a deletion of the lock by somebody else:
// ForceRelease by another client, DEL, FLUSHALL, or a failover to a replica that did not have it. The
// holder that the deletion hit then believes until its next answered renewal, at the latest until its
// trust deadline: the sending of the last attempt that the server answered with "yours", plus the lease,
// minus the larger of 1 % of the lease and 10 ms. That attempt was sent before the deletion was
// answered, so, exactly and without slack,
//
//	end of belief < trust deadline ≤ deletion answered + lease − max(lease/100, 10 ms)
//
// and a hold passed on inside an engine inherits its deadline, so that this binds each of its leases.
//
// # The checks
//
// [History.Overlaps] looks at every grant, in O(n log n):
//
//   - nobody believes at or past its trust deadline;
//   - no lease of a hold that a deletion surely hit has a deadline later than the bound allows: that
//     would be a renewal of what is not there, overlap or not;
//   - two leases of one hold, passed from one to the other, never overlap;
//   - two holds of one name overlap only if the deletion that explains it began before the second was
//     granted and the first ends within the bound.
//
// [History.Linearizable] asks porcupine whether the same grants, in slices of some hundred, can be put in
// an order that a lock allows, each operation between its call and its answer. It knows nothing of
// overlaps, and so doubts the first check. A release of unknown outcome is open: it may take effect
// whenever it likes. An acquire that brought no lease is left out: if the server granted it, nobody
// believed that, and what a lock refuses while a ghost has it breaks no promise. Nor did anybody believe a
// grant that was lost when its holder first saw it: it can have ended at any time since it was taken.
package history
