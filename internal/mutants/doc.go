// Mutants proves that the tests catch what they are there for: it breaks the code on purpose, one
// promise at a time, and expects the tests that carry the promise to fail.
//
//	go run ./internal/mutants            # all of them: make mutants
//	go run ./internal/mutants -run ttl   # those whose id matches
//	go run ./internal/mutants -list
//
// It works on a copy of the tree, never on the tree itself. The run fails if a mutant survives its
// tests, does not compile, or no longer applies because the text it changes is not there exactly
// once; and before anything is changed the named tests must pass.
//
// What a mutant breaks is killed by a named test that fails, or by a mutant that hangs it or makes it
// panic; a failure of another test would be no proof, and no other test runs.
package main
