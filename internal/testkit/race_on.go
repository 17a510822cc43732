//go:build race

package testkit

// Race reports whether the race detector runs: the big tests are scaled down under it.
const Race = true
