// Package contest has many callers want few locks, of an engine or of this process: each takes, holds and frees in
// turn, blocking or by callbacks.
package contest
