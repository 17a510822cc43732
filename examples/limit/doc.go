// Limit calls a slow service, at most so many times at once over all processes.
package main
