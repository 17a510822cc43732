package redistest

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

// Options says which server to start.
type Options = redisproc.Options

// Server is one running server process.
type Server = redisproc.Server

// Cluster is a Redis Cluster of real servers.
type Cluster = redisproc.Cluster

// Move is a slot on its way from one master to another.
type Move = redisproc.Move

// Sentinel is a master with replicas, watched by sentinels.
type Sentinel = redisproc.Sentinel

// Conn is a raw connection to a server.
type Conn = redisproc.Conn

// Push is an out-of-band message of a RESP3 connection.
type Push = redisproc.Push

// ReplyError is an error reply of a server.
type ReplyError = redisproc.ReplyError

// See redisproc.
const (
	BinaryEnv  = redisproc.BinaryEnv
	MasterName = redisproc.MasterName
	Slots      = redisproc.Slots
)

// ErrNoServer is returned when no server binary is found.
var ErrNoServer = redisproc.ErrNoServer

// Start starts a server that no test stops by itself.
func Start(ctx context.Context, o Options) (*Server, error) { return redisproc.Start(ctx, o) }

// StartCluster is [Start] for a cluster.
func StartCluster(ctx context.Context, masters, replicasPer int, args ...string) (*Cluster, error) {
	return redisproc.StartCluster(ctx, masters, replicasPer, args...)
}

// StartSentinel is [Start] for a master under sentinels.
func StartSentinel(ctx context.Context, replicas, sentinels int, args ...string) (*Sentinel, error) {
	return redisproc.StartSentinel(ctx, replicas, sentinels, args...)
}

// Binary returns the path of the server binary that is started.
func Binary() (string, error) { return redisproc.Binary() }

// VersionOf returns the version that a server binary reports.
func VersionOf(binary string) (string, error) { return redisproc.VersionOf(binary) }

// FreePort returns a port of 127.0.0.1 that is free now.
func FreePort() (int, error) { return redisproc.FreePort() }

// Dial opens a raw connection.
func Dial(ctx context.Context, addr string) (*Conn, error) { return redisproc.Dial(ctx, addr) }

// AppendCommand appends a command in RESP to b.
func AppendCommand(b []byte, args ...string) []byte { return redisproc.AppendCommand(b, args...) }

// Text renders a reply as redis-cli does.
func Text(v any) string { return redisproc.Text(v) }
