//go:build !race

package engine_test

// apiRace says whether the race detector runs: the big tests are scaled down under it.
const apiRace = false
