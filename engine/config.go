package engine

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
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
// PipelineMultiplex), notice a dead connection too late (with a long ConnWriteTimeout), or be ended by what a server sends
// (with a DialCtxFn of its own: this one's refuses strings of more than 8 MiB and replies of more than 16 MiB or 262,144 elements).
//
// The password is not among the option's fields, so that one that is printed does not show it: a function gives it. With
// a MasterName it is, for rueidis would give the function's to the sentinels, too.
func ClientOption(cfg Config) rueidis.ClientOption {
	option := options(cfg)
	if option.Password == "" || option.Sentinel.MasterSet != "" {
		return option
	}
	credentials := rueidis.AuthCredentials{Username: option.Username, Password: option.Password}
	option.Username, option.Password = "", ""
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) { return credentials, nil }
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
	case cfg.Client != nil && (cfg.Username != "" || cfg.Password != "" || cfg.DB != 0 || cfg.TLS != nil || cfg.ClientName != "" || cfg.MasterName != ""):
		return bad("the connection of a given Client is already configured")
	case cfg.Client == nil && len(cfg.Addrs) == 0:
		return bad("no address")
	case cfg.MasterName != "" && (cfg.Topology == TopologySingle || cfg.Topology == TopologyCluster):
		return bad("the master %q is one that sentinels name, and Topology is another", cfg.MasterName)
	case cfg.Topology == TopologySentinel && cfg.Client == nil && cfg.masterName() == "":
		return bad("no MasterName")
	case strings.ContainsAny(cfg.MasterName, " \n\r"):
		return bad("the master name %q has spaces", cfg.MasterName)
	case cfg.masterName() == "" && (cfg.SentinelUsername != "" || cfg.SentinelPassword != "" || cfg.SentinelTLS != nil || cfg.NoSentinelTLS):
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
