package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// connectTimeout bounds the first contact with the server.
const connectTimeout = 10 * time.Second

// server is what a run talks to: where it is, what it is, and a client of loadgen's own
// that looks at it past the engine.
type server struct {
	addrs      []string
	user       string
	password   string
	embedded   *embedded.Server   // nil: not ours, or not a single one
	cluster    *redisproc.Cluster // nil: not ours, or no cluster
	sentinel   *redisproc.Sentinel
	client     rueidis.Client
	clientName string // of every connection this process makes
	product    string // "redis 7.0.15"
	topology   string // single, cluster, sentinel
	shape      shape
	sharded    bool // a cluster with sharded channels: releases are told there
}

// openServer starts or finds the server, says on w which, and connects to it.
func openServer(ctx context.Context, cfg *config, w io.Writer) (*server, error) {
	s := &server{addrs: cfg.addrs, user: cfg.user, password: cfg.password, clientName: "loadgen-" + randomID(), topology: "single"}
	if err := s.startOwn(ctx, cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	client, err := rueidis.NewClient(s.clientOption())
	if err != nil {
		s.close()
		return nil, fmt.Errorf("connect to %s: %s", s.where(), s.hide(err))
	}
	s.client = client
	s.identify(ctx)
	if s.ours() {
		say(w, "loadgen: started %s\n", s.origin())
	}
	return s, nil
}

// clientOption returns what loadgen's own client is made with. A URL has been checked
// with the flags.
func (s *server) clientOption() rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: s.addrs}
	if s.isURL() {
		if parsed, err := rueidis.ParseURL(s.addrs[0]); err == nil {
			o = parsed
			o.Sentinel.TLSConfig = engine.ClientOption(engine.Config{Addrs: s.addrs}).Sentinel.TLSConfig
		}
	}
	if s.user != "" {
		o.Username = s.user
	}
	o.Password = s.password
	o.ClientName = s.clientName
	o.DisableCache = true
	o.AlwaysPipelining = true
	o.PipelineMultiplex = -1
	o.Dialer.Timeout = connectTimeout / 2
	o.ForceSingleClient = s.inProcess()
	if s.sentinel != nil {
		o.Sentinel = rueidis.SentinelOption{MasterSet: redisproc.MasterName}
	}
	return o
}

// engineConfig returns the configuration of one engine.
func (s *server) engineConfig(cfg *config) engine.Config {
	c := engine.Config{Addrs: s.addrs, Username: s.user, Password: s.password, ClientName: s.clientName, NoHandOff: cfg.noHandOff}
	if s.sentinel != nil {
		c.MasterName = redisproc.MasterName
	}
	return c
}

// hide makes the text of an error of loadgen's own client fit to be shown: a server may say anything, the password too.
func (s *server) hide(err error) string {
	text := resp.Printable(err.Error())
	if hide := resp.Hide(s.password); hide != nil {
		text = hide(text)
	}
	return text
}

// inProcess reports whether the server is miniredis in this process.
func (s *server) inProcess() bool { return s.embedded != nil && s.embedded.InProcess }

func (s *server) isURL() bool { return strings.Contains(s.addrs[0], "://") }

// where names the server without giving a password away.
func (s *server) where() string {
	if s.isURL() {
		return redactURL(s.addrs[0])
	}
	return strings.Join(s.addrs, ", ")
}

// identify asks the server what it is. It may refuse; then it is just a server.
func (s *server) identify(ctx context.Context) {
	if s.inProcess() {
		s.product = "miniredis"
		return
	}
	s.product = "unknown"
	text, err := s.client.Do(ctx, s.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return
	}
	info := parseInfo(text)
	if v := info["redis_version"]; v != "" {
		s.product = "redis " + resp.Printable(v)
	}
	if v := info["valkey_version"]; v != "" {
		s.product = "valkey " + resp.Printable(v)
	}
	if info["redis_mode"] == "cluster" {
		s.topology = "cluster"
		s.shape = s.readShape(ctx)
		major, _, _ := strings.Cut(info["redis_version"], ".")
		n, err := strconv.Atoi(major)
		s.sharded = err == nil && n >= 7
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

// foreign counts the connections that are not this process's, replicas aside; false if
// the server will not say.
func (s *server) foreign(ctx context.Context) (n int, ok bool) {
	for _, node := range s.nodes() {
		text, err := node.Do(ctx, node.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
		if err != nil {
			return 0, false
		}
		for line := range strings.Lines(text) {
			if isForeign(line, s.clientName) {
				n++
			}
		}
	}
	return n, true
}

// isForeign reports whether a line of CLIENT LIST is about a connection of somebody else:
// not named name, and neither the replication link of a replica nor that to a master.
func isForeign(line, name string) bool {
	for field := range strings.FieldsSeq(line) {
		if field == "name="+name {
			return false
		}
		if flags, ok := strings.CutPrefix(field, "flags="); ok && strings.ContainsAny(flags, "SM") {
			return false
		}
	}
	return true
}

// nodes returns a client for every node, in the order of their addresses.
func (s *server) nodes() []rueidis.Client {
	byAddr := s.client.Nodes()
	nodes := make([]rueidis.Client, 0, len(byAddr))
	for _, addr := range slices.Sorted(maps.Keys(byAddr)) {
		nodes = append(nodes, byAddr[addr])
	}
	return nodes
}

// close disconnects, and ends the server if it is ours.
func (s *server) close() {
	if s.client != nil {
		s.client.Close()
	}
	s.stopOwn()
}
