package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Bounds of the flags. They keep a slip of the finger from becoming a machine without
// memory; nothing else hangs on them.
const (
	maxInflight = 1 << 20
	maxClients  = 1 << 16
	maxEngines  = 256
	maxKeys     = 1 << 26
	maxLocks    = 1 << 24
	maxRate     = 10_000_000
	maxRounds   = 101
	maxListen   = 100_000
	maxPrefix   = 64
	maxHold     = 10 * time.Second
	maxPermits  = 1 << 20
	maxWait     = time.Hour

	keysPerSlot  = 16 // distinct keys for each operation in flight
	syncCallers  = 512
	hotCallers   = 64 // contend
	asyncClients = 2
	defaultHeld  = 10_000

	defaultReadShare  = 0.9
	defaultMultiNames = 4
	maxMultiNames     = 100_000
)

// flagGroup is one heading of the usage text and its flags.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

// newFlags declares every flag of `loadgen run`, writing into c.
func newFlags(c *config.Config) []flagGroup {
	group := func(title string) flagGroup {
		set := pflag.NewFlagSet(title, pflag.ContinueOnError)
		set.SortFlags = false
		return flagGroup{title, set}
	}
	server, load, hot := group("Server"), group("Load"), group("Contention (--scenario contend, fenced, fair, rw, multi, semaphore, permits, latch)")
	havoc, life, out := group("Disturbances"), group("Time and names"), group("Output and profiling")
	addChaosFlags(havoc.set, c)

	addServerFlags(server.set, c)
	s := server.set
	s.IntVar(&c.Cluster, "cluster", 0, "start a private cluster of so many masters")
	s.BoolVar(&c.Sentinel, "sentinel", false, "start a private master with a replica and three sentinels")
	s.IntVar(&c.Replicas, "replicas", 0, "with --cluster or --sentinel: replicas of each master (sentinel: default 1)")
	s.StringVar(&c.CheckServer, "check-server", "auto",
		"compare the server's command counters with what was granted:\nauto (when no other client is connected), on, off")

	l := load.set
	l.StringVarP(&c.Scenario, "scenario", "s", "lock",
		"`name`: lock (uncontended pairs), hold (take --locks, keep, verify),\n"+
			"contend (--clients callers on --keys locks);\nthe same callers, looked at more closely:\n"+
			"fenced (do tokens rise?), fair (is the order kept?),\nrw (do readers and writers keep apart?), multi (are several locks taken together?),\nsemaphore (permits: never too many held, none lost?),\npermits (the same, under leases),\nlatch (nobody let in early, nobody left waiting?)")
	l.StringVarP(&c.Kind, "kind", "k", config.KindLock,
		"lock and contend: `kind` of the locks: lock, spin, fenced, fair, read (not contend) or write")
	l.StringVar(&c.API, "api", "async", "async (futures) or sync (blocking callers; default where callers contend)")
	l.IntVarP(&c.Inflight, "inflight", "w", 1024, "operations in flight, over all clients")
	l.IntVarP(&c.Clients, "clients", "c", 0,
		"goroutines that drive (default 2, with --cluster one for each master; with --api sync the blocking callers, 512);\nwhere they contend: callers (default 64)")
	l.IntVar(&c.Engines, "engines", 1, "engines, each with connections of its own")
	l.Float64VarP(&c.Rate, "rate", "r", 0,
		"pairs a second, open loop: latency counts from the intended start\n(0: closed loop, as fast as answers come)")
	l.IntVar(&c.Keys, "keys", 0, "distinct locks (default 16 for each in flight; where callers contend: 1; multi: 4 for each that a turn takes)")
	l.IntVar(&c.Locks, "locks", 0,
		"locks held meanwhile under the watchdog (hold: locks to take, default 10000)")
	l.IntVar(&c.Listen, "listen", 0,
		"subscribe to the channels of so many other locks meanwhile, as their waiters would (not in a cluster)")
	l.BoolVar(&c.Yardstick, "yardstick", false,
		"run the raw pipeline (one for each master) and the scenario in turn,\nand show medians and ratio")
	l.IntVar(&c.Rounds, "rounds", 5, "with --yardstick or --mutex: turns of each, --duration long")

	h := hot.set
	h.DurationVar(&c.Hold, "hold", 0,
		"how long each holder keeps its lock; from 50µs it sleeps, below it spins")
	h.Float64Var(&c.ReadShare, "read-share", defaultReadShare, "rw: how many of the turns read, from 0 to 1")
	addCountedFlags(h, c)
	h.IntVar(&c.MultiNames, "multi-names", defaultMultiNames, "multi: how many of the keys each turn takes")
	h.BoolVar(&c.Mutex, "mutex", false,
		"run the same callers on a sync.Mutex and the scenario in turn, and show the ratio")
	h.BoolVar(&c.NoHandOff, "no-handoff", false, "make every release a release in Redis")
	h.StringVar(&c.Witness, "witness", "",
		"share `file` with other loadgen processes of this machine (made if absent):\nexclusion is checked, and fairness measured, across all of them")
	h.IntVar(&c.WitnessProcs, "witness-procs", 1, "begin when so many processes have opened the file, and stay in step")
	h.DurationVar(&c.WitnessWait, "witness-wait", 30*time.Second, "how long to wait for them")

	addLifeFlags(life.set, c)

	o := out.set
	o.StringVar(&c.JSON, "json", "", "write the report as JSON to `file`; - is standard output, and then\nnothing else goes there")
	o.BoolVar(&c.NoProgress, "no-progress", false, "no progress line, even on a terminal")
	o.BoolVar(&c.Victim, "victim", false, "")
	_ = o.MarkHidden("victim") // it is there
	o.StringVar(&c.CPUProfile, "cpuprofile", "", "write a CPU profile of the measured time to `file`")
	o.StringVar(&c.Pprof, "pprof", "", "serve net/http/pprof on `addr`; without a host, on loopback")
	o.BoolVar(&c.PprofPublic, "pprof-public", false, "let --pprof listen on every interface")
	return []flagGroup{server, load, hot, havoc, life, out}
}

func addLifeFlags(t *pflag.FlagSet, c *config.Config) {
	t.DurationVarP(&c.Duration, "duration", "d", 10*time.Second, "measured time")
	t.DurationVar(&c.Warmup, "warmup", time.Second, "time before it that is not measured")
	t.DurationVar(&c.Lease, "lease", 30*time.Second, "lease the watchdog renews, at least 1s")
	t.DurationVar(&c.Linger, "linger", 0,
		"lock, contend: a released lock stays with its engine for so long, at most 100ms,\nand the next caller has it without a command (0: it is released at once)")
	t.StringVar(&c.Prefix, "prefix", "", "put before every name (default one of this run's own)")
	t.Uint64Var(&c.Seed, "seed", 1, "seed of whatever is random")
}

// flags is a config on its way: read, and not checked yet.
type flags struct{ config.Config }

// check refuses what cannot be run, in words that name the flag, and fills in what hangs on other flags. changed reports
// whether a flag was given.
func (c *flags) check(changed func(string) bool) error {
	if err := errors.Join(c.checkNumbers(), c.checkKind(), c.checkTopology(changed), c.checkChaos(changed)); err != nil {
		return err
	}
	if err := c.settle(changed); err != nil {
		return err
	}
	if err := errors.Join(c.checkAddrs(), c.checkPprof(), c.checkLogin(), c.checkTLS(changed)); err != nil {
		return err
	}
	return errors.Join(c.readPasswords(os.Getenv), c.readTLS())
}

// checkNumbers refuses what no scenario could use.
func (c *flags) checkNumbers() error {
	between := func(flag string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("--%s must be between %d and %d, not %d", flag, low, high, v)
		}
		return nil
	}
	oneOf := func(flag, v string) error {
		if of := enumerations()[flag]; !slices.Contains(of, v) {
			return fmt.Errorf("--%s must be one of %s, not %q", flag, strings.Join(of, ", "), v)
		}
		return nil
	}
	errs := []error{
		oneOf("scenario", c.Scenario),
		oneOf("api", c.API),
		oneOf("check-server", c.CheckServer),
		between("inflight", c.Inflight, 1, maxInflight),
		between("clients", c.Clients, 0, maxClients),
		between("engines", c.Engines, 1, maxEngines),
		between("keys", c.Keys, 0, maxKeys),
		between("locks", c.Locks, 0, maxLocks),
		between("rounds", c.Rounds, 1, maxRounds),
		between("listen", c.Listen, 0, maxListen),
		between("permits", c.Permits, 1, maxPermits),
		between("take", c.Take, 0, c.Permits),
		between("count", c.Count, 1, maxPermits),
		between("witness-procs", c.WitnessProcs, 1, witness.MaxProcesses),
		between("multi-names", c.MultiNames, 1, maxMultiNames),
	}
	if c.Duration <= 0 {
		errs = append(errs, fmt.Errorf("--duration must be more than 0, not %v", c.Duration))
	}
	if c.Warmup < 0 {
		errs = append(errs, fmt.Errorf("--warmup must not be negative, not %v", c.Warmup))
	}
	if c.Hold < 0 || c.Hold > maxHold {
		errs = append(errs, fmt.Errorf("--hold must be between 0 and %v, not %v", maxHold, c.Hold))
	}
	if math.IsNaN(c.ReadShare) || c.ReadShare < 0 || c.ReadShare > 1 {
		errs = append(errs, fmt.Errorf("--read-share must be between 0 and 1, not %v", c.ReadShare))
	}
	if c.WitnessWait <= 0 || c.WitnessWait > maxWait {
		errs = append(errs, fmt.Errorf("--witness-wait must be more than 0 and at most %v, not %v", maxWait, c.WitnessWait))
	}
	if c.Lease < engine.MinWatchdogLease || c.Lease > engine.MaxLease || c.Lease%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("--lease must be whole milliseconds, between %v and %v, not %v",
			engine.MinWatchdogLease, engine.MaxLease, c.Lease))
	}
	if c.Linger < 0 || c.Linger > engine.MaxLinger || c.Linger%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("--linger must be whole milliseconds, between 0 and %v, not %v", engine.MaxLinger, c.Linger))
	}
	if math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > maxRate {
		errs = append(errs, fmt.Errorf("--rate must be between 0 and %d, not %v", maxRate, c.Rate))
	}
	if len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{} \t\r\n\x00") {
		errs = append(errs, fmt.Errorf("--prefix must be at most %d bytes without braces or blanks, not %q", maxPrefix, c.Prefix))
	}
	return errors.Join(errs...)
}

// settle fills in the defaults that hang on other flags, and refuses combinations that
// mean nothing. changed reports whether a flag was given.
func (c *flags) settle(changed func(string) bool) error {
	if err := c.settleScenario(changed); err != nil {
		return err
	}
	if changed("clients") && c.Clients == 0 {
		return errors.New("--clients must be at least 1")
	}
	if changed("keys") && c.Keys == 0 {
		return errors.New("--keys must be at least 1")
	}
	if c.PrefixGiven = c.Prefix != ""; !c.PrefixGiven {
		c.Prefix = "lg-" + config.RandomID()
	}
	if c.Contends() {
		return c.settleContend()
	}
	switch {
	case c.API == "async" && c.Clients == 0:
		c.Clients = min(max(asyncClients, c.Cluster), c.Inflight)
	case c.API == "async" && c.Clients > c.Inflight:
		return fmt.Errorf("--clients %d is more than --inflight %d: a client needs an operation to drive", c.Clients, c.Inflight)
	case c.API == "sync" && c.Clients == 0 && changed("inflight"):
		c.Clients = c.Inflight
	case c.API == "sync" && c.Clients == 0:
		c.Clients = syncCallers
	case c.API == "sync" && changed("inflight") && c.Inflight != c.Clients:
		return fmt.Errorf("--inflight %d and --clients %d: a blocking caller has one operation in flight, give one of them", c.Inflight, c.Clients)
	}
	if c.API == "sync" {
		c.Inflight = c.Clients
	}
	if c.Engines > c.Inflight {
		return fmt.Errorf("--engines %d is more than the %d operations in flight", c.Engines, c.Inflight)
	}
	if c.Keys == 0 {
		c.Keys = keysPerSlot * c.Inflight
	}
	if c.Keys < c.Inflight {
		return fmt.Errorf("--keys %d is less than the %d operations in flight: a key would meet itself", c.Keys, c.Inflight)
	}
	return nil
}

// settleContend has one operation in flight for each caller, whichever the API.
func (c *flags) settleContend() error {
	if c.Clients == 0 {
		c.Clients = hotCallers
	}
	several := c.Scenario == "multi"
	switch {
	case c.Keys == 0 && several:
		c.Keys = 4 * c.MultiNames
	case c.Keys == 0:
		c.Keys = 1
	}
	c.Inflight = c.Clients
	c.settleSemaphore()
	switch {
	case c.Scenario == config.KindSemaphore && c.KillsClient() && c.Permits < 2*c.Take:
		return fmt.Errorf("--chaos client: what the killed client had is missing from then on: --permits must be at least twice --take, %d, not %d", 2*c.Take, c.Permits)
	case several && c.MultiNames > c.Keys:
		return fmt.Errorf("--multi-names %d is more than --keys %d", c.MultiNames, c.Keys)
	case c.Keys > c.Clients && !several:
		return fmt.Errorf("--keys %d is more than --clients %d: each key needs a caller", c.Keys, c.Clients)
	case c.Engines > c.Clients:
		return fmt.Errorf("--engines %d is more than --clients %d", c.Engines, c.Clients)
	case c.Scenario == "rw" && c.Witness != "":
		return errors.New("--witness has no effect with --scenario rw: it knows one holder of a key, and readers share")
	case c.WitnessProcs > 1 && c.Witness == "":
		return errors.New("--witness-procs needs --witness")
	case c.WitnessProcs > 1 && (c.Cluster > 0 || c.Sentinel):
		return errors.New("--witness-procs: the processes are to share their servers, and those of --cluster and --sentinel are this one's own: start some and give --addr")
	case c.WitnessProcs > 1 && len(c.Addrs) == 0:
		return errors.New("--witness-procs needs --addr: the processes are to share one server")
	}
	return nil
}

func (c *flags) settleScenario(changed func(string) bool) error {
	if changed("rounds") && !c.Yardstick && !c.Mutex {
		return errors.New("--rounds needs --yardstick or --mutex")
	}
	if !c.Yardstick && !c.Mutex {
		c.Rounds = 1
	}
	if err := refuse(changed, c.Scenario); err != nil {
		return err
	}
	if kind := config.OwnKind(c.Scenario); kind != "" {
		c.Kind = kind
	}
	if c.Contends() && !changed("api") {
		c.API = "sync"
	}
	if c.Scenario != "hold" {
		return nil
	}
	if c.Locks == 0 {
		if changed("locks") {
			return errors.New("--locks must be at least 1 with --scenario hold")
		}
		c.Locks = defaultHeld
	}
	return nil
}

// refuse refuses the flags that mean nothing in a scenario.
func refuse(changed func(string) bool, scenario string) error {
	contention := []string{"hold", "mutex", "no-handoff", "witness", "witness-procs", "witness-wait"}
	alone := []string{"yardstick", "rate", "inflight", "locks"}
	if scenario != config.KindSemaphore && scenario != config.KindPermits {
		alone, contention = append(alone, "permits", "take"), append(contention, "permits", "take")
	}
	alone, contention = slices.Clip(alone), slices.Clip(contention) // no two of them share what is appended
	foreign := map[string][]string{
		"lock":    append(contention, "read-share"),
		"hold":    append(contention, "read-share", "yardstick", "rate", "keys", "kind"),
		"contend": append(alone, "read-share"),
		"fenced":  append(alone, "read-share", "kind"),
		"fair":    append(alone, "read-share", "kind"),
		"rw":      append(alone, "kind", "mutex", "witness-procs", "witness-wait"),

		config.KindSemaphore: append(alone, "read-share", "kind", "mutex", "keys", "lease"),
		config.KindLatch:     append(alone, "read-share", "kind", "lease", "mutex", "no-handoff", "witness", "witness-procs", "witness-wait"),
		config.KindPermits:   append(alone, "read-share", "kind", "mutex", "keys"),
		"multi":              append(alone, "read-share", "kind", "mutex"),
	}
	if scenario != config.KindLatch && changed("count") {
		return fmt.Errorf("--count has no effect with --scenario %s", scenario)
	}
	if scenario != "multi" && changed("multi-names") {
		return fmt.Errorf("--multi-names has no effect with --scenario %s", scenario)
	}
	for _, flag := range foreign[scenario] {
		// The file of a client that is to be killed is that of the one that started it.
		if changed(flag) && (flag != "witness" || !changed("victim")) {
			return fmt.Errorf("--%s has no effect with --scenario %s", flag, scenario)
		}
	}
	return nil
}

// checkPprof puts a missing host to loopback and refuses every interface at once, which
// has to be asked for.
func (c *flags) checkPprof() error {
	if c.Pprof == "" {
		if c.PprofPublic {
			return errors.New("--pprof-public needs --pprof")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.Pprof)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--pprof %q must be host:port or :port", c.Pprof)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" && c.PprofPublic:
	case host == "":
		c.Pprof = net.JoinHostPort("127.0.0.1", port)
	case ip != nil && ip.IsUnspecified() && !c.PprofPublic:
		return fmt.Errorf("--pprof %q would listen on every interface: add --pprof-public if that is meant", c.Pprof)
	}
	return nil
}
