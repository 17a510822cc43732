// Hot compares implementations on one lock that everybody wants, in turns and on one server:
//
//	go run ./cmd/hot                            one process with 64 callers
//	go run ./cmd/hot -procs 4 -callers 16       four processes with 16 callers each
//	go run ./cmd/hot -hold 1ms -impls holdfast,mutex,redislock
//
// Each process is this program again, run by the first, which tells all of them at the same
// time whose turn it is. They open their clients once. Exclusion is checked in every turn, in
// and between processes (internal/witness). With several processes the mutex, which knows of
// one only, has the callers of all in the first.
package main
