// Fenced changes rows of an SQL database under a lock, and the database refuses a writer that came too late.
package main
