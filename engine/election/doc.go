// Package election chooses one leader among processes, on top of a fenced lock.
//
//	el := election.New(eng, "scheduler")
//	for ctx.Err() == nil {
//		term, err := el.Campaign(ctx) // blocks until elected
//		if err != nil {
//			return err
//		}
//		err = lead(term.Context(), term.Token()) // ends when the term does
//		err = errors.Join(err, term.Resign(ctx))
//	}
//
// A term is a lease: it is renewed by the watchdog while the process lives, and ends early when that
// cannot be done. Two processes never both see their term as running, under the assumptions of package
// engine; what a leader writes after its term has ended without its noticing is kept out by its fencing
// token, see package fence.
package election
