package engine

import (
	"crypto/tls"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// everyOption is what the clients of a configuration are made with, by who they are for.
func everyOption(cfg Config) map[string]rueidis.ClientOption {
	cfg.guard = &resp.Guard{}
	return map[string]rueidis.ClientOption{
		"user":     ClientOption(cfg),
		"node":     nodeOption(cfg, new(atomic.Int32), "10.0.0.1:6379"),
		"sentinel": sentinelOption(cfg, "10.0.0.2:26379"),
	}
}

// What correctness needs of a client, each of them has: nothing is sent twice by itself, or behind our back by another
// connection, or waited for without a limit.
func TestEveryClientIsMadeWithWhatCorrectnessNeeds(t *testing.T) {
	for _, cfg := range []Config{
		{Addrs: []string{"a:1"}},
		{Addrs: []string{"a:1", "b:2"}},
		{Addrs: []string{"redis://a:1?dial_timeout=1h&write_timeout=1h"}},
		{Addrs: []string{"a:1"}, MasterName: "m"},
	} {
		for name, o := range everyOption(cfg) {
			require.True(t, o.DisableRetry, name)
			require.True(t, o.AlwaysPipelining, name)
			require.Equal(t, -1, o.PipelineMultiplex, name)
			require.True(t, o.DisableCache, name)
			require.Equal(t, 2*time.Second, o.ConnWriteTimeout, name)
			require.Equal(t, 2*time.Second, o.Dialer.Timeout, name)
			require.Equal(t, time.Second, o.Dialer.KeepAlive, name)
			require.NotNil(t, o.DialCtxFn, name)
			require.Equal(t, "holdfast", o.ClientName, name)
			if name != "user" {
				require.True(t, o.ForceSingleClient, name)
				require.Empty(t, o.Sentinel.MasterSet, name)
				require.Len(t, o.InitAddress, 1, name)
			}
		}
	}
}

// The host of a rediss:// URL is where one node is. The others are elsewhere, and each is verified by its own address:
// who holds the certificate of one name is not all of them. A name that was asked for is asked of everybody.
func TestEachNodeIsVerifiedByItsOwnAddressUnlessANameIsGiven(t *testing.T) {
	for _, addr := range []string{"rediss://redis.example:6380", "rediss://redis.example:6380?master_set=m"} {
		for name, o := range everyOption(Config{Addrs: []string{addr}}) {
			require.NotNil(t, o.TLSConfig, name)
			require.Empty(t, o.TLSConfig.ServerName, name)
			require.False(t, o.TLSConfig.InsecureSkipVerify, name)
		}
	}
	asked := &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
	for _, addr := range []string{"a:1", "rediss://redis.example:6380"} {
		for name, o := range everyOption(Config{Addrs: []string{addr}, MasterName: "m", TLS: asked}) {
			require.Equal(t, "redis.example", o.TLSConfig.ServerName, name)
		}
	}
}

// Of many nodes each has a small ring and small buffers; of a few each has the client's own.
func TestOnlyACrowdOfNodesHasSmallRings(t *testing.T) {
	crowd := new(atomic.Int32)
	cfg := Config{Addrs: []string{"a:1", "b:2"}, guard: &resp.Guard{}}
	for nodes, small := range map[int32]bool{0: false, 1: false, 3: false, 64: false, 65: true, 1000: true} {
		crowd.Store(nodes)
		o := nodeOption(cfg, crowd, "a:1")
		ring, buffer := 0, 128<<10 // 0: the client's own
		if small {
			ring, buffer = 5, 16<<10
		}
		require.Equal(t, ring, o.RingScaleEachConn, "%d nodes", nodes)
		require.Equal(t, buffer, o.ReadBufferEachConn, "%d nodes", nodes)
		require.Equal(t, buffer, o.WriteBufferEachConn, "%d nodes", nodes)
	}
}
