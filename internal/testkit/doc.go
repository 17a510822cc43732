// Package testkit has what tests of the engine share: engines and leases that fail their test, what a server shows,
// clients that are not ours, logs to read, and ways to wait.
//
// Tests import it, and nothing else does. Tests inside package engine cannot: it imports the engine.
package testkit
