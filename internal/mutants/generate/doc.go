// Package generate makes mutants of Go and Lua: small changes of a kind that people make by mistake. A boundary that is
// off by one, a condition the wrong way round, a call or a branch that is missing, two arguments in the wrong order, a
// number that is off by a factor.
//
// It knows no types: some of its mutants do not compile, and the compiler says which.
package generate
