package config

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"
)

// How long the others may be without a grant after a client was killed: until its locks have expired, and
// then until the next of their polls has found out, since nobody tells them. Who waited first for a fair lock
// and is dead keeps its place for five seconds.
const (
	deadPlace = 5 * time.Second
	gapSlack  = 2 * time.Second
)

// IdleMost is how long enough permits may be free while somebody waits for them.
const IdleMost = 2 * time.Second

// OpenMost is how long after a latch was opened somebody may still wait for it.
const OpenMost = 2 * time.Second

// GapBound is how long a name may go without a grant when a client is killed.
func (c *Config) GapBound() time.Duration {
	switch c.Kind { // which have no lease
	case KindSemaphore:
		return gapSlack
	case KindLatch: // a round lasts as long as its holder keeps it shut
		return c.Hold + gapSlack
	}
	if c.Kind == KindFair {
		return max(c.Lease, deadPlace) + gapSlack
	}
	return c.Lease + gapSlack
}

// KillsClient reports whether another client of the same locks is to die.
func (c *Config) KillsClient() bool { return slices.Contains(c.Chaos, ChaosClient) }

// OnlyKillsClient reports whether the servers are left alone.
func (c *Config) OnlyKillsClient() bool { return slices.Equal(c.Chaos, []string{ChaosClient}) }

// TLS is how the servers of --addr are spoken to.
type TLS struct {
	On             bool
	CA, Cert, Key  string // files
	ServerName     string
	Insecure       bool
	PlainSentinels bool
	Config         *tls.Config // made of all that; nil: plain text
}

// Config is what the flags said, after checking: nothing in it can be wrong any more,
// except that a server may not answer.
type Config struct {
	Addrs      []string
	User       string
	Password   string // of the file or the environment; never of an argument
	SecretFile string
	MasterName string // Addrs are sentinels, which watch it
	TLS        TLS

	SentinelUser       string
	SentinelPassword   string // as Password
	SentinelSecretFile string

	CheckServer string // auto, on, off
	Cluster     int    // masters of a private cluster; 0: none
	Sentinel    bool   // a private master with replicas, watched by sentinels
	Replicas    int    // of each of its masters

	Scenario string
	Kind     string // of the locks
	API      string // async, sync
	Inflight int    // operations in flight, over all clients
	Clients  int    // goroutines that drive
	Engines  int
	Rate     float64 // pairs a second, open loop; 0: closed loop
	Keys     int
	Locks    int // held beside the load, or by the scenario hold
	Listen   int // channels of other locks that somebody listens to meanwhile
	Lease    time.Duration
	Linger   time.Duration // for so long a released lock stays with its engine; 0: it does not
	Duration time.Duration
	Warmup   time.Duration
	Prefix   string

	PrefixGiven bool
	Seed        uint64

	ReadShare    float64       // rw: of the turns
	Permits      int           // semaphore, permits
	Take         int           // semaphore, permits: the most of them in one turn
	Count        int           // latch: how often it is counted down
	MultiNames   int           // multi: keys that a turn takes
	Hold         time.Duration // contend: how long a holder keeps its lock
	NoHandOff    bool
	Witness      string        // file, or empty
	WitnessProcs int           // processes that run at the same time over it
	WitnessWait  time.Duration // for them to come

	Chaos      []string // kinds of disturbances; none: no chaos
	ChaosEvery time.Duration
	ChaosSeed  uint64

	Yardstick bool
	Mutex     bool
	Rounds    int

	JSON        string // file, "-", or empty
	NoProgress  bool
	Victim      bool // somebody else's --chaos client: it is to be killed
	CPUProfile  string
	Pprof       string // host:port, or empty
	PprofPublic bool
}

// Contends reports whether the scenario has callers that want the same locks.
func (c *Config) Contends() bool { return c.Scenario == "contend" || OwnKind(c.Scenario) != "" }

// CountsPermits reports whether callers hold permits of a semaphore, leased or not.
func (c *Config) CountsPermits() bool {
	return c.Scenario == KindSemaphore || c.Scenario == KindPermits
}

// NotesWhatItHas reports whether a client that is to be killed says in the witness file what it has: of permits, or of
// the counts of a latch, the server does not know whose they are.
func (c *Config) NotesWhatItHas() bool { return c.CountsPermits() || c.Scenario == KindLatch }

// HasLease reports whether what a caller takes has a lease.
func (c *Config) HasLease() bool { return c.Scenario != KindSemaphore && c.Scenario != KindLatch }

// LockName is the name of the i-th lock of a kind: 24 bytes, unless the prefix is long.
func (c *Config) LockName(kind byte, i int) string {
	const length, least = 24, 8
	return fmt.Sprintf("%s:%c:%0*d", c.Prefix, kind, max(length-len(c.Prefix)-3, least), i)
}
