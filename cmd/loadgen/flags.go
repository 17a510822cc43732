package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
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
	maxPrefix   = 64
	maxHold     = 10 * time.Second
	maxWait     = time.Hour

	keysPerSlot  = 16 // distinct keys for each operation in flight
	syncCallers  = 512
	hotCallers   = 64 // contend
	asyncClients = 2
	defaultHeld  = 10_000

	defaultReadShare = 0.9
)

// config is what the flags said, after checking: nothing in it can be wrong any more,
// except that a server may not answer.
type config struct {
	addrs       []string
	user        string
	password    string // of the file or the environment; never of an argument
	secretFile  string
	checkServer string // auto, on, off
	cluster     int    // masters of a private cluster; 0: none
	sentinel    bool   // a private master with replicas, watched by sentinels
	replicas    int    // of each of its masters

	scenario string
	kind     string // of the locks
	api      string // async, sync
	inflight int    // operations in flight, over all clients
	clients  int    // goroutines that drive
	engines  int
	rate     float64 // pairs a second, open loop; 0: closed loop
	keys     int
	locks    int // held beside the load, or by the scenario hold
	lease    time.Duration
	duration time.Duration
	warmup   time.Duration
	prefix   string

	prefixGiven bool
	seed        uint64

	readShare    float64       // rw: of the turns
	hold         time.Duration // contend: how long a holder keeps its lock
	noHandOff    bool
	witness      string        // file, or empty
	witnessProcs int           // processes that run at the same time over it
	witnessWait  time.Duration // for them to come

	chaos      []string // kinds of disturbances; none: no chaos
	chaosEvery time.Duration
	chaosSeed  uint64

	yardstick bool
	mutex     bool
	rounds    int

	json        string // file, "-", or empty
	noProgress  bool
	victim      bool // somebody else's --chaos client: it is to be killed
	cpuprofile  string
	pprof       string // host:port, or empty
	pprofPublic bool
}

// flagGroup is one heading of the usage text and its flags.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

// newFlags declares every flag of `loadgen run`, writing into c.
func newFlags(c *config) []flagGroup {
	group := func(title string) flagGroup {
		set := pflag.NewFlagSet(title, pflag.ContinueOnError)
		set.SortFlags = false
		return flagGroup{title, set}
	}
	server, load, hot := group("Server"), group("Load"), group("Contention (--scenario contend, fenced, fair, rw)")
	havoc, life, out := group("Disturbances"), group("Time and names"), group("Output and profiling")
	addChaosFlags(havoc.set, c)

	s := server.set
	s.StringArrayVarP(&c.addrs, "addr", "a", nil,
		"`host:port` of a server, repeatable, or one redis:// or rediss:// URL;\nwithout it loadgen starts a server of its own")
	s.StringVar(&c.user, "user", "", "`name` to authenticate with, on --addr; its password comes from --password-file,\nor from the environment as "+passwordVar)
	s.StringVar(&c.secretFile, "password-file", "", "`file` whose first line is the password")
	s.IntVar(&c.cluster, "cluster", 0, "start a private cluster of so many masters")
	s.BoolVar(&c.sentinel, "sentinel", false, "start a private master with a replica and three sentinels")
	s.IntVar(&c.replicas, "replicas", 0, "with --cluster or --sentinel: replicas of each master (sentinel: default 1)")
	s.StringVar(&c.checkServer, "check-server", "auto",
		"compare the server's command counters with what was granted:\nauto (when no other client is connected), on, off")

	l := load.set
	l.StringVarP(&c.scenario, "scenario", "s", "lock",
		"`name`: lock (uncontended pairs), hold (take --locks, keep, verify),\n"+
			"contend (--clients callers on --keys locks);\nthe same callers, looked at more closely:\n"+
			"fenced (do tokens rise?), fair (is the order kept?),\nrw (do readers and writers keep apart?)")
	l.StringVarP(&c.kind, "kind", "k", kindLock,
		"lock and contend: `kind` of the locks: lock, spin, fenced, fair, read (not contend) or write")
	l.StringVar(&c.api, "api", "async", "async (futures) or sync (blocking callers; default where callers contend)")
	l.IntVarP(&c.inflight, "inflight", "w", 1024, "operations in flight, over all clients")
	l.IntVarP(&c.clients, "clients", "c", 0,
		"goroutines that drive (default 2, with --cluster one for each master; with --api sync the blocking callers, 512);\nwhere they contend: callers (default 64)")
	l.IntVar(&c.engines, "engines", 1, "engines, each with connections of its own")
	l.Float64VarP(&c.rate, "rate", "r", 0,
		"pairs a second, open loop: latency counts from the intended start\n(0: closed loop, as fast as answers come)")
	l.IntVar(&c.keys, "keys", 0, "distinct locks (default 16 for each in flight; where callers contend: 1)")
	l.IntVar(&c.locks, "locks", 0,
		"locks held meanwhile under the watchdog (hold: locks to take, default 10000)")
	l.BoolVar(&c.yardstick, "yardstick", false,
		"run the raw pipeline (one for each master) and the scenario in turn,\nand show medians and ratio")
	l.IntVar(&c.rounds, "rounds", 5, "with --yardstick or --mutex: turns of each, --duration long")

	h := hot.set
	h.DurationVar(&c.hold, "hold", 0,
		"how long each holder keeps its lock; from 50µs it sleeps, below it spins")
	h.Float64Var(&c.readShare, "read-share", defaultReadShare, "rw: how many of the turns read, from 0 to 1")
	h.BoolVar(&c.mutex, "mutex", false,
		"run the same callers on a sync.Mutex and the scenario in turn, and show the ratio")
	h.BoolVar(&c.noHandOff, "no-handoff", false, "make every release a release in Redis")
	h.StringVar(&c.witness, "witness", "",
		"share `file` with other loadgen processes of this machine (made if absent):\nexclusion is checked, and fairness measured, across all of them")
	h.IntVar(&c.witnessProcs, "witness-procs", 1, "begin when so many processes have opened the file, and stay in step")
	h.DurationVar(&c.witnessWait, "witness-wait", 30*time.Second, "how long to wait for them")

	t := life.set
	t.DurationVarP(&c.duration, "duration", "d", 10*time.Second, "measured time")
	t.DurationVar(&c.warmup, "warmup", time.Second, "time before it that is not measured")
	t.DurationVar(&c.lease, "lease", 30*time.Second, "lease the watchdog renews, at least 1s")
	t.StringVar(&c.prefix, "prefix", "", "put before every name (default one of this run's own)")
	t.Uint64Var(&c.seed, "seed", 1, "seed of whatever is random")

	o := out.set
	o.StringVar(&c.json, "json", "", "write the report as JSON to `file`; - is standard output, and then\nnothing else goes there")
	o.BoolVar(&c.noProgress, "no-progress", false, "no progress line, even on a terminal")
	o.BoolVar(&c.victim, "victim", false, "")
	_ = o.MarkHidden("victim") // it is there
	o.StringVar(&c.cpuprofile, "cpuprofile", "", "write a CPU profile of the measured time to `file`")
	o.StringVar(&c.pprof, "pprof", "", "serve net/http/pprof on `addr`; without a host, on loopback")
	o.BoolVar(&c.pprofPublic, "pprof-public", false, "let --pprof listen on every interface")
	return []flagGroup{server, load, hot, havoc, life, out}
}

// parseFlags reads and checks the flags of `loadgen run`.
//
// Errors: [pflag.ErrHelp], or what is wrong, in words that name the flag.
func parseFlags(args []string) (config, error) {
	var c config
	all := pflag.NewFlagSet("run", pflag.ContinueOnError)
	all.SortFlags = false
	all.Usage = func() {}
	for _, g := range newFlags(&c) {
		all.AddFlagSet(g.set)
	}
	if err := all.Parse(args); err != nil {
		return config{}, err
	}
	if all.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", all.Arg(0))
	}
	if err := errors.Join(c.checkNumbers(), c.checkKind(), c.checkTopology(all.Changed), c.checkChaos(all.Changed)); err != nil {
		return config{}, err
	}
	if err := c.settle(all.Changed); err != nil {
		return config{}, err
	}
	if err := errors.Join(c.checkAddrs(), c.checkPprof()); err != nil {
		return config{}, err
	}
	return c, c.readPassword(os.Getenv)
}

// checkNumbers refuses what no scenario could use.
func (c *config) checkNumbers() error {
	between := func(flag string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("--%s must be between %d and %d, not %d", flag, low, high, v)
		}
		return nil
	}
	oneOf := func(flag, v string, of ...string) error {
		if !slices.Contains(of, v) {
			return fmt.Errorf("--%s must be one of %s, not %q", flag, strings.Join(of, ", "), v)
		}
		return nil
	}
	errs := []error{
		oneOf("scenario", c.scenario, scenarioNames()...),
		oneOf("api", c.api, "async", "sync"),
		oneOf("check-server", c.checkServer, "auto", "on", "off"),
		between("inflight", c.inflight, 1, maxInflight),
		between("clients", c.clients, 0, maxClients),
		between("engines", c.engines, 1, maxEngines),
		between("keys", c.keys, 0, maxKeys),
		between("locks", c.locks, 0, maxLocks),
		between("rounds", c.rounds, 1, maxRounds),
		between("witness-procs", c.witnessProcs, 1, witness.MaxProcesses),
	}
	if c.duration <= 0 {
		errs = append(errs, fmt.Errorf("--duration must be more than 0, not %v", c.duration))
	}
	if c.warmup < 0 {
		errs = append(errs, fmt.Errorf("--warmup must not be negative, not %v", c.warmup))
	}
	if c.hold < 0 || c.hold > maxHold {
		errs = append(errs, fmt.Errorf("--hold must be between 0 and %v, not %v", maxHold, c.hold))
	}
	if math.IsNaN(c.readShare) || c.readShare < 0 || c.readShare > 1 {
		errs = append(errs, fmt.Errorf("--read-share must be between 0 and 1, not %v", c.readShare))
	}
	if c.witnessWait <= 0 || c.witnessWait > maxWait {
		errs = append(errs, fmt.Errorf("--witness-wait must be more than 0 and at most %v, not %v", maxWait, c.witnessWait))
	}
	if c.lease < engine.MinWatchdogLease || c.lease > engine.MaxLease || c.lease%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("--lease must be whole milliseconds, between %v and %v, not %v",
			engine.MinWatchdogLease, engine.MaxLease, c.lease))
	}
	if math.IsNaN(c.rate) || c.rate < 0 || c.rate > maxRate {
		errs = append(errs, fmt.Errorf("--rate must be between 0 and %d, not %v", maxRate, c.rate))
	}
	if len(c.prefix) > maxPrefix || strings.ContainsAny(c.prefix, "{} \t\r\n\x00") {
		errs = append(errs, fmt.Errorf("--prefix must be at most %d bytes without braces or blanks, not %q", maxPrefix, c.prefix))
	}
	return errors.Join(errs...)
}

// settle fills in the defaults that hang on other flags, and refuses combinations that
// mean nothing. changed reports whether a flag was given.
func (c *config) settle(changed func(string) bool) error {
	if err := c.settleScenario(changed); err != nil {
		return err
	}
	if changed("clients") && c.clients == 0 {
		return errors.New("--clients must be at least 1")
	}
	if changed("keys") && c.keys == 0 {
		return errors.New("--keys must be at least 1")
	}
	if c.prefixGiven = c.prefix != ""; !c.prefixGiven {
		c.prefix = "lg-" + randomID()
	}
	if c.contends() {
		return c.settleContend()
	}
	switch {
	case c.api == "async" && c.clients == 0:
		c.clients = min(max(asyncClients, c.cluster), c.inflight)
	case c.api == "async" && c.clients > c.inflight:
		return fmt.Errorf("--clients %d is more than --inflight %d: a client needs an operation to drive", c.clients, c.inflight)
	case c.api == "sync" && c.clients == 0 && changed("inflight"):
		c.clients = c.inflight
	case c.api == "sync" && c.clients == 0:
		c.clients = syncCallers
	case c.api == "sync" && changed("inflight") && c.inflight != c.clients:
		return fmt.Errorf("--inflight %d and --clients %d: a blocking caller has one operation in flight, give one of them", c.inflight, c.clients)
	}
	if c.api == "sync" {
		c.inflight = c.clients
	}
	if c.engines > c.inflight {
		return fmt.Errorf("--engines %d is more than the %d operations in flight", c.engines, c.inflight)
	}
	if c.keys == 0 {
		c.keys = keysPerSlot * c.inflight
	}
	if c.keys < c.inflight {
		return fmt.Errorf("--keys %d is less than the %d operations in flight: a key would meet itself", c.keys, c.inflight)
	}
	return nil
}

// settleContend has one operation in flight for each caller, whichever the API.
func (c *config) settleContend() error {
	if c.clients == 0 {
		c.clients = hotCallers
	}
	if c.keys == 0 {
		c.keys = 1
	}
	c.inflight = c.clients
	switch {
	case c.keys > c.clients:
		return fmt.Errorf("--keys %d is more than --clients %d: each key needs a caller", c.keys, c.clients)
	case c.engines > c.clients:
		return fmt.Errorf("--engines %d is more than --clients %d", c.engines, c.clients)
	case c.scenario == "rw" && c.witness != "":
		return errors.New("--witness means nothing with --scenario rw: it knows one holder of a key, and readers share")
	case c.witnessProcs > 1 && c.witness == "":
		return errors.New("--witness-procs needs --witness")
	case c.witnessProcs > 1 && (c.cluster > 0 || c.sentinel):
		return errors.New("--witness-procs: the processes are to share their servers, and those of --cluster and --sentinel are this one's own: start some and give --addr")
	case c.witnessProcs > 1 && len(c.addrs) == 0:
		return errors.New("--witness-procs needs --addr: the processes are to share one server")
	}
	return nil
}

func (c *config) settleScenario(changed func(string) bool) error {
	if changed("rounds") && !c.yardstick && !c.mutex {
		return errors.New("--rounds needs --yardstick or --mutex")
	}
	if !c.yardstick && !c.mutex {
		c.rounds = 1
	}
	if err := refuse(changed, c.scenario); err != nil {
		return err
	}
	if kind := closerLook[c.scenario]; kind != "" {
		c.kind = kind
	}
	if c.contends() && !changed("api") {
		c.api = "sync"
	}
	if c.scenario != "hold" {
		return nil
	}
	if c.locks == 0 {
		if changed("locks") {
			return errors.New("--locks must be at least 1 with --scenario hold")
		}
		c.locks = defaultHeld
	}
	return nil
}

// refuse refuses the flags that mean nothing in a scenario.
func refuse(changed func(string) bool, scenario string) error {
	contention := []string{"hold", "mutex", "no-handoff", "witness", "witness-procs", "witness-wait"}
	alone := []string{"yardstick", "rate", "inflight", "locks"}
	foreign := map[string][]string{
		"lock":    append(contention, "read-share"),
		"hold":    append(contention, "read-share", "yardstick", "rate", "keys", "kind"),
		"contend": append(alone, "read-share"),
		"fenced":  append(alone, "read-share", "kind"),
		"fair":    append(alone, "read-share", "kind"),
		"rw":      append(alone, "kind", "mutex", "witness-procs", "witness-wait"),
	}
	for _, flag := range foreign[scenario] {
		if changed(flag) {
			return fmt.Errorf("--%s means nothing with --scenario %s", flag, scenario)
		}
	}
	return nil
}

// checkAddrs refuses addresses that cannot be dialled whatever the network does.
func (c *config) checkAddrs() error {
	for _, a := range c.addrs {
		if strings.Contains(a, "://") {
			if len(c.addrs) > 1 {
				return errors.New("--addr: give one URL, or several host:port")
			}
			option, err := rueidis.ParseURL(a)
			switch {
			case err != nil: // its text may hold a password
				return fmt.Errorf("--addr %q is not a redis://, rediss:// or unix:// URL", redactURL(a))
			case option.Password != "":
				return fmt.Errorf("--addr %q holds a password, which whoever lists this machine's processes can read: "+
					"give it by --password-file, or in the environment as %s", redactURL(a), passwordVar)
			}
			continue
		}
		if err := checkHostPort(a); err != nil {
			return fmt.Errorf("--addr %q: %w", redactURL(a), err)
		}
	}
	return nil
}

// checkPprof puts a missing host to loopback and refuses every interface at once, which
// has to be asked for.
func (c *config) checkPprof() error {
	if c.pprof == "" {
		if c.pprofPublic {
			return errors.New("--pprof-public needs --pprof")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.pprof)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--pprof %q must be host:port or :port", c.pprof)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" && c.pprofPublic:
	case host == "":
		c.pprof = net.JoinHostPort("127.0.0.1", port)
	case ip != nil && ip.IsUnspecified() && !c.pprofPublic:
		return fmt.Errorf("--pprof %q would listen on every interface: add --pprof-public if that is meant", c.pprof)
	}
	return nil
}

func checkHostPort(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return errors.New("must be host:port or a redis:// URL")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("bad port: not from 1 to 65535")
	}
	if host == "" {
		return errors.New("needs a host")
	}
	return nil
}

// passwordVar is the variable of the environment that holds the password: an argument is seen by whoever lists the
// processes of the machine.
const passwordVar = "LOADGEN_PASSWORD"

// readPassword finds the password for the servers of --addr; "" if there is none.
func (c *config) readPassword(getenv func(string) string) error {
	switch {
	case len(c.addrs) == 0 && (c.user != "" || c.secretFile != ""):
		return errors.New("--user and --password-file need --addr: loadgen's own servers have no users")
	case len(c.addrs) == 0:
		return nil
	case c.secretFile == "":
		c.password = getenv(passwordVar)
	default:
		text, err := os.ReadFile(c.secretFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if c.password = strings.TrimSuffix(line, "\r"); c.password == "" {
			return fmt.Errorf("--password-file %q: its first line is empty", c.secretFile)
		}
	}
	if c.user != "" && c.password == "" {
		return fmt.Errorf("--user %q needs a password: give it by --password-file, or in the environment as %s", c.user, passwordVar)
	}
	return nil
}

// redactURL hides what stands before the host, and the query: either may hold a password. Of what cannot be read it shows
// the scheme at most.
func redactURL(addr string) string {
	scheme, _, isURL := strings.Cut(addr, "://")
	switch u, err := url.Parse(addr); {
	case !isURL && !strings.Contains(addr, "@"):
		return addr
	case !isURL:
		return "…"
	case err != nil || strings.Contains(u.Host+u.Path, "@"):
		return scheme + "://…"
	case u.User != nil:
		return scheme + "://…@" + u.Host + u.Path
	default:
		return scheme + "://" + u.Host + u.Path
	}
}

func randomID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
