// Package pace says when load begins and ends: a phase, and the intended starts of an open loop. What is late is
// measured from when it should have begun.
package pace
