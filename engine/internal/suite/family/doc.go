// Package family has what each kind of lock promises: fair, fenced, read and write, spin, with owners and without.
//
// There are tests only.
package family
