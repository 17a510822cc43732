// Callers compares implementations where most programs are: a few blocking callers, each of which takes and gives
// back locks that nobody else wants.
//
//	go run ./cmd/callers                                  1, 8 and 64 callers, 5 rounds of 2 s each
//	go run ./cmd/callers -callers 1 -impls holdfast,bare
//	go run ./cmd/callers -svg callers.svg -json callers.json
//
// A round is a turn of each implementation with each number of callers, on one server, so that what changes on the
// machine meanwhile meets all of them. bare is rueidis' Do of Redisson's two scripts, with nothing around it: a limit,
// not a lock, since it neither waits nor renews.
package main
