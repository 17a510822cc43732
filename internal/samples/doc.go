// Package samples compiles the Go code that the documents show, and runs the program of the README: what a reader
// copies works.
package samples
