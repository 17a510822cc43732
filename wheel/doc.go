// Package wheel fires items when they come due, a cohort at a time: it is the one
// place where locks meet timers. Only package engine is a stable API; this one may change.
//
//	Item ─ Item ─ Item        a bucket: due within one width, fired together
//	   └── bucket ──┐
//	   └── bucket ──┤ Set     its own mutex, its own deliveries (one set a node, a few more)
//	                │
//	              Wheel ◄──── three sources say "look at the clock":
//	                            the timing wheel   at the end of the earliest bucket, on the wall clock
//	                            the ticker         every 50 ms, on the monotonic clock
//	                            the alarm          at the end of the earliest bucket, counts suspend
//
// # Contract
//
// An item scheduled for an instant is delivered once the bucket that holds it has
// ended: never before it is due by the wheel's [clock.Clock], and at most one width (a
// tenth of that if it is precise) plus one tick later while the process gets to run. No source is trusted. Each only
// makes a set read the clock, so a wall clock stepped forwards delivers nothing early,
// and one stepped back delays nothing beyond the ticker's period.
//
// Deliveries of one set never overlap; those of different sets share nothing, so a
// set whose function hangs delays no other. A set with something to deliver has one
// goroutine, a set with nothing has none, and an item never has a goroutine or a
// runtime timer of its own.
//
// # The race every owner must decide
//
// An item leaves its set before the function is called with it. In between, another
// goroutine may schedule it again: then it is in the delivered slice and scheduled.
// Likewise Cancel returns false for an item that is on its way to the function. So the
// function must take the owner's own lock and ask the owner's own state whether the
// delivery still means anything; the wheel cannot know.
//
// # Non-obvious
//
// The timing wheel may fire up to a tick early, and its timers run on the wall clock: a timer
// is aimed one tick late, so that a look is rarely in vain. Its pollers can leave while a
// cascade waits for them, which would block its Stop for ever: [Wheel.Stop] first takes the
// timer out, then waits for a last one to come through. It can also lock itself up for good
// (its issues 53 and 54), and then every call of it may block: one goroutine alone talks to
// it, which nobody waits for, not even Stop for longer than a second. A look that the timing
// wheel started just before Stop may still be returning when Stop does; it calls nothing.
package wheel
