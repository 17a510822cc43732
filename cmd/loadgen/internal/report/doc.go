// Package report is what a run showed: the JSON document, the table, and the exit status. Whoever measured fills in its
// part; here it is judged against the servers' counters and put in words.
package report
