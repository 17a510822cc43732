// Package lockstate decides what goes on with one name: who waits for it, what is asked for, what is held, what a
// change of that means. Its machines are pure. They have no mutex, no clock, no timer and send nothing: events come in,
// with their times where those matter, and what is to be done comes out as a step, a waiter or an instant. Package
// engine guards them by its mutexes, does what they say, and tells them what came of it.
//
//	Queue          who waits, the one acquire on its way, and what those wait for who are not asked for
//	Waiter, Op     one who waits, and whose wish that is
//	Terms, Traits  what is wanted, and of what family it is
//	Asking         an acquire before its grant
//	Grant          what is known of a field in Redis under which a lock is held
//	Changes        changes of a grant's count: re-entry
//	Indeterminate  what is not known: copies of commands that were sent and never answered
//
// Waiting is apart from what a grant is. A Queue serves a lock, whose grant is held under a lease and keeps others out;
// permits, of which one answer may serve several; a latch, that serves everybody and leaves nothing.
//
// Nothing here may be used by two goroutines at once, but what says so.
package lockstate
