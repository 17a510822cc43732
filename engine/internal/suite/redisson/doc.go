// Package redisson has Redisson's own tests under their names, and what an engine writes on the wire.
//
// There are tests only.
package redisson
