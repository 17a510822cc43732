// Package election chooses one leader among processes, on top of a fenced lock.
//
//	el := election.New(eng, "scheduler")
//	err := el.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		return schedule(ctx, term.Token()) // ctx ends with the term, and when Run is to end
//	})
//
// Run campaigns again after each term, until its ctx ends or its function says election.Stop. Campaign, Leader and
// Observe are the parts, for programs that need another loop.
//
// A term is a lease: it is renewed by the watchdog while the process lives, and ends early when that
// cannot be done. Two processes never both see their term as running, under the assumptions of package
// engine; what a leader writes after its term has ended without its noticing is kept out by its fencing
// token, see package fence.
package election
