// Package samples compiles and runs the Go code that the documents and the package pages show, on servers of its own: what a
// reader copies works.
package samples
