// Package sqltest tests engine/fence on databases: SQLite always, PostgreSQL where it is installed
// (apt-get install postgresql). It is a module of its own, so that the engine needs neither.
package sqltest
