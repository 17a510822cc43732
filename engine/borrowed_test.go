package engine_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A client that would break a promise is refused by the name of the option, for each kind of deployment; one that was
// made with ClientOption is taken, with changes that break nothing.
func TestAGivenClientOfOtherOptionsIsRefusedByTheirName(t *testing.T) {
	t.Parallel()
	single, cluster, sentinel := redistest.Run(t, redistest.Options{}), redistest.RunCluster(t, 1, 0), redistest.RunSentinel(t, 0, 1)
	kinds := map[string]engine.Config{
		"Single":   {Addrs: []string{single.Addr()}},
		"Cluster":  {Addrs: cluster.Addrs(), Topology: engine.TopologyCluster},
		"Sentinel": {Addrs: sentinel.Addrs(), MasterName: redistest.MasterName},
	}
	plain := func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	for option, change := range map[string]func(*rueidis.ClientOption){
		"":                      func(o *rueidis.ClientOption) { o.ClientName, o.ConnWriteTimeout = "mine", time.Second },
		"DisableRetry":          func(o *rueidis.ClientOption) { o.DisableRetry = false },
		"AlwaysPipelining":      func(o *rueidis.ClientOption) { o.AlwaysPipelining = false },
		"DisableAutoPipelining": func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
		"PipelineMultiplex":     func(o *rueidis.ClientOption) { o.PipelineMultiplex = 2 },
		"ConnWriteTimeout":      func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 10 * time.Second },
		"ConnLifetime":          func(o *rueidis.ClientOption) { o.ConnLifetime = time.Minute },
		"DialCtxFn":             func(o *rueidis.ClientOption) { o.DialCtxFn = nil },
		"DialCtxFn of its own":  func(o *rueidis.ClientOption) { o.DialCtxFn = plain },
	} {
		for kind, cfg := range kinds {
			o := engine.ClientOption(cfg)
			change(&o)
			client, err := rueidis.NewClient(o)
			require.NoError(t, err, kind)
			e, err := engine.Open(testkit.Limited(t), engine.Config{Client: client})
			if name, _, _ := strings.Cut(option, " "); name != "" {
				require.ErrorIs(t, err, engine.ErrConfig, "%s of %s", option, kind)
				require.ErrorContains(t, err, "bad configuration: "+name+" is ", kind)
				require.Nil(t, e)
			} else {
				require.NoError(t, err, kind)
				require.NoError(t, testkit.Close(e))
			}
			client.Close()
		}
	}
}
