// Package api has what callers see of an engine: arguments, results, contexts, callbacks, numbers.
//
// There are tests only.
package api
