// Package wait has those who wait for a lock: how long, in which order, and what wakes them.
//
// There are tests only.
package wait
