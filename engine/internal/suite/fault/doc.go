// Package fault has the faults of docs/FAULTS.md: what networks, servers, clocks and machines do to an engine.
//
// There are tests only.
package fault
