// Cron runs a job every so often in one of several processes: in the one that leads.
package main
