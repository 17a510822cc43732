// Mutants proves that the tests catch what they are there for: it breaks the code on purpose, one
// promise at a time, and expects the tests that carry the promise to fail.
//
//	go run ./internal/mutants            # all of them: make mutants
//	go run ./internal/mutants -run ttl   # those whose id matches
//	go run ./internal/mutants -sample 20 # some, others each day
//	go run ./internal/mutants -list
//	go run ./internal/mutants -sim       # the simulation has to find them, each within a minute
//	go run ./internal/mutants -generate renew -n 200   # mutants that nobody chose: make mutate
//
// It works on a copy of the tree, never on the tree itself. The run fails if a mutant survives its
// tests, does not compile, or no longer applies because the text it changes is not there exactly
// once; and the named tests must pass where nothing is changed.
//
// A package is compiled once with all its mutants, of which an environment variable chooses one (package schema); what
// cannot be chosen so, and what survives, is built alone.
//
// What a mutant breaks is killed by a named test that fails, or by a mutant that hangs it or makes it
// panic; a failure of another test would be no proof, and no other test runs.
//
// With -sim no named test runs, but the simulation (engine/sim_run_test.go), from seed 1 on. No Lua runs there: a
// mutant of a script changes the script's twin instead (sim_table.go), which also says of some why the simulation
// cannot find them. A seed that fails in the tree as it is proves nothing, and a rule that is broken there has to be
// broken much more often. docs/SIMULATION.md has the table:
//
//	go run ./internal/mutants -sim -table -run 'ghost|fair'
package main
