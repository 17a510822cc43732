// Package pace says when load begins and ends: a phase, and the intended starts of an open loop. What is late is
// measured from when it should have begun.
//
// It is no rate limiter (golang.org/x/time/rate): that one says when the next start may be, counted from the last, and
// forgets what was missed but for a burst. Here the n-th start is due at a time that is fixed before the phase begins, and
// a start that nobody made is counted.
package pace
