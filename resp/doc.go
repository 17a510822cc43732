// Package resp is everything that crosses the wire: it carries keys, owner ids and leases to Redis
// and returns what each key answered. It knows nothing of owners, queues or what a lock means.
//
//	engine ──op──► lane (one of a few per node, by the hash of the key)
//	                │ takes everything queued: group commit, no delay timer
//	                ▼
//	              batch: releases first, then single re-sends, then acquires; at most 256 keys
//	                │     an EVALSHA, one pipeline write
//	                ▼
//	              link: a connection of the lane's own, with the estimate of that server's clock
//	                │
//	              Redis ──► one small reply per EVALSHA, naming only the keys that differ
//
// Three things a reader should know before changing anything here:
//
//   - An answer is definite or it is not. [Result.Definite] says which; an op whose answer is not
//     definite may have run, or may still run until its not-after has passed.
//   - Scripts are constant texts. A new connection loads those of the plain lock and those its node has
//     used; each other one is loaded in the write of the first command that needs it. NOSCRIPT is
//     repaired once for all ops that meet it.
//   - A connection with an unanswered command is given up as a whole; what was in flight on it is
//     answered "not definite", never sent again from here.
//
// Only package engine is a stable API; this package may change at any time.
package resp
