// Package chaos disturbs a run: loadgen's own servers, one thing at a time, or a second loadgen process that is killed
// while it holds locks.
package chaos
