// Limit says how near each kind of lock comes to what the server can do.
//
//	go run ./cmd/limit                                    five kinds, 4,096 in flight, 5 rounds of 2 s each
//	go run ./cmd/limit -kinds fair,read -inflight 1024
//
// First it records, between an engine and a server, the very bytes of some hundred thousand pairs. A round then is a
// turn of the engine, and a turn of the bytes alone: they are written again and again, as fast as the server takes them,
// over as many connections, and of the answers nothing is read but that none is an error. So both sides have the same
// commands in the same batches, and the second has no client to speak of: its pairs/s are the limit.
package main
