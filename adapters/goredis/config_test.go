package goredis_test

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/push"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/adapters/goredis"
	"github.com/seed-786ebc8c/holdfast/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func TestWhatIsSaidToGoRedisIsSaidToTheEngine(t *testing.T) {
	secure := &tls.Config{ServerName: "redis.internal", MinVersion: tls.VersionTLS12}
	for name, tc := range map[string]struct {
		options redis.UniversalOptions
		want    engine.Config
	}{
		"NoAddress":  {redis.UniversalOptions{}, engine.Config{Addrs: []string{"127.0.0.1:6379"}}},
		"NoHost":     {redis.UniversalOptions{Addrs: []string{":7000"}}, engine.Config{Addrs: []string{"localhost:7000"}}},
		"UnixSocket": {redis.UniversalOptions{Addrs: []string{"/run/redis.sock"}}, engine.Config{Addrs: []string{"unix:///run/redis.sock"}}},
		"Single": {
			redis.UniversalOptions{
				Addrs: []string{"a:1"}, Username: "u", Password: "p", DB: 3, ClientName: "orders", TLSConfig: secure,
				SentinelUsername: "unused", SentinelPassword: "unused", PoolSize: 100, MaxRetries: 5, Protocol: 2,
			},
			engine.Config{Addrs: []string{"a:1"}, Username: "u", Password: "p", DB: 3, ClientName: "orders", TLS: secure},
		},
		"Sentinel": {
			redis.UniversalOptions{
				Addrs: []string{"a:1", "b:1"}, MasterName: "m", DB: 2, Password: "p", SentinelUsername: "su", SentinelPassword: "sp",
			},
			engine.Config{
				Addrs: []string{"a:1", "b:1"}, MasterName: "m", DB: 2, Password: "p", SentinelUsername: "su", SentinelPassword: "sp",
			},
		},
		"SentinelNoAddress": {redis.UniversalOptions{MasterName: "m"}, engine.Config{Addrs: []string{"127.0.0.1:26379"}, MasterName: "m"}},
		"Cluster": {
			redis.UniversalOptions{Addrs: []string{"a:1", "b:1"}, Password: "p"},
			engine.Config{Addrs: []string{"a:1", "b:1"}, Password: "p", Topology: engine.TopologyCluster},
		},
		"ClusterOfOneAddress": {
			redis.UniversalOptions{Addrs: []string{"a:1"}, IsClusterMode: true},
			engine.Config{Addrs: []string{"a:1"}, Topology: engine.TopologyCluster},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := goredis.Config(&tc.options)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

type provider struct {
	auth.StreamingCredentialsProvider
}

type processor struct{ push.NotificationProcessor }

// Each of these would be lost without a word.
func refusedOptions() map[string]redis.UniversalOptions {
	two := []string{"a:1", "b:1"}
	return map[string]redis.UniversalOptions{
		"Dialer":              {Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, nil }},
		"OnConnect":           {OnConnect: func(context.Context, *redis.Conn) error { return nil }},
		"CredentialsProvider": {CredentialsProvider: func() (string, string) { return "", "" }},
		"CredentialsProviderContext": {
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", nil },
		},
		"StreamingCredentialsProvider": {StreamingCredentialsProvider: provider{}},
		"ReadOnly":                     {ReadOnly: true},
		"RouteByLatency":               {RouteByLatency: true},
		"RouteRandomly":                {RouteRandomly: true},
		"IsClusterMode":                {IsClusterMode: true, MasterName: "m"},
		"PushNotificationProcessor":    {PushNotificationProcessor: processor{}},
		"DB":                           {Addrs: two, DB: 1},
	}
}

func TestAnOptionThatCannotBeKeptIsRefusedByItsName(t *testing.T) {
	for name, options := range refusedOptions() {
		cfg, err := goredis.Config(&options)
		require.ErrorIs(t, err, engine.ErrConfig, name)
		require.ErrorContains(t, err, " "+name+" ")
		require.Empty(t, cfg.Addrs)
	}
}

// A version of go-redis with a further option is noticed: somebody has to decide what becomes of it.
func TestEveryOptionOfGoRedisIsTakenRefusedOrIgnoredOnPurpose(t *testing.T) {
	taken := strings.Fields("Addrs ClientName DB Username Password SentinelUsername SentinelPassword TLSConfig MasterName IsClusterMode")
	ignored := strings.Fields(`Protocol MaxRetries MinRetryBackoff MaxRetryBackoff DialTimeout DialerRetries DialerRetryTimeout
		ReadTimeout WriteTimeout ContextTimeoutEnabled ReadBufferSize WriteBufferSize PoolFIFO PoolSize MaxConcurrentDials
		PoolTimeout MinIdleConns MaxIdleConns MaxActiveConns ConnMaxIdleTime ConnMaxLifetime ConnMaxLifetimeJitter MaxRedirects
		DisableIndentity DisableIdentity IdentitySuffix FailingTimeoutSeconds UnstableResp3 MaintNotificationsConfig`)
	known := map[string]bool{}
	for _, name := range append(taken, ignored...) {
		known[name] = true
	}
	for name := range refusedOptions() {
		known[name] = true
	}
	options := reflect.TypeFor[redis.UniversalOptions]()
	for i := range options.NumField() {
		require.True(t, known[options.Field(i).Name], "%s is new", options.Field(i).Name)
		delete(known, options.Field(i).Name)
	}
	require.Empty(t, known, "these are gone")
}
