// Package house holds no code, only tests of how the repository is built: imports point
// down, every package has a doc.go, and what ARCHITECTURE.md names exists.
//
// The linter knows the import directions too; this package knows them for every
// platform and build tag, and says them in one table.
package house
