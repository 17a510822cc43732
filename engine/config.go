package engine

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// This file is long because what it does with a Config stands beside it: it is checked, shown without its secrets and
// made into connections. In files of their own these three would each use names of the others.

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
	// Publish says which releases are published, where several locks are given back by one command. Default: those that
	// somebody listens to, on a server that is no cluster's and has no replicas; elsewhere all. It changes nothing that
	// anybody would hear: see PublishMasters for what must be true then.
	Publish Publish
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
	// ClientOption, for correctness: see there. Open refuses one that was made with other options, by the option's name;
	// in a wrapper around a client it does not see them.
	Client rueidis.Client
	// QueueMax is how many acquires may wait to be sent to one node; further ones are refused at once
	// with ErrOverloaded. Waiters for a held lock do not count, they are parked. Of many that come at once a
	// server gets no more than it can answer in time, and none while it cannot renew the locks that are held; the others
	// wait, and can be cancelled. Default 262,144. Larger rides out longer stalls; smaller tells callers sooner.
	QueueMax int
	// Logger hears of background failures and panics in callbacks. Default: what slog.Default is at that moment, from
	// slog.LevelWarn on. slog.New(slog.DiscardHandler) hears nothing.
	Logger *slog.Logger
	// CloseGrace is how long Close waits for its releases though its ctx has ended, from its call on. Default one
	// second; at most 6 s; negative: not at all. Larger frees more locks of a server that is slow to answer; smaller lets
	// the process exit sooner, with locks that nobody gets before their leases are over.
	CloseGrace time.Duration
	// Class tells for a name, given without Prefix, which class it counts for in Stats.Classes: what comes before a
	// number in it, for example. It is called by Lock and all other methods that make handles, and must answer the same
	// for the same name. "" counts for none. Classes beyond the first MaxClasses count as OtherClass.
	Class func(name string) string
	// Trace is told of each acquire when it has its result, and of each lease when it is over, with the ctx of the
	// acquire: for tracers, see adapters/otel. It is called on a worker of the engine, as callbacks of OnComplete are.
	// Default: nobody is told, which costs nothing.
	Trace func(ctx context.Context, s Span)
	// KeepOnClose lets held locks expire when the engine closes, instead of releasing them.
	KeepOnClose bool
	// NoHandOff makes every release a release in Redis, instead of passing a lock on to the next waiter
	// of this engine. Slower, and just as safe: for comparing, and for those who distrust it. Nothing lingers, either.
	NoHandOff bool
	// NoSubscribe makes waiters poll instead of subscribing to the release message, for servers where
	// SUBSCRIBE is refused. A waiter then learns of a release within about a second.
	NoSubscribe bool

	wheel wheel.Config  // for tests
	ask   int           // from so many keys on a release asks who listens; 0: as package resp has it
	lanes int           // of each node; 0: as package resp has it
	many  int           // from so many operations on their way on several lanes are used; 0: as package resp has it
	runs  int           // so many operations a lane sends in one write at most; 0: as package resp has it
	keeps int           // so many releases a lane keeps to send them again; 0: as package resp has it
	wide  *atomic.Int32 // how many nodes use them now; nil: nobody looks
	leads bool          // who asks leads, also where its call does not wait: for a simulated world
	guard *resp.Guard   // of the engine's connections
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

// Publish says which releases are published, where several locks are given back by one command. A lock that is given
// back alone always is.
type Publish = resp.Publish

// The ways. Where it is not known who would hear a message it is published, whatever is chosen.
const (
	// PublishAuto publishes what somebody listens to, where the server alone knows that: it is a node of no cluster, has
	// no replicas, and had none in the last hour (repl-backlog-ttl).
	PublishAuto = resp.PublishAuto
	// PublishAlways publishes every release: for servers behind a proxy that keeps the subscriptions itself.
	PublishAlways = resp.PublishAlways
	// PublishMasters says that whoever waits subscribes at masters, as engines do, and Redisson with subscriptionMode
	// MASTER: what has subscribers there is published, also where there are replicas, and in a cluster with sharded
	// channels. A waiter that subscribes at a replica may miss messages then, and learns of a release by its polls only;
	// Redisson's has none until the lease that it was told is over.
	PublishMasters = resp.PublishMasters
)

// CloseGrace where none is given, and the longest: Close itself waits no longer for answers.
const (
	closeGrace     = time.Second
	closeGraceMost = 6 * time.Second
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
	named := slot.Check(cfg.Prefix+"x", slot.KindLock, false)
	switch {
	case cfg.Client != nil && len(cfg.Addrs) > 0:
		return bad("both Client and Addrs are given")
	case named != nil:
		return bad("no name can follow the Prefix: %v", named)
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
	case cfg.Publish > PublishMasters:
		return bad("unknown way to publish %d", cfg.Publish)
	case cfg.CloseGrace > closeGraceMost:
		return bad("CloseGrace %v is above %v", cfg.CloseGrace, closeGraceMost)
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
		if broken := brokenOption(cfg.Client); broken != "" {
			return bad("%s; make the given Client with ClientOption", broken)
		}
		return nil
	}
	for _, addr := range cfg.Addrs {
		if len(cfg.Addrs) > 1 && strings.Contains(addr, "://") {
			return bad("several addresses are given as host:port, and one is a URL")
		}
		if err := cfg.checkAddr(addr, bad); err != nil {
			return err
		}
	}
	return nil
}

// masterName is the master that sentinels are to name; "" if no sentinels are to be asked.
func (cfg *Config) masterName() string { return options(*cfg).Sentinel.MasterSet }

// checkAddr refuses an address that cannot be dialled. What it says of it shows no password.
func (cfg *Config) checkAddr(addr string, bad func(string, ...any) error) error {
	if strings.Contains(addr, "://") {
		parsed, err := rueidis.ParseURL(addr)
		switch {
		case spilled(addr):
			return bad("the address has an @ behind a ? or a #: these are escaped in a password, as %%3F and %%23")
		case err != nil: // its text may hold a password: it is not repeated
			return bad("the address %s", whatIsWrong(addr))
		case parsed.SelectDB < 0:
			return bad("negative database %d", parsed.SelectDB)
		case cfg.DB != 0 && parsed.SelectDB != 0 && cfg.DB != parsed.SelectDB:
			return bad("the URL names database %d and DB %d", parsed.SelectDB, cfg.DB)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.Contains(host, "@") { // a password, which would be looked up as a part of the host
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

// whatIsWrong says why an address is no URL that can be read.
func whatIsWrong(addr string) string {
	u, err := url.Parse(addr)
	switch {
	case err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return "is not a redis://, rediss:// or unix:// URL"
	case u.Scheme != "unix" && strings.Trim(u.Path, "/0123456789") != "":
		return redactAddr(addr) + " names a database that is no number"
	case u.RawQuery != "":
		return redactAddr(addr) + " has a parameter that is not known, or a value that cannot be"
	default:
		return redactAddr(addr) + " cannot be read"
	}
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
	addrs := slices.Clone(cfg.Addrs)
	for i, addr := range addrs {
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
	if err == nil && u.Opaque != "" { // "user:password://host", "jdbc:redis://user:password@host"
		return hidden
	}
	if err != nil || strings.Contains(u.Host+u.Path, "@") || spilled(addr) {
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

// spilled reports whether a part of a password has become a query or a fragment of a URL.
func spilled(addr string) bool {
	u, err := url.Parse(addr)
	return err == nil && strings.Contains(u.RawQuery+u.Fragment, "@")
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

// String describes what is set of the configuration, without its secrets. So do GoString, LogValue and MarshalJSON:
// whoever prints or logs a Config shows no password.
func (cfg Config) String() string {
	all, set := reflect.ValueOf(cfg.redacted()), []string(nil)
	for i := range all.NumField() {
		field, v := all.Type().Field(i), all.Field(i)
		switch {
		case !field.IsExported() || v.IsZero():
		case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface || v.Kind() == reflect.Func:
			set = append(set, field.Name+":set") // TLS has keys, and a client has passwords
		default:
			set = append(set, fmt.Sprintf("%s:%v", field.Name, v.Interface()))
		}
	}
	return "{" + strings.Join(set, " ") + "}"
}

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
		return nil, misconfigured("no MasterName, and "+byServer(err), err)
	case errors.Is(err, resp.ErrNoSuchMaster), errors.Is(err, resp.ErrNotSentinel), errors.Is(err, resp.ErrNoCluster):
		return nil, misconfigured(byServer(err), err)
	case err != nil:
		return nil, explained(&cfg, err)
	}
	if want := cfg.Topology; want == TopologySingle && nodes.Cluster() || want == TopologyCluster && !nodes.Cluster() {
		nodes.Close()
		is := map[bool]string{true: "a node of a cluster", false: "not a cluster"}[nodes.Cluster()]
		return nil, fmt.Errorf("%w: the server says it is %s", ErrConfig, is)
	}
	return nodes, nil
}

// asked is who is asked first, without a secret.
func (cfg *Config) asked() string {
	if cfg.Client != nil {
		return "the servers of the given Client"
	}
	const most = 3
	var addrs []string
	for _, addr := range cfg.Addrs[:min(len(cfg.Addrs), most)] {
		addrs = append(addrs, redactAddr(addr))
	}
	text := strings.Join(addrs, ", ")
	if more := len(cfg.Addrs) - most; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// An openError says in one sentence why no retry mends an Open, or what to look at.
type openError struct {
	text string
	errs []error
}

func (e *openError) Error() string   { return "holdfast: " + e.text }
func (e *openError) Unwrap() []error { return e.errs }

// explained says what is the matter where something answers that is no Redis server, or does not speak as it is spoken
// to: one side speaks TLS and the other does not. Of several addresses it says so for each.
func explained(cfg *Config, err error) error {
	failures := resp.Failures(err)
	if cfg.Client != nil || len(failures) == 0 {
		return err
	}
	const most = 3
	var texts []string
	wrong := len(failures) <= most // of the others nobody knows
	for _, f := range failures[:min(len(failures), most)] {
		text, config := matter(cfg, f)
		wrong = wrong && config
		if text == "" {
			if len(failures) == 1 && strings.Contains(f.Err.Error(), f.Addr) {
				return f.Err
			}
			text = byServer(f.Err)
			if !strings.Contains(text, f.Addr) {
				text = f.Addr + ": " + text
			}
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, "; ")
	if more := len(failures) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	switch {
	case len(failures) == 1:
	case cfg.masterName() != "":
		text = "no sentinel can be used: " + text
	default:
		text = "no address can be used: " + text
	}
	if wrong {
		return misconfigured(text, err)
	}
	return &openError{text, []error{err}}
}

// matter is the sentence of one address; "": its error is clear enough. wrong: no retry mends it.
func matter(cfg *Config, f *resp.Failure) (text string, wrong bool) {
	option := options(*cfg)
	at, security, err := f.Addr, option.TLSConfig, f.Err
	switch {
	case cfg.masterName() == "" && len(option.InitAddress) == 1:
		at = redactAddr(cfg.Addrs[0]) // a URL, maybe
	case cfg.masterName() != "" && slices.Contains(option.InitAddress, f.Addr):
		security = option.Sentinel.TLSConfig
	}
	silent := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return at + " has a certificate that is not trusted: " + certificate.Err.Error(), true
	case strings.HasPrefix(err.Text, "NOAUTH"):
		return at + " wants a password, and none is given", false
	case strings.Contains(err.Text, "DB index is out of range"):
		return fmt.Sprintf("%s has no database %d", at, option.SelectDB), true
	case errors.Is(err, resp.ErrPlain):
		return at + " speaks plain text, and TLS is asked for", true
	case errors.Is(err, resp.ErrReply):
		return at + " answers, and is no Redis server" + saidBy(err), true
	case silent && security == nil && resp.SpeaksTLS(context.Background(), f.Addr):
		return at + " speaks TLS, and neither Config.TLS nor a rediss:// URL asks for it", true
	case silent:
		return at + " closes connections without an answer: is it a Redis server?", false
	case errors.As(err, &network) && network.Op == "dial" && network.Timeout():
		return at + " cannot be reached: nobody answers there, as behind a firewall", false
	case errors.Is(err, context.DeadlineExceeded):
		return at + " accepts connections and does not answer", false
	default:
		return "", false
	}
}

// misconfigured is ErrConfig with what a server or the network said, which the text replaces.
func misconfigured(text string, err error) error {
	return &openError{"bad configuration: " + text, []error{ErrConfig, err}}
}

// saidBy is what a server said that is none, as the error of its reply quotes it: what is secret was hidden there.
func saidBy(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, `: "`); i >= 0 {
		return ": it says " + text[i+len(`: `):]
	}
	return ""
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
