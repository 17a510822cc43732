// Package main runs the tests again and again beside a busy loop on every core, and prints which of them failed
// how often: make flaky. A test that fails there holds the machine's speed for a promise. With -stall no core is busy, but
// all that the tests have started stands still now and then, as on a machine that somebody else is given.
package main
