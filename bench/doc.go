// Package bench measures Holdfast and what it is made of, side by side with the raw
// limit ([github.com/seed-786ebc8c/holdfast/internal/yardstick]). It holds benchmarks
// only, a file per subject, and is a module of its own so that what it compares with
// never becomes a dependency of the engine.
//
// Benchmarks are named in key=value parts (BenchmarkPair/impl=yardstick/inflight=1024),
// so that benchstat can pivot on any of them; rivals go under the same name with another
// impl. Those that need a server start one of their own. README.md says how to compare.
package bench
