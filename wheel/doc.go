// Package wheel fires items when they come due, a cohort at a time: it is the one
// place where locks meet timers. Only package engine is a stable API; this one may change.
//
//	item, item, item          a bucket: due within one width, fired together
//	   └── bucket ──┐
//	   └── bucket ──┤ Set     its own mutex, its own deliveries (one set a node, a few more)
//	                │
//	              Wheel ◄──── the timing wheel   says "look at the clock" at the end of the earliest bucket
//	                     ◄──── the alarm         the same, exact, and in a machine that was suspended, too
//	                     ◄──── the ticker        every 50 ms, whatever became of the two others
//
// # One idea of time, and what corrects it
//
// An item waits in a bucket, and the earliest bucket waits on a hierarchical timing wheel
// (github.com/RussellLuo/timingwheel: slots of 5 ms, of 1.28 s, of 5.5 min). That wheel tells when
// to look, never what is due: a look reads the wheel's [clock.Clock], and what has ended by that
// clock is delivered. So a look may come early, late, twice or never, and two corrections see to it:
//
//   - The ticker looks every 50 ms of the monotonic clock. The timing wheel runs on the wall clock:
//     stepped back, it comes late by as much. It can also lock itself up for good (its issues 53
//     and 54). The ticker delivers without it, notices that it is stuck, and counts that.
//   - The alarm is set to the same instant on the boot clock. The timing wheel is good for 5 ms, and it
//     sleeps while the machine is suspended; leases do not. The alarm comes within some 0.1 ms, and right
//     after a suspend. It is the only source in a simulated world, whose time the timing wheel cannot know.
//
// # What is not left to the timing wheel
//
// The items, and the order of the buckets. A timer of its own for each item would cost (two cores,
// BenchmarkSchedule and BenchmarkTimingWheel):
//
//	                          a timer each              an item in a bucket
//	to move one               0.2 µs, 2 allocations     0.05 µs, none
//	to hold one               88 to 130 bytes           16 bytes in what it belongs to, 8 or 16 in the bucket
//	to fire one of 100,000    2.7 µs, a goroutine       0.02 µs
//
// And its order is of no use to the corrections: they must know what is earliest and what is
// overdue, also while it is stuck, and it cannot be asked. So a set keeps its buckets in
// a heap, and one timer, for the earliest of all, is all that the timing wheel is given.
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
// The timing wheel may fire up to a tick early: a timer is aimed one tick late, so that a look is
// rarely in vain. Its pollers can leave while a cascade waits for them, which would block its Stop
// for ever: [Wheel.Stop] first takes the timer out, then waits for a last one to come through. When it
// has locked itself up, every call of it may block: one goroutine alone talks to
// it, which nobody waits for, not even Stop for longer than a second. A look that the timing
// wheel started just before Stop may still be returning when Stop does; it calls nothing.
package wheel
