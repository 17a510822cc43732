// Package load drives locks that nobody else wants: pairs by futures or by blocking callers, at a rate or as fast as
// answers come, and locks that are taken once and held meanwhile.
package load
