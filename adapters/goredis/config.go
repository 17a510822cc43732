package goredis

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// Config is what makes an engine connect to where a client of go-redis with these options is connected. Other fields of
// the result may be set as usual.
//
// Like go-redis it takes MasterName for sentinels, more than one address or IsClusterMode for a cluster, and no address
// for the usual port of this machine. A TLSConfig is used for sentinels, too.
//
// Errors: engine.ErrConfig, naming the option that has no counterpart.
func Config(o *redis.UniversalOptions) (engine.Config, error) {
	cfg := engine.Config{
		MasterName: o.MasterName,
		Username:   o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		ClientName: o.ClientName,
		DB:         o.DB,
		TLS:        o.TLSConfig,
	}
	if err := refuse(o); err != nil {
		return engine.Config{}, err
	}
	cluster := o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1)
	switch {
	case cluster && o.DB != 0: // go-redis would use database 0
		return engine.Config{}, refused("DB", "a cluster has database 0 only")
	case cluster:
		cfg.Topology = engine.TopologyCluster
	case o.MasterName == "": // go-redis is told of these always, and uses them for sentinels
		cfg.SentinelUsername, cfg.SentinelPassword = "", ""
	}
	cfg.Addrs = addresses(o)
	return cfg, nil
}

// addresses are those of go-redis, each with a host.
func addresses(o *redis.UniversalOptions) (all []string) {
	for _, addr := range o.Addrs {
		switch {
		case strings.HasPrefix(addr, "/"):
			addr = "unix://" + addr
		case strings.HasPrefix(addr, ":"):
			addr = "localhost" + addr
		}
		all = append(all, addr)
	}
	switch {
	case len(all) > 0:
		return all
	case o.MasterName != "":
		return []string{"127.0.0.1:26379"}
	default:
		return []string{"127.0.0.1:6379"}
	}
}

// refuse names the first option that is set and that the engine cannot keep.
func refuse(o *redis.UniversalOptions) error {
	const credentials = "an engine has one user and one password: set Username and Password"
	const replicas = "locks are on masters"
	for _, option := range []struct {
		set       bool
		name, why string
	}{
		{o.Dialer != nil, "Dialer", "an engine dials itself, with a guard in front of each connection"},
		{o.OnConnect != nil, "OnConnect", "an engine sends nothing but its own commands"},
		{o.CredentialsProvider != nil, "CredentialsProvider", credentials},
		{o.CredentialsProviderContext != nil, "CredentialsProviderContext", credentials},
		{o.StreamingCredentialsProvider != nil, "StreamingCredentialsProvider", credentials},
		{o.ReadOnly, "ReadOnly", replicas},
		{o.RouteByLatency, "RouteByLatency", replicas},
		{o.RouteRandomly, "RouteRandomly", replicas},
		{o.IsClusterMode && o.MasterName != "", "IsClusterMode", "with a MasterName it makes go-redis read from replicas"},
		{o.PushNotificationProcessor != nil, "PushNotificationProcessor", "the connections of an engine are its own"},
	} {
		if option.set {
			return refused(option.name, option.why)
		}
	}
	return nil
}

func refused(option, why string) error {
	return fmt.Errorf("%w: option %s of go-redis: %s", engine.ErrConfig, option, why)
}
