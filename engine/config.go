package engine

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// Config says where Redis is and how the engine behaves. The zero value of every field but Addrs
// (or Client) is its default.
type Config struct {
	// Addrs is where Redis is: one "host:port" of a single server, one redis://, rediss:// or unix://
	// URL, or some nodes of a cluster, "host:port" each. Of a cluster one address that answers is enough:
	// the others are found, and followed. With MasterName: the sentinels.
	Addrs []string
	// MasterName makes the addresses those of sentinels: the master they know by this name is found, and
	// followed through failovers. One sentinel that answers is enough to find it; it is left for one that more
	// than half of the sentinels name, or that the only ones name which answer when it is silent itself. A URL
	// says it with ?master_set=.
	MasterName string
	// SentinelUsername, SentinelPassword and SentinelTLS are for the connections to the sentinels; Username,
	// Password and TLS are for those to the master. Default of SentinelTLS: TLS, or that of a rediss:// URL.
	SentinelUsername, SentinelPassword string
	SentinelTLS                        *tls.Config
	// NoSentinelTLS asks the sentinels in plain text although the master is spoken to over TLS: whoever
	// stands between can then name the master.
	NoSentinelTLS bool
	// Topology says what the addresses lead to. Default: the first that answers is asked.
	Topology Topology
	// PubSub is how releases are published in a cluster. Default: sharded from Redis 7 on, as Redisson
	// does; it must be the same for all clients of a lock.
	PubSub PubSub
	// Username and Password authenticate every connection.
	Username, Password string
	// ClientName is what CLIENT LIST shows. Default: "holdfast".
	ClientName string
	// DB is the database; Redisson's locks of another database are other locks. Channels have none.
	DB int
	// TLS switches TLS on.
	TLS *tls.Config
	// Prefix is put before every name, as Redisson's name mapper does.
	Prefix string
	// Client is used instead of connecting; it is never closed. It must have been made with
	// ClientOption, for correctness: see there.
	Client rueidis.Client
	// QueueMax is how many acquires may wait to be sent to one node; further ones are refused at once
	// with ErrOverloaded. Waiters for a held lock do not count, they are parked. Default 262,144. Larger
	// rides out longer stalls; smaller tells callers sooner.
	QueueMax int
	// Logger hears of background failures and panics in callbacks. Default: nobody does.
	Logger *slog.Logger
	// KeepOnClose lets held locks expire when the engine closes, instead of releasing them.
	KeepOnClose bool
	// NoHandOff makes every release a release in Redis, instead of passing a lock on to the next waiter
	// of this engine. Slower, and just as safe: for comparing, and for those who distrust it.
	NoHandOff bool
	// NoSubscribe makes waiters poll instead of subscribing to the release message, for servers where
	// SUBSCRIBE is refused. A waiter then learns of a release within about a second.
	NoSubscribe bool

	wheel wheel.Config // for tests
	guard *resp.Guard  // of the engine's connections
}

// A Topology says what kind of deployment an engine is connected to.
type Topology uint8

// The topologies.
const (
	TopologyAuto     Topology = iota // found out at Open
	TopologySingle                   // one server; Open refuses a node of a cluster
	TopologyCluster                  // Redis Cluster; Open refuses anything else
	TopologySentinel                 // a master that sentinels name; MasterName says which
)

// String returns the name of its constant.
func (t Topology) String() string {
	names := [...]string{"TopologyAuto", "TopologySingle", "TopologyCluster", "TopologySentinel"}
	if int(t) >= len(names) {
		return fmt.Sprintf("Topology(%d)", uint8(t))
	}
	return names[t]
}

// PubSub is how releases are published in a cluster.
type PubSub = resp.PubSub

// The ways. Clients that decide differently do not hear each other; they then wait for their polls.
const (
	PubSubAuto    = resp.PubSubAuto    // sharded from Redis 7 on
	PubSubSharded = resp.PubSubSharded // SPUBLISH, SSUBSCRIBE
	PubSubPlain   = resp.PubSubPlain   // PUBLISH, SUBSCRIBE
)

const connBuffer = 128 << 10

// ClientOption is what the client of an engine must be made with. A client of other options may
// lose answers that had arrived (without AlwaysPipelining), reorder a key's commands (with
// PipelineMultiplex), notice a dead connection too late (with a long ConnWriteTimeout), or be ended by what a server
// sends (with a DialCtxFn of its own: this one's refuses strings of more than 8 MiB and replies of more than 16 MiB or
// 262,144 elements).
//
// The password is not among the option's fields, so that one that is printed does not show it: a function gives it.
// With a MasterName it is, for rueidis would give the function's to the sentinels, too.
func ClientOption(cfg Config) rueidis.ClientOption {
	option := options(cfg)
	if option.Password == "" || option.Sentinel.MasterSet != "" {
		return option
	}
	credentials := rueidis.AuthCredentials{Username: option.Username, Password: option.Password}
	option.Username, option.Password = "", ""
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return credentials, nil
	}
	return option
}

// options is ClientOption with the passwords among its fields.
func options(cfg Config) rueidis.ClientOption {
	option := rueidis.ClientOption{}
	if len(cfg.Addrs) == 1 && strings.Contains(cfg.Addrs[0], "://") {
		if parsed, err := rueidis.ParseURL(cfg.Addrs[0]); err == nil {
			option = parsed
			if option.TLSConfig != nil {
				option.TLSConfig.ServerName = "" // the URL's host: each node is verified by its own address
			}
		}
	} else {
		option.InitAddress = cfg.Addrs
	}
	if cfg.Username != "" {
		option.Username = cfg.Username
	}
	if cfg.Password != "" {
		option.Password = cfg.Password
	}
	if cfg.DB != 0 {
		option.SelectDB = cfg.DB
	}
	if cfg.TLS != nil {
		option.TLSConfig = cfg.TLS
	}
	if cfg.MasterName != "" {
		option.Sentinel.MasterSet = cfg.MasterName
	}
	if cfg.SentinelUsername != "" {
		option.Sentinel.Username = cfg.SentinelUsername
	}
	if cfg.SentinelPassword != "" {
		option.Sentinel.Password = cfg.SentinelPassword
	}
	switch { // who names the master is to be trusted no less than the master
	case cfg.SentinelTLS != nil:
		option.Sentinel.TLSConfig = cfg.SentinelTLS
	case !cfg.NoSentinelTLS:
		option.Sentinel.TLSConfig = option.TLSConfig
	}
	option.ClientName = cfg.ClientName
	if option.ClientName == "" {
		option.ClientName = "holdfast"
	}
	option.Sentinel.ClientName = option.ClientName
	option.ForceSingleClient = len(cfg.Addrs) <= 1 && cfg.Topology != TopologyCluster && option.Sentinel.MasterSet == ""
	option.AlwaysPipelining = true
	option.PipelineMultiplex = -1
	option.DisableCache = true
	option.DisableRetry = true
	option.ConnWriteTimeout = 2 * time.Second
	option.Dialer.Timeout = 2 * time.Second
	option.Dialer.KeepAlive = time.Second
	option.Sentinel.Dialer = option.Dialer
	option.Sentinel.TopologyRefreshInterval = 5 * time.Second // a switch that was not heard of
	option.ReadBufferEachConn = connBuffer
	option.WriteBufferEachConn = connBuffer
	dial := resp.Dial
	if option.DialCtxFn != nil { // unix:// brings its own
		dial = option.DialCtxFn
	}
	option.DialCtxFn = cfg.guard.Dialer(dial)
	return option
}

// check refuses a configuration that cannot work, before anything is connected.
func (cfg *Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case cfg.Client != nil && len(cfg.Addrs) > 0:
		return bad("both Client and Addrs are given")
	case cfg.Client != nil && (cfg.Username != "" || cfg.Password != "" || cfg.DB != 0 || cfg.TLS != nil ||
		cfg.ClientName != "" || cfg.MasterName != ""):
		return bad("the connection of a given Client is already configured")
	case cfg.Client == nil && len(cfg.Addrs) == 0:
		return bad("no address")
	case cfg.MasterName != "" && (cfg.Topology == TopologySingle || cfg.Topology == TopologyCluster):
		return bad("MasterName %q needs TopologySentinel, not %v", cfg.MasterName, cfg.Topology)
	case cfg.Topology == TopologySentinel && cfg.Client == nil && cfg.masterName() == "":
		return bad("no MasterName")
	case strings.ContainsAny(cfg.MasterName, " \n\r"):
		return bad("the master name %q has spaces", cfg.MasterName)
	case cfg.masterName() == "" && (cfg.SentinelUsername != "" || cfg.SentinelPassword != "" ||
		cfg.SentinelTLS != nil || cfg.NoSentinelTLS):
		return bad("how to connect to sentinels is given, and no MasterName")
	case cfg.SentinelTLS != nil && cfg.NoSentinelTLS:
		return bad("both SentinelTLS and NoSentinelTLS are given")
	case cfg.SentinelUsername != "" && cfg.SentinelPassword == "":
		return bad("a SentinelUsername without a SentinelPassword")
	case len(cfg.Addrs) > 1 && cfg.Topology == TopologySingle:
		return bad("%d addresses of a single server", len(cfg.Addrs))
	case len(cfg.Addrs) > 1 && cfg.DB != 0 && cfg.MasterName == "":
		return bad("a cluster has no database %d", cfg.DB)
	case cfg.Topology > TopologySentinel:
		return bad("unknown topology %d", cfg.Topology)
	case cfg.PubSub > PubSubPlain:
		return bad("unknown kind of pub/sub %d", cfg.PubSub)
	case cfg.QueueMax < 0:
		return bad("negative QueueMax %d", cfg.QueueMax)
	case cfg.DB < 0:
		return bad("negative database %d", cfg.DB)
	case cfg.Username != "" && cfg.Password == "":
		return bad("a username without a password")
	case strings.ContainsAny(cfg.ClientName, " \n\r"):
		return bad("the client name %q has spaces", cfg.ClientName)
	}
	if cfg.Client != nil {
		return nil
	}
	for _, addr := range cfg.Addrs {
		if len(cfg.Addrs) > 1 && strings.Contains(addr, "://") {
			return bad("several addresses are given as host:port, and one is a URL")
		}
		if err := checkAddr(addr, bad); err != nil {
			return err
		}
	}
	return nil
}

// masterName is the master that sentinels are to name; "" if no sentinels are to be asked.
func (cfg *Config) masterName() string { return options(*cfg).Sentinel.MasterSet }

// checkAddr refuses an address that cannot be dialled. What it says of it shows no password.
func checkAddr(addr string, bad func(string, ...any) error) error {
	if strings.Contains(addr, "://") {
		parsed, err := rueidis.ParseURL(addr)
		switch {
		case err != nil: // its text may hold a password: it is not repeated
			return bad("the address is not a redis://, rediss:// or unix:// URL")
		case parsed.SelectDB < 0:
			return bad("negative database %d", parsed.SelectDB)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("address %q is not host:port", redactAddr(addr))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return bad("address %q has no port from 1 to 65535", redactAddr(addr))
	}
	if host == "" {
		return bad("address %q has no host", redactAddr(addr))
	}
	return nil
}

// hidden stands where a secret was.
const hidden = "***"

// plainConfig is a Config without its methods, so that it can be printed.
type plainConfig Config

// redacted returns a copy without secrets.
func (cfg Config) redacted() plainConfig {
	hide := func(secret *string) {
		if *secret != "" {
			*secret = hidden
		}
	}
	hide(&cfg.Password)
	hide(&cfg.SentinelPassword)
	addrs := make([]string, len(cfg.Addrs))
	for i, addr := range cfg.Addrs {
		addrs[i] = redactAddr(addr)
	}
	cfg.Addrs = addrs
	return plainConfig(cfg)
}

// redactAddr hides what an address says of users. Of one that cannot be read nothing is shown but a host and a port
// behind the last "@": what a password is in it, nobody knows.
func redactAddr(addr string) string {
	scheme, _, isURL := strings.Cut(addr, "://")
	if !isURL {
		at := strings.LastIndexByte(addr, '@')
		switch {
		case at < 0:
			return redactPort(addr)
		case strings.Contains(addr, "?") || !hostAndPort(addr[at+1:]):
			return hidden
		}
		return hidden + addr[at+1:]
	}
	u, err := url.Parse(addr)
	if err != nil || strings.Contains(u.Host+u.Path, "@") {
		return scheme + "://" + hidden
	}
	if u.User != nil {
		u.User = url.User("hidden")
	}
	if u.Fragment = ""; u.RawQuery != "" {
		u.RawQuery = hidden
	}
	return strings.Replace(u.String(), "//hidden@", "//"+hidden+"@", 1)
}

// redactPort hides what stands where a port should be: who forgets the host has written "user:password" there.
func redactPort(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	host, rest, colon := strings.Cut(addr, ":")
	if rest == "" || !colon || err == nil && strings.Trim(port, "0123456789") == "" {
		return addr
	}
	return host + ":" + hidden
}

// hostAndPort reports whether a text is what it looks like.
func hostAndPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	_, number := strconv.ParseUint(port, 10, 16)
	return err == nil && number == nil && host != ""
}

// hider takes the passwords of a configuration out of a text.
func (cfg Config) hider() func(text string) string {
	option := options(cfg)
	return resp.Hide(option.Password, option.Sentinel.Password)
}

// String describes the configuration without its secrets. So do GoString, LogValue and MarshalJSON:
// whoever prints or logs a Config shows no password.
func (cfg Config) String() string { return fmt.Sprintf("%+v", cfg.redacted()) }

// Format is String for every verb: also for those that would show the fields one by one.
func (cfg Config) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), cfg.String())
}

// GoString is String.
func (cfg Config) GoString() string { return cfg.String() }

// LogValue is String, for log/slog.
func (cfg Config) LogValue() slog.Value { return slog.StringValue(cfg.String()) }

// MarshalJSON is String as a JSON string.
func (cfg Config) MarshalJSON() ([]byte, error) { return json.Marshal(cfg.String()) }

// connect finds the servers of a configuration.
func connect(cfg Config, o resp.Options) (*resp.Nodes, error) {
	o.Crowd = new(atomic.Int32)
	var nodes *resp.Nodes
	var err error
	switch {
	case cfg.Client != nil:
		nodes, err = borrow(cfg.Client, o)
	case cfg.masterName() != "":
		nodes, err = resp.Follow(resp.Sentinels{
			Master: cfg.masterName(), Addrs: options(cfg).InitAddress, Ask: asker(cfg), Dial: dialer(cfg, o.Crowd),
		}, o)
	default:
		nodes, err = resp.Open(options(cfg).InitAddress, dialer(cfg, o.Crowd), false, o)
	}
	switch {
	case cfg.Topology == TopologySentinel && cfg.Client != nil && cfg.Client.Mode() != rueidis.ClientModeSentinel:
		if err == nil {
			nodes.Close()
		}
		return nil, fmt.Errorf("%w: the given Client was not made for sentinels", ErrConfig)
	case errors.Is(err, resp.ErrIsSentinel):
		return nil, fmt.Errorf("%w: no MasterName, and %w", ErrConfig, err)
	case errors.Is(err, resp.ErrNoSuchMaster), errors.Is(err, resp.ErrNotSentinel):
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case err != nil:
		return nil, err
	}
	if want := cfg.Topology; want == TopologySingle && nodes.Cluster() || want == TopologyCluster && !nodes.Cluster() {
		nodes.Close()
		is := map[bool]string{true: "a node of a cluster", false: "not a cluster"}[nodes.Cluster()]
		return nil, fmt.Errorf("%w: the server says it is %s", ErrConfig, is)
	}
	return nodes, nil
}

// The client's ring of a connection has 1,024 places, which take 400 KB, and a small one costs a busy connection a
// tenth of its throughput. Where there are many nodes each has little to say, and whoever names them may have made them
// up.
const (
	crowdOf     = 64
	crowdRing   = 5
	crowdBuffer = 16 << 10
)

// dialer makes the client of one node.
func dialer(cfg Config, crowd *atomic.Int32) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) { return rueidis.NewClient(nodeOption(cfg, crowd, addr)) }
}

// nodeOption is what the client of one node is made with: the same for all, but for the address.
func nodeOption(cfg Config, crowd *atomic.Int32, addr string) rueidis.ClientOption {
	option := options(cfg)
	if crowd.Load() > crowdOf {
		option.RingScaleEachConn = crowdRing
		option.ReadBufferEachConn, option.WriteBufferEachConn = crowdBuffer, crowdBuffer
	}
	option.InitAddress = []string{addr}
	option.ForceSingleClient = true
	option.Sentinel = rueidis.SentinelOption{}
	return option
}

// asker makes the client of one sentinel.
func asker(cfg Config) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) { return rueidis.NewClient(sentinelOption(cfg, addr)) }
}

// sentinelOption is what the client of one sentinel is made with.
func sentinelOption(cfg Config, addr string) rueidis.ClientOption {
	option := options(cfg)
	option.RingScaleEachConn = crowdRing
	option.ReadBufferEachConn, option.WriteBufferEachConn = crowdBuffer, crowdBuffer
	option.DialCtxFn = cfg.guard.Sentinels(option.DialCtxFn)
	of := option.Sentinel
	option.InitAddress, option.SelectDB = []string{addr}, 0
	option.Username, option.Password, option.TLSConfig = of.Username, of.Password, of.TLSConfig
	option.ForceSingleClient = true
	option.Sentinel = rueidis.SentinelOption{}
	return option
}

// borrow uses the connections of a client that somebody else has made.
func borrow(client rueidis.Client, o resp.Options) (*resp.Nodes, error) {
	find := func(addr string) (rueidis.Client, error) {
		if n := client.Nodes()[addr]; n != nil {
			return n, nil
		}
		return nil, fmt.Errorf("the given client knows no node %s", addr)
	}
	if client.Mode() != rueidis.ClientModeCluster {
		find = func(string) (rueidis.Client, error) { return client, nil }
	}
	var addrs []string
	for addr := range client.Nodes() {
		addrs = append(addrs, addr)
	}
	if client.Mode() == rueidis.ClientModeSentinel { // it follows the master by itself
		addrs, o.Follows = addrs[:1], true
	}
	return resp.Open(addrs, find, true, o)
}

// place is what the configuration says of which locks are meant: the addresses and the database, however they are
// written, and without who connects to them; "" where a client was given, which is asked nothing of that.
func (cfg *Config) place() string {
	if cfg.Client != nil {
		return ""
	}
	option := options(*cfg)
	addrs := strings.Join(slices.Sorted(slices.Values(option.InitAddress)), " ")
	return fmt.Sprintf("%s %s %d", option.Sentinel.MasterSet, addrs, option.SelectDB)
}
