// Package schema puts many mutants of a tree of Go files into one build, of which the environment chooses one.
//
// A mutant that changes the bodies of functions becomes a second version of each of them; the first line of the
// function asks which mutant is on and goes there instead. A mutant of a text that is embedded becomes a second text.
// So a package is compiled once for all its mutants, and not once for each: the compiler takes longer than most tests.
//
// What changes more than bodies (a constant, a type, a signature), and functions that recover or are called by their
// names only (main, init), cannot be chosen so. They are answered as to be built alone.
package schema

// Env names the environment variable that says which mutant is on: its number.
const Env = "HOLDFAST_MUTANT"
