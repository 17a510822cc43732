// Package scenario has the ways of using locks that --scenario names. Each is a file of its own and an entry in All.
//
//	lock                    uncontended pairs
//	hold                    many locks under the watchdog, compared with what the server says
//	contend                 callers that want the same few locks
//	fenced, fair, rw        the same callers, looked at more closely
//	semaphore               callers that want permits of one semaphore
package scenario
