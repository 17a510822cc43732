// Package twin is a Redis server in Go, as far as the scripts of package resp and those of Redisson need one:
// for a simulation that runs millions of commands a minute, always the same way.
//
//	s := twin.New()
//	s.Micros = func() int64 { return now }
//	s.Do([]string{"SCRIPT", "LOAD", text})
//	reply := s.Do([]string{"EVALSHA", sha, "1", "key", "30000", ...})
//
// [Server.Do] takes the argument lists that a lane sends and answers what the server would answer. No Lua runs: each
// script of resp/scripts has a Go file of the same name here, with the same steps in the same order and the same local
// names, so that a reader can compare the two line by line. What a script calls goes through [Server.pcall], as
// redis.pcall does, to one Go function a command.
//
// The differential test holds the twin to the scripts: random sequences of calls run on the twin and on a real
// server, reply by reply and key by key. Whoever changes a script changes its twin and runs
//
//	go test ./internal/twin
//
// A Server has no goroutine, no clock and no random number of its own, and is not safe for concurrent use. Nothing it
// answers depends on the order of a Go map.
package twin
