// Package interop holds no code, only tests: Redisson and the engine contend for the same locks on
// the same servers, and what Redisson says on the wire is written down.
//
// The Java side is a driver around the newest Redisson (java/), built with Maven into bin/interop
// and fed with commands over its standard input: see java/src/main/java/holdfast/interop/Driver.java
// for the protocol and driver_test.go for this end of it.
//
// The tests are skipped unless HOLDFAST_INTEROP is set, because they need Java, Maven and, the first
// time, the network: "auto" skips them where Java or Maven is missing, "required" fails then.
// "make interop" installs both and runs the tests.
//
// testdata/wire-*.txt is what Redisson alone does to a server, step by step: its commands, the
// messages it publishes, the keys it leaves. TestWire compares; "go test ./interop -run TestWire
// -update" writes them anew.
package interop
