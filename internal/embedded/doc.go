// Package embedded brings a server for those who have none at hand: a private
// redis-server or valkey-server if one is on PATH, else miniredis, inside this process.
//
// Miniredis speaks the protocol and runs the scripts, some hundred times slower than a
// real server, so it shows that things work and never how fast. Its clock stands still
// unless somebody moves it; here a ticker does, every tenth of a second, so that leases
// run out as they should.
package embedded
