// Package main runs the tests again and again beside a busy loop on every core, and prints which of them failed
// how often: make flaky. A test that fails there holds the machine's speed for a promise.
package main
