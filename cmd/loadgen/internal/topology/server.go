package topology

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// ConnectTimeout bounds the first contact with the server.
const ConnectTimeout = 10 * time.Second

// Server is what a run talks to: where it is, what it is, and a client of loadgen's own
// that looks at it past the engine.
type Server struct {
	Addrs      []string
	login      *config.Config     // how to be let in
	Embedded   *embedded.Server   // nil: not ours, or not a single one
	Cluster    *redisproc.Cluster // nil: not ours, or no cluster
	Sentinel   *redisproc.Sentinel
	Client     rueidis.Client
	ClientName string // of every connection this process makes
	Product    string // "redis 7.0.15"
	Topology   string // single, cluster, sentinel
	Shape      Shape
	Sharded    bool // a cluster with sharded channels: releases are told there

	interrupted <-chan struct{} // closed when the user ends the run
}

// Open starts or finds the server, says on w which, and connects to it.
func Open(ctx context.Context, cfg *config.Config, w io.Writer) (*Server, error) {
	s := &Server{
		Addrs: cfg.Addrs, login: cfg,
		ClientName: "loadgen-" + config.RandomID(), Topology: "single", interrupted: ctx.Done(),
	}
	if err := s.startOwn(ctx, cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	option := s.ClientOption()
	if err := s.greet(ctx, option); err != nil {
		s.Close()
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("connect to %s: %s", s.Where(), s.refusal(err))
	}
	s.Client = client
	s.identify(ctx)
	if err := s.inspect(ctx, cfg); err != nil {
		s.Close()
		return nil, err
	}
	if s.Ours() {
		_, _ = fmt.Fprintf(w, "loadgen: started %s\n", s.origin()) // as the program says anything
	}
	return s, nil
}

// refusal says why loadgen's own client could not be made.
func (s *Server) refusal(err error) string {
	master := s.ClientOption().Sentinel.MasterSet
	reply, said := rueidis.IsRedisErr(err)
	switch {
	case said && len(s.Addrs) > 1 && strings.Contains(reply.Error(), "cluster support disabled"):
		return fmt.Sprintf("it is a single server, and %d addresses are given", len(s.Addrs))
	case said && strings.HasPrefix(reply.Error(), "NOAUTH"):
		return "it wants a password: --password-file or LOADGEN_PASSWORD, for sentinels theirs (NOAUTH)"
	case master == "" || !said:
	case strings.Contains(reply.Error(), "unknown command"):
		return "it is no sentinel: omit --master-name, or give the address of one"
	case reply.IsNil(), strings.Contains(reply.Error(), "No such master"):
		return fmt.Sprintf("the sentinels know no master named %q", master)
	}
	return s.Hide(err)
}

// ClientOption returns what loadgen's own client is made with. A URL has been checked
// with the flags.
func (s *Server) ClientOption() rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: s.Addrs}
	if s.IsURL() {
		if parsed, err := rueidis.ParseURL(s.Addrs[0]); err == nil {
			o = parsed
		}
	}
	s.LetIn(&o)
	o.ClientName = s.ClientName
	o.DisableCache = true
	o.AlwaysPipelining = true
	o.PipelineMultiplex = -1
	o.Dialer.Timeout = ConnectTimeout / 2
	o.ForceSingleClient = s.inProcess()
	o.Sentinel = rueidis.SentinelOption{
		MasterSet: cmp.Or(s.login.MasterName, o.Sentinel.MasterSet), ClientName: s.ClientName,
		Username: s.login.SentinelUser, Password: s.login.SentinelPassword,
	}
	if s.Sentinel != nil {
		o.Sentinel.MasterSet = redisproc.MasterName
	}
	if !s.login.TLS.PlainSentinels {
		o.Sentinel.TLSConfig = s.login.TLS.Config
	}
	return o
}

// LetIn adds to o what the servers ask of every client: the user's name and password, and TLS.
func (s *Server) LetIn(o *rueidis.ClientOption) {
	if s.login.User != "" {
		o.Username = s.login.User
	}
	o.Password, o.TLSConfig = s.login.Password, s.login.TLS.Config
}

// EngineConfig returns the configuration of one engine.
func (s *Server) EngineConfig(cfg *config.Config) engine.Config {
	c := engine.Config{
		Addrs: s.Addrs, Username: cfg.User, Password: cfg.Password, ClientName: s.ClientName, NoHandOff: cfg.NoHandOff,
		MasterName: cfg.MasterName, TLS: cfg.TLS.Config, NoSentinelTLS: cfg.TLS.PlainSentinels,
		SentinelUsername: cfg.SentinelUser, SentinelPassword: cfg.SentinelPassword,
		Logger: slog.New(slog.DiscardHandler), // the report counts what it would say
	}
	if s.Sentinel != nil {
		c.MasterName = redisproc.MasterName
	}
	return c
}

// Hide makes the text of an error of loadgen's own client fit to be shown: a server may say anything, the password too.
func (s *Server) Hide(err error) string {
	text := resp.Printable(err.Error())
	for _, password := range []string{s.login.Password, s.login.SentinelPassword} {
		if hide := resp.Hide(password); hide != nil {
			text = hide(text)
		}
	}
	return text
}

// inProcess reports whether the server is miniredis in this process.
func (s *Server) inProcess() bool { return s.Embedded != nil && s.Embedded.InProcess }

// IsURL reports whether a URL names the server.
func (s *Server) IsURL() bool { return strings.Contains(s.Addrs[0], "://") }

// Where names the server without giving a password away.
func (s *Server) Where() string {
	if s.IsURL() {
		return config.RedactURL(s.Addrs[0])
	}
	return strings.Join(s.Addrs, ", ")
}

// identify asks the server what it is. It may refuse; then it is just a server.
func (s *Server) identify(ctx context.Context) {
	if s.inProcess() {
		s.Product = "miniredis"
		return
	}
	s.Product = "unknown"
	text, err := s.Client.Do(ctx, s.Client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return
	}
	info := parseInfo(text)
	if v := info["redis_version"]; v != "" {
		s.Product = "redis " + resp.Printable(v)
	}
	if v := info["valkey_version"]; v != "" {
		s.Product = "valkey " + resp.Printable(v)
	}
	if s.ClientOption().Sentinel.MasterSet != "" {
		s.Topology = "sentinel"
	}
	if cmp.Or(info["redis_mode"], info["server_mode"]) == "cluster" { // Valkey's name for it is the second
		s.Topology = "cluster"
		s.Shape = s.readShape(ctx)
		major, _, _ := strings.Cut(info["redis_version"], ".")
		n, err := strconv.Atoi(major)
		s.Sharded = err == nil && n >= 7
	}
}

// parseInfo splits an INFO answer into its fields.
func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

// others are connections that are not this process's.
type others struct {
	foreign   int64 // of other clients
	sentinels int64 // that send commands to one server
}

// connected counts the connections that are not this process's, replicas aside; false if
// the servers will not say.
func (s *Server) connected(ctx context.Context) (n others, ok bool) {
	for _, node := range s.nodes() {
		text, err := node.Do(ctx, node.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
		if err != nil {
			return others{}, false
		}
		sentinels := int64(0)
		for line := range strings.Lines(text) {
			switch peer := peerOf(line, s.ClientName); peer {
			case peerForeign:
				n.foreign++
			case peerSentinel:
				sentinels++
			}
		}
		n.sentinels = max(n.sentinels, sentinels)
	}
	return n, true
}

// A peer is who is at the other end of a connection.
type peer int

const (
	peerForeign  peer = iota // another client
	peerOurs                 // this process, a replica or a master, a sentinel that listens
	peerSentinel             // a sentinel that sends commands
)

// peerOf reads a line of CLIENT LIST. A sentinel names each of its two connections to a server.
func peerOf(line, name string) peer {
	for field := range strings.FieldsSeq(line) {
		if field == "name="+name {
			return peerOurs
		}
		if is, ok := strings.CutPrefix(field, "name=sentinel-"); ok {
			if strings.HasSuffix(is, "-cmd") {
				return peerSentinel
			}
			return peerOurs
		}
		if flags, ok := strings.CutPrefix(field, "flags="); ok && strings.ContainsAny(flags, "SM") {
			return peerOurs
		}
	}
	return peerForeign
}

// nodes returns a client for every node, in the order of their addresses.
func (s *Server) nodes() []rueidis.Client {
	byAddr := s.Client.Nodes()
	nodes := make([]rueidis.Client, 0, len(byAddr))
	for _, addr := range slices.Sorted(maps.Keys(byAddr)) {
		nodes = append(nodes, byAddr[addr])
	}
	return nodes
}

// Close disconnects, and ends the server if it is ours.
func (s *Server) Close() {
	if s.Client != nil {
		s.Client.Close()
	}
	s.stopOwn()
}
