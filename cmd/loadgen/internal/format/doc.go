// Package format puts numbers in words: for the table, the progress line and what is told of servers.
package format
