package main

import (
	"fmt"
	"strings"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
)

const overview = `loadgen drives Holdfast locks on a Redis server and reports what it saw.

  loadgen run [flags]     run a load; loadgen help run lists the flags
  loadgen scripts         the engine's Lua scripts as commands: loadgen scripts | redis-cli --pipe
  loadgen completion      completion for bash, zsh, fish or PowerShell: loadgen help completion
  loadgen help [command]  this text, or that of a command
  loadgen version         the version of this binary

Start with "loadgen run": it brings a server of its own and takes about ten seconds.
`

const runHead = `Usage: loadgen run [flags]

Runs one scenario against a server, then prints a table. Without --addr the server is
a private redis-server or valkey-server if one is on PATH, otherwise an in-process
imitation that is good for a look and too slow for figures; standard error says which.
With --cluster it is a private cluster of real ones, with --sentinel a master with a replica
under three sentinels. All of them end with the run.
`

const runTail = `
Examples:
  loadgen run
  loadgen run --addr localhost:6379 --inflight 4096 --duration 5s --json -
  loadgen run --addr rediss://redis.example:6379 --user app --password-file /run/secrets/redis --tls-ca /etc/ssl/redis-ca.pem
  loadgen run --addr sentinel.example:26379 --master-name mymaster
  loadgen run --inflight 4096 --yardstick                how far from the raw limit
  loadgen run --kind fair --yardstick                    the locks of another kind
  loadgen run --api sync --clients 512                   blocking callers
  loadgen run --rate 20000 --duration 30s                latency at a load you choose
  loadgen run --locks 100000                             with others held meanwhile
  loadgen run --scenario hold --locks 100000 --lease 6s --duration 30s
  loadgen run --scenario contend --mutex --hold 1ms      one lock that 64 callers want
  loadgen run --scenario contend --addr localhost:6379 --witness /tmp/w --witness-procs 4
                                                         with three more of the same
  loadgen run --scenario fenced --engines 4 --keys 2     tokens rise across engines
  loadgen run --scenario fair --engines 4                who asks first is served first
  loadgen run --scenario rw --read-share 0.9 --hold 1ms
                                                         readers share, writers do not
  loadgen run --scenario semaphore --permits 8 --take 3
                                                         64 callers that want permits of one semaphore
  loadgen run --scenario permits --lease 3s --chaos client
                                                         the same under leases: what a dead client had comes back
  loadgen run --scenario latch --keys 4 --count 8        who waits for a latch goes on when it is counted down
  loadgen run --scenario multi --keys 20 --multi-names 4
                                                         several locks at once, in any order
  loadgen run --cluster 3 --inflight 4096                a private cluster of three masters
  loadgen run --cluster 3 --inflight 4096 --yardstick    beside one pipeline for each master
  loadgen run --cluster 3 --replicas 1 --scenario hold --locks 100000 --lease 6s
  loadgen run --cluster 3 --chaos slots,kill-conn        while slots move and connections break
  loadgen run --cluster 3 --replicas 1 --scenario hold --locks 100000 --lease 15s --duration 20s --chaos kill
  loadgen run --scenario fair --lease 6s --duration 20s --chaos client
                                                         a second client is killed in the middle
  loadgen run --sentinel --chaos failover --duration 30s
  loadgen run --pprof :6060 --cpuprofile cpu.out

Exclusion is checked in every run. With --check-server the server's own counters must
agree: one acquiring command (HSET, COPY or RESTORE), one HDEL and at most one PUBLISH for each pair
that was not handed from holder to holder inside the engine; of read-write locks exactly one.
That is done whenever no other client is connected; not for rw, where readers share, nor for multi, semaphore,
permits and latch. The collector
runs at GOGC=200, the yardstick's too, unless the environment names another. Beside servers of its own, with
--api async and --inflight 64 or more, loadgen leaves each of them a processor if there are more, and uses the rest: a
load that ran on all would take the servers' now and then. GOMAXPROCS in the environment names another number.
The report says how many were used.

fenced compares each token with the last one of its name in this process: it must be greater.
rw catches a writer beside a reader or another writer.
fair compares the order of grants with that of asking in two ways, for the callers of this process.
The server's queues are looked at fifty times a second, in turn: of two callers seen in one queue the
one in front must be served first, and nobody may lose its place. And nobody may be served after
somebody who asked for the same name more than a second later, by our clock. Where servers are
disturbed only the queue counts, since a request whose answer was lost is sent again; with failover
and kill neither does, since a replica may not know the whole queue. The report says what counted.

semaphore has each caller take one to --take of --permits permits, and give them back. Loadgen counts those that
are held, in this process and in all that share a --witness file: never more than there are. At the end the
server is asked past the engine: all must be free. Fifty times a second it is asked how many are free: there may
not be --take of them for two seconds while a caller waits. What a killed client had nobody gives back; the
report says how many those were, and they alone may be missing. It stops the client to be killed at a moment at which
that number is known exactly: that client has one caller, which keeps its permits for 50ms at least.

permits is semaphore with leases of --lease, which the watchdog renews: none may be over while its holder has the
permits. At the end all permits must be free, those that a killed client had, too, once its leases have run out; what
it had counts as held no longer from its death on.

latch has the callers of each of --keys latches wait for it, round after round: one gives it --count, all wait, and
all count it down in turn. The last count is held back until the others were answered, and for --hold: whoever is let
in before it was begun is early. Two seconds after it was opened nobody may still wait. A release in the table is a
count. With --chaos client the other client waits for these latches, and counts down one of its own, for which callers
here wait. It is killed in the middle: nobody may be let in by that, and each of its counts must have counted once. In
the end this process counts down what is left, and then everybody must be in.

With --chaos the load runs once undisturbed and then while loadgen's own servers are disturbed, one
thing at a time. Of slots, script-flush, kill-conn and pause no caller may see anything but latency.
Redis replicates asynchronously: a failover can lose a lock that was granted just before, and kill
will, so there a lost lease or two holders of one lock are what Redis is, not what the engine did.

With --chaos client the servers are left alone, so it works with --addr, too. A second loadgen
process runs the same scenario on the same names, and is killed while it holds some of them. The
report shows the longest time that a name (rw: its readers, or its writers; lock: a caller) was
without a grant to this process. That may be one lease and two seconds; for fair locks at least seven
seconds, since a waiter that died keeps its place for five; for a semaphore two seconds; for a latch, which is to
be opened again by then, --hold and two seconds. contend, fenced, fair,
semaphore and permits check exclusion between both processes as well.

Redis replicates asynchronously: leases lost with a master that was killed, or replaced by sentinels, are reported as such and
fail nothing but the scenario hold, which knows which master each lock was on. What was left on the server ends with its
lease, for which operations in flight wait; the notes of semaphores and latches after an hour. The counters of fenced
locks stay, as they must: each run leaves one for each of its keys, "redisson_lock_token:{lg-...}", for you to delete.

With --rate more than 1 % of the starts that were due and not made is a failure: the rate was not reached, and the latency is
that of another load. That is not judged with --chaos.

--tls, or a rediss:// URL, speaks TLS with the servers and their sentinels; certificates are checked against --tls-ca. A
server of --addr that is a replica, is full, or is no Redis, is refused within a second. The table is as wide as the
terminal, or as COLUMNS says; in a pipe nothing is wrapped. --pprof and --cpuprofile label goroutines by what they work at:
"go tool pprof -tags"; see docs/PROFILING.md.

Exit status: 0 ok; 1 something failed; 2 bad usage; 3 no connection; 4 two holders of one lock at
once, or a token that did not rise; 130 interrupted before a pair was completed, or twice. One interrupt ends the run early,
with a report.
`

// runUsage is the text of `loadgen help run`.
func runUsage() string {
	var b strings.Builder
	b.WriteString(runHead)
	for _, g := range newFlags(new(config.Config)) {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.set.FlagUsagesWrapped(100))
	}
	b.WriteString(runTail)
	return b.String()
}
